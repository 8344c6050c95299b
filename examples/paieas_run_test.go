//go:build e2e

package examples

// The run command of examples/pai-eas as an instance runs it: a shell as PID 1 of its own
// namespaces, to which the platform sends SIGTERM.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startLimit is for three small programs and the agent's start.
	startLimit = 20 * time.Second
	// deaf is how long SIGTERM is waited for where it must not arrive.
	deaf = 2 * time.Second
)

// armsScript is the vendor's own shape, variables before the command, with our names in it.
func armsScript(script string) string {
	return strings.Replace(script, "exec $(command", "ARMS_APP_NAME=qwen3-8b ARMS_REGION_ID=cn-hangzhou exec $(command", 1)
}

func TestEASRunCommand(t *testing.T) {
	if os.Geteuid() != 0 {
		cannot(t, "making a PID namespace needs root")
	}
	for _, program := range []string{"dash", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			cannot(t, program+" is not installed")
		}
	}
	script := readService(t, "pai-eas/service.json").Containers[0].Script
	before := readService(t, "pai-eas/before.json").Containers[0].Script
	for _, c := range []struct {
		name, script string
		broken       bool // nothing of ours could be installed
		instrument   bool // it is there, in front of the engine
		told         bool // the engine gets SIGTERM
	}{
		{name: "service.json", script: script, instrument: true, told: true},
		{name: "variables before exec, as in ARMS' command", script: armsScript(script), instrument: true, told: true},
		{name: "the install failed", script: script, broken: true, told: true},
		{name: "without exec", script: strings.Replace(script, "exec ", "", 1), instrument: true, told: false},
		{name: "before.json", script: before, told: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := startInstance(t, c.script, c.broken)
			if !i.says("engine: ready") {
				t.Fatalf("the engine does not come up:\n%s", i.output())
			}
			checkPorts(t, i, 8000)
			if got := i.runs("instrument"); got != c.instrument {
				t.Errorf("instrument runs: %v; want %v", got, c.instrument)
			}
			if got := i.get(t, "http://127.0.0.1:8000/health"); got != "200 engine" {
				t.Errorf("/health = %q; want the engine's own answer", got)
			}

			if err := unix.Kill(i.first, unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if !c.told {
				select {
				case <-i.ended:
					t.Errorf("ended by SIGTERM; want it lost in the shell:\n%s", i.output())
				case <-time.After(deaf):
				}
				if strings.Contains(i.output(), "SIGTERM") {
					t.Error("the engine got SIGTERM; want it lost in the shell")
				}
				return
			}
			select {
			case <-i.ended:
			case <-time.After(startLimit):
				t.Fatalf("still running after SIGTERM:\n%s", i.output())
			}
			if !strings.Contains(i.output(), "engine: SIGTERM") {
				t.Errorf("the engine was not told:\n%s", i.output())
			}
			if got := i.cmd.ProcessState.ExitCode(); got != engineStatus {
				t.Errorf("exit status %d; want the engine's, %d", got, engineStatus)
			}
		})
	}
}

// instance is a container's worth of namespaces with a shell as its PID 1.
type instance struct {
	cmd   *exec.Cmd
	first int           // its PID 1, as seen from here
	ended chan struct{} // closed when it has ended

	mu  sync.Mutex
	out bytes.Buffer
}

func (i *instance) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.out.Write(p)
}

func (i *instance) output() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.out.String()
}

// says waits for what, or for the instance's end.
func (i *instance) says(what string) bool {
	return within(startLimit, func() bool { return strings.Contains(i.output(), what) })
}

func within(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

// startInstance runs script with the image's programs played by small ones.
func startInstance(t *testing.T, script string, broken bool) *instance {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	install := "exit 0"
	if broken {
		install = "echo no such package >&2; exit 1"
	} else if err := os.Symlink(instrument, filepath.Join(bin, "instrument")); err != nil {
		t.Fatal(err)
	}
	for name, does := range map[string]string{
		"nvidia-smi": "echo 1",
		"pip3":       install,
		"bootstrap":  install,
		"vllm":       fmt.Sprintf("%s=engine exec %s \"$@\"", roleVariable, self),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	i := &instance{ended: make(chan struct{})}
	i.cmd = exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--net", "--kill-child", "dash", "-c", script)
	i.cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir()}
	i.cmd.Stdout, i.cmd.Stderr = i, i
	i.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := i.cmd.Start(); err != nil {
		t.Fatalf("start the instance: %v", err)
	}
	go func() {
		_ = i.cmd.Wait() // its state is looked at by those who wait for ended
		close(i.ended)
	}()
	t.Cleanup(func() {
		i.cmd.Process.Kill()
		<-i.ended
	})
	if !within(startLimit, func() bool { i.first = onlyChild(i.cmd.Process.Pid); return i.first != 0 }) {
		t.Fatalf("unshare has no child:\n%s", i.output())
	}
	return i
}

func onlyChild(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return child
}

// runs reports whether a program of that name is one of the instance's processes.
func (i *instance) runs(name string) bool {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", i.first))
	if err != nil {
		return false
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	return slices.ContainsFunc(processes, func(p string) bool {
		its, err := os.Readlink(p + "/ns/pid")
		comm, err2 := os.ReadFile(p + "/comm")
		return err == nil && err2 == nil && its == namespace && strings.TrimSpace(string(comm)) == name
	})
}

// get asks from inside.
func (i *instance) get(t *testing.T, url string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net", "--target", strconv.Itoa(i.first), self, url)
	cmd.Env = []string{roleVariable + "=get"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("get %s: %v\n%s", url, err, out)
	}
	return strings.TrimSpace(string(out))
}

// checkPorts: whoever listens in the instance, it is the engine, at its own port.
func checkPorts(t *testing.T, i *instance, want int) {
	t.Helper()
	var ports []int
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", i.first, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			f := strings.Fields(line)
			const listen = "0A" // TCP_LISTEN, include/net/tcp_states.h
			if len(f) < 4 || f[3] != listen {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatalf("read %s: %v", file, err)
			}
			ports = append(ports, int(n))
		}
	}
	if !slices.Equal(ports, []int{want}) {
		t.Errorf("ports listened on: %v; want %d alone", ports, want)
	}
}
