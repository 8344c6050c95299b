package installer

// Failing, and being killed, in front of every single change.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// failAt gives a hook that fails in front of the nth change, and counts them.
func failAt(n int, err error) (hook func(string) error, count *int) {
	count = new(int)
	return func(string) error {
		*count++
		if *count == n {
			return err
		}
		return nil
	}, count
}

// scenarios are the states that an install of v2 may find.
var scenarios = []struct {
	name    string
	prepare func(t *testing.T, prefix string)
	force   bool
}{
	{"no prefix", func(*testing.T, string) {}, false},
	{"a prefix with other things", func(t *testing.T, p string) {
		write(t, p+"/bin/other", 0o755, "other")
		write(t, p+"/lib/other.so", 0o644, "other")
	}, false},
	{"an older version", func(t *testing.T, p string) { mustInstall(t, p, payload(t, "v1")) }, false},
	{"an older version with more files", func(t *testing.T, p string) {
		more := payload(t, "v1")
		more.Files = append(more.Files, File{Path: "bin/gone", Mode: 0o755, Data: []byte("x")})
		mustInstall(t, p, more)
	}, false},
	{"somebody else's programs, forced", func(t *testing.T, p string) {
		write(t, p+"/bin/instrument", 0o755, "other")
		link(t, p, "bin/tokenscope", "elsewhere")
	}, true},
}

// TestFailAnywhere: an install that fails leaves what was there before, to the byte.
func TestFailAnywhere(t *testing.T) {
	v2 := payload(t, "v2")
	broken := errors.New("disk on fire")
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for n := 1; ; n++ {
				prefix := filepath.Join(t.TempDir(), "p")
				s.prepare(t, prefix)
				before := take(t, filepath.Dir(prefix))
				hook, count := failAt(n, broken)
				_, err := Install(deadline(t), Options{Prefix: prefix, Payload: v2, Force: s.force, Try: func(string) error { return nil }, before: hook})
				if *count < n {
					if n < 10 {
						t.Fatalf("an install has only %d steps: the hook is not called", n)
					}
					return
				}
				if err == nil { // tidying up at the end
					continue
				}
				if !errors.Is(err, broken) {
					t.Fatalf("step %d: Install = %v; want the cause", n, err)
				}
				checkPicture(t, "after a failed install", take(t, filepath.Dir(prefix)), before)
			}
		})
	}
}

// TestKillAnywhere: an install that is killed leaves each file old or new and whole; the
// next install completes it, and the next uninstall leaves nothing.
func TestKillAnywhere(t *testing.T) {
	v2 := payload(t, "v2")
	whole := map[string][]string{
		"bin/instrument": {"instrument v1", "instrument v2", "other"},
		"bin/bootstrap":  {"bootstrap v1", "bootstrap v2"},
	}
	for _, s := range scenarios {
		for _, next := range []string{"install", "uninstall"} {
			t.Run(s.name+", then "+next, func(t *testing.T) {
				for n := 1; ; n++ {
					prefix := filepath.Join(t.TempDir(), "p")
					s.prepare(t, prefix)
					before := take(t, filepath.Dir(prefix))
					var last string
					hook, count := failAt(n, errKilled)
					_, err := Install(deadline(t), Options{Prefix: prefix, Payload: v2, Force: s.force, before: func(step string) error {
						last = step
						return hook(step)
					}})
					if *count < n {
						return
					}
					if err != nil && !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					for path, texts := range whole {
						data, err := os.ReadFile(filepath.Join(prefix, path))
						if err != nil {
							if before["p/"+path] != "" {
								t.Errorf("killed before %q: %s was there and is gone", last, path)
							}
							continue
						}
						if !strings.Contains("\n"+strings.Join(texts, "\n")+"\n", "\n"+string(data)+"\n") {
							t.Errorf("killed before %q: %s = %q; want one of %q", last, path, data, texts)
						}
					}
					if next == "install" {
						if _, err := Install(deadline(t), Options{Prefix: prefix, Payload: v2, Force: s.force}); err != nil {
							t.Fatalf("install after one that was killed before %q: %v", last, err)
						}
						if plan, err := NewPlan(prefix, v2, false); err != nil || !plan.Done() {
							t.Errorf("killed before %q, installed again: NewPlan = %+v, %v; want nothing left to do", last, plan, err)
						}
					}
					_, err = Uninstall(deadline(t), Options{Prefix: prefix})
					if err != nil && !errors.Is(err, ErrNotInstalled) {
						t.Fatalf("uninstall after an install that was killed before %q: %v", last, err)
					}
					// Empty folders made before there was a manifest may stay.
					checkLeft(t, last, take(t, filepath.Dir(prefix)), before)
				}
			})
		}
	}
}

// checkLeft wants that of files only those are left that somebody else put there.
func checkLeft(t *testing.T, last string, got, before picture) {
	t.Helper()
	for path, is := range got {
		if strings.HasPrefix(is, "d") || is == before[path] && !strings.Contains(is, "v1") {
			continue
		}
		t.Errorf("killed before %q, then uninstalled: %s is left: %s", last, path, is)
	}
	for path, was := range before {
		foreign := strings.Contains(was, `"other"`) && !strings.Contains(path, "instrument")
		if foreign && got[path] != was {
			t.Errorf("killed before %q, then uninstalled: %s is %q; want %q", last, path, got[path], was)
		}
	}
}

// TestKillUninstall: an uninstall that is killed is ended by the next one.
func TestKillUninstall(t *testing.T) {
	for n := 1; ; n++ {
		parent := t.TempDir()
		prefix := filepath.Join(parent, "p")
		mustInstall(t, prefix, payload(t, "v1"))
		hook, count := failAt(n, errKilled)
		if _, err := Uninstall(deadline(t), Options{Prefix: prefix, before: hook}); *count < n {
			if err != nil || n < 5 {
				t.Fatalf("%d steps, %v; want several and no error", n, err)
			}
			return
		}
		mustUninstall(t, prefix)
		if got := take(t, parent); len(got) != 1 {
			t.Errorf("killed at step %d, then uninstalled: %v is left", n, got)
		}
	}
}
