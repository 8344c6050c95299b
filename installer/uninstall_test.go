package installer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustUninstall(t *testing.T, prefix string) *Removal {
	t.Helper()
	r, err := Uninstall(deadline(t), Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUninstall(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(t *testing.T, prefix string) // install
		after   func(t *testing.T, prefix string) // install
		force   bool
		removed string
		changed string
		left    string // files and folders below the prefix's parent that were not there before
	}{
		{"all", nil, nil, false, "instrument tokenscope bootstrap lib-v1.so", "", ""},
		{"a prefix that was there", func(t *testing.T, p string) { write(t, p+"/bin/other", 0o755, "x") }, nil, false,
			"instrument tokenscope bootstrap lib-v1.so", "", ""},
		{"something else in our folders", nil, func(t *testing.T, p string) { write(t, p+"/bin/new", 0o755, "x") }, false,
			"instrument tokenscope bootstrap lib-v1.so", "", "p p/bin p/bin/new"},
		{"a file is gone", nil, func(t *testing.T, p string) { remove(t, p, "bin/bootstrap") }, false,
			"instrument tokenscope lib-v1.so", "", ""},
		{"a file was changed", nil, func(t *testing.T, p string) { write(t, p+"/bin/instrument", 0o755, "mine") }, false,
			"tokenscope bootstrap lib-v1.so", "instrument", "p p/bin p/bin/instrument p/lib p/lib/tokenscope p/" + ManifestPath},
		{"a file was changed, forced", nil, func(t *testing.T, p string) { write(t, p+"/bin/instrument", 0o755, "mine") }, true,
			"instrument tokenscope bootstrap lib-v1.so", "", ""},
		{"a link was pointed elsewhere", nil, func(t *testing.T, p string) {
			remove(t, p, "bin/tokenscope")
			link(t, p, "bin/tokenscope", "elsewhere")
		}, false, "instrument bootstrap lib-v1.so", "tokenscope", "p p/bin p/bin/tokenscope p/lib p/lib/tokenscope p/" + ManifestPath},
		{"upgraded before", func(t *testing.T, p string) { mustInstall(t, p, payload(t, "v0")) }, nil, false,
			"lib-v0.so instrument tokenscope bootstrap lib-v1.so", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			prefix := filepath.Join(parent, "p")
			if c.before != nil {
				c.before(t, prefix)
			}
			was := take(t, parent)
			mustInstall(t, prefix, payload(t, "v1"))
			if c.after != nil {
				c.after(t, prefix)
			}
			would, err := NewRemoval(prefix, c.force)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Uninstall(deadline(t), Options{Prefix: prefix, Force: c.force})
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []*Removal{would, r} {
				if bases(got.Removed) != c.removed || bases(got.Changed) != c.changed {
					t.Errorf("removed %q, changed %q; want %q, %q", bases(got.Removed), bases(got.Changed), c.removed, c.changed)
				}
			}
			left := map[string]bool{}
			for _, path := range strings.Fields(c.left) {
				left[path] = true
			}
			now := take(t, parent)
			for path := range now {
				if was[path] == "" && !left[path] {
					t.Errorf("%s is left", path)
				}
				delete(left, path)
			}
			if len(left) > 0 {
				t.Errorf("%v should be left: %v", left, now)
			}
			// The second time only what was changed is left to say.
			again, err := Uninstall(deadline(t), Options{Prefix: prefix})
			if c.changed != "" {
				if err != nil || bases(again.Changed) != c.changed || len(again.Removed) != 0 {
					t.Errorf("a second Uninstall = %+v, %v; want %s still changed", again, err, c.changed)
				}
				return
			}
			if !errors.Is(err, ErrNotInstalled) {
				t.Errorf("a second Uninstall = %v; want not installed", err)
			}
		})
	}
}

func bases(paths []string) string {
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return strings.Join(names, " ")
}

// TestLinkThatCannotBe: where the file system has no links the second name is a copy,
// and the manifest knows it as one.
func TestLinkThatCannotBe(t *testing.T) {
	p := payload(t, "v1")
	plan, err := NewPlan(t.TempDir(), p, false)
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "p")
	mustInstall(t, prefix, p)
	remove(t, prefix, "bin/tokenscope")
	write(t, prefix+"/bin/tokenscope", 0o755, "instrument v1")
	copied := plan.Steps[1].wanted[1]
	m, err := ReadManifest(prefix)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range m.Files {
		if e.Path == copied.Path {
			m.Files[i] = copied
		}
	}
	if err := os.WriteFile(filepath.Join(prefix, ManifestPath), m.encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	if plan, err := NewPlan(prefix, p, false); err != nil || !plan.Done() {
		t.Errorf("NewPlan over a copy = %+v, %v; want nothing left to do", plan, err)
	}
	if plan, err := NewPlan(prefix, payload(t, "v2"), false); err != nil || plan.Steps[1].Action != ActionReplace {
		t.Errorf("NewPlan of v2 over a copy = %+v, %v; want it replaced", plan, err)
	}
	if r := mustUninstall(t, prefix); len(r.Changed) != 0 || len(r.Removed) != 4 {
		t.Errorf("Uninstall = %+v; want the copy removed too", r)
	}
}
