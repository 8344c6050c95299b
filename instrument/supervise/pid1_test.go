package supervise

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startAsPID1 runs a supervisor as the first process of a PID namespace.
func startAsPID1(t *testing.T, s setup) *proc {
	t.Helper()
	inNamespace := func(cmd *exec.Cmd) {
		attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID}
		if os.Getuid() != 0 {
			attr.Cloneflags |= unix.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		cmd.SysProcAttr = attr
	}
	probe := exec.Command("/bin/true")
	inNamespace(probe)
	if err := probe.Run(); err != nil {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	return start(t, supervised(t, s), inNamespace)
}

// children lists the child processes of a process, zombies too.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var out []int
	for _, path := range stats {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if statField(child, 4) == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}

func TestPID1ReapsOrphans(t *testing.T) {
	dir := t.TempDir()
	p := startAsPID1(t, setup{Argv: workload(t, "orphan"), AgentMode: "ready", Dir: dir})
	p.expect("orphaned")
	pid1 := p.cmd.Process.Pid
	waitFor(t, "orphan given to PID 1", func() bool { return len(children(pid1)) == 3 })
	if _, err := io.WriteString(p.stdin, "release\n"); err != nil {
		t.Fatal(err)
	}
	p.expect("released")
	waitFor(t, "orphan reaped", func() bool { return len(children(pid1)) == 2 })
	p.stdin.Close()
	p.wantEnd(ExitStatus{})
}

// PID 1 cannot die by a signal of its own namespace: the code says which it was.
func TestPID1ExitCode(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
	}{
		{"exit 3", 3},
		{"kill -KILL $$", 137},
		{"kill -TERM $$", 143},
		{"ulimit -c 0; kill -SEGV $$", 139},
	} {
		p := startAsPID1(t, setup{Argv: []string{"/bin/sh", "-c", c.script}})
		if got, _ := p.wait(); got != (ExitStatus{Code: c.code}) {
			t.Errorf("%q as the workload of PID 1 ended with %v; want exit status %d", c.script, got, c.code)
		}
	}
}

// The kernel drops signals to PID 1 that have no handler; they must all have one.
func TestPID1Forwards(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{
		unix.SIGTERM: 143, unix.SIGINT: 130, unix.SIGHUP: 129, unix.SIGUSR1: 138, 36: 164,
	} {
		p := startAsPID1(t, setup{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}})
		p.expect("up")
		p.signal(sig)
		if got, _ := p.wait(); got != (ExitStatus{Code: code}) {
			t.Errorf("PID 1 after %v ended with %v; want exit status %d", sig, got, code)
		}
	}
}

// The agent ends with PID 1, so nothing is sent in the background.
func TestPID1EndsBeforeTheAgent(t *testing.T) {
	dir := t.TempDir()
	p := startAsPID1(t, setup{Argv: []string{"/bin/sh", "-c", "exit 3"}, AgentMode: "stuck", Dir: dir, FlushMs: 50})
	p.wantEnd(ExitStatus{Code: 3})
	const want = "spans that the agent has not sent by now are lost with this container"
	if got := p.stderr.String(); strings.Count(got, want) != 1 {
		t.Errorf("standard error = %q; want %q once", got, want)
	}
}

// Without being PID 1 we are no subreaper: what the workload leaves behind is not ours.
func TestOrphansAreLeftAlone(t *testing.T) {
	p := start(t, supervised(t, setup{Argv: workload(t, "orphan")}))
	p.expect("orphaned")
	if got := children(p.cmd.Process.Pid); len(got) != 1 {
		t.Errorf("children of the supervisor = %v; want the workload alone", got)
	}
	p.stdin.Close()
	p.wantEnd(ExitStatus{})
}

// Whoever exec'd us may have been a subreaper, which survives exec.
func TestInheritedSubreaper(t *testing.T) {
	if os.Getenv("SUPERVISE_TEST_SUBREAPER") != "" {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		argv := supervised(t, setup{Argv: workload(t, "orphan")})
		t.Fatal(syscall.Exec(argv[0], argv, os.Environ()))
	}
	p := start(t, []string{testBinary(t), "-test.run=^TestInheritedSubreaper$"}, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "SUPERVISE_TEST_SUBREAPER=1")
	})
	p.expect("orphaned")
	pid := p.cmd.Process.Pid
	waitFor(t, "orphan given to the subreaper", func() bool { return len(children(pid)) == 2 })
	if _, err := io.WriteString(p.stdin, "release\n"); err != nil {
		t.Fatal(err)
	}
	p.expect("released")
	waitFor(t, "orphan reaped", func() bool { return len(children(pid)) == 1 })
	p.stdin.Close()
	p.wantEnd(ExitStatus{})
}
