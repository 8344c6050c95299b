//go:build e2e

package e2e

// What the tests share: finding artefacts, running commands, comparing folders.

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// commandLimit ends a command that hangs; the slowest (pip making an environment) takes seconds.
const commandLimit = 2 * time.Minute

// dist is the folder with the artefacts.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("TOKENSCOPE_DIST")
	if dir == "" {
		t.Fatal("TOKENSCOPE_DIST names no folder; run make dist-e2e")
	}
	return dir
}

// artefact is the one file that matches the pattern.
func artefact(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist(t), pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%d files match %s in %s: %q; want one", len(found), pattern, dist(t), found)
	}
	return found[0]
}

// machine names this machine's architecture as wheels do.
func machine() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}

// semantic is the release's version, from the name of its archive.
func semantic(t *testing.T) string {
	t.Helper()
	name := filepath.Base(artefact(t, "tokenscope-*-linux-amd64.tar.gz"))
	return strings.TrimSuffix(strings.TrimPrefix(name, "tokenscope-"), "-linux-amd64.tar.gz")
}

// need skips, or fails where everything must run, if a program of the base system is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			lack(t, program+" is not installed")
		}
	}
}

// needRoot is need for the right to chroot.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "only root may chroot")
	}
}

func lack(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("TOKENSCOPE_E2E_REQUIRE") != "" {
		t.Fatalf("cannot run here: %s", why)
	}
	t.Skipf("cannot run here: %s", why)
}

// run gives the output of a command that must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runCmd(t, command(t, name, args...))
}

// command is a command with a time limit and an environment that has nothing of ours but PATH.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LC_ALL=C.UTF-8"}
	return cmd
}

func runCmd(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// works checks that the programs of a bin folder run under all their names, that each says the
// release's version, and that the second name behaves as the first.
func works(t *testing.T, run func(name string, args ...string) string) {
	t.Helper()
	first := run("instrument", "version")
	if !sameVersion(first, semantic(t)) {
		t.Errorf("instrument version = %q; want that of %s", first, semantic(t))
	}
	if got := run("tokenscope", "version"); got != first {
		t.Errorf("tokenscope version = %q; want what instrument says, %q", got, first)
	}
	if got := run("bootstrap", "--version"); !sameVersion(got, semantic(t)) {
		t.Errorf("bootstrap --version = %q; want that of %s", got, semantic(t))
	}
	if got := run("tokenscope", "--help"); got != run("instrument", "--help") {
		t.Errorf("tokenscope --help differs from instrument --help:\n%s", got)
	}
}

var commitHash = regexp.MustCompile(`g([0-9a-f]{7,40})`)

// sameVersion compares what a program says with the version of the artefacts: the programs
// print git's words, in which a version before the first release is the commit alone.
func sameVersion(said, semantic string) bool {
	if m := commitHash.FindStringSubmatch(semantic); m != nil {
		return strings.Contains(said, m[1])
	}
	return strings.Contains(said, semantic)
}

// listing gives one line for everything below a folder, but for bytes.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size := info.Size()
		if d.IsDir() {
			size = 0 // a folder's own size stays when what made it grow is gone
		}
		lines = append(lines, fmt.Sprintf("%s %d %s", info.Mode(), size, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// unchanged fails if a folder is not as it was.
func unchanged(t *testing.T, root string, before []string) {
	t.Helper()
	after := listing(t, root)
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("left behind or changed: %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("gone or changed: %s", line)
		}
	}
}
