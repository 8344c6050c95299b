package ebpf

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// exchange sends a request to a child's server and reads until it closes.
func exchange(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || len(got) == 0 {
		t.Fatalf("read %q, %v", got, err)
	}
}

func isOpen(e *capture.Event) bool { return e.Kind == capture.KindOpen }

// TestDescendants follows servers however they come to be.
func TestDescendants(t *testing.T) {
	for _, tc := range []struct {
		name string
		attr *syscall.SysProcAttr
		mode string
		args []string
	}{
		{"five programs deep", nil, "nest", []string{"5", "read", "write:9", "close", "wait"}},
		{"left to init", nil, "orphan", []string{"read", "write:9", "close", "wait"}},
		{"own PID namespace", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "nest", []string{"1", "read", "write:9", "close", "wait"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, Options{})
			c := spawn(t, tc.attr, tc.mode, tc.args...)
			exchange(t, c.out.next(t))
			open := w.await("open", isOpen)
			w.await("exec of the server", func(e *capture.Event) bool { return e.Kind == capture.KindExec && e.PID == open.PID })
			c.finish(t)
			w.await("exit of the server", func(e *capture.Event) bool { return e.Kind == capture.KindExit && e.PID == open.PID })
			if int(open.PID) == c.Process.Pid {
				t.Errorf("pid of the server = %d, that of the first process", open.PID)
			}
			var exec *capture.Event
			for _, e := range of(w.all(), int(open.PID), capture.KindExec) {
				exec = &e
			}
			if args := strings.Split(string(exec.Data), "\x00"); args[0] != "/proc/self/exe" || exec.Comm != "exe" {
				t.Errorf("exec of %q, command line %q", exec.Comm, args)
			}
		})
	}
}

// TestOthersAreNotSeen serves from a process that is not of the workload.
func TestOthersAreNotSeen(t *testing.T) {
	w := start(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.ReadFull(conn, make([]byte, len(request)))
		conn.Write([]byte("done"))
		conn.Close()
	}()
	exchange(t, l.Addr().String()) // of the root itself
	c := spawn(t, nil, "serve", "read", "write:9", "close")
	exchange(t, c.out.next(t))
	c.finish(t)
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == c.Process.Pid })
	if opens := of(w.all(), 0, capture.KindOpen); len(opens) != 1 || int(opens[0].PID) != c.Process.Pid {
		t.Errorf("connections:\n%swant one, of process %d", show(opens), c.Process.Pid)
	}
	for _, e := range w.all() {
		if int(e.PID) == os.Getpid() {
			t.Errorf("an event of the root itself: %s", show([]capture.Event{e}))
		}
	}
}

// TestAgentIsNotSeen runs a Source as the product does: beside the workload, as a
// child of their common parent.
func TestAgentIsNotSeen(t *testing.T) {
	needPrivileges(t)
	agent := spawn(t, nil, "agent")
	if line := agent.out.next(t); line != "ready" {
		t.Fatalf("agent says %q", line)
	}
	c := spawn(t, nil, "serve", "read", "write:9", "close")
	exchange(t, c.out.next(t))
	c.finish(t)
	if got, want := agent.out.next(t), strconv.Itoa(c.Process.Pid); got != want {
		t.Errorf("first connection that the agent saw is of process %s; want %s", got, want)
	}
	agent.finish(t)
}

// TestInsideContainer runs supervisor, agent and workload in a PID namespace: pids
// are numbered as there.
func TestInsideContainer(t *testing.T) {
	needPrivileges(t)
	c := spawn(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}, "container")
	var server, seen int
	if _, err := fmt.Sscan(c.out.next(t), &server, &seen); err != nil {
		t.Fatal(err)
	}
	if server != seen || server == 0 {
		t.Errorf("the server is process %d there; the agent saw %d", server, seen)
	}
	c.finish(t)
}

// TestAdoption opens a Source when the workload has long been running.
func TestAdoption(t *testing.T) {
	needPrivileges(t)
	deep := spawn(t, nil, "nest", "2", "read", "write:9", "close")
	addr := deep.out.next(t)
	w := start(t, Options{})
	exchange(t, addr)
	open := w.await("open", isOpen)
	deep.finish(t)
	w.await("exit of the first process", func(e *capture.Event) bool {
		return e.Kind == capture.KindExit && int(e.PID) == deep.Process.Pid
	})
	all := w.all()
	if all[0].Kind != capture.KindClock || all[1].Kind != capture.KindAttach || all[1].PID != 0 {
		t.Errorf("the first events are not the clock and the attachment:\n%s", show(all))
	}
	execs := of(all, 0, capture.KindExec)
	if len(execs) != 3 {
		t.Fatalf("%d processes found; want 3:\n%s", len(execs), show(all))
	}
	if e := execs[0]; int(e.PID) != deep.Process.Pid || !strings.HasPrefix(string(e.Data), "/proc/self/exe\x002\x00") {
		t.Errorf("first process found: pid %d, command line %q; want %d", e.PID, e.Data, deep.Process.Pid)
	}
	if open.PID != execs[2].PID {
		t.Errorf("pid of the server = %d; want %d", open.PID, execs[2].PID)
	}
}

// TestRootThatIsNoAncestor wants a refusal, not somebody else's processes.
func TestRootThatIsNoAncestor(t *testing.T) {
	needPrivileges(t)
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	s, err := Open(Options{Root: sleep.Process.Pid})
	if err == nil {
		s.Close()
		t.Fatal("Open with a child as root = nil; want an error")
	}
	if !strings.Contains(err.Error(), errNoRoot.Error()) {
		t.Errorf("Open with a child as root = %v; want %v", err, errNoRoot)
	}
}
