package supervise

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestAgentIsReadyFirstAndDrainsLast(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "agent.log")
	// The workload sees the agent's log as it is at its first instruction.
	p := start(t, supervised(t, setup{Argv: []string{"/bin/cat", log}, AgentMode: "ready", Dir: dir}))
	status, out := p.wait()
	if status != (ExitStatus{}) || !strings.HasPrefix(out, "started ") {
		t.Errorf("workload saw %q and ended with %v; want the agent started before it", out, status)
	}
	if got := agentLog(dir, "drained"); len(got) != 1 {
		t.Errorf("agents drained = %q; want one before the supervisor's end", got)
	}
	if got := p.stderr.String(); got != "" {
		t.Errorf("standard error = %q; want nothing", got)
	}
}

func TestAgentKilledIsRestarted(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "ready", Dir: dir}))
	pid := p.number("pid")
	for n := 1; n <= 3; n++ {
		waitFor(t, "agent ready", func() bool { return len(agentLog(dir, "ready")) == n })
		agent, err := strconv.Atoi(agentLog(dir, "ready")[n-1])
		if err != nil {
			t.Fatal(err)
		}
		if n == 3 {
			break
		}
		if group, session := statField(agent, 5), statField(agent, 6); group != strconv.Itoa(agent) || session != statField(pid, 6) {
			t.Errorf("agent %d is in group %q of session %q; want a group of its own in the supervisor's session", agent, group, session)
		}
		if err := unix.Kill(agent, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	p.signal(marker)
	p.expect(gotMarker)
	p.finish(pid)
	if got := agentLog(dir, "drained"); len(got) != 1 {
		t.Errorf("agents drained = %q; want the last one only", got)
	}
	if got := strings.Count(p.stderr.String(), "agent ended, will be restarted"); got != 2 {
		t.Errorf("restarts in the log = %d; want 2: %s", got, p.stderr.String())
	}
	if got := agentLog(dir, "number"); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("AgentStart() in the agents = %q; want 1, 2, 3", got)
	}
}

// The supervisor is signalled; the agent is in another group and ignores what comes
// to it all the same.
func TestAgentIgnoresSignals(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: "ready", Dir: dir}))
	pid := p.number("pid")
	waitFor(t, "agent ready", func() bool { return len(agentLog(dir, "ready")) == 1 })
	agent, err := strconv.Atoi(agentLog(dir, "ready")[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if err := unix.Kill(agent, sig); err != nil {
			t.Fatal(err)
		}
	}
	p.finish(pid)
	if got := agentLog(dir, "drained"); !slices.Equal(got, []string{strconv.Itoa(agent)}) {
		t.Errorf("agents drained = %q; want the first, %d", got, agent)
	}
}

func TestWorkloadRunsWhateverTheAgentDoes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*setup)
		stderr string // is contained
		times  int
	}{
		{"never ready", func(s *setup) { s.AgentMode, s.ReadyMs = "silent", 50 }, "agent is not ready", 1},
		{"cannot be started", func(s *setup) { s.AgentPath = "/no/such/agent" }, "start agent: no such file or directory", 1},
		{"fails for good", func(s *setup) { s.AgentMode = "failed" }, `agent failed: the workload runs on without it" reason="no kernel support"`, 1},
		{"does not end", func(s *setup) { s.AgentMode, s.FlushMs = "stuck", 50 }, "the server has ended with its own status; the agent is still sending spans in the background", 1},
		{"warns", func(s *setup) { s.AgentMode = "warn" }, `msg="two lines" from=agent`, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := setup{Argv: []string{"/bin/sh", "-c", "echo ran; exit 3"}, AgentMode: "ready", Dir: dir, ReadyMs: 3_600_000}
			c.change(&s)
			p := start(t, supervised(t, s))
			p.expect("ran")
			p.wantEnd(ExitStatus{Code: 3})
			if got := strings.Count(p.stderr.String(), c.stderr); got != c.times {
				t.Errorf("%q in standard error %d times; want %d: %s", c.stderr, got, c.times, p.stderr.String())
			}
			if s.AgentMode == "stuck" { // left alone, which is what the test wants to see
				pid, err := strconv.Atoi(agentLog(dir, "ready")[0])
				if err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
					t.Errorf("agent %d is gone (%v); want it left alone", pid, err)
				}
			}
		})
	}
}

