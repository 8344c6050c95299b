package supervise

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// agentPID returns the PID of the agent that was the nth to be ready, from 1.
func agentPID(t *testing.T, dir string, n int) int {
	t.Helper()
	waitFor(t, "agent ready", func() bool { return len(agentLog(dir, "ready")) >= n })
	pid, err := strconv.Atoi(agentLog(dir, "ready")[n-1])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A killed agent that cannot be reaped is replaced. A tracer that does not wait for the
// agent keeps it from its parent, as the kernel does while it takes probes off.
func TestUnreapableAgentIsReplaced(t *testing.T) {
	runtime.LockOSThread() // the tracer
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "ready", Dir: dir}))
	pid := p.number("pid")
	first := agentPID(t, dir, 1)
	if err := unix.PtraceSeize(first); err != nil {
		t.Skipf("no process can be traced here: %v", err)
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	agentPID(t, dir, 2)
	if got := processState(first); got != "Z" {
		t.Errorf("state of the killed agent = %q; want it not reaped yet", got)
	}
	if _, err := unix.Wait4(first, nil, unix.WALL, nil); err != nil {
		t.Fatalf("wait for the traced agent: %v", err)
	}
	waitFor(t, "killed agent reaped", func() bool { return processState(first) == "" })
	p.finish(pid)
	wantTwoAgents(t, dir, p)
	if got := p.stderr.String(); !strings.Contains(got, `msg="earlier agent has left"`) || !strings.Contains(got, `how="signal: killed"`) {
		t.Errorf("standard error = %q; want how the first agent ended", got)
	}
}

// wantTwoAgents checks, after the supervisor's end, that the second agent replaced the
// first and was told to end, and that the first one's exit did nothing.
func wantTwoAgents(t *testing.T, dir string, p *proc) {
	t.Helper()
	if got := agentLog(dir, "number"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("AgentStart() in the agents = %q; want 1, 2", got)
	}
	ready := agentLog(dir, "ready")
	if got := agentLog(dir, "drained"); len(ready) != 2 || !slices.Equal(got, ready[1:]) {
		t.Errorf("agents drained = %q of %q; want the second", got, ready)
	}
	if got := strings.Count(p.stderr.String(), "agent ended, will be restarted"); got != 1 {
		t.Errorf("restarts in the log = %d; want 1: %s", got, p.stderr.String())
	}
}

// An agent without its lock is replaced, though it never ends, and is told to end.
func TestAgentWithoutItsLockIsReplaced(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "half dead", Dir: dir}))
	pid := p.number("pid")
	first, second := agentPID(t, dir, 1), agentPID(t, dir, 2)
	waitFor(t, "first agent told to end", func() bool { return len(agentLog(dir, "told")) == 1 })
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatalf("kill agent %d: %v; want it alive", first, err)
	}
	waitFor(t, "first agent reaped", func() bool { return processState(first) == "" })
	if got := processState(second); got == "" || got == "Z" {
		t.Errorf("state of the second agent = %q; want it running", got)
	}
	p.finish(pid)
	wantTwoAgents(t, dir, p)
}

func TestPID1ReapsAReplacedAgent(t *testing.T) {
	dir := t.TempDir()
	p := startAsPID1(t, setup{Argv: workload(t, "signals"), AgentMode: "half dead", Dir: dir})
	p.number("pid")
	first, pid1 := agentPID(t, dir, 1), p.cmd.Process.Pid
	agentPID(t, dir, 2)
	waitFor(t, "first agent told to end", func() bool { return len(agentLog(dir, "told")) == 1 })
	all := children(pid1)
	if len(all) != 3 {
		t.Fatalf("children of PID 1 = %v; want the workload and two agents", all)
	}
	i := slices.IndexFunc(all, func(pid int) bool { return innerPID(pid) == first })
	if i < 0 {
		t.Fatalf("children of PID 1 = %v; want one that is %d in the namespace", all, first)
	}
	if err := unix.Kill(all[i], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "first agent reaped", func() bool { return len(children(pid1)) == 2 })
	p.signal(unix.SIGUSR2)
	p.expect("got 12")
	p.wantEnd(ExitStatus{Code: 7})
	wantTwoAgents(t, dir, p)
}

// innerPID is the PID of a process in its own PID namespace, 0 where it is gone.
func innerPID(pid int) int {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(b)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(pids)
			n, _ := strconv.Atoi(f[len(f)-1])
			return n
		}
	}
	return 0
}

// An agent that was told to end and dies of it is neither replaced nor waited for.
func TestAgentDyingAsToldIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	k := testKeeper(t, "lingers", dir)
	<-k.settled
	agent := agentPID(t, dir, 1)
	if !k.close(patience) {
		t.Error("close() = false while the agent is dying; want true")
	}
	if got := agentLog(dir, "started"); len(got) != 1 {
		t.Errorf("agents started = %q; want one", got)
	}
	if err := unix.Kill(agent, unix.SIGKILL); err != nil {
		t.Errorf("kill agent %d: %v; want it left alone and alive", agent, err)
	}
}

