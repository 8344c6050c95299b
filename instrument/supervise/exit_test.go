package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExitCode(t *testing.T) {
	for _, code := range []int{0, 1, 2, 3, 126, 128, 255} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			argv := []string{"/bin/sh", "-c", fmt.Sprintf("exit %d", code)}
			start(t, supervised(t, setup{Argv: argv})).wantEnd(ExitStatus{Code: code})
		})
	}
}

func TestDeathBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGKILL, unix.SIGSEGV,
		unix.SIGPIPE, unix.SIGTERM, unix.SIGPROF, 40,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			argv := []string{"/bin/sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)}
			p := start(t, supervised(t, setup{Argv: argv}))
			p.wantEnd(ExitStatus{Signal: sig})
			if s := p.stderr.String(); s != "" {
				t.Errorf("standard error = %q; want nothing", s)
			}
		})
	}
}

// The supervisor dies of the workload's signal, but a core file of it would help nobody.
func TestDeathBySignalLeavesNoCore(t *testing.T) {
	pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
	if s := string(pattern); strings.HasPrefix(s, "|") || strings.HasPrefix(s, "/") {
		t.Skipf("core files do not go to the working directory: core_pattern is %q", s)
	}
	run := func(argv []string) (cores int) {
		dir := t.TempDir()
		argv = append([]string{"/bin/sh", "-c", `ulimit -c unlimited; exec "$@"`, "sh"}, argv...)
		p := start(t, argv, func(c *exec.Cmd) { c.Dir = dir })
		status, _ := p.wait()
		if status.Signal != unix.SIGABRT {
			t.Fatalf("%q ended with %v; want SIGABRT", argv, status)
		}
		found, _ := filepath.Glob(dir + "/core*")
		return len(found)
	}
	if run([]string{"/bin/sh", "-c", "kill -ABRT $$"}) == 0 {
		t.Skip("no core file is written here, even by a process that may")
	}
	workload := []string{"/bin/sh", "-c", "ulimit -c 0; kill -ABRT $$"}
	if n := run(supervised(t, setup{Argv: workload})); n != 0 {
		t.Errorf("%d core files; want none", n)
	}
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		status    ExitStatus
		shellCode int
		text      string
	}{
		{ExitStatus{}, 0, "exit status 0"},
		{ExitStatus{Code: 3}, 3, "exit status 3"},
		{ExitStatus{Signal: unix.SIGKILL}, 137, "signal: killed"},
		{ExitStatus{Signal: unix.SIGABRT, CoreDumped: true}, 134, "signal: aborted (core dumped)"},
	} {
		if got := c.status.ShellCode(); got != c.shellCode {
			t.Errorf("%#v.ShellCode() = %d; want %d", c.status, got, c.shellCode)
		}
		if got := c.status.String(); got != c.text {
			t.Errorf("%#v.String() = %q; want %q", c.status, got, c.text)
		}
	}
}
