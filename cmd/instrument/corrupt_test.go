package main

// A workload that writes into the memory that it shares with the agent, as it may.

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHostileWorkload(t *testing.T) {
	for _, c := range []struct {
		field string
		// recovers: what comes after it is seen.
		recovers bool
		says     []string
	}{
		{field: "header"}, {field: "head"}, {field: "tail"}, {field: "counters"}, {field: "processes"}, {field: "records"}, {field: "size"}, {field: "version"},
	} {
		t.Run(c.field, func(t *testing.T) {
			t.Parallel()
			v := place{form: "hostile " + c.field}.start(t, true)
			v.ask(3)
			time.Sleep(200 * time.Millisecond) // a look or two at the ring
			v.get("/corrupt")
			time.Sleep(200 * time.Millisecond)
			v.ask(3)
			o := v.end()
			if o.status.ExitStatus() != serverStatus || o.stdout != "listening\nbye\n" {
				t.Errorf("ended with %#x, printed %q\n%s", o.status, o.stdout, o.stderr)
			}
			fmt.Println(c.field, len(v.requests()), o.stderr)
		})
	}
}

var _ = unix.SIGBUS
var _ syscall.Errno
