package preload

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

func isExit(pid int) func(*capture.Event) bool {
	return func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid }
}

func isData(s string) func(*capture.Event) bool {
	return func(e *capture.Event) bool { return string(e.Data) == s }
}

// slotOf finds a process in the table.
func slotOf(r *Ring, pid int) *ringProcess {
	for i := range r.header.Processes {
		if p := &r.header.Processes[i]; int(atomic.LoadUint32(&p.Pid)) == pid {
			return p
		}
	}
	return nil
}

// TestLife is that of a process which begins when the agent is there.
func TestLife(t *testing.T) {
	for name, withoutPidfd := range map[string]bool{"pidfd": false, "no pidfd": true} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, RingOptions{})
			w := start(t, r, Options{withoutPidfd: withoutPidfd})
			c := spawn(t, r, "a b", "")
			c.do("exec")
			c.do("send one")
			w.await("event", isData("one"))
			// The last thing that it does, and its end a moment after.
			c.do("send two")
			c.in.Write([]byte("die\n"))
			w.await("exit", isExit(c.pid()))
			all := w.all()
			if got, want := kinds(all, 0), []capture.Kind{capture.KindClock, capture.KindExec, capture.KindSend, capture.KindSend, capture.KindExit}; !slices.Equal(got, want) {
				t.Fatalf("kinds = %v; want %v:\n%s", got, want, show(all))
			}
			exec, send, exit := all[1], all[2], all[len(all)-1]
			if args := strings.Split(string(exec.Data), "\x00"); !slices.Equal(args, []string{"/proc/self/exe", "a b", "", ""}) || exec.Len != len(exec.Data) || exec.Comm != "exe" {
				t.Errorf("exec of %q, command line %q", exec.Comm, args)
			}
			if exec.Seq != 0 || exec.Conn != 0 || exec.Socket != capture.SocketUnknown {
				t.Errorf("exec is numbered: %s", show(all[1:2]))
			}
			if send.Seq != 1 || send.Conn != 1 || send.Socket != capture.SocketPush || int(send.TID) != c.pid() || send.Comm != "exe" || send.Len != 3 {
				t.Errorf("send: %s", show(all[2:3]))
			}
			if exit.Comm != "exe" || exit.Time < send.Time {
				t.Errorf("exit of %q at %d, after a send at %d", exit.Comm, exit.Time, send.Time)
			}
			until(t, "free place", func() bool { return slotOf(r, c.pid()) == nil })
		})
	}
}

// TestAdoption opens a ring when the workload has long been running.
func TestAdoption(t *testing.T) {
	r := newRing(t, RingOptions{})
	alive, dead := spawn(t, r), spawn(t, r)
	alive.do("register")
	dead.do("register")
	dead.Process.Kill()
	dead.Wait()
	w := start(t, r, Options{})
	// It had registered before the list was made, and sees the ring active a moment later.
	newWriterOf(t, r, alive.pid()).event(capture.KindExec, 0)
	alive.do("send on")
	w.await("event", isData("on"))
	all := w.all()
	want := []capture.Kind{capture.KindClock, capture.KindAttach, capture.KindExec, capture.KindSend}
	if got := kinds(all, 0); !slices.Equal(got, want) {
		t.Fatalf("kinds = %v; want %v:\n%s", got, want, show(all))
	}
	if all[1].PID != 0 || int(all[2].PID) != alive.pid() || len(all[2].Data) == 0 {
		t.Errorf("attach and exec: %s", show(all[1:3]))
	}
	if slotOf(r, dead.pid()) != nil {
		t.Error("the place of a process that had ended is not free")
	}
	// A program that it then begins is one.
	alive.do("exec")
	w.await("second exec", func(e *capture.Event) bool {
		return e.Kind == capture.KindExec && len(slices.DeleteFunc(kinds(w.all(), 0), func(k capture.Kind) bool { return k != capture.KindExec })) == 2
	})
}

