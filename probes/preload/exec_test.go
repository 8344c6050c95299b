package preload

// Which of the programs that a workload starts carry the library: through the real
// dynamic loader.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runWorkload runs a program of the workload and returns what it says, on both its outputs.
func runWorkload(t *testing.T, env []string, args ...string) (out, errs string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, o.String(), e.String())
	}
	return o.String(), e.String()
}

// otherLibrary builds what a user may have preloaded already.
func otherLibrary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.so")
	compile(t, "-shared", "-fPIC", "-o", path, "otherlib.c")
	return path
}

func TestExec(t *testing.T) {
	program := filepath.Join(t.TempDir(), "children")
	compile(t, "-o", program, "children.c")
	ring := newRing(t, RingOptions{})
	shim := unpacked(t)
	for _, c := range []struct{ name, preload string }{
		{"alone", ""},
		{"before a library of the user's", otherLibrary(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := []string{"PATH=" + os.Getenv("PATH")}
			own := shim
			if c.preload != "" {
				env = append(env, envPreload+"="+c.preload)
				own += ":" + c.preload
			}
			env, err := ring.Inject(env, shim)
			if err != nil {
				t.Fatal(err)
			}
			out, errs := runWorkload(t, env, program)
			if errs != "" {
				t.Errorf("on standard error: %s", errs)
			}
			// What was in front of a cleaned environment is the user's to clean.
			want := "itself mapped LD_PRELOAD=" + own + " TOKENSCOPE_PRELOAD=" + ring.Path() + "\n"
			for _, way := range []string{"fork-execve", "vfork-execve", "execvpe", "fexecve", "execv", "execvp", "posix_spawn", "posix_spawnp"} {
				want += way + " mapped LD_PRELOAD=" + shim + " TOKENSCOPE_PRELOAD=" + ring.Path() + "\n"
			}
			want += "too-many unmapped LD_PRELOAD= TOKENSCOPE_PRELOAD=\n"
			want += "many mapped LD_PRELOAD=" + shim + " TOKENSCOPE_PRELOAD=" + ring.Path() + "\n"
			want += strings.Repeat("longest unmapped LD_PRELOAD= TOKENSCOPE_PRELOAD=\n", 2)
			if out != want {
				t.Errorf("got\n%s\nwant\n%s", out, want)
			}
		})
	}
}

// pythons starts children in the ways of Python's library. Each prints its name, whether
// it carries the library and whether the user's other library works in it.
const pythons = `
import multiprocessing, os, subprocess, sys

PROBE = '''
import os, sys
maps = open("/proc/self/maps").read()
print(sys.argv[1], "mapped" if "libtokenscope-" in maps else "unmapped", os.environ.get("OTHER_LIBRARY", "-"), flush=True)
'''

def probe(name):
    sys.argv[1:] = [name]
    exec(PROBE, {"__name__": "probe"})

def args(name):
    return [sys.executable, "-c", PROBE, name]

def main():
    subprocess.run(args("subprocess"), check=True)
    subprocess.run(args("subprocess-env"), check=True, env={})
    subprocess.run(args("subprocess-user-env"), check=True, env={"LD_PRELOAD": sys.argv[1]})
    subprocess.run(args("subprocess-fork"), check=True, env={}, preexec_fn=lambda: None)
    os.waitpid(os.posix_spawn(sys.executable, args("posix_spawn"), {}), 0)
    if (pid := os.fork()) == 0:
        os.execve(sys.executable, args("execve"), {})
    os.waitpid(pid, 0)
    subprocess.run("exec '%s' -c '%s' shell" % (sys.executable, PROBE), shell=True, check=True, env={})
    for method in ["fork", "spawn", "forkserver"]:
        process = multiprocessing.get_context(method).Process(target=probe, args=("multiprocessing-" + method,))
        process.start()
        process.join()

if __name__ == "__main__":
    main()
`

