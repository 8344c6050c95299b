package bootstrap

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/installer"
)

// user gives the world a user with a home, whose own bin is on PATH.
func (w *world) user() (home string) {
	home = filepath.Join(w.root, "home")
	w.folder(filepath.Join(home, ".local/bin"))
	w.env["HOME"] = home
	w.env["PATH"] = filepath.Join(home, ".local/bin")
	return home
}

// TestInstallCycle is what a user does: look, try dry, install, install again, upgrade,
// uninstall, uninstall again.
func TestInstallCycle(t *testing.T) {
	w := newWorld(t)
	home := w.user()
	for _, step := range []struct {
		args, version string
		code          int
		stdout        string // its beginning
		stderr        string
		installed     bool // afterwards
	}{
		{"", "v1.2.3", 0, "Engines\n", "", false},
		{"-a install --dry-run", "v1.2.3", 0, "would install under ROOT/home/.local: version v1.2.3\n  create     ROOT/home/.local/bin/instrument\n", "", false},
		{"-a uninstall", "v1.2.3", 0, "not installed\n", "", false},
		{"-a install", "v1.2.3", 0, "installed under ROOT/home/.local: version v1.2.3\n  create     ROOT/home/.local/bin/instrument\n  create     ROOT/home/.local/bin/tokenscope -> instrument\n",
			"bootstrap: [1/4] look at what is there\nbootstrap: [2/4] write 4 files, 0.0 MB\nbootstrap: [3/4] try the new program\nbootstrap: [4/4] put everything in place\n", true},
		{"-a install", "v1.2.3", 0, "already installed under ROOT/home/.local: version v1.2.3\n", "", true},
		{"-a install --dry-run", "v1.2.3", 0, "already installed under ROOT/home/.local", "", true},
		{"-a install --dry-run", "v1.3.0", 0, "would install under ROOT/home/.local: version v1.3.0 instead of v1.2.3\n", "", true},
		{"-a install", "v1.3.0", 0, "installed under ROOT/home/.local: version v1.3.0 instead of v1.2.3\n  keep ", "bootstrap: [1/4] ", true},
		{"-a uninstall --dry-run", "v1.3.0", 0, "would uninstall under ROOT/home/.local: version v1.3.0\n  remove     ROOT/home/.local/bin/instrument\n", "", true},
		{"-a uninstall", "v1.3.0", 0, "uninstalled under ROOT/home/.local: version v1.3.0\n", "bootstrap: [1/2] remove 4 files\nbootstrap: [2/2] ", false},
		{"-a uninstall", "v1.3.0", 0, "not installed\n", "", false},
	} {
		w.app.Version = step.version
		code, stdout, stderr := w.run(strings.Fields(step.args)...)
		if code != step.code || !strings.HasPrefix(stdout, step.stdout) || !strings.HasPrefix(stderr, step.stderr) || step.stderr == "" && stderr != "" {
			t.Errorf("%s = %d\n%s%swant %d\n%s…%s", step.args, code, stdout, stderr, step.code, step.stdout, step.stderr)
		}
		if _, err := os.Lstat(filepath.Join(home, ".local/bin/instrument")); (err == nil) != step.installed {
			t.Errorf("after %s: %v; want installed: %v", step.args, err, step.installed)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(home, ".local")); len(entries) != 1 {
		t.Errorf("after uninstall there is %v; want bin alone, which was there before", entries)
	}
}

func TestInstallFails(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(w *world, home string)
		args    string
		want    string // on standard error
	}{
		{"launcher is missing", func(w *world, _ string) { os.Remove(filepath.Join(w.from, "instrument")) }, "-a install",
			"there is no instrument beside FROM/bootstrap; unpack the whole archive"},
		{"no folder on PATH", func(w *world, _ string) { w.env["PATH"] = "/usr/bin:/bin" }, "-a install",
			"ROOT/home/.local (its bin is not on PATH); name one on a writable volume with --prefix DIR"},
		{"another program of that name", func(w *world, home string) { w.put(home+"/.local/bin/instrument", "other") }, "-a install",
			"ROOT/home/.local/bin/instrument is there already and is not ours; install under the second name alone with --as-tokenscope"},
		{"another program of the second name alone", func(w *world, home string) { w.put(home+"/.local/bin/tokenscope", "other") }, "-a install --as-tokenscope",
			"is not ours; choose another folder with --prefix, or replace it with --force"},
		{"changed by hand", func(w *world, home string) {
			w.run("-a", "install")
			w.put(home+"/.local/bin/instrument", "mine")
		}, "-a install", "was changed after it was installed; --force replaces it"},
		{"changed by hand, uninstall", func(w *world, home string) {
			w.run("-a", "install")
			w.put(home+"/.local/bin/instrument", "mine")
		}, "-a uninstall", "files that were changed after they were installed are left; --force removes them, too"},
		{"the program does not run", func(w *world, _ string) {
			w.app.try = func(string) error { return errors.New("exec format error") }
		}, "-a install", "try bin/instrument: exec format error"},
		{"prefix below a file", func(w *world, _ string) { w.put(filepath.Join(w.root, "f"), "") }, "-a install --prefix ROOT/f/x",
			"not a directory; a part of the path is a file"},
		{"installed twice", func(w *world, home string) {
			w.run("-a", "install")
			w.run("-a", "install", "--prefix", filepath.Join(w.root, "opt"))
			w.env["PATH"] += ":" + filepath.Join(w.root, "opt/bin")
		}, "-a uninstall", "it is installed under ROOT/home/.local and ROOT/opt; name one with --prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w, w.user())
			args := strings.Fields(strings.ReplaceAll(c.args, "ROOT", w.root))
			code, _, stderr := w.run(args...)
			if code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("%s = %d, %q; want 1, %q", c.args, code, stderr, c.want)
			}
			// Programs find the same in the object.
			code, stdout, _ := w.run(append(args, "--json")...)
			var r result
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 1 || !strings.Contains(r.Error, c.want) || r.Status != statusFailed && r.Status != statusPartly {
				t.Errorf("%s --json = %d, %s; want 1 and the same error", c.args, code, stdout)
			}
		})
	}
}

