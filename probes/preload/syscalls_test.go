package preload

// What the library asks of the kernel: nothing for an event.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestNoSystemCalls counts the system calls of a program for some thousand events more:
// with the library, recording, they are those that it makes without.
func TestNoSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	dir := t.TempDir()
	program, library := filepath.Join(dir, "cost"), filepath.Join(dir, "libzmq.so.5")
	compile(t, "-O2", "-shared", "-fPIC", "-DLIBRARY=1", "-Wl,-soname,libzmq.so.5", "-o", library, "fakezmq.c")
	compile(t, "-O2", "-o", program, "cost.c", library, "-Wl,-rpath,$ORIGIN")

	ring := newRing(t, RingOptions{RingBytes: costRing})
	source, err := Open(ring.File(), Options{Root: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	events := 0
	done := make(chan error, 1)
	go func() {
		done <- source.Run(ctx, func(e *capture.Event) {
			if e.Kind == capture.KindRead || e.Kind == capture.KindWrite || e.Kind == capture.KindSend {
				events++
			}
		})
	}()
	recording, err := ring.Inject(os.Environ(), unpacked(t))
	if err != nil {
		t.Fatal(err)
	}
	const few, many = 100, 2100
	more := func(env []string) map[string]int {
		calls := systemCalls(t, strace, env, program, many)
		for name, n := range systemCalls(t, strace, env, program, few) {
			if calls[name] -= n; calls[name] == 0 {
				delete(calls, name)
			}
		}
		return calls
	}
	want, got := more(os.Environ()), more(recording)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("system calls of %d events more (-without +with the library):\n%s", 3*(many-few), diff)
	}
	if want["write"] < many-few || events < 3*many {
		t.Errorf("%v, %d events; want at least %d writes, and %d events: the program was not watched", want, events, many-few, 3*many)
	}
}

// systemCalls runs cost.c and returns how often it made each system call.
func systemCalls(t *testing.T, strace string, env []string, program string, n int) map[string]int {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	cmd := exec.Command(strace, "-f", "-qq", "-C", "-o", table, "-e", "trace=all", program, fmt.Sprint(n))
	cmd.Env = env
	cmd.Stdin = strings.NewReader("go\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("strace cannot trace here: %s", out)
		}
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	// Its summary stands at the end: % time, seconds, usecs/call, calls, errors, name.
	_, summary, ok := strings.Cut(string(text), "% time ")
	if !ok {
		t.Fatalf("no summary in %.300s", text)
	}
	calls := map[string]int{}
	for line := range strings.Lines(summary) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if n, err := strconv.Atoi(fields[3]); err == nil && fields[len(fields)-1] != "total" {
			calls[fields[len(fields)-1]] = n
		}
	}
	return calls
}
