//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// dpkg installs into a root with nothing in it, not even a libc; the programs run there.
func TestDeb(t *testing.T) {
	need(t, "dpkg", "dpkg-deb", "chroot")
	needRoot(t)
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available", "statoverride"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	admin := filepath.Join(root, "var")
	dpkg := func(args ...string) string {
		return run(t, "dpkg", append([]string{"--root=" + root, "--log=" + os.DevNull, "--force-architecture"}, args...)...)
	}
	pkg := artefact(t, "tokenscope_*_"+runtime.GOARCH+".deb")
	dpkg("--install", pkg)
	if got := dpkg("--verify", "tokenscope"); got != "" {
		t.Errorf("dpkg --verify: %s", got)
	}
	if got, want := run(t, "dpkg-query", "--admindir="+filepath.Join(admin, "lib/dpkg"), "--show", "--showformat=${Status} ${Version}", "tokenscope"),
		"install ok installed "+run(t, "dpkg-deb", "--field", pkg, "Version"); got != strings.TrimSpace(want) {
		t.Errorf("dpkg-query = %q; want %q", got, want)
	}
	works(t, func(name string, args ...string) string {
		return run(t, "chroot", append([]string{root, "/usr/bin/" + name}, args...)...)
	})
	dpkg("--purge", "tokenscope")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "var" {
			t.Errorf("dpkg --purge left %v", listing(t, filepath.Join(root, e.Name())))
		}
	}
}
