//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	// startLimit is how long vLLM may take until it answers: 50 to 120 s on two cores, and
	// two may start at a time.
	startLimit = 5 * time.Minute
	// stopLimit is how long it may take to end once it was told to.
	stopLimit = 60 * time.Second
)

// how says how to start a server.
type how struct {
	instrument []string // the launcher and its flags; none: plain
	terminal   bool     // in a terminal of its own
	statusFile string   // in a shell script that writes the server's exit status there
	env        []string
	flags      []string // of `vllm serve`
}

// withStatus is that script; like those of containers it waits for the server.
const withStatus = `"$@"; status=$?; echo "exit status $status" >"$0"; exit "$status"`

// server is a running vLLM, under instrument or not.
type server struct {
	t       *testing.T
	address string
	log     string
	cmd     *exec.Cmd
	tty     *os.File      // the terminal's other side
	ended   chan struct{} // closed when cmd has ended
}

// start starts a server; ready waits for it. It is gone when the test ends.
func start(t *testing.T, p parts, h how) *server {
	t.Helper()
	port := freePort(t)
	argv := slices.Concat([]string{p.serve, port, "--max-model-len", strconv.Itoa(maxModelLen)}, h.flags)
	if h.statusFile != "" {
		argv = slices.Concat([]string{"sh", "-c", withStatus, h.statusFile}, argv)
	}
	argv = slices.Concat(h.instrument, argv)
	s := &server{t: t, address: "127.0.0.1:" + port, ended: make(chan struct{})}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Env = append(cleanEnv(), h.env...)
	log := createLog(t, "server-"+port)
	s.log = log.Name()

	// A process group of its own, to know its processes by; and it ends if the test is killed.
	// It stays in our session unless it needs a terminal: with autogroups the scheduler
	// starves other sessions on the core that vLLM keeps busy (see package supervise), and
	// the clients, the Collector and the receiver are here.
	attr := &unix.SysProcAttr{Setpgid: !h.terminal, Setsid: h.terminal, Setctty: h.terminal, Pdeathsig: unix.SIGTERM}
	var err error
	if h.terminal {
		if s.tty, err = pty.StartWithAttrs(s.cmd, nil, attr); err == nil {
			go io.Copy(log, s.tty)
		}
	} else {
		s.cmd.Stdout, s.cmd.Stderr = log, log
		s.cmd.SysProcAttr = attr
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %v: %v", argv, err)
	}
	go func() {
		s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(s.kill)
	return s
}

// cleanEnv is our environment without what would change the agent's behaviour.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "ARMS_") &&
			(!strings.HasPrefix(name, "TOKENSCOPE_") || name == "TOKENSCOPE_CACHE") {
			env = append(env, kv)
		}
	}
	return env
}

// ready waits until the server answers.
func (s *server) ready() {
	s.t.Helper()
	began := time.Now()
	for time.Since(began) < startLimit {
		select {
		case <-s.ended:
			s.t.Fatalf("the server ended while it started: %s\n%s", s.status(), readTail(s.log))
		case <-time.After(250 * time.Millisecond):
		}
		response, err := http.Get("http://" + s.address + "/health")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			s.t.Logf("the server was ready after %.0f s", time.Since(began).Seconds())
			return
		}
	}
	s.t.Fatalf("the server was not ready after %v\n%s", startLimit, readTail(s.log))
}

// interrupt presses Ctrl-C in the server's terminal.
func (s *server) interrupt() {
	s.t.Helper()
	if _, err := s.tty.Write([]byte{3}); err != nil {
		s.t.Fatal(err)
	}
}

// stopped waits for the end and returns the exit status, as status words it.
func (s *server) stopped() string {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		s.t.Fatalf("the server was still there %v after it was told to end\n%s", stopLimit, readTail(s.log))
	}
	return s.status()
}

// status is the wait status of a process that has ended: "exit status 0", "signal: terminated".
func (s *server) status() string { return s.cmd.ProcessState.String() }

// kill ends the server for sure: its group has no other processes than its own.
func (s *server) kill() {
	select {
	case <-s.ended:
	default:
		s.cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(20 * time.Second):
		}
	}
	unix.Kill(-s.cmd.Process.Pid, unix.SIGKILL)
	<-s.ended
	if s.tty != nil {
		s.tty.Close()
	}
	if s.t.Failed() {
		s.t.Logf("server's log, %s:\n%s", s.log, readTail(s.log))
	}
}

// A process as /proc shows it.
type process struct {
	pid, parent, group int
	argv               []string
}

// processes lists those that ok accepts.
func processes(ok func(process) bool) []process {
	var found []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (comm) state ppid pgrp session …: comm may hold anything, but no later ")".
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
		fields := strings.Fields(string(rest))
		if len(fields) < 3 || fields[0] == "Z" {
			continue
		}
		var p process
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		p.parent, _ = strconv.Atoi(fields[1])
		p.group, _ = strconv.Atoi(fields[2])
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		p.argv = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		if ok(p) {
			found = append(found, p)
		}
	}
	return found
}

// agent is the pid of instrument's agent, 0 while there is none: its child that leads a
// process group of its own. One that was killed may be there still, while the kernel takes
// its probes off; it is told by not.
func (s *server) agent(not int) int {
	for _, p := range processes(func(p process) bool {
		return p.pid != not && p.parent == s.cmd.Process.Pid && p.group == p.pid && slices.Contains(p.argv, "agent")
	}) {
		return p.pid
	}
	return 0
}

// engineCore is the pid of the server's engine core, which has given itself that name.
func (s *server) engineCore() int {
	for _, p := range processes(func(p process) bool {
		return p.group == s.cmd.Process.Pid && strings.HasPrefix(p.argv[0], "VLLM::EngineCore")
	}) {
		return p.pid
	}
	return 0
}

// workload is the pids of all processes in the server's group but instrument itself. vLLM
// makes no groups of its own.
func (s *server) workload() []int {
	var pids []int
	for _, p := range processes(func(p process) bool {
		return p.group == s.cmd.Process.Pid && p.pid != s.cmd.Process.Pid
	}) {
		pids = append(pids, p.pid)
	}
	return pids
}

// replay runs `instrument replay` over a recording and returns its output.
func replay(t *testing.T, p parts, output, recording string) []byte {
	t.Helper()
	cmd := exec.Command(p.instrument, "replay", "--output", output, recording)
	cmd.Env = cleanEnv()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("replay --output %s: %v", output, err)
	}
	return out
}
