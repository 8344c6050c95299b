package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A marker that has come through proves that nothing was forwarded before it: of the
// signals that wait, the lower number comes first, and this one is above all others that
// a test does not want to see.
const marker, gotMarker = unix.SIGPWR, "got 30"

// finish ends a "signals" workload and checks that its exit code came through.
func (p *proc) finish(pid int) {
	p.t.Helper()
	if err := unix.Kill(pid, unix.SIGUSR2); err != nil {
		p.t.Fatalf("kill %d: %v", pid, err)
	}
	p.expect("got 12")
	p.wantEnd(ExitStatus{Code: 7})
}

// Without a terminal every signal is forwarded, once.
func TestForwarding(t *testing.T) {
	p := start(t, supervised(t, setup{Argv: workload(t, "signals")}))
	pid := p.number("pid")
	for _, c := range []struct {
		sig  syscall.Signal
		want string
	}{
		{unix.SIGHUP, "got 1"},
		{unix.SIGINT, "got 2"},
		{unix.SIGQUIT, "got 3"},
		{unix.SIGILL, "got 4"},
		{unix.SIGTRAP, "got 5"},
		{unix.SIGABRT, "got 6"},
		{unix.SIGBUS, "got 7"},
		{unix.SIGFPE, "got 8"},
		{unix.SIGUSR1, "got 10"},
		{unix.SIGSEGV, "got 11"},
		{unix.SIGALRM, "got 14"},
		{unix.SIGTERM, "got 15"},
		{unix.SIGCONT, "got 18"},
		{unix.SIGTSTP, "got 20"},
		{unix.SIGXCPU, "got 24"},
		{unix.SIGWINCH, "got 28"},
		{unix.SIGIO, "got 29"},
		{unix.SIGPWR, "got 30"},
		{unix.SIGSYS, "got 31"},
		{35, "got 35"},
		{64, "got 64"},
	} {
		p.signal(c.sig)
		p.expect(c.want)
	}
	for _, sig := range []syscall.Signal{unix.SIGPIPE, unix.SIGCHLD, unix.SIGURG, unix.SIGXFSZ} {
		p.signal(sig)
		p.signal(marker)
		p.expect(gotMarker)
	}
	p.finish(pid)
}

func TestSignalTwice(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT} {
		p := start(t, supervised(t, setup{Argv: workload(t, "signals")}))
		pid := p.number("pid")
		want := map[syscall.Signal]string{unix.SIGTERM: "got 15", unix.SIGINT: "got 2"}[sig]
		p.signal(sig)
		p.expect(want)
		p.signal(sig)
		p.expect(want)
		p.finish(pid)
	}
}

// A signal that the workload does not handle ends both, in the same way.
func TestForwardedDeath(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
		p := start(t, supervised(t, setup{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}}))
		p.expect("up")
		p.signal(sig)
		p.wantEnd(ExitStatus{Signal: sig})
	}
}

func TestSignalBeforeTheWorkload(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{
		Argv: []string{"/bin/touch", dir + "/ran"}, AgentMode: "silent", Dir: dir, ReadyMs: 3_600_000,
	}))
	waitFor(t, "agent started", func() bool { return len(agentLog(dir, "started")) == 1 })
	p.signal(unix.SIGWINCH)
	p.signal(unix.SIGTERM)
	p.wantEnd(ExitStatus{Signal: unix.SIGTERM})
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("the workload was started after SIGTERM; want it not started")
	}
	if got := agentLog(dir, "drained"); len(got) != 1 {
		t.Errorf("agents drained = %q; want one", got)
	}
}

// The workload dies with a supervisor that is killed; the agent ends by itself.
func TestSupervisorKilled(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "ready", Dir: dir}))
	pid := p.number("pid")
	watched, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watched)
	p.signal(unix.SIGKILL)
	waitFor(t, "workload ended", func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(watched), Events: unix.POLLIN}}, 0)
		return n == 1
	})
	waitFor(t, "agent drained", func() bool { return len(agentLog(dir, "drained")) == 1 })
}

// A workload that is stopped alone, as by a debugger, does not stop the supervisor.
func TestWorkloadStoppedAlone(t *testing.T) {
	p := start(t, supervised(t, setup{Argv: workload(t, "signals")}))
	pid := p.number("pid")
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "workload stopped", func() bool { return processState(pid) == "T" })
	p.signal(marker)
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{p.line(): true, p.line(): true}
	if !seen[gotMarker] || !seen["got 18"] {
		t.Errorf("lines after SIGCONT = %v; want %q and SIGCONT", seen, gotMarker)
	}
	p.finish(pid)
}

