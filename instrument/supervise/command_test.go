package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a file in dir and returns its path.
func write(t *testing.T, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLookUp(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	write(t, root, "first/tool", "", 0o644)
	write(t, root, "second/tool", "", 0o755)
	write(t, root, "second/only-data", "", 0o644)
	write(t, root, "second/dir/x", "", 0o755)
	write(t, root, "here", "", 0o755)

	for _, c := range []struct {
		name    string
		command string
		path    string // PATH; "-" for none
		want    string
		code    int
	}{
		{"in PATH", "tool", root + "/second", root + "/second/tool", 0},
		{"file without x gives way", "tool", root + "/first:" + root + "/second", root + "/second/tool", 0},
		{"relative PATH entry", "tool", "second", "second/tool", 0},
		{"dot in PATH", "here", "/nowhere:.", "./here", 0},
		{"empty PATH entry", "here", "/nowhere:", "./here", 0},
		{"empty PATH", "here", "", "./here", 0},
		{"no PATH", "sh", "-", "", 0},
		{"PATH entry ends in slash", "tool", root + "/second/", root + "/second/tool", 0},
		{"relative path", "second/tool", "", "second/tool", 0},
		{"absolute path", root + "/here", "", root + "/here", 0},
		{"not in PATH", "nothing", root, "", 127},
		{"empty name", "", root + ":.", "", 127},
		{"directory in PATH", "dir", "second", "", 127},
		{"only without x in PATH", "only-data", "second", "", 126},
		{"path to nothing", "./nothing", "", "", 127},
		{"path through a file", "here/x", "", "", 127},
		{"path to a directory", "./second", "", "", 126},
		{"path without x", "second/only-data", "", "", 126},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := []string{"HOME=/", "PATH=" + c.path, "PATH=/not/this/one"}
			if c.path == "-" {
				env = nil
			}
			got, err := lookUp(c.command, env)
			code := 0
			if err != nil {
				code = err.code
			}
			if code != c.code || (c.want != "" && got != c.want) || (code == 0) != (got != "") {
				t.Errorf("lookUp(%q, %q) = %q, code %d; want %q, code %d", c.command, env, got, code, c.want, c.code)
			}
		})
	}
}

// What does not start is reported as a shell would, and starts no agent.
func TestCommandThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "data", "x", 0o644)
	write(t, dir, "bad-interpreter", "#!/no/such/python -u\n", 0o755)
	write(t, dir, "binary", "\x00\x01\x02\n", 0o755)
	for _, c := range []struct {
		name    string
		command string
		code    int
		stderr  string
	}{
		{"missing", "no-such-command-at-all", 127, "instrument: no-such-command-at-all: command not found\n"},
		{"missing path", "./none", 127, "instrument: ./none: no such file or directory\n"},
		{"directory", "/tmp", 126, "instrument: /tmp: is a directory\n"},
		{"not executable", "./data", 126, "instrument: ./data: permission denied\n"},
		{"interpreter missing", "./bad-interpreter", 127, "instrument: ./bad-interpreter: /no/such/python: bad interpreter: no such file or directory\n"},
		{"unknown binary", "./binary", 126, "instrument: ./binary: cannot execute binary file: exec format error\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, supervised(t, setup{Argv: []string{c.command, "arg"}}),
				func(cmd *exec.Cmd) { cmd.Dir = dir })
			p.wantEnd(ExitStatus{Code: c.code})
			if got := p.stderr.String(); got != c.stderr {
				t.Errorf("standard error = %q; want %q", got, c.stderr)
			}
		})
	}
}

func TestMissingCommandStartsNoAgent(t *testing.T) {
	dir := t.TempDir()
	start(t, supervised(t, setup{Argv: []string{"./none"}, AgentMode: "ready", Dir: dir})).wantEnd(ExitStatus{Code: 127})
	if got := agentLog(dir, "started"); len(got) != 0 {
		t.Errorf("agent log = %q; want no agent started", got)
	}
}

func TestScriptWithoutInterpreterLine(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "script", "echo \"$0|$1|$2\"\nexit 4\n", 0o755)
	write(t, dir, "empty", "", 0o755)
	for _, c := range []struct {
		name string
		argv []string
		out  string
		code int
	}{
		{"by path", []string{"./script", "a b", ""}, "./script|a b|", 4},
		{"found in PATH", []string{"script", "1", "2"}, dir + "/script|1|2", 4},
		{"empty file", []string{"./empty"}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, supervised(t, setup{Argv: c.argv}), func(cmd *exec.Cmd) {
				cmd.Dir = dir
				cmd.Env = []string{"PATH=/nowhere:" + dir}
			})
			status, out := p.wait()
			if status.Code != c.code || strings.TrimSpace(out) != c.out {
				t.Errorf("script printed %q and ended with %v; want %q and %d", out, status, c.out, c.code)
			}
		})
	}
}

func TestNoCommand(t *testing.T) {
	start(t, supervised(t, setup{})).wantEnd(ExitStatus{Code: 2})
}

func TestInterpreter(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, content, want string }{
		{"plain", "#!/bin/sh\n", "/bin/sh"},
		{"space and argument", "#! /usr/bin/env python3\n", "/usr/bin/env"},
		{"no newline", "#!/bin/x", "/bin/x"},
		{"nothing named", "#!\n/bin/sh", ""},
		{"no such line", "echo\n#!/bin/sh\n", ""},
		{"empty file", "", ""},
	} {
		path := write(t, dir, "f", c.content, 0o644)
		if got := interpreter(path); got != c.want {
			t.Errorf("%s: interpreter(%q) = %q; want %q", c.name, c.content, got, c.want)
		}
	}
}
