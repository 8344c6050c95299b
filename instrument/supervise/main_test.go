package supervise

// The test binary plays every part: started with a role as its first argument it is a
// supervisor, an agent, a workload or a job-control shell, else it runs the tests. What
// is tested is always a real process seen from outside.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	roleSupervisor = "@supervisor"
	roleAgent      = "@agent"
	roleWorkload   = "@workload"
	roleShell      = "@shell"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleSupervisor:
			beSupervisor(os.Args[2])
		case roleAgent:
			beAgent(os.Args[2], os.Args[3])
		case roleWorkload:
			beWorkload(os.Args[2])
		case roleShell:
			beShell(os.Args[2:])
		}
	}
	// The race detector's second of sleep at each process's exit helps none of ours.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// supervised returns the command line of a supervisor with this set-up.
func supervised(t *testing.T, s setup) []string {
	t.Helper()
	arg, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return []string{testBinary(t), roleSupervisor, string(arg)}
}

func testBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// workload returns the command line of the workload role.
func workload(t *testing.T, mode string) []string {
	t.Helper()
	return []string{testBinary(t), roleWorkload, mode}
}

// A proc is a process that a test has started, mostly a supervisor.
type proc struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // of its standard output
	stderr bytes.Buffer
	stdin  io.WriteCloser
}

// start runs a command in a session of its own, where no terminal interferes. It is
// killed at the end of the test.
func start(t *testing.T, argv []string, change ...func(*exec.Cmd)) *proc {
	t.Helper()
	p := &proc{t: t, cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1024)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Stderr = &p.stderr
	// An agent that is left alone holds our standard error.
	p.cmd.WaitDelay = 200 * time.Millisecond
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = w
	for _, f := range change {
		f(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", argv, err)
	}
	w.Close()
	t.Cleanup(func() {
		endSession(p.cmd)
		r.Close()
	})
	go p.readLines(r)
	return p
}

// endSession kills a session leader that a failed test has left, and all of its session:
// a job in a process group of its own would live on.
func endSession(leader *exec.Cmd) {
	if leader.ProcessState != nil {
		return // waited for; its PID may be another process by now
	}
	_ = leader.Process.Kill()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if statField(pid, 6) == strconv.Itoa(leader.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = leader.Wait()
}

func (p *proc) readLines(r io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(r)
	for s.Scan() {
		p.lines <- strings.TrimSuffix(s.Text(), "\r")
	}
}

// line returns the next line of standard output.
func (p *proc) line() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("standard output ended; standard error: %s", p.stderr.String())
		}
		return line
	case <-time.After(patience):
		p.t.Fatalf("no line on standard output; standard error: %s", p.stderr.String())
	}
	return ""
}

// expect fails the test unless the next lines are these.
func (p *proc) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if got := p.line(); got != w {
			p.t.Fatalf("line = %q; want %q", got, w)
		}
	}
}

// number returns the number after a word that the next line must begin with.
func (p *proc) number(word string) int {
	p.t.Helper()
	line := p.line()
	n, err := strconv.Atoi(strings.TrimPrefix(line, word+" "))
	if err != nil {
		p.t.Fatalf("line = %q; want %q and a number; standard error: %s", line, word, p.stderr.String())
	}
	return n
}

func (p *proc) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v: %v", sig, err)
	}
}

// wait returns how the process ended and the rest of its standard output.
func (p *proc) wait() (ExitStatus, string) {
	p.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		p.t.Fatalf("wait: %v", err)
	}
	var rest []string
	for line := range p.lines {
		rest = append(rest, line)
	}
	return exitStatusOf(p.cmd.ProcessState.Sys().(syscall.WaitStatus)), strings.Join(rest, "\n")
}

func (p *proc) wantEnd(want ExitStatus) {
	p.t.Helper()
	got, _ := p.wait()
	if got != want {
		p.t.Fatalf("supervisor ended with %v; want %v; standard error: %s", got, want, p.stderr.String())
	}
}

// waitFor polls for something that nothing announces.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// agentLog returns the lines of the agent's log that begin with word, without it.
func agentLog(dir, word string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, "agent.log"))
	var out []string
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// statField returns a field of /proc/PID/stat, counted as in proc(5); "" where the
// process is gone.
func statField(pid, field int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)[field-3]
}

func processState(pid int) string { return statField(pid, 3) }
