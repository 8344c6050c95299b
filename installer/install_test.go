package installer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestInstall(t *testing.T) {
	// Under a narrow umask what is installed is for all users nevertheless.
	defer unix.Umask(unix.Umask(0o077))
	prefix := filepath.Join(t.TempDir(), "a/b/prefix")
	mustInstall(t, prefix, payload(t, "v1"))

	got := take(t, prefix)
	for path, want := range map[string]string{
		"bin": "drwxr-xr-x", "lib": "drwxr-xr-x", "lib/tokenscope": "drwxr-xr-x",
		"bin/instrument": "-rwxr-xr-x", "bin/bootstrap": "-rwxr-xr-x", "lib/tokenscope/lib-v1.so": "-rwxr-xr-x",
		"bin/tokenscope": "Lrwxrwxrwx -> instrument", ManifestPath: "-rw-r--r--",
	} {
		if !strings.HasPrefix(got[path], want) {
			t.Errorf("after install %s is %q; want %s", path, got[path], want)
		}
	}
	if len(got) != 9 { // with the prefix itself
		t.Errorf("after install there are %d files and folders; want 9: %v", len(got), got)
	}
}

func TestInstallDecides(t *testing.T) {
	v1 := payload(t, "v1")
	old := payload(t, "v0")
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, prefix string)
		force   bool
		want    string // actions, or an error's words
		after   string // what bin/instrument says afterwards
	}{
		{"nothing there", func(*testing.T, string) {}, false,
			"instrument:create tokenscope:create bootstrap:create lib-v1.so:create", "instrument v1"},
		{"installed already", func(t *testing.T, p string) { mustInstall(t, p, v1) }, false,
			"instrument:keep tokenscope:keep bootstrap:keep lib-v1.so:keep", "instrument v1"},
		{"an older version", func(t *testing.T, p string) { mustInstall(t, p, old) }, false,
			"instrument:replace tokenscope:keep bootstrap:replace lib-v1.so:create", "instrument v1"},
		{"one file lost", func(t *testing.T, p string) { mustInstall(t, p, v1); remove(t, p, "bin/instrument") }, false,
			"instrument:create tokenscope:keep bootstrap:keep lib-v1.so:keep", "instrument v1"},
		{"a mode changed", func(t *testing.T, p string) { mustInstall(t, p, v1); chmod(t, p, "bin/instrument", 0o644) }, false,
			"instrument:replace tokenscope:keep bootstrap:keep lib-v1.so:keep", "instrument v1"},
		{"put there by pip", func(t *testing.T, p string) { write(t, p+"/bin/instrument", 0o755, "instrument v1") }, false,
			"instrument:in place tokenscope:create bootstrap:create lib-v1.so:create", "instrument v1"},
		{"second name put there by pip as a copy", func(t *testing.T, p string) { write(t, p+"/bin/tokenscope", 0o755, "instrument v1") }, false,
			"instrument:create tokenscope:in place bootstrap:create lib-v1.so:create", "instrument v1"},
		{"another program of that name", func(t *testing.T, p string) { write(t, p+"/bin/instrument", 0o755, "other") }, false,
			"bin/instrument is there already and is not ours", "other"},
		{"another program of that name, forced", func(t *testing.T, p string) { write(t, p+"/bin/instrument", 0o755, "other") }, true,
			"instrument:overwrite tokenscope:create bootstrap:create lib-v1.so:create", "instrument v1"},
		{"a link of somebody else's", func(t *testing.T, p string) { link(t, p, "bin/instrument", "/bin/true") }, false,
			"bin/instrument is there already and is not ours", ""},
		{"another program has the optional name", func(t *testing.T, p string) { write(t, p+"/bin/bootstrap", 0o755, "other") }, false,
			"instrument:create tokenscope:create bootstrap:skip lib-v1.so:create", "instrument v1"},
		{"ours, changed by hand", func(t *testing.T, p string) {
			mustInstall(t, p, old)
			write(t, p+"/bin/instrument", 0o755, "changed")
		}, false, "bin/instrument was changed after it was installed", "changed"},
		{"a folder of that name", func(t *testing.T, p string) { write(t, p+"/bin/instrument/x", 0o644, "") }, true,
			"bin/instrument: is a folder", ""},
		{"an older version with another program", func(t *testing.T, p string) {
			more := old
			more.Files = append(more.Files[:4:4], File{Path: "bin/gone", Mode: 0o755, Data: []byte("x")})
			mustInstall(t, p, more)
		}, false, "instrument:replace tokenscope:keep bootstrap:replace lib-v1.so:create gone:remove", "instrument v1"},
		{"a manifest that is none", func(t *testing.T, p string) { write(t, p+"/"+ManifestPath, 0o644, "{}") }, true,
			"it does not come from this program", ""},
		{"a manifest that leads out", func(t *testing.T, p string) {
			write(t, p+"/"+ManifestPath, 0o644, `{"format":1,"state":"complete","files":[{"path":"../x","sha256":"y"}]}`)
		}, true, `path "../x" is not below the prefix`, ""},
		{"prefix is a file", func(t *testing.T, p string) { write(t, p, 0o644, "") }, false, "not a directory", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			prefix := filepath.Join(t.TempDir(), "p")
			c.prepare(t, prefix)
			before := take(t, filepath.Dir(prefix))
			o := Options{Prefix: prefix, Payload: v1, Force: c.force}
			plan, err := NewPlan(prefix, v1, c.force)
			checkPicture(t, "NewPlan changed the prefix", take(t, filepath.Dir(prefix)), before)
			did, ierr := Install(deadline(t), o)
			if err != nil || ierr != nil {
				if err == nil || ierr == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(ierr.Error(), c.want) {
					t.Errorf("NewPlan: %v; Install: %v; want both to say %q", err, ierr, c.want)
				}
				checkPicture(t, "a refused install changed the prefix", take(t, filepath.Dir(prefix)), before)
				return
			}
			if actions(plan) != c.want || actions(did) != c.want {
				t.Errorf("NewPlan = %s; Install = %s; want %s", actions(plan), actions(did), c.want)
			}
			if got := text(t, prefix+"/bin/instrument"); got != c.after {
				t.Errorf("bin/instrument = %q; want %q", got, c.after)
			}
			if again, err := NewPlan(prefix, v1, false); err != nil || !again.Done() {
				t.Errorf("a second NewPlan = %+v, %v; want nothing left to do", again, err)
			}
		})
	}
}

