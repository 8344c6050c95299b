package main

// Users who have a library of their own in LD_PRELOAD.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// buildLibrary compiles a library by which every process believes to be number 4242.
func buildLibrary(t *testing.T, path string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "getpid.c")
	if err := os.WriteFile(source, []byte("int getpid(void) { return 4242; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", path, source).CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler: %v\n%s", err, out)
	}
}

// TestUsersOwnLibraries: what was preloaded still is, and works; what could not be still
// cannot, and is said by nobody but the loader, as often as without us.
func TestUsersOwnLibraries(t *testing.T) {
	dir := openDir(t)
	mine := filepath.Join(dir, "mine.so")
	buildLibrary(t, mine)
	alien := filepath.Join(dir, "libtokenscope-0123456789abcdef.so") // named as another build of ours
	buildLibrary(t, alien)
	other := filepath.Join(dir, "mine.so.2")
	if err := os.Symlink(mine, other); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, preload string
		works         bool // mine is in effect
		theirs        int  // lines of the loader's, each run
	}{
		{name: "one", preload: mine, works: true},
		{name: "the same twice", preload: mine + ":" + mine, works: true},
		{name: "two by one name of each kind of separator", preload: mine + " " + other, works: true},
		{name: "empty entries around it", preload: " : " + mine + ": ", works: true},
		{name: "one that is missing", preload: dir + "/missing.so", theirs: 1},
		{name: "one that is missing, and one that is there", preload: dir + "/missing.so:" + mine, works: true, theirs: 1},
		{name: "no library at all", preload: "/etc/passwd", theirs: 1},
		{name: "empty", preload: ""},
		{name: "another build of ours", preload: alien},
		{name: "another build of ours between others", preload: mine + ":" + alien + ":" + other, works: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := place{env: []string{"LD_PRELOAD=" + c.preload}}
			bare := p.start(t, false)
			bare.ask(1)
			plain := bare.end()
			v := p.start(t, true)
			v.ask(2)
			if got := v.get("/pid") == "4242"; got != c.works {
				t.Errorf("the library works: %v; want %v", got, c.works)
			}
			o := v.end()
			o.same(t, plain)
			o.says(t)
			v.saw(2)
			if n := strings.Count(o.theirs, "ld.so"); n != c.theirs {
				t.Errorf("%d lines of the loader's; want %d\n%s", n, c.theirs, o.theirs)
			}
		})
	}
}

// TestInstrumentWithinInstrument: the inner one watches, and nothing is seen twice.
func TestInstrumentWithinInstrument(t *testing.T) {
	inner := filepath.Join(openDir(t), "inner.tsrec")
	p := place{within: []string{binary, "--capture", "preload", "--record", inner, "--"}}
	v := p.start(t, true)
	v.ask(2)
	pid, err := strconv.Atoi(v.get("/pid"))
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	libraries := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		if i := strings.Index(line, "/"); i >= 0 && strings.Contains(line, "libtokenscope-") {
			libraries[line[i:]] = true
		}
	}
	if len(libraries) != 1 {
		t.Errorf("the server carries %v; want one library", libraries)
	}
	o := v.end()
	if o.status.ExitStatus() != serverStatus {
		t.Errorf("ended with %#x; want %d", o.status, serverStatus)
	}
	v.saw(0)
	out, err := exec.Command(binary, "replay", "--output", "requests", inner).Output()
	if n := strings.Count(string(out), "\n"); err != nil || n != 2 {
		t.Errorf("the inner one saw %d requests, %v; want 2\n%s", n, err, o.stderr)
	}
}
