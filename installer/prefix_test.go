package installer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root every folder can be written: only the order is seen")
	}
	root := t.TempDir()
	for _, folder := range []string{"home/.local/bin", "venv/bin", "opt/bin", "opt/sbin", "plain"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "open/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "open/bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		path string // of PATH, below root
		home string
		venv string
		want string // below root, or an error's words
	}{
		{"the user's own", "venv/bin opt/bin home/.local/bin", "home", "venv", "home/.local"},
		{"the user's own, not on PATH", "opt/bin venv/bin", "home", "venv", "venv"},
		{"an environment that is not activated", "opt/bin venv/bin", "home", "", "opt"},
		{"not made yet", "fresh/.local/bin", "fresh", "", "fresh/.local"},
		{"a bin of everybody", "open/bin opt/bin", "", "", "opt"},
		{"folders that are no bin", "plain opt/sbin", "", "", "PATH names none"},
		{"nothing", "", "home", "", "its bin is not on PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Environment{}
			for _, p := range strings.Fields(c.path) {
				e.Path = append(e.Path, filepath.Join(root, p))
			}
			if c.home != "" {
				e.Home = filepath.Join(root, c.home)
			}
			if c.venv != "" {
				e.VirtualEnv = filepath.Join(root, c.venv)
			}
			got, err := Choose(e)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--prefix DIR") {
					t.Errorf("Choose = %v; want %q and a cure", err, c.want)
				}
				return
			}
			if want := filepath.Join(root, c.want); got != want {
				t.Errorf("Choose = %s; want %s", got, want)
			}
		})
	}
}

// TestCandidatesOfRoot: /usr/local comes first, what the distribution owns never.
func TestCandidatesOfRoot(t *testing.T) {
	e := Environment{Root: true, Home: "/root", Path: []string{"/usr/bin", "/bin", "/usr/sbin", "relative/bin", "/snap/bin", "/usr/local/bin"}}
	var got []string
	for _, c := range Candidates(e) {
		got = append(got, c.Prefix)
	}
	if want := "/usr/local /root/.local /snap"; strings.Join(got, " ") != want {
		t.Errorf("Candidates = %v; want %s", got, want)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"version":"v1","state":"complete","files":[{"path":"bin/x","sha256":"00","size":1,"mode":"0755"}],"folders":["bin"],"folders_above":1}`))
	f.Add([]byte(`{"format":1,"state":"changing","files":[{"path":"/etc/passwd","target":"x"}]}`))
	f.Add([]byte(`{"format":1,"state":"complete","folders":["../.."]}`))
	f.Add([]byte(`{"format":1,"state":"complete","temporary":["bin/../../x"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		for _, e := range m.Files {
			if !filepath.IsLocal(e.Path) {
				t.Errorf("parseManifest lets %q out of the prefix", e.Path)
			}
		}
		for _, p := range append(m.Folders, m.Temporary...) {
			if !filepath.IsLocal(p) {
				t.Errorf("parseManifest lets %q out of the prefix", p)
			}
		}
		if _, err := parseManifest(m.encode()); err != nil {
			t.Errorf("parseManifest refuses its own form: %v", err)
		}
	})
}