func remove(t *testing.T, prefix, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(prefix, name)); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, prefix, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(prefix, name), mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, prefix, name, target string) {
	t.Helper()
	path := filepath.Join(prefix, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// TestInstallTries: a program that does not run is not put in place.
func TestInstallTries(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "p")
	mustInstall(t, prefix, payload(t, "v1"))
	before := take(t, prefix)
	var tried []string
	_, err := Install(deadline(t), Options{Prefix: prefix, Payload: payload(t, "v2"), Try: func(path string) error {
		tried = append(tried, text(t, path))
		if len(tried) == 2 {
			return errors.New("exec format error")
		}
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "try bin/bootstrap: exec format error") {
		t.Errorf("Install = %v; want that bootstrap cannot be run", err)
	}
	if got := strings.Join(tried, ", "); got != "instrument v2, bootstrap v2" {
		t.Errorf("tried %q; want both new programs", got)
	}
	checkPicture(t, "after a failed try", take(t, prefix), before)
}

// TestInstallAtOnce: several pods fill one volume. All succeed, and the result is whole.
func TestInstallAtOnce(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "p")
	p := payload(t, "v1")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Install(deadline(t), Options{Prefix: prefix, Payload: p}); err != nil {
				t.Errorf("Install beside others: %v", err)
			}
		})
	}
	wg.Wait()
	if plan, err := NewPlan(prefix, p, false); err != nil || !plan.Done() {
		t.Errorf("NewPlan = %+v, %v; want nothing left to do", plan, err)
	}
	mustUninstall(t, prefix)
	if _, err := os.Stat(prefix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after uninstall the prefix is there: %v", take(t, prefix))
	}
}

// TestLockHeld: who waits for too long says for what.
func TestLockHeld(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "p")
	mustInstall(t, prefix, payload(t, "v1"))
	unlock, err := lock(deadline(t), filepath.Join(prefix, Folder))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	_, err = Install(ctx, Options{Prefix: prefix, Payload: payload(t, "v2")})
	if err == nil || !strings.Contains(err.Error(), "another bootstrap is at work there") {
		t.Errorf("Install beside a lock = %v; want that another is at work", err)
	}
	if _, err := Uninstall(ctx, Options{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), "another bootstrap is at work there") {
		t.Errorf("Uninstall beside a lock = %v; want that another is at work", err)
	}
}
