package main

// What stands between instrument and the server: it is seen all the same, or it is said which
// process is not, and why.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func needsTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s", name)
	}
}

func TestBetweenInstrumentAndServer(t *testing.T) {
	for _, c := range []struct {
		name string
		root bool
		tool string
		// within gets a directory that is everybody's.
		within func(t *testing.T, dir string) []string
		seen   bool
		says   string
	}{
		{name: "a shell", seen: true, within: func(*testing.T, string) []string {
			return []string{"sh", "-c", `"$@"`, "sh"}
		}},
		{name: "an environment that is cleaned", seen: true, within: func(*testing.T, string) []string {
			return []string{"env", "-i", "PATH=/usr/bin"}
		}},
		{name: "variables that are unset", seen: true, within: func(*testing.T, string) []string {
			return []string{"env", "-u", "LD_PRELOAD", "-u", "TOKENSCOPE_PRELOAD"}
		}},
		{name: "a login shell with a cleaned environment", seen: true, within: func(*testing.T, string) []string {
			return []string{"env", "-i", "sh", "-c", `exec "$@"`, "sh"}
		}},
		{name: "another user", root: true, tool: "setpriv", says: "it runs as another user", within: func(*testing.T, string) []string {
			return []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
		}},
		// Its /proc is the one outside, so that it finds the ring.
		{name: "a PID namespace", root: true, tool: "unshare", seen: true, says: "it has a PID namespace of its own", within: func(*testing.T, string) []string {
			return []string{"unshare", "--pid", "--fork"}
		}},
		{name: "a PID namespace with its own /proc", root: true, tool: "unshare", says: "it has a PID namespace of its own", within: func(*testing.T, string) []string {
			return []string{"unshare", "--pid", "--fork", "--mount-proc"}
		}},
		{name: "a static program by the name of a server", seen: true, says: "its program is statically linked", within: func(t *testing.T, dir string) []string {
			// The binary itself is static, and hands down what it was given.
			static := filepath.Join(dir, "python-static")
			if err := os.Link(binary, static); err != nil {
				t.Skip("needs a file system with links: ", err)
			}
			return []string{"env", static, "--capture", "off", "--"}
		}},
		{name: "a static program that cleans the environment", says: "it was started with another environment", within: func(t *testing.T, dir string) []string {
			return []string{binary, "--capture", "off", "--", os.Args[0], roleEnclose, `{"Clean":true}`}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.root {
				needsRoot(t)
			}
			if c.tool != "" {
				needsTool(t, c.tool)
			}
			v := place{within: c.within(t, openDir(t))}.start(t, true)
			v.ask(2)
			if c.says != "" {
				v.await("it is said who is not covered", func() bool { return strings.Contains(v.read("stderr"), "is not covered") })
			}
			o := v.end()
			if o.status.ExitStatus() != serverStatus || o.stdout != "listening\nbye\n" {
				t.Errorf("ended with %#x, printed %q; want %d\n%s", o.status, o.stdout, serverStatus, o.stderr)
			}
			if c.says != "" {
				o.says(t, "a process of the workload is not covered: "+c.says)
			} else {
				o.says(t)
			}
			if c.seen {
				v.saw(2)
			} else {
				v.saw(0)
			}
		})
	}
}