// newWriterOf writes in another process's name.
func newWriterOf(t *testing.T, r *Ring, pid int) *writer {
	w := newWriter(t, r)
	w.pid, w.tid = uint32(pid), uint32(pid)
	return w
}

// TestNobodyThere has nothing to attach to.
func TestNobodyThere(t *testing.T) {
	w := start(t, newRing(t, RingOptions{}), Options{})
	w.await("tick", func(e *capture.Event) bool { return e.Kind == capture.KindTick })
	if got := kinds(w.all(), 0); !slices.Equal(got, []capture.Kind{capture.KindClock}) {
		t.Errorf("kinds = %v; want the clock alone", got)
	}
}

// TestRestart lets one agent come after another: what was in the ring is dropped, and
// the workload can tell the two apart.
func TestRestart(t *testing.T) {
	r := newRing(t, RingOptions{})
	if e := atomic.LoadUint32(&r.header.Epoch); e != 0 {
		t.Fatalf("epoch of a new ring = %d; want 0", e)
	}
	first := start(t, r, Options{})
	epoch := atomic.LoadUint32(&r.header.Epoch)
	c := spawn(t, r)
	c.do("exec")
	c.do("send one")
	first.await("event", isData("one"))
	first.stop()
	if e := atomic.LoadUint32(&r.header.Epoch); e != 0 {
		t.Errorf("epoch after Close = %d; want 0", e)
	}
	c.do("send between")
	time.Sleep(2 * time.Millisecond) // epochs are made of milliseconds
	second := start(t, r, Options{})
	if e := atomic.LoadUint32(&r.header.Epoch); e == epoch || e == 0 {
		t.Errorf("second epoch = %d, first %d", e, epoch)
	}
	c.do("send two")
	second.await("event", isData("two"))
	if got, want := kinds(second.all(), c.pid()), []capture.Kind{capture.KindExec, capture.KindSend}; !slices.Equal(got, want) {
		t.Errorf("kinds = %v; want %v:\n%s", got, want, show(second.all()))
	}
	// An agent that was killed left its number there.
	atomic.StoreUint32(&r.header.Epoch, 7)
	third := start(t, r, Options{})
	if e := atomic.LoadUint32(&r.header.Epoch); e != 8 {
		t.Errorf("third epoch = %d; want 8", e)
	}
	// The second ends late, and leaves the third its ring.
	second.stop()
	if e := atomic.LoadUint32(&r.header.Epoch); e != 8 {
		t.Errorf("epoch after the second's Close = %d; want 8", e)
	}
	third.stop()
}

// TestWantReceives asks, for every program and name, and tells the process.
func TestWantReceives(t *testing.T) {
	r := newRing(t, RingOptions{})
	w := start(t, r, Options{})
	wanted := func(c *child) func() bool {
		return func() bool { p := slotOf(r, c.pid()); return p != nil && atomic.LoadUint32(&p.WantReceives) == 1 }
	}
	server, shell := spawn(t, r, "vllm", "serve"), spawn(t, r, "start.sh")
	server.do("exec")
	shell.do("exec")
	until(t, "wanted server", wanted(server))
	worker := spawn(t, r, "spawn_main")
	worker.do("fork " + strconv.Itoa(server.pid()))
	until(t, "wanted child of the server", wanted(worker))

	// A script's server is known by the name that it takes when it begins to work.
	engine := spawn(t, r, "spawn_main")
	engine.do("fork " + strconv.Itoa(shell.pid()))
	engine.do("name VLLM::EngineCor")
	until(t, "wanted engine", func() bool {
		engine.do("send ready") // names are not looked at for each event
		return wanted(engine)()
	})
	until(t, "wanted parent of the engine", wanted(shell))
	w.await("event of the engine by its name", func(e *capture.Event) bool {
		return int(e.PID) == engine.pid() && e.Kind == capture.KindSend && e.Comm == "VLLM::EngineCor"
	})
	if got := kinds(w.all(), worker.pid()); got != nil {
		t.Errorf("a fork is told as %v; want nothing", got)
	}
}

