package tryout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/preload"
)

// TestPreload really tries the library, in folders of this test, and leaves nothing there.
func TestPreload(t *testing.T) {
	if preload.Library() == nil {
		t.Skip("there is no library for this architecture")
	}
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "XDG_RUNTIME_DIR", "TMPDIR"} {
		t.Setenv(name, home)
	}
	v := Preload(t.Context())
	if v.Err != nil {
		t.Fatalf("Preload = %v; want that it works wherever tests run", v.Err)
	}
	if program, _ := findProgram(); program != "" && !strings.Contains(v.Note, "tried in "+program) {
		t.Errorf("Preload notes %q; want that it was tried in %s", v.Note, program)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("Preload has left %v, %v", entries, err)
	}
}

// TestListen: what does not carry the library is not taken for what does.
func TestListen(t *testing.T) {
	ring, err := preload.Create(preload.RingOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	loud := filepath.Join(t.TempDir(), "loud")
	if err := os.WriteFile(loud, []byte("#!/bin/sh\necho cannot be preloaded >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, program, want string
		args                []string
	}{
		{"a program without the library", self, errSilent.Error(), []string{"-test.run=^$"}},
		{"a loader that says why", loud, `it said "cannot be preloaded" (exit status 3)`, nil},
		{"a program that is none", filepath.Join(t.TempDir(), "none"), "no such file", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), preloadLimit)
			defer cancel()
			if err := listen(ctx, ring, c.program, c.args, os.Environ()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("listen = %v; want %q", err, c.want)
			}
		})
	}
	t.Run("a program that does not end", func(t *testing.T) {
		endless := filepath.Join(t.TempDir(), "endless")
		if err := os.WriteFile(endless, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := listen(ctx, ring, endless, nil, os.Environ()); !errors.Is(err, errSilent) {
			t.Errorf("listen = %v; want that it is given up", err)
		}
	})
}

// TestFolders: what was made is removed, and nothing else.
func TestFolders(t *testing.T) {
	base := t.TempDir()
	there := filepath.Join(base, "there")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	f := newFolders([]string{there, filepath.Join(base, "a/b"), filepath.Join(base, "c/d")})
	for _, path := range f.paths {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "library"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A launcher that starts meanwhile uses the same folder.
	other := filepath.Join(base, "c/d/libtokenscope.so")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := f.shown(filepath.Join(f.paths[1], "library")); got != filepath.Join(base, "a/b") {
		t.Errorf("shown = %s; want the folder that was meant", got)
	}
	if got := f.shown("/proc/1/fd/5"); got != "memory" {
		t.Errorf("shown = %s; want memory", got)
	}
	if err := f.remove(); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range []string{there, filepath.Join(base, "a"), other, f.paths[0], f.paths[2]} {
		if _, err := os.Stat(path); err == nil {
			left = append(left, path)
		}
	}
	if strings.Join(left, " ") != there+" "+other {
		t.Errorf("remove leaves %q; want %s and %s", left, there, other)
	}
}

func TestDynamic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{script, "/none", os.TempDir()} {
		if dynamic(path) {
			t.Errorf("dynamic(%s) = true", path)
		}
	}
}
