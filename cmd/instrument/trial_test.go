package main

// A trial runs the binary beside a server, and looks at all that comes of it.

import (
	"bytes"
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

	"golang.org/x/sys/unix"
)

// A trial is `instrument` run with a server.
type trial struct {
	t       *testing.T
	dir     string // the working directory of all its processes; empty but for what they leave
	ours    string // the test's own files
	cmd     *exec.Cmd
	env     []string
	stopped bool
}

// start runs the server under instrument with a core limit as high as may be, and returns
// when the agent watches. It skips where it may not: the server is a static program, which
// is seen with eBPF alone.
func start(t *testing.T, env []string, flags ...string) *trial {
	t.Helper()
	r := &trial{t: t, dir: t.TempDir(), ours: t.TempDir(), env: env}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", `ulimit -c unlimited 2>/dev/null || ulimit -c "$(ulimit -H -c)"; exec "$0" "$@"`, binary, "--capture", "ebpf"}, flags...)
	r.cmd = exec.Command("/bin/sh", append(args, "--", self, roleServer, r.ours)...)
	r.cmd.Dir, r.cmd.Env = r.dir, env
	stdout, err := os.Create(filepath.Join(r.ours, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := os.Create(filepath.Join(r.ours, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stderr.Close() }()
	r.cmd.Stdout, r.cmd.Stderr = stdout, stderr // files: a pipe would have Wait wait for the agent
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	r.wait("the server listens", func() bool { return exists(filepath.Join(r.ours, "port")) })
	r.wait("the agent is ready or says why not", func() bool {
		return strings.Contains(r.said(), "agent is ready") || strings.Contains(r.said(), "agent failed")
	})
	if strings.Contains(r.said(), "agent failed") {
		r.stop()
		r.check()
		t.Skipf("the agent cannot watch here, so nothing is exported:\n%s", r.said())
	}
	return r
}

func (r *trial) wait(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not so in time: %s\n%s", what, r.said())
		}
	}
}

// said is what has come on standard error.
func (r *trial) said() string {
	text, err := os.ReadFile(filepath.Join(r.ours, "stderr"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// ask sends the server a request.
func (r *trial) ask() {
	r.t.Helper()
	port, err := os.ReadFile(filepath.Join(r.ours, "port"))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.Post("http://127.0.0.1:"+string(port)+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		r.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// processes are the supervisor, and its children: workload and agent.
func (r *trial) processes() []int {
	pids := []int{r.cmd.Process.Pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(r.cmd.Process.Pid) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				r.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// agent is the agent's process.
func (r *trial) agent() int {
	r.t.Helper()
	for _, pid := range r.processes()[1:] {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if slices.Contains(strings.Split(string(line), "\x00"), "agent") {
			return pid
		}
	}
	r.t.Fatalf("no agent among %v", r.processes())
	return 0
}

// checkArguments looks at what everybody on the machine sees.
func (r *trial) checkArguments() {
	r.t.Helper()
	pids := r.processes()
	if len(pids) < 3 {
		r.t.Errorf("%d processes; want supervisor, workload and agent", len(pids))
	}
	for _, pid := range pids {
		for _, name := range []string{"cmdline", "comm"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err != nil {
				r.t.Error(err)
			}
			checkClean(r.t, fmt.Sprintf("/proc/%d/%s", pid, name), data)
		}
	}
}

// stop ends the server and waits for all processes.
func (r *trial) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	pids := r.processes()
	if err := os.WriteFile(filepath.Join(r.ours, "stop"), nil, 0o600); err != nil {
		r.t.Error(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("instrument: %v\n%s", err, r.said())
	}
	for _, pid := range pids { // the agent outlives its supervisor while it has something to send
		r.wait("the agent ends", func() bool { return unix.Kill(pid, 0) != nil })
	}
}

// check looks, after stop, at all that the run has left.
func (r *trial) check() {
	r.t.Helper()
	for _, dir := range []string{r.dir, r.ours} {
		files, err := os.ReadDir(dir)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, f := range files {
			if dir == r.ours && f.Name() == "env" {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				r.t.Fatal(err)
			}
			checkClean(r.t, f.Name(), data)
			if strings.HasPrefix(f.Name(), "core") {
				r.t.Errorf("%s: a core file of %d bytes; want none of ours", f.Name(), len(data))
			}
		}
	}
	got, err := os.ReadFile(filepath.Join(r.ours, "env"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range strings.Split(string(got), "\x00") {
		if slices.Contains(r.env, v) {
			continue
		}
		checkClean(r.t, "a variable of the workload that nobody set", []byte(v))
	}
	for _, v := range r.env {
		if name, _, _ := strings.Cut(v, "="); name != "LD_PRELOAD" && !slices.Contains(strings.Split(string(got), "\x00"), v) {
			r.t.Errorf("the workload has not got %s as it was set", name)
		}
	}
}