// TestThreadIsNamedAgain when it has got another name.
func TestThreadIsNamedAgain(t *testing.T) {
	r := newRing(t, RingOptions{})
	w := start(t, r, Options{})
	c := spawn(t, r)
	c.do("exec")
	c.do("send one")
	c.do("name VLLM::Worker")
	until(t, "new name", func() bool {
		c.do("send more")
		all := w.all()
		return len(all) > 0 && all[len(all)-1].Comm == "VLLM::Worker"
	})
}

// TestLost tells what the workload and the reader count.
func TestLost(t *testing.T) {
	for _, tc := range []struct {
		counter string
		cause   capture.Cause
	}{
		{"ring_full", capture.LostRingFull}, {"table_full", capture.LostTable}, {"nested", capture.LostNested},
	} {
		t.Run(tc.counter, func(t *testing.T) {
			r := newRing(t, RingOptions{})
			c := spawn(t, r)
			c.do("count " + tc.counter + " 100") // of an earlier agent's time
			w := start(t, r, Options{})
			c.do("count " + tc.counter + " 3")
			e := w.await("loss", func(e *capture.Event) bool { return e.Kind == capture.KindLost })
			if e.Cause != tc.cause || e.Len != 3 {
				t.Errorf("lost %d by %s; want 3 by %s", e.Len, e.Cause, tc.cause)
			}
		})
	}
}

// TestImpossibleCounters: what can be no count is told as that, once, and not as a loss of so
// many; what is counted after it counts.
func TestImpossibleCounters(t *testing.T) {
	for _, counter := range []string{"ring_full", "nested", "tls", "refused", "unresolved"} {
		t.Run(counter, func(t *testing.T) {
			r := newRing(t, RingOptions{})
			c := spawn(t, r)
			w := start(t, r, Options{})
			c.do("count " + counter + " 12345678901234567890")
			e := w.await("loss", func(e *capture.Event) bool { return e.Kind == capture.KindLost })
			if e.Cause != capture.LostRecord || e.Len != 1 {
				t.Errorf("lost %d by %s; want 1 by %s", e.Len, e.Cause, capture.LostRecord)
			}
			c.do("count table_full 3")
			w.await("later loss", func(e *capture.Event) bool {
				return e.Kind == capture.KindLost && e.Cause == capture.LostTable && e.Len == 3
			})
			if got := w.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "memory that is not its own") {
				t.Errorf("log = %q; want the one line about the memory", got)
			}
		})
	}
}

// TestKilled lets a process be killed in the middle of a record.
func TestKilled(t *testing.T) {
	for i, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			r := newRing(t, RingOptions{})
			w := start(t, r, Options{})
			c, other := spawn(t, r), spawn(t, r)
			c.do("exec")
			c.do("stuck " + strconv.Itoa(i))
			c.in.Write([]byte("die\n"))
			c.Wait()
			other.do("send on")
			w.await("event", isData("on"))
			e := w.await("loss", func(e *capture.Event) bool { return e.Kind == capture.KindLost })
			if e.Cause != capture.LostRecord || e.Len != 1 {
				t.Errorf("lost %d by %s; want 1 by %s", e.Len, e.Cause, capture.LostRecord)
			}
			w.await("exit", isExit(c.pid()))
		})
	}
}

// TestWarnings are one line each.
func TestWarnings(t *testing.T) {
	r := newRing(t, RingOptions{})
	w := start(t, r, Options{})
	c := spawn(t, r)
	for counter, want := range map[string]string{"refused": "another version", "unresolved": "could not be passed on", "http2": "HTTP/2"} {
		c.do("count " + counter + " 1")
		until(t, "warning of "+counter, func() bool { return strings.Contains(w.log.String(), want) })
		c.do("count " + counter + " 1")
		c.do("send on")
		w.await("event", isData("on"))
		if n := strings.Count(w.log.String(), want); n != 1 {
			t.Errorf("%d lines about %s; want 1", n, counter)
		}
	}
	if s, err := w.source.Stats(); err != nil || s != (Stats{HTTP2: 2}) {
		t.Errorf("Stats() = %+v, %v", s, err)
	}
}

