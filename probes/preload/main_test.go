package preload

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// childEnv makes this test binary a process of the workload: see child_test.go.
const childEnv = "TOKENSCOPE_PRELOAD_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		if err := runChild(mode, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, mode+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// watch is a running Source and what it has delivered.
type watch struct {
	t      *testing.T
	source *Source
	stop   func()
	log    *logBuffer

	mu     sync.Mutex
	events []capture.Event
}

// logBuffer is a log that may be read while it is written to.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start opens a ring and runs its Source until the test ends.
func start(t *testing.T, r *Ring, o Options) *watch {
	t.Helper()
	w := &watch{t: t, log: new(logBuffer)}
	if o.Root == 0 {
		o.Root = os.Getpid()
	}
	if o.Poll == 0 {
		o.Poll = 5 * time.Millisecond
	}
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(w.log, t.Output()), nil))
	s, err := Open(r.File(), o)
	if err != nil {
		t.Fatalf("Open(%+v) = %v", o, err)
	}
	w.source = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, w.sink) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watch) sink(e *capture.Event) {
	c := *e
	c.Data = slices.Clone(e.Data)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, c)
}

func (w *watch) all() []capture.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// await returns the first event that ok accepts.
func (w *watch) await(what string, ok func(*capture.Event) bool) capture.Event {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, e := range w.all() {
			if ok(&e) {
				return e
			}
		}
	}
	w.t.Fatalf("no %s within %v; events:\n%s", what, patience, show(w.all()))
	panic("unreachable")
}

// until waits for something that is no event.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("no %s within %v", what, patience)
}

// kinds are the kinds of a process's events, in order; of all without a pid.
func kinds(events []capture.Event, pid int) []capture.Kind {
	var out []capture.Kind
	for _, e := range events {
		if e.Kind != capture.KindTick && (pid == 0 || int(e.PID) == pid) {
			out = append(out, e.Kind)
		}
	}
	return out
}

func show(events []capture.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == capture.KindTick {
			continue
		}
		fmt.Fprintf(&b, "  kind %d pid %d tid %d %q conn %x seq %d socket %d more %v peer %v len %d data %.40q tail %d %s\n",
			e.Kind, e.PID, e.TID, e.Comm, e.Conn, e.Seq, e.Socket, e.More, e.Peer, e.Len, e.Data, e.Tail, e.Cause)
	}
	return b.String()
}

// child is a process made of this test binary, that does a line of its input at a time
// and then says so.
type child struct {
	*exec.Cmd
	t   testing.TB
	in  io.WriteCloser
	out io.ReadCloser
}

// spawn starts a process of the workload; its ring is by the variable that Inject sets.
func spawn(t testing.TB, r *Ring, args ...string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childEnv+"=writer", EnvRing+"="+r.Path())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: cmd, t: t, in: in, out: out}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return c
}

// do has the child do something, and waits until it has.
func (c *child) do(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.ReadFull(c.out, make([]byte, 1)); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
}

func (c *child) pid() int { return c.Process.Pid }