// An agent that has closed its status pipe is not waited for, however long it lives on.
func TestDrainedAgentIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	p := start(t, supervised(t, setup{
		Argv: []string{"/bin/sh", "-c", "exit 3"}, AgentMode: "drained", Dir: dir, FlushMs: 3_600_000,
	}))
	p.wantEnd(ExitStatus{Code: 3})
	agent, err := strconv.Atoi(agentLog(dir, "drained")[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := p.stderr.String(); got != "" {
		t.Errorf("standard error = %q; want nothing", got)
	}
	waitFor(t, "status pipe closed", func() bool { return len(agentLog(dir, "closed")) == 1 })
	if got := agentLog(dir, "closed"); got[0] != "<nil> false false false" {
		t.Errorf("AgentSide.Close() error, descriptors 3 to 5 open = %q; want <nil> false false false", got[0])
	}
	if got := agentLog(dir, "started"); len(got) != 1 {
		t.Errorf("agents started = %q; want no other after the drained one", got)
	}
	if err := unix.Kill(agent, unix.SIGKILL); err != nil {
		t.Errorf("kill agent %d: %v; want it left alone and alive", agent, err)
	}
}

// A supervisor that does not read holds up neither Close nor the end of the pipe.
func TestAgentSideClosesUnderASend(t *testing.T) {
	defer goleak.VerifyNone(t)
	var lifeline, status [2]int // read end, write end
	for _, pipe := range []*[2]int{&lifeline, &status} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
	}
	defer unix.Close(lifeline[1])
	for {
		if _, err := unix.Write(status[1], make([]byte, 4096)); err != nil {
			break // full
		}
	}
	side := newAgentSide(os.NewFile(uintptr(lifeline[0]), "lifeline"), os.NewFile(uintptr(status[1]), "status"), nil)
	sent := make(chan error)
	go func() { sent <- side.Warn("does not fit") }()
	if err := side.Close(); err != nil {
		t.Errorf("Close() = %v; want nil", err)
	}
	if err := <-sent; err == nil {
		t.Error("Warn() = nil with a full pipe; want an error")
	}
	select {
	case <-side.Done():
	default:
		t.Error("Done() is open after Close; want it closed")
	}
	r := os.NewFile(uintptr(status[0]), "status")
	defer r.Close()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("read status pipe after Close: %v; want its end", err)
	}
}

func testKeeper(t *testing.T, mode, dir string) *keeper {
	t.Helper()
	reap := newReaper()
	log := newLineLog(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { reap.close(); log.close(); goleak.VerifyNone(t) })
	return newKeeper(AgentOptions{
		Path: testBinary(t), Args: []string{roleAgent, mode, dir}, Env: os.Environ(),
	}, &shimState{}, reap, log)
}

func TestFailedAgentIsNotRestarted(t *testing.T) {
	dir := t.TempDir()
	k := testKeeper(t, "failed", dir)
	select {
	case <-k.done: // without having been closed
	case <-time.After(patience):
		t.Fatal("the keeper runs on after a failed agent; want it to end")
	}
	if got := agentLog(dir, "started"); len(got) != 1 {
		t.Errorf("agents started = %q; want one", got)
	}
	if !k.close(patience) {
		t.Error("close() = false after the end; want true")
	}
}

func TestKeeperClosesWhileItWaitsToRestart(t *testing.T) {
	k := testKeeper(t, "ready", "/no/such/directory")
	<-k.settled // the agent ended: it cannot open its log
	if !k.close(patience) {
		t.Error("close() = false; want the keeper to end")
	}
}

func TestDeathRow(t *testing.T) {
	ms := time.Millisecond
	var row deathRow
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 5000 * ms}
	for i, w := range want {
		if got, again := row.next(time.Second); got != w || !again {
			t.Errorf("death %d: next(1s) = %v, %v; want %v, true", i+1, got, again, w)
		}
	}
	if got, again := row.next(time.Second); again {
		t.Errorf("death 10: next(1s) = %v, true; want no other start", got)
	}
	if got, again := row.next(healthyLife); got != 100*ms || !again {
		t.Errorf("death after a healthy life: next(30s) = %v, %v; want 100ms, true", got, again)
	}
}

func TestOpenAgentSideWithoutSupervisor(t *testing.T) {
	// The test binary's own descriptors 3 and 4 are no pipes of a supervisor. Whatever
	// they are, a role started here has neither.
	dir := t.TempDir()
	p := start(t, []string{testBinary(t), roleAgent, "ready", dir})
	p.wantEnd(ExitStatus{Code: 91})
	if got := agentLog(dir, "error"); !slices.Equal(got, []string{ErrNoSupervisor.Error()}) {
		t.Errorf("OpenAgentSide() error = %q; want %q", got, ErrNoSupervisor)
	}
}

func FuzzReadStatus(f *testing.F) {
	for _, seed := range []string{
		"ready\n", "failed no BTF\n", "warn ring is small\nready\n", "", "\n", "ready", "fail\n",
		"watch\nready\n", "watch", "watchful\n",
		"nonsense \x00\xff\n", strings.Repeat("x", 3*maxStatusLine) + "\nfailed\n",
	} {
		f.Add([]byte(seed))
	}
	log := newLineLog(slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, in []byte) {
		k := &keeper{shim: &shimState{}, log: log, settled: make(chan struct{})}
		rest := strings.NewReader(string(in))
		watches := 0
		got := k.readStatus(rest, func() { watches++ })
		if n, _ := io.Copy(io.Discard, rest); n != 0 {
			t.Errorf("readStatus(%q) left %d bytes; want all read", in, n)
		}
		failed, settled, wantWatches := false, false, 0
		for _, line := range strings.Split(string(in), "\n") {
			if len(line) >= maxStatusLine {
				break // nothing after it counts
			}
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
			if word == statusWatch {
				wantWatches++
			}
			failed = failed || word == statusFailed
			settled = settled || word == statusFailed || word == statusReady
		}
		if got != failed {
			t.Errorf("readStatus(%q) = %v; want %v", in, got, failed)
		}
		if watches != wantWatches {
			t.Errorf("readStatus(%q) called watch %d times; want %d", in, watches, wantWatches)
		}
		select {
		case <-k.settled:
			if !settled {
				t.Errorf("readStatus(%q) settled; want not", in)
			}
		default:
			if settled {
				t.Errorf("readStatus(%q) did not settle", in)
			}
		}
	})
}