// TestOpenRefuses what is no ring of this version.
func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(h *ringHeader)
		want string
	}{
		{"another version", func(h *ringHeader) { h.Version = 9 }, "it has version 9, this agent reads 1"},
		{"no ring", func(h *ringHeader) { h.Magic = 1 }, "no ring"},
		{"another header", func(h *ringHeader) { h.HeaderBytes = 4096 }, "4096 bytes, not 65536"},
		{"not a power of two", func(h *ringHeader) { h.DataBytes = 3 << 16 }, "makes no sense"},
		{"larger than its file", func(h *ringHeader) { h.DataBytes *= 2 }, "its file has"},
		{"enormous", func(h *ringHeader) { h.DataBytes = 1 << 63 }, "makes no sense"},
		{"empty", func(h *ringHeader) { h.DataBytes = 0 }, "makes no sense"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRing(t, RingOptions{})
			tc.bend(r.header)
			s, err := Open(r.File(), Options{})
			if err == nil {
				s.Close()
				t.Fatal("Open() = nil; want an error")
			}
			if !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrVersion) != (tc.name == "another version") {
				t.Errorf("Open() = %v; want %q in it", err, tc.want)
			}
			if r.header.Epoch != 0 {
				t.Error("the ring was activated")
			}
		})
	}
	t.Run("empty file", func(t *testing.T) {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := Open(f, Options{}); err == nil || !strings.Contains(err.Error(), "too few") {
			t.Errorf("Open() = %v; want an error", err)
		}
	})
}

// TestShortenedFile: a file in a directory can be shortened, and looking at what is gone
// is a fault, which is to end neither agent nor supervisor.
func TestShortenedFile(t *testing.T) {
	for name, size := range map[string]int64{"data": ringHeaderBytes, "header": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, RingOptions{memfd: noMemfd, Dirs: []string{t.TempDir()}})
			s, err := Open(r.File(), Options{Poll: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			newWriter(t, r).write(capture.KindSend, "x")
			if err := os.Truncate(r.Path(), size); err != nil {
				t.Fatal(err)
			}
			err = s.Run(t.Context(), func(*capture.Event) {})
			if !errors.Is(err, errShortened) {
				t.Errorf("Run() = %v; want %v", err, errShortened)
			}
			if _, err := s.Stats(); size == 0 && !errors.Is(err, errShortened) {
				t.Errorf("Stats() = %v; want %v", err, errShortened)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
			r.Deactivate()
		})
	}
}

// TestSinkPanics are not the ring's.
func TestSinkPanics(t *testing.T) {
	s, err := Open(newRing(t, RingOptions{}).File(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer func() {
		if recover() != "of the sink" {
			t.Error("the panic was swallowed")
		}
	}()
	s.Run(t.Context(), func(*capture.Event) { panic("of the sink") })
}

// TestReusedNumber: a pid that another process has now is not the one that registered.
func TestReusedNumber(t *testing.T) {
	r := newRing(t, RingOptions{})
	c := spawn(t, r)
	c.do("register")
	p := slotOf(r, c.pid())
	// As if it had registered long before the process of that number began.
	atomic.StoreUint64(&p.RegisteredNs, uint64(max(backend.Monotonic()-int64(time.Hour), 1)))
	w := start(t, r, Options{})
	w.await("tick", func(e *capture.Event) bool { return e.Kind == capture.KindTick })
	if got := kinds(w.all(), 0); !slices.Equal(got, []capture.Kind{capture.KindClock}) {
		t.Errorf("kinds = %v; want the clock alone", got)
	}
	if slotOf(r, c.pid()) != nil {
		t.Error("the place is not free")
	}
}
