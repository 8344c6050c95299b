package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A fakeShim puts a variable into the workload's environment, and leaves the file
// DIR/abandoned.
type fakeShim struct {
	file *os.File
	dir  string
	kind string // shimRefused, shimHuge, or anything else
}

const (
	shimRefused = "refused" // cannot be put in
	shimHuge    = "huge"    // needs an environment that no kernel takes
)

func newFakeShim(dir, kind string) *fakeShim {
	f, err := os.Create(filepath.Join(dir, "ring"))
	if err != nil {
		panic(err)
	}
	return &fakeShim{file: f, dir: dir, kind: kind}
}

func (s *fakeShim) File() *os.File { return s.file }

func (s *fakeShim) Inject(env []string) ([]string, error) {
	with := append(slices.Clone(env), "SHIM=in")
	switch s.kind {
	case shimRefused:
		return nil, errors.New("no folder allows execution")
	case shimHuge:
		// Whatever the stack's limit, 6 MiB is the end (fs/exec.c: three quarters of _STK_LIM).
		for range 64 {
			with = append(with, "PAD="+strings.Repeat("x", 100<<10))
		}
	}
	return with, nil
}

func (s *fakeShim) Abandon() {
	if err := os.WriteFile(filepath.Join(s.dir, "abandoned"), nil, 0o600); err != nil {
		panic(err)
	}
}

func TestWorkloadCarriesTheShim(t *testing.T) {
	for _, c := range []struct {
		name      string
		shim      string
		agent     string
		readyMs   int
		want      string // of the workload's variable
		stderr    string // is contained
		abandoned bool
	}{
		{name: "the agent needs it", shim: "yes", agent: "ready", want: "in"},
		{name: "the agent needs none", shim: "yes", agent: "noshim", want: ""},
		{name: "the agent is late to say", shim: "yes", agent: "silent", readyMs: 50, want: "in"},
		{name: "the agent fails", shim: "yes", agent: "failed", want: "", abandoned: true},
		{name: "there is none", shim: "", agent: "ready", want: ""},
		{name: "no agent is wanted", shim: "yes", agent: "", want: ""},
		{name: "it cannot be put in", shim: shimRefused, agent: "ready", want: "", stderr: `error="no folder allows execution"`},
		{name: "the kernel takes no more", shim: shimHuge, agent: "ready", want: "", stderr: "raise the stack limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ready := c.readyMs
			if ready == 0 {
				ready = 3_600_000
			}
			p := start(t, supervised(t, setup{
				Argv: []string{"/bin/sh", "-c", "echo shim=$SHIM; exit 3"}, AgentMode: c.agent, Dir: dir, Shim: c.shim, ReadyMs: ready,
			}))
			p.expect("shim=" + c.want)
			p.wantEnd(ExitStatus{Code: 3})
			if !strings.Contains(p.stderr.String(), c.stderr) {
				t.Errorf("standard error = %q; want %q in it", p.stderr.String(), c.stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "abandoned")); (err == nil) != c.abandoned {
				t.Errorf("abandoned: %v; want %v", err == nil, c.abandoned)
			}
			want := []string{strconv.FormatBool(c.shim != "")}
			if c.agent == "" {
				want = nil
			}
			if got := agentLog(dir, "shim"); !slices.Equal(got, want) {
				t.Errorf("the agent's Shim() is there = %q; want %q", got, want)
			}
		})
	}
}

// A second agent gets the shim's file only where the workload carries the shim.
func TestRestartedAgentFindsTheShim(t *testing.T) {
	for _, c := range []struct {
		agent, shim string
		want        []string
	}{
		{"ready", "yes", []string{"true", "true"}},
		{"noshim", "yes", []string{"true", "false"}},
		{"ready", shimHuge, []string{"true", "false"}},
	} {
		t.Run(c.agent+"/"+c.shim, func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, supervised(t, setup{Argv: workload(t, "signals"), AgentMode: c.agent, Dir: dir, Shim: c.shim}))
			pid := p.number("pid")
			agent, err := strconv.Atoi(agentLog(dir, "ready")[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(agent, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "second agent", func() bool { return len(agentLog(dir, "ready")) == 2 })
			p.finish(pid)
			if got := agentLog(dir, "shim"); !slices.Equal(got, c.want) {
				t.Errorf("the agents' Shim() is there = %q; want %q", got, c.want)
			}
		})
	}
}

// The workload keeps its core limit, the supervisor writes no core file.
func TestCoreLimit(t *testing.T) {
	raise := []string{"/bin/sh", "-c", `ulimit -S -c "$(ulimit -H -c)"; exec "$@"`, "sh"}
	p := start(t, append(raise, supervised(t, setup{Argv: []string{"/bin/sh", "-c", "ulimit -S -c; echo $PPID; read x; ulimit -S -c"}})...))
	before := p.line()
	if before == "0" {
		t.Skip("the hard limit of core files is 0 here")
	}
	parent, err := strconv.Atoi(p.line())
	if err != nil {
		t.Fatal(err)
	}
	var own, limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &own); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "supervisor without core file", func() bool {
		return unix.Prlimit(parent, unix.RLIMIT_CORE, nil, &limit) == nil && limit.Cur <= 1
	})
	if limit.Max != own.Max {
		t.Errorf("hard limit of the supervisor = %d; want %d, untouched", limit.Max, own.Max)
	}
	if _, err := p.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if after := p.line(); after != before {
		t.Errorf("core limit of the workload = %q, then %q; want it untouched", before, after)
	}
	p.wantEnd(ExitStatus{})
}
