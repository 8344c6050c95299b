package main

// check.sh, on small repositories whose make dist is reproducible or not: the real one takes
// minutes, and is expected to find nothing.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckScript(t *testing.T) {
	for _, program := range []string{"bash", "git", "make", "cmp"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	script, err := os.ReadFile("check.sh")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, recipe string
		ok           bool
		says         string
	}{
		{"the same bytes", "mkdir dist; echo same > dist/a; echo same > dist/b", true, "two clones gave the same bytes: 2 files"},
		{"bytes that differ", "mkdir dist; echo same > dist/a; date +%N > dist/b", false, "not reproducible"},
		{"the folder's name", "mkdir dist; pwd > dist/a", false, "not reproducible"},
		{"the time zone", "mkdir dist; date -d @0 +%H > dist/a", false, "not reproducible"},
		{"the umask", "mkdir dist; umask > dist/a", false, "not reproducible"},
		{"flags of the go command", "mkdir dist; echo $$GOFLAGS > dist/a", false, "not reproducible"},
		{"a file more", "mkdir dist; echo same > dist/a; touch dist/$$GOFLAGS.extra", false, "other files"},
		{"a release that fails", "false", false, ""},
		{"a release of nothing", "mkdir dist", false, "no files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := repository(t)
			for name, text := range map[string]string{
				"installer/dist/check.sh": string(script),
				"Makefile":                "dist:\n\t@" + tt.recipe + "\n",
			} {
				name = filepath.Join(root, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "-m", "release"}} {
				cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %s: %v: %s", args[0], err, out)
				}
			}
			cmd := exec.Command("bash", filepath.Join(root, "installer", "dist", "check.sh"))
			// make, when it runs the tests, tells its children of itself.
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.ok || !strings.Contains(string(out), tt.says) {
				t.Errorf("check.sh: %v, %s\nwant success: %t, and %q", err, out, tt.ok, tt.says)
			}
		})
	}
}