// TestInstallReadOnly: a file system that cannot be written is named, and what helps.
func TestInstallReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a read-only file system")
	}
	w := newWorld(t)
	prefix := filepath.Join(w.root, "ro")
	w.folder(prefix)
	if err := unix.Mount("none", prefix, "tmpfs", unix.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	defer unix.Unmount(prefix, 0)
	code, _, stderr := w.run("-a", "install", "--prefix", prefix)
	if code != 1 || !strings.Contains(stderr, "read-only file system; choose a folder on a writable volume with --prefix") {
		t.Errorf("install on a read-only file system = %d, %q; want the cause and the cure", code, stderr)
	}
	w.env["PATH"] = prefix + "/bin"
	if code, _, stderr := w.run("-a", "install"); code != 1 || !strings.Contains(stderr, "--prefix DIR") || !strings.Contains(stderr, "read-only file system") {
		t.Errorf("install with nothing writable on PATH = %d, %q; want the cause and the cure", code, stderr)
	}
}

// TestInstallNoExec: where programs may not be run nothing is installed.
func TestInstallNoExec(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	w := newWorld(t)
	w.app.try = nil // really
	prefix := filepath.Join(w.root, "noexec")
	w.folder(prefix)
	if err := unix.Mount("none", prefix, "tmpfs", unix.MS_NOEXEC, "size=1m"); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	defer unix.Unmount(prefix, 0)
	w.machine(map[string]string{"proc/self/mountinfo": "1 1 1:1 / " + prefix + " rw,noexec - tmpfs none rw\n"})
	code, _, stderr := w.run("-a", "install", "--prefix", prefix)
	if code != 1 || !strings.Contains(stderr, "ROOT/noexec is mounted noexec: choose another volume with --prefix") {
		t.Errorf("install where nothing may be run = %d, %q; want the cause and the cure", code, stderr)
	}
	if entries, _ := os.ReadDir(prefix); len(entries) != 0 {
		t.Errorf("after a refused install there is %v; want nothing", entries)
	}
}

