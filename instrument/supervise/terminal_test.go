package supervise

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Keys that the terminal turns into signals.
const (
	ctrlC         = "\x03"
	ctrlBackslash = "\x1c"
	ctrlZ         = "\x1a"
)

// A terminal is a pseudo-terminal with a process as its session leader.
type terminal struct {
	*proc
	master *os.File
}

// startInTerminal runs a command as the session leader of a new terminal, in its
// foreground.
func startInTerminal(t *testing.T, argv []string) *terminal {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	master, err := pty.Start(cmd)
	if err != nil {
		t.Fatalf("start %v in a terminal: %v", argv, err)
	}
	p := &proc{t: t, cmd: cmd, lines: make(chan string, 1024)}
	t.Cleanup(func() {
		endSession(cmd)
		master.Close()
	})
	go p.readLines(master)
	return &terminal{p, master}
}

func (tm *terminal) press(key string) {
	tm.t.Helper()
	if _, err := io.WriteString(tm.master, key); err != nil {
		tm.t.Fatalf("press %q: %v", key, err)
	}
}

// expect is proc.expect without the terminal's echo of keys (^C).
func (tm *terminal) expect(want ...string) {
	tm.t.Helper()
	for _, w := range want {
		got := tm.line()
		for _, echo := range []string{"^C", "^\\", "^Z"} {
			got = strings.TrimPrefix(got, echo)
		}
		if got != w {
			tm.t.Fatalf("line = %q; want %q", got, w)
		}
	}
}

// In the foreground: what the terminal sends reaches the workload once, what a process
// sends to us alone only where a terminal would not have sent it.
func TestTerminalSignals(t *testing.T) {
	dir := t.TempDir()
	tm := startInTerminal(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "ready", Dir: dir}))
	pid := tm.number("pid")
	only := func(want ...string) {
		t.Helper()
		tm.expect(want...)
		tm.signal(marker)
		tm.expect(gotMarker)
	}
	for range 2 {
		tm.press(ctrlC)
		only("got 2")
	}
	tm.press(ctrlBackslash)
	only("got 3")
	tm.press(ctrlZ)
	only("got 20")
	if err := pty.Setsize(tm.master, &pty.Winsize{Rows: 10, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	only("got 28")

	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH} {
		tm.signal(sig)
		only() // the workload has nothing but the marker
	}
	for sig, want := range map[syscall.Signal]string{unix.SIGTERM: "got 15", unix.SIGHUP: "got 1"} {
		tm.signal(sig)
		only(want)
	}
	// kill -INT -PGID; the session leader's group has its PID.
	if err := unix.Kill(-tm.cmd.Process.Pid, unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	only("got 2")

	tm.press(ctrlC)
	tm.expect("got 2")
	if err := unix.Kill(pid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	tm.expect("got 12")
	tm.wantEnd(ExitStatus{Code: 7})
	if got := agentLog(dir, "drained"); len(got) != 1 {
		t.Errorf("agents drained = %q; want one: no signal may reach the agent", got)
	}
}

func TestInterruptWithoutHandler(t *testing.T) {
	tm := startInTerminal(t, supervised(t, setup{Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}}))
	tm.expect("up")
	tm.press(ctrlC)
	tm.wantEnd(ExitStatus{Signal: unix.SIGINT})
}

// Ctrl-Z and fg under a job-control shell.
func TestJobControl(t *testing.T) {
	dir := t.TempDir()
	argv := append([]string{testBinary(t), roleShell, dir}, supervised(t, setup{Argv: workload(t, "jobs")})...)
	tm := startInTerminal(t, argv)
	job := tm.number("job")
	pid := tm.number("pid")
	for round := range 2 {
		tm.press(ctrlZ)
		tm.expect(fmt.Sprintf("stopped %d", int(unix.SIGTSTP)))
		for _, stopped := range []int{job, pid} {
			if got := processState(stopped); got != "T" {
				t.Fatalf("round %d: state of %d = %q; want stopped", round, stopped, got)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "fg"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tm.expect("got 18") // SIGCONT, to the group
		if err := unix.Kill(job, marker); err != nil {
			t.Fatal(err)
		}
		tm.expect(gotMarker)
	}
	// SIGTSTP to the supervisor alone stops neither, to the group both.
	for _, sig := range []syscall.Signal{unix.SIGTSTP, marker} {
		if err := unix.Kill(job, sig); err != nil {
			t.Fatal(err)
		}
	}
	tm.expect(gotMarker)
	for _, running := range []int{job, pid} {
		if got := processState(running); got == "T" {
			t.Fatalf("state of %d after a SIGTSTP to the supervisor = %q; want it running", running, got)
		}
	}
	if err := unix.Kill(-job, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	tm.expect(fmt.Sprintf("stopped %d", int(unix.SIGTSTP)))
	if got := processState(pid); got != "T" {
		t.Fatalf("state of the workload = %q; want stopped", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "fg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tm.expect("got 18")
	if err := unix.Kill(pid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	tm.expect("got 12", "ended exit status 7")
}

// A workload that handles Ctrl-Z and goes on keeps the supervisor running.
func TestStopKeyHandledByWorkload(t *testing.T) {
	dir := t.TempDir()
	argv := append([]string{testBinary(t), roleShell, dir}, supervised(t, setup{Argv: workload(t, "signals")})...)
	tm := startInTerminal(t, argv)
	job := tm.number("job")
	pid := tm.number("pid")
	tm.press(ctrlZ)
	tm.expect("got 20")
	if err := unix.Kill(job, marker); err != nil {
		t.Fatal(err)
	}
	tm.expect(gotMarker)
	if err := unix.Kill(pid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	tm.expect("got 12", "ended exit status 7")
}

// With "stty tostop" a line of our log, written in the background, must not stop the job.
func TestLogFromTheBackground(t *testing.T) {
	dir := t.TempDir()
	sup := supervised(t, setup{Argv: []string{"/bin/sh", "-c", "exit 3"}, AgentMode: "warn", Dir: dir})
	script := `set -m; stty tostop; "$@" & wait $!; echo "ended $?"`
	tm := startInTerminal(t, append([]string{"/bin/bash", "-c", script, "bash"}, sup...))
	for warnings := 0; ; {
		switch line := tm.line(); {
		case strings.Contains(line, "two lines"):
			warnings++
		case strings.HasPrefix(line, "ended"):
			if line != "ended 3" || warnings != 20 {
				t.Errorf("job: %q with %d warnings; want \"ended 3\" with 20", line, warnings)
			}
			return
		}
	}
}
