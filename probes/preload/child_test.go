package preload

// A process of the workload for the tests of the Source: this test binary, run again.

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// runChild does what its input says, a line at a time, and answers each with a dot:
//
//	register           take a place in the table
//	exec               take it, and write that a program began
//	fork PARENT        as a child does that was forked
//	send TEXT…         send a frame
//	stuck N            come as far as steps[N] with a record
//	name NAME          give the main thread a name
//	count NAME N       add to a counter
//	die                be killed
func runChild(_ string, _ []string) error {
	f, err := os.OpenFile(os.Getenv(EnvRing), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	h, err := mapHeader(f)
	if err != nil {
		return err
	}
	data, err := mapData(f, int(h.DataBytes), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return err
	}
	pid := uint32(os.Getpid())
	w := &writer{header: h, data: data, size: h.DataBytes, pid: pid, tid: pid, conn: 1}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		if err := w.obey(verb, rest); err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
		if _, err := os.Stdout.WriteString("."); err != nil {
			return err
		}
	}
	return in.Err()
}

func (w *writer) obey(verb, rest string) error {
	switch verb {
	case "register", "exec", "fork":
		parent := uint32(os.Getppid())
		if verb == "fork" {
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil {
				return err
			}
			parent = uint32(n)
		}
		if err := w.takeSlot(parent); err != nil {
			return err
		}
		switch verb {
		case "exec":
			w.event(capture.KindExec, 0)
		case "fork":
			w.event(kindFork, uint64(parent))
		}
	case "send":
		w.write(capture.KindSend, rest)
	case "stuck":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		steps[n].do(w, "never")
	case "name":
		// Of the main thread, whichever this goroutine runs on.
		return os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", os.Getpid()), []byte(rest), 0)
	case "count":
		name, amount, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(amount, 10, 64)
		if err != nil {
			return err
		}
		counter := map[string]*uint64{
			"ring_full": &w.header.RingFull, "table_full": &w.header.TableFull, "nested": &w.header.Nested, "tls": &w.header.TLS,
			"http2": &w.header.HTTP2, "other": &w.header.Other, "refused": &w.header.Refused, "unresolved": &w.header.Unresolved,
		}[name]
		atomic.AddUint64(counter, n)
	case "die":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	default:
		return errors.New("unknown")
	}
	return nil
}

func (w *writer) takeSlot(parent uint32) error {
	for i := range w.header.Processes {
		slot := &w.header.Processes[i]
		if atomic.LoadUint32(&slot.Pid) == w.pid || atomic.CompareAndSwapUint32(&slot.Pid, 0, w.pid) {
			atomic.StoreUint32(&slot.Parent, parent)
			atomic.StoreUint32(&slot.Version, ringVersion)
			atomic.StoreUint64(&slot.RegisteredNs, uint64(backend.Monotonic()))
			return nil
		}
	}
	return errors.New("the table is full")
}

// event writes a record without data, unless the ring is dormant.
func (w *writer) event(kind capture.Kind, conn uint64) {
	if atomic.LoadUint32(&w.header.Epoch) == 0 {
		return
	}
	pos, ok := w.claim(recordHeaderBytes)
	if !ok {
		return
	}
	p := w.announce(pos, recordHeaderBytes)
	seq := w.seq
	w.fill(p, kind, "")
	w.seq, p.Seq, p.Conn, p.Socket = seq, 0, conn, -1
	w.commit(p)
}