func TestContextEnd(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), Dir: dir, Cancel: true}))
	pid := p.number("pid")
	if err := os.WriteFile(filepath.Join(dir, "cancel"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.expect("got 15")
	p.finish(pid)
}

// A closed standard error must not end the supervisor by SIGPIPE when it logs, nor may
// that SIGPIPE go to the workload.
func TestClosedStandardError(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "warn", Dir: dir}),
		func(cmd *exec.Cmd) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			t.Cleanup(func() { w.Close() })
			cmd.Stderr = w
		})
	pid := p.number("pid")
	p.signal(marker)
	p.expect(gotMarker)
	p.finish(pid)
}

// The same for a log file that has reached the size limit, and SIGXFSZ.
func TestFullStandardError(t *testing.T) {
	dir := t.TempDir()
	argv := append([]string{"/bin/sh", "-c", `ulimit -f 0; exec "$@" 2>>` + dir + "/stderr", "sh"},
		supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "warn", Dir: dir})...)
	p := start(t, argv)
	pid := p.number("pid")
	p.signal(marker)
	p.expect(gotMarker)
	p.finish(pid)
}

// A standard error that nobody reads holds up neither signals nor the end. (The goroutine
// that writes to it is stuck, of course.)
func TestBlockedStandardError(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "warn", Dir: dir, Leaks: true}),
		func(cmd *exec.Cmd) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close(); w.Close() })
			// Full to the last byte, so that the first line blocks. (Each call of Fd
			// makes the pipe blocking again.)
			fd := int(w.Fd())
			if err := unix.SetNonblock(fd, true); err != nil {
				t.Fatal(err)
			}
			for size := 1 << 16; size > 0; {
				if _, err := unix.Write(fd, make([]byte, size)); err != nil {
					size /= 2
				}
			}
			if err := unix.SetNonblock(fd, false); err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = w
		})
	pid := p.number("pid")
	p.signal(marker)
	p.expect(gotMarker)
	p.finish(pid)
}

func TestToWorkload(t *testing.T) {
	for _, c := range []struct {
		name       string
		sig        syscall.Signal
		foreground bool
		want       bool
	}{
		{"Ctrl-C", unix.SIGINT, true, false},
		{"SIGINT in the background", unix.SIGINT, false, true},
		{"Ctrl-\\", unix.SIGQUIT, true, false},
		{"SIGQUIT in the background", unix.SIGQUIT, false, true},
		{"Ctrl-Z", unix.SIGTSTP, true, false},
		{"SIGTSTP in the background", unix.SIGTSTP, false, true},
		{"a shell's fg", unix.SIGCONT, true, false},
		{"a shell's bg", unix.SIGCONT, false, true},
		{"window size", unix.SIGWINCH, true, false},
		{"window size in the background", unix.SIGWINCH, false, true},
		{"SIGTERM in the foreground", unix.SIGTERM, true, true},
		{"SIGTERM in the background", unix.SIGTERM, false, true},
		{"hang-up of the terminal", unix.SIGHUP, true, true},
		{"a timer set before our start", unix.SIGALRM, true, true},
		{"broken pipe in the foreground", unix.SIGPIPE, true, false},
		{"broken pipe in the background", unix.SIGPIPE, false, false},
		{"file size limit", unix.SIGXFSZ, false, false},
	} {
		if got := toWorkload(c.sig, func() bool { return c.foreground }); got != c.want {
			t.Errorf("%s: toWorkload(%v) = %v; want %v", c.name, c.sig, got, c.want)
		}
	}
}

func TestCaught(t *testing.T) {
	not := map[syscall.Signal]bool{
		unix.SIGKILL: true, unix.SIGSTOP: true, unix.SIGCHLD: true, unix.SIGURG: true,
		unix.SIGTTIN: true, unix.SIGTTOU: true, unix.SIGPROF: true, 32: true, 33: true, 34: true,
	}
	for sig := syscall.Signal(1); sig < numSignals; sig++ {
		if got := caught(sig); got == not[sig] {
			t.Errorf("caught(%v) = %v; want %v", sig, got, !not[sig])
		}
	}
}