func TestInstallNotes(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(w *world, home string)
		args    string
		want    string // on standard output
	}{
		{"prefix is not on PATH", func(*world, string) {}, "-a install --prefix ROOT/opt",
			"note: ROOT/opt/bin is not on PATH: start the server by ROOT/opt/bin/instrument, or add the folder"},
		{"another one comes first", func(w *world, _ string) {
			w.put(filepath.Join(w.root, "first/instrument"), "other")
			w.env["PATH"] = filepath.Join(w.root, "first") + ":" + w.env["PATH"]
		}, "-a install", "note: another instrument comes first on PATH: ROOT/first/instrument; tokenscope is the second name of this one"},
		{"the second name alone", func(w *world, home string) { w.put(home+"/.local/bin/instrument", "other") }, "-a install --as-tokenscope",
			"installed under ROOT/home/.local: version v1.2.3\n  create     ROOT/home/.local/bin/tokenscope\n"},
		{"the second name is taken", func(w *world, home string) { w.put(home+"/.local/bin/tokenscope", "other") }, "-a install",
			"skip       ROOT/home/.local/bin/tokenscope (another program has the name)"},
		{"put there by pip", func(w *world, home string) {
			w.app.executable = filepath.Join(home, ".local/bin/bootstrap")
			w.put(w.app.executable, "this")
			w.put(home+"/.local/bin/instrument", "the launcher")
		}, "-a install", "in place   ROOT/home/.local/bin/instrument (put there by something else, pip or a package)\n  create     ROOT/home/.local/bin/tokenscope -> instrument\n"},
		{"forced", func(w *world, home string) { w.put(home+"/.local/bin/instrument", "other") }, "-a install --force",
			"overwrite  ROOT/home/.local/bin/instrument\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w, w.user())
			code, stdout, stderr := w.run(strings.Fields(strings.ReplaceAll(c.args, "ROOT", w.root))...)
			if code != 0 || !strings.Contains(stdout, c.want) {
				t.Errorf("%s = %d\n%s%s\nwant %q", c.args, code, stdout, stderr, c.want)
			}
		})
	}
}

// TestUninstallOwnPrefix: the bootstrap that is installed knows where.
func TestUninstallOwnPrefix(t *testing.T) {
	w := newWorld(t)
	prefix := filepath.Join(w.root, "opt/x")
	w.run("-a", "install", "--prefix", prefix)
	w.app.executable = filepath.Join(prefix, "bin/bootstrap")
	if code, stdout, stderr := w.run("-a", "uninstall"); code != 0 || !strings.HasPrefix(stdout, "uninstalled under ROOT/opt/x: version v1.2.3\n") {
		t.Errorf("uninstall = %d, %q, %q; want that of its own prefix", code, stdout, stderr)
	}
	if _, err := os.Stat(prefix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after uninstall: %v; want the prefix gone", err)
	}
}

// TestInstallJSON holds the forms that programs read.
func TestInstallJSON(t *testing.T) {
	w := newWorld(t)
	w.user()
	w.env["PATH"] += ":/venv/bin:/other/bin"
	for _, args := range []string{"--json", "", "-v", "-a install --json", "-a uninstall --json"} {
		_, stdout, _ := w.run(strings.Fields(args)...)
		name := strings.Join(strings.FieldsFunc("run "+args, func(r rune) bool { return r == ' ' || r == '-' }), "-")
		ext := ".txt"
		if strings.Contains(args, "json") {
			ext = ".json"
			if !json.Valid([]byte(stdout)) {
				t.Errorf("%s prints no JSON:\n%s", args, stdout)
			}
		}
		golden(t, name+ext, stdout)
	}
	if m, err := installer.ReadManifest(filepath.Join(w.env["HOME"], ".local")); !errors.Is(err, installer.ErrNotInstalled) {
		t.Errorf("after uninstall the manifest is %+v, %v", m, err)
	}
}