func TestExecPython(t *testing.T) {
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skip("needs python3: ", err)
	}
	other := otherLibrary(t)
	script := filepath.Join(t.TempDir(), "pythons.py")
	if err := os.WriteFile(script, []byte(pythons), 0o600); err != nil {
		t.Fatal(err)
	}
	ring := newRing(t, RingOptions{})
	env, err := ring.Inject([]string{"PATH=" + os.Getenv("PATH"), envPreload + "=" + other}, unpacked(t))
	if err != nil {
		t.Fatal(err)
	}
	out, errs := runWorkload(t, env, string(python), script, other)
	if errs != "" {
		t.Errorf("on standard error: %s", errs)
	}
	want := []string{
		"subprocess mapped works", "subprocess-env mapped -", "subprocess-user-env mapped works", "subprocess-fork mapped -",
		"posix_spawn mapped -", "execve mapped -", "shell mapped -",
		"multiprocessing-fork mapped works", "multiprocessing-spawn mapped works", "multiprocessing-forkserver mapped works",
	}
	if got := strings.Split(strings.TrimSpace(out), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExecHelpers: what can be no server is started without the library, whatever starts
// it, and keeps what the user has preloaded.
func TestExecHelpers(t *testing.T) {
	dir := t.TempDir()
	const helper = "#!/bin/sh\necho LD_PRELOAD=$LD_PRELOAD TOKENSCOPE_PRELOAD=$TOKENSCOPE_PRELOAD\ngrep -c libtokenscope- /proc/$$/maps\n:\n"
	for _, name := range []string{"nvidia-smi", "gcc-12", "nvidia-smi-server", "make"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(helper), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	other := otherLibrary(t)
	ring := newRing(t, RingOptions{})
	shim := unpacked(t)
	carries := fmt.Sprintf("LD_PRELOAD=%s:%s TOKENSCOPE_PRELOAD=%s\n", shim, other, ring.Path())
	for _, c := range []struct {
		name, preload string
		args          []string
		want          string // its first line; the second counts mappings
	}{
		{"by a shell", other, []string{"sh", "-c", "nvidia-smi; :"}, "LD_PRELOAD=" + other + " TOKENSCOPE_PRELOAD=\n0\n"},
		{"without anything else preloaded", "", []string{"sh", "-c", "nvidia-smi; :"}, "LD_PRELOAD= TOKENSCOPE_PRELOAD=\n0\n"},
		{"of a version", other, []string{"sh", "-c", "gcc-12; :"}, "LD_PRELOAD=" + other + " TOKENSCOPE_PRELOAD=\n0\n"},
		{"by env", other, []string{"env", "nvidia-smi"}, "LD_PRELOAD=" + other + " TOKENSCOPE_PRELOAD=\n0\n"},
		{"another of a like name", other, []string{"env", "nvidia-smi-server"}, carries},
		{"make, which may start a server", other, []string{"env", "make"}, carries},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			if c.preload != "" {
				env = append(env, envPreload+"="+c.preload)
			}
			env, err := ring.Inject(env, shim)
			if err != nil {
				t.Fatal(err)
			}
			out, errs := runWorkload(t, env, c.args...)
			if !strings.HasPrefix(out, c.want) || errs != "" {
				t.Errorf("it says %q, %q; want %q", out, errs, c.want)
			}
			if strings.HasPrefix(c.want, carries) && strings.HasSuffix(out, "\n0\n") {
				t.Errorf("it says %q; want the library mapped", out)
			}
		})
	}
}

// TestExecMissing: a library of the user's that is not there is the loader's to complain
// about, in its own words.
func TestExecMissing(t *testing.T) {
	ring := newRing(t, RingOptions{})
	env, err := ring.Inject([]string{"PATH=" + os.Getenv("PATH"), envPreload + "=/nowhere/missing.so"}, unpacked(t))
	if err != nil {
		t.Fatal(err)
	}
	out, errs := runWorkload(t, env, "sh", "-c", "echo fine")
	complaint := regexp.MustCompile(`^(ERROR: ld\.so: object '/nowhere/missing\.so' from LD_PRELOAD cannot be preloaded .*\n|Error loading shared library /nowhere/missing\.so.*\n)$`)
	if out != "fine\n" || !complaint.MatchString(errs) {
		t.Errorf("it says %q, %q", out, errs)
	}
}
