//go:build e2e

package e2e

// What the tests need: the programs, and roots to run them in.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// repository is the repository's root, seen from this package.
const repository = "../.."

// version is what the built programs say they are.
const version = "v9.8.7-test"

// Limits: of making a Debian, which fetches 50 MB, and of one command in a root.
const (
	debianLimit  = 8 * time.Minute
	commandLimit = 30 * time.Second
)

// skip skips, or fails where a skipped test would prove nothing.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TOKENSCOPE_E2E_REQUIRE") != "" {
		t.Fatalf("cannot run here: "+format, args...)
	}
	t.Skipf("cannot run here: "+format, args...)
}

// archive is a folder with both programs and the servers, as an unpacked archive would be.
var archive = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(workDir, "archive")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/tokenscope/tokenscope/instrument.version="+version,
		"-o", dir+"/", "./cmd/instrument", "./cmd/bootstrap")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build programs: %w\n%s", err, out)
	}
	server, err := os.ReadFile("testdata/server.pl")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "server.pl"), server, 0o644)
})

// mirrors hold Debian's releases; the second those that the first has given up.
var mirrors = []string{"http://deb.debian.org/debian", "http://archive.debian.org/debian"}

// debian gives the root of a release, from the cache.
func debian(t *testing.T, suite string) string {
	t.Helper()
	program, err := exec.LookPath("debootstrap")
	if err != nil {
		skip(t, "debootstrap is not installed")
	}
	cache := os.Getenv("TOKENSCOPE_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache/tokenscope")
	}
	root := filepath.Join(cache, "roots", "debian-"+suite)
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	// Two runs at a time must not make the same one.
	lock, err := os.OpenFile(root+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		return root
	}
	t.Logf("making %s (two minutes, once)", root)
	var errs []error
	for _, mirror := range mirrors {
		if err := os.RemoveAll(root + ".new"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), debianLimit)
		out, err := exec.CommandContext(ctx, program, "--variant=minbase", suite, root+".new", mirror).CombinedOutput()
		cancel()
		if err == nil {
			if err := os.Rename(root+".new", root); err != nil {
				t.Fatal(err)
			}
			return root
		}
		errs = append(errs, fmt.Errorf("%s: %w: %s", mirror, err, lastLine(string(out))))
	}
	skip(t, "debootstrap %s: %v", suite, errors.Join(errs...))
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// musl makes a root that has musl's library, which is its loader as well, and a server.
func musl(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("musl-gcc")
	if err != nil {
		skip(t, "musl-gcc is not installed (Debian: musl-tools)")
	}
	loaders, _ := filepath.Glob("/lib/ld-musl-*.so.1")
	if len(loaders) == 0 {
		skip(t, "musl is not installed")
	}
	root := empty(t)
	data, err := os.ReadFile(loaders[0])
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(root, loaders[0])
	for _, dir := range []string{filepath.Dir(loader), filepath.Join(root, "usr/bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(loader, data, 0o755); err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(root, "usr/bin/server")
	if out, err := exec.Command(compiler, "-O1", "-o", server, "testdata/server.c").CombinedOutput(); err != nil {
		t.Fatalf("compile server: %v\n%s", err, out)
	}
	// Nearly every root has a program of this name, by which check tries the library.
	if err := os.Link(server, filepath.Join(root, "usr/bin/true")); err != nil {
		t.Fatal(err)
	}
	return root
}

// empty makes a root that has nothing but the folders on which others are mounted.
func empty(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"proc", "dev", "sys", "mnt", "srv", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// changed lists the files of an overlay's upper half, which were written or, as devices,
// removed, and the folders that are only there: one that the lower half has too was merely
// passed through.
func (r *root) changed() []string {
	r.t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(r.dir, "upper"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(filepath.Join(r.dir, "upper"), path)
		if d.IsDir() {
			if _, err := os.Lstat(filepath.Join(r.lower, name)); err == nil {
				return nil
			}
			name += "/"
		}
		files = append(files, name)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return files
}

// root is a throw-away root: an overlay over lower, in which the archive is at /mnt and a
// folder of the test at /srv.
type root struct {
	t        *testing.T
	lower    string
	dir      string // upper, work, mount point, srv
	readOnly bool
	user     string // uid:gid that commands run as; "" is root
}

func newRoot(t *testing.T, lower string) *root {
	t.Helper()
	r := &root{t: t, lower: lower, dir: t.TempDir()}
	// Others may pass through: commands also run as other users.
	for _, dir := range []string{r.dir, filepath.Dir(r.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"upper", "work", "root", "srv"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(r.dir, "srv"), 0o777); err != nil {
		t.Fatal(err)
	}
	return r
}

// enter is run in a mount namespace of its own, so that mounts end with the command.
const enter = `set -eu
dir=$1 lower=$2 archive=$3 mode=$4 user=$5
shift 5
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
mount --rbind /proc "$dir/root/proc"
mount --rbind /dev "$dir/root/dev"
mount --rbind /sys "$dir/root/sys"
mount --bind "$archive" "$dir/root/mnt"
mount --bind "$dir/srv" "$dir/root/srv"
mount -t tmpfs -o mode=1777 tmpfs "$dir/root/tmp"
[ "$mode" = rw ] || mount -o remount,ro "$dir/root"
exec chroot ${user:+--userspec="$user"} "$dir/root" "$@"
`

// command is a command in the root, with the environment of a container.
func (r *root) command(args ...string) *exec.Cmd {
	r.t.Helper()
	programs, err := archive()
	if err != nil {
		r.t.Fatal(err)
	}
	mode := "rw"
	if r.readOnly {
		mode = "ro"
	}
	words := append([]string{"--mount", "--propagation", "private", "/bin/sh", "-c", enter, "enter", r.dir, r.lower, programs, mode, r.user}, args...)
	cmd := exec.Command("unshare", words...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	// With the group everything that it has started is ended.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a command to its end and gives its status and what it printed.
func (r *root) run(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	cmd := r.command(args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Start(); e != nil {
		r.t.Fatal(e)
	}
	limit := time.AfterFunc(commandLimit, func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer limit.Stop()
	var exit *exec.ExitError
	if e := cmd.Wait(); e != nil && !errors.As(e, &exit) {
		r.t.Fatal(e)
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// workDir holds what is built.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "tokenscope-bootstrap-e2e-"); err == nil {
			err = os.Chmod(workDir, 0o755)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "make the work folder:", err)
			return 1
		}
		defer os.RemoveAll(workDir)
		return m.Run()
	}())
}