// An agent that finds no file for its lock works, and does not ask to be watched.
func TestAgentSideWithoutALock(t *testing.T) {
	lifelineR, lifelineW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer statusR.Close()
	p := start(t, []string{testBinary(t), roleAgent, "ready", t.TempDir()}, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{lifelineR, statusW}
	})
	lifelineR.Close()
	statusW.Close()
	lifelineW.Close()
	_ = statusR.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(statusR); err != nil || string(got) != "ready\n" {
		t.Errorf("status lines = %q, %v; want ready alone", got, err)
	}
	p.wantEnd(ExitStatus{})
}

func TestTakeLifeLock(t *testing.T) {
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer other.Close()
	life, err := newLifeLock()
	if err != nil {
		t.Fatal(err)
	}
	defer life.close()
	for _, c := range []struct {
		name string
		fd   int
		want bool
	}{
		{"life lock", life.fd, true},
		{"pipe", int(other.Fd()), false},
		{"no descriptor", -1, false},
	} {
		if got := takeLifeLock(c.fd); got != c.want {
			t.Errorf("%s: takeLifeLock(%d) = %v; want %v", c.name, c.fd, got, c.want)
		}
	}
}

// Where the system gives no file, nothing is ever said to be gone, and nothing waits.
func TestLifeLockWithoutAFile(t *testing.T) {
	defer goleak.VerifyNone(t)
	life := &lifeLock{fd: -1, gone: make(chan struct{})}
	life.watch()
	select {
	case <-life.gone:
		t.Error("gone is closed without a lock; want it open")
	default:
	}
	life.close()
	if uintptr(life.fd) != closedFD {
		t.Errorf("descriptor for the agent = %#x; want closedFD", uintptr(life.fd))
	}
}

func TestAgentEnv(t *testing.T) {
	for _, c := range []struct {
		name      string
		env, want []string
	}{
		{"empty", nil, []string{"TOKENSCOPE_AGENT_START=2"}},
		{"others stay as they are", []string{"B=", "A", "A=1"}, []string{"B=", "A", "A=1", "TOKENSCOPE_AGENT_START=2"}},
		{"another supervisor's number", []string{"TOKENSCOPE_AGENT_START=7", "A=1", "TOKENSCOPE_AGENT_START=8"}, []string{"A=1", "TOKENSCOPE_AGENT_START=2"}},
		{"a longer name", []string{"TOKENSCOPE_AGENT_STARTED=7"}, []string{"TOKENSCOPE_AGENT_STARTED=7", "TOKENSCOPE_AGENT_START=2"}},
	} {
		before := slices.Clone(c.env)
		if got := agentEnv(c.env, 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: agentEnv(%q, 2) = %q; want %q", c.name, before, got, c.want)
		}
		if !slices.Equal(c.env, before) {
			t.Errorf("%s: agentEnv changed its argument to %q; want %q", c.name, c.env, before)
		}
	}
}

func TestAgentStart(t *testing.T) {
	for value, want := range map[string]int{"1": 1, "12": 12, "": 0, "0": 0, "-1": 0, "two": 0, "99999999999999999999": 0} {
		t.Setenv(agentStartVar, value)
		if got := AgentStart(); got != want {
			t.Errorf("AgentStart() with %q = %d; want %d", value, got, want)
		}
	}
}

// The number of an outer supervisor's agent is not ours, and the workload keeps it.
func TestAgentStartIsNotInherited(t *testing.T) {
	t.Setenv(agentStartVar, "7")
	dir := t.TempDir()
	p := start(t, supervised(t, setup{
		Argv: []string{"/bin/sh", "-c", "echo $" + agentStartVar}, AgentMode: "ready", Dir: dir,
	}))
	p.expect("7")
	p.wantEnd(ExitStatus{})
	if got := agentLog(dir, "number"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("AgentStart() in the agent = %q; want 1", got)
	}
}

// A keeper that cannot start an agent leaves no file of its locks behind.
func TestFailedStartClosesTheLock(t *testing.T) {
	reap := newReaper()
	log := newLineLog(slog.New(slog.DiscardHandler))
	defer func() { reap.close(); log.close(); goleak.VerifyNone(t) }()
	k := &keeper{opt: AgentOptions{Path: "/no/such/agent"}, shim: &shimState{}, reap: reap, log: log}
	if _, err := k.startAgent(); err == nil {
		t.Fatal("startAgent() = nil error; want no such file")
	}
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if name, _ := os.Readlink(link); strings.Contains(name, lifeLockName) {
			t.Errorf("%s is still open: %s", link, name)
		}
	}
}
