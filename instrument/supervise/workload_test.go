package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// output runs a command line with exactly this environment and returns its output.
// os/exec would put the environment in order first.
func output(t *testing.T, argv, env []string) []byte {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: env, Files: []*os.File{nil, w, os.Stderr}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if state, err := p.Wait(); err != nil || !state.Success() {
		t.Fatalf("%q: %v, %v", argv, state, err)
	}
	return out
}

func TestArgumentsAndEnvironmentAreUntouched(t *testing.T) {
	env := []string{"B=2", "A=1", "A=3", "EMPTY=", "no-equals-sign", "", "=odd", "BYTES=\xff\x01\n", "PATH=/bin"}
	argv := append(workload(t, "dump"), "--flag", "", "two words", "\"quoted\"", "bytes \x02\n", "--")
	want := output(t, argv, env)
	for _, agent := range []string{"", "ready"} {
		got := output(t, supervised(t, setup{Argv: argv, AgentMode: agent, Dir: t.TempDir()}), env)
		if !bytes.Equal(got, want) {
			t.Errorf("agent %q: workload saw %q; want %q", agent, got, want)
		}
	}
}

func TestNameStaysAsTyped(t *testing.T) {
	p := start(t, supervised(t, setup{Argv: []string{"cat", "/proc/self/cmdline"}}))
	if _, out := p.wait(); out != "cat\x00/proc/self/cmdline\x00" {
		t.Errorf("arguments = %q; want the name without the directory", out)
	}
}

func TestStandardInput(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("line of input\n", 50)
	p := start(t, supervised(t, setup{Argv: []string{"cat"}, AgentMode: "ready", Dir: dir}))
	if _, err := io.WriteString(p.stdin, text); err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	status, out := p.wait()
	if status != (ExitStatus{}) || out+"\n" != text {
		t.Errorf("cat printed %d bytes and ended with %v; want its input of %d bytes", len(out), status, len(text))
	}
}

// The workload has the descriptors that we were given, and the agent has not.
func TestDescriptors(t *testing.T) {
	for _, c := range []struct{ name, open string }{
		{"none but the standard ones", ":"},
		{"a gap", "exec 5</dev/null 61</dev/null"},
		{"standard input closed", "exec 0<&- 4</dev/null"},
		{"at the limit", "ulimit -n 64; exec 63</dev/null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			list := []string{"/bin/bash", "-c", "cd /proc/self/fd; for fd in *; do [ -e $fd ] && readlink -n $fd | sed 's/:.*//' && echo \" $fd\"; done; true"}
			run := func(argv []string) string {
				argv = append([]string{"/bin/bash", "-c", c.open + `; exec "$@"`, "bash"}, argv...)
				p := start(t, argv, func(cmd *exec.Cmd) { cmd.Dir = "/" })
				status, out := p.wait()
				if status != (ExitStatus{}) || out == "" {
					t.Fatalf("%q ended with %v, printed %q; standard error: %s", argv, status, out, p.stderr.String())
				}
				return out
			}
			plain := run(list)
			if strings.Contains(c.open, "0<&-") {
				// The Go runtime opens the standard descriptors where they are closed.
				plain = "/dev/null 0\n" + strings.TrimPrefix(plain, "/dev/null 0\n")
			}
			if got := run(supervised(t, setup{Argv: list, AgentMode: "ready", Dir: dir})); got != plain {
				t.Errorf("descriptors of the workload:\n%s\nwant:\n%s", got, plain)
			}
			started := agentLog(dir, "started")
			if len(started) != 1 || !strings.HasSuffix(started[0], "fds 0,1,2,3,4,5") {
				t.Errorf("agent log = %q; want one start with descriptors 0 to 5", started)
			}
		})
	}
}

// Signals that a nohup or a background shell has ignored are ignored in the workload,
// and none else; the mask is empty.
func TestSignalDispositionsAreInherited(t *testing.T) {
	show := []string{"grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"}
	for _, ignore := range []string{"HUP", "INT", "TSTP", "HUP INT TTIN TTOU"} {
		t.Run(ignore, func(t *testing.T) {
			run := func(argv []string) string {
				argv = append([]string{"/bin/sh", "-c", fmt.Sprintf(`trap "" %s; exec "$@"`, ignore), "sh"}, argv...)
				_, out := start(t, argv).wait()
				return out
			}
			plain := run(show)
			if got := run(supervised(t, setup{Argv: show})); got != plain || plain == "" {
				t.Errorf("signals of the workload:\n%s\nwant:\n%s", got, plain)
			}
		})
	}
}
