package ebpf

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// refuse makes the kernel refuse programs: a register is read that was never set.
func refuse(names ...string) func(*ebpf.CollectionSpec) {
	return func(spec *ebpf.CollectionSpec) {
		for _, name := range names {
			spec.Programs[name].Instructions = asm.Instructions{asm.Mov.Reg(asm.R0, asm.R9), asm.Return()}
		}
	}
}

// TestRefusedPrograms loses what it must, says so once, and goes on.
func TestRefusedPrograms(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refused []string
		lost    []string
		works   bool // HTTP by read and write
	}{
		{"reading of registers", []string{captureProgDoneFlat, captureProgDoneVector}, nil, true},
		{"vectors", []string{captureProgDoneVector, captureProgLeaveVector}, []string{featureHTTPVectors}, true},
		{"accept and close", []string{captureProgLeaveAccept, captureProgEnterClose}, []string{featureHTTPAccept, featureHTTPClose}, true},
		{"socket types", []string{captureProgZmqClose}, []string{featureZMQTypes}, true},
		{"single buffers", []string{captureProgDoneFlat, captureProgLeaveFlat}, []string{featureHTTP}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			w := start(t, Options{edit: refuse(tc.refused...), Log: slog.New(slog.NewTextHandler(&log, nil))})
			var lost []string
			for _, f := range w.source.Features() {
				if f.Err != nil {
					lost = append(lost, f.Name)
					var verifier *ebpf.VerifierError
					if !errors.As(f.Err, &verifier) {
						t.Errorf("error of %s = %v; want the verifier's", f.Name, f.Err)
					}
				}
			}
			if strings.Join(lost, " ") != strings.Join(tc.lost, " ") {
				t.Errorf("lost features %q; want %q", lost, tc.lost)
			}
			if got := strings.Count(log.String(), "\n"); got != len(tc.lost) {
				t.Errorf("%d lines in the log; want %d:\n%s", got, len(tc.lost), &log)
			}
			c := spawn(t, nil, "serve", "read", "write:9", "close")
			exchange(t, c.out.next(t))
			c.finish(t)
			pid := c.Process.Pid
			w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
			if got := len(of(w.all(), pid, capture.KindWrite)); (got == 1) != tc.works {
				t.Errorf("%d writes seen", got)
			}
		})
	}
}

// TestNothingWorks wants an error that callers can tell from others.
func TestNothingWorks(t *testing.T) {
	needPrivileges(t)
	for _, tc := range []struct {
		name    string
		refused []string
	}{
		{"no processes", []string{captureProgProcessFork}},
		{"no iterator", []string{captureProgAdopt}},
		{"neither frames nor HTTP", []string{captureProgZmqSend, captureProgZmqRecv, captureProgDoneFlat, captureProgLeaveFlat}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Open(Options{Root: os.Getpid(), edit: refuse(tc.refused...), Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				s.Close()
				t.Fatal("Open = nil; want an error")
			}
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(Cure(err), "verifier") {
				t.Errorf("Open = %v; want ErrUnavailable and a cure", err)
			}
		})
	}
}

// TestSteps wants the times of Open in one line, and only at level debug.
func TestSteps(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		var log bytes.Buffer
		start(t, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))}).stop()
		lines := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "msg=opened") && strings.Contains(line, "steps.load=") && strings.Contains(line, "steps.http=") {
				lines++
			}
		}
		if lines != want {
			t.Errorf("%d lines at level %v; want %d:\n%s", lines, level, want, &log)
		}
	}
}

// TestTracepointsAreClosed wants nothing left of those that were opened ahead.
func TestTracepointsAreClosed(t *testing.T) {
	needPrivileges(t)
	fs, err := openTracefs()
	if err != nil {
		t.Skip("needs tracefs: ", err)
	}
	points := newTracepoints(fs)
	points.begin("sys_exit_read", "sys_exit_write", "sys_exit_no_such_call")
	taken, err := points.take("sys_exit_read")
	if err != nil {
		t.Fatalf("take(sys_exit_read) = %v", err)
	}
	left := points.opened["sys_exit_write"]
	if _, err := points.take("sys_exit_neither"); err == nil {
		t.Error("take of a tracepoint that is not there = nil; want an error")
	}
	if err := points.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(left.event), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("a tracepoint that was not taken is open after Close: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Errorf("Close of the one that was taken = %v", err)
	}
}

// TestOtherWays watches the same by the programs for other kernels.
func TestOtherWays(t *testing.T) {
	t.Run("entries and exits", func(t *testing.T) {
		testOtherWay(t, Options{edit: refuse(captureProgDoneFlat, captureProgDoneVector)})
	})
	t.Run("without tracefs", func(t *testing.T) {
		var log bytes.Buffer
		testOtherWay(t, Options{withoutTracefs: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "slows every system call") {
			t.Errorf("log = %q; want one line, that every system call is slowed", got)
		}
	})
	t.Run("without tracefs, and refused", func(t *testing.T) {
		var log bytes.Buffer
		start(t, Options{withoutTracefs: true, edit: refuse(captureProgRawEnter), Log: slog.New(slog.NewTextHandler(&log, nil))})
		if got := log.String(); strings.Contains(got, "slows every system call") {
			t.Errorf("log = %q; nothing is slowed", got)
		}
	})
}

func testOtherWay(t *testing.T, o Options) {
	w := start(t, o)
	for _, calls := range []string{
		"read write:100 shutdown close", "recvfrom sendto:10 close", "readv writev:10,20,30 close", "peek recvmsg sendmsg:5,5 close",
	} {
		c := spawn(t, nil, "serve", strings.Fields(calls)...)
		exchange(t, c.out.next(t))
		c.finish(t)
		pid := c.Process.Pid
		w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
		all := w.all()
		if s := stream(t, of(all, pid, capture.KindRead)); s != request {
			t.Errorf("%s: read %q; want %q", calls, s, request)
		}
		if s := stream(t, of(all, pid, capture.KindWrite)); s == "" || s != string(pattern(0, len(s))) {
			t.Errorf("%s: wrote %q", calls, s)
		}
		if o, cl := of(all, pid, capture.KindOpen), of(all, pid, capture.KindClose); len(o) != 1 || len(cl) != 1 {
			t.Errorf("%s: %d opens, %d closes; want 1, 1", calls, len(o), len(cl))
		}
	}
}

// TestTablesAreCleaned wants nothing to stay of processes that have ended.
func TestTablesAreCleaned(t *testing.T) {
	w := start(t, Options{})
	c := spawn(t, nil, "serve", "read", "say", "wait", "write:4")
	conn := c.dial(t)
	conn.Write([]byte(request))
	c.out.next(t)
	connections := w.source.kernel.maps[captureMapConnections]
	entries := func() (n int) {
		var k captureFdKey
		var v []byte
		for it := connections.Iterate(); it.Next(&k, &v); {
			n++
		}
		return n
	}
	if n := entries(); n != 1 {
		t.Errorf("%d connections in the table; want 1", n)
	}
	c.finish(t) // without closing it
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == c.Process.Pid })
	w.await("an empty table", func(*capture.Event) bool { return entries() == 0 })
}
