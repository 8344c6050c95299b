package ebpf

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// childEnv makes this test binary another program: the server of server_test.go
// or one of the processes around it.
const childEnv = "TOKENSCOPE_EBPF_TEST_CHILD"

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

// needPrivileges skips a test where this process may not load programs.
func needPrivileges(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root (CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE)")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("needs a kernel with BTF: ", err)
	}
}

// watch is a running Source and what it has delivered.
type watch struct {
	t      *testing.T
	source *Source
	stop   func()

	mu     sync.Mutex
	events []capture.Event
	onSink func(*capture.Event)
}

// start opens a Source for the children of this process, and runs it until the
// test ends.
func start(t *testing.T, o Options) *watch {
	t.Helper()
	needPrivileges(t)
	if o.Root == 0 {
		o.Root = os.Getpid()
	}
	if o.Poll == 0 {
		o.Poll = 5 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := Open(o)
	if err != nil {
		t.Fatalf("Open(%+v) = %v", o, err)
	}
	w := &watch{t: t, source: s}
	w.run()
	t.Cleanup(func() {
		w.stop()
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return w
}

func (w *watch) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.source.Run(ctx, w.sink) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run() = %v", err)
		}
	})
}

func (w *watch) sink(e *capture.Event) {
	c := *e
	c.Data = slices.Clone(e.Data)
	w.mu.Lock()
	w.events = append(w.events, c)
	f := w.onSink
	w.mu.Unlock()
	if f != nil {
		f(&c)
	}
}

func (w *watch) all() []capture.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// patience bounds waiting for something that must come; on a busy machine it may
// take long, and nothing is measured by it.
const patience = 60 * time.Second

// await returns the first event that ok accepts.
func (w *watch) await(what string, ok func(*capture.Event) bool) capture.Event {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, e := range w.all() {
			if ok(&e) {
				return e
			}
		}
	}
	w.t.Fatalf("no %s within %v; events:\n%s", what, patience, show(w.all()))
	panic("unreachable")
}

// of returns the events of one process and kind.
func of(events []capture.Event, pid int, kind capture.Kind) []capture.Event {
	var out []capture.Event
	for _, e := range events {
		if e.Kind == kind && (pid == 0 || int(e.PID) == pid) {
			out = append(out, e)
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

// child is a process made of this test binary.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *lineReader
}

// spawn starts this binary as mode, with a pipe to its standard input and its
// standard output read line by line.
func spawn(t *testing.T, attr *syscall.SysProcAttr, mode string, args ...string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = attr
	return launch(t, cmd)
}

// launch starts cmd and ends it with the test.
func launch(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	c := &child{Cmd: cmd, in: in, out: newLineReader(out)}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return c
}

// finish lets the child end by itself and wants it to succeed.
func (c *child) finish(t *testing.T) {
	t.Helper()
	c.in.Close()
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %v", c.Args, err)
	}
}

// address is the network and address of a child's server, which are its next line
// of output: a path, or host and port.
func (c *child) address(t *testing.T) (network, address string) {
	t.Helper()
	address = c.out.next(t)
	if strings.HasPrefix(address, "/") {
		return "unix", address
	}
	return "tcp", address
}

// dial connects to a child's server on TCP.
func (c *child) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	network, address := c.address(t)
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}
