package installer

// What the tests share: payloads, and pictures of a folder.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// payload has everything that the real one has: two programs, one of them optional, a
// link, and a library whose name follows from its content.
func payload(t *testing.T, version string) Payload {
	t.Helper()
	source := filepath.Join(t.TempDir(), "instrument")
	write(t, source, 0o755, "instrument "+version)
	other := filepath.Join(filepath.Dir(source), "bootstrap")
	write(t, other, 0o755, "bootstrap "+version)
	return Payload{Version: version, Files: []File{
		{Path: "bin/instrument", Mode: 0o755, Source: source},
		{Path: "bin/tokenscope", Mode: 0o755, Link: "instrument"},
		{Path: "bin/bootstrap", Mode: 0o755, Source: other, Optional: true},
		{Path: Folder + "/lib-" + version + ".so", Mode: 0o755, Data: []byte("library " + version)},
	}}
}

func write(t *testing.T, path string, mode fs.FileMode, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// picture is what is under a folder: each path with mode and content.
type picture map[string]string

func take(t *testing.T, folder string) picture {
	t.Helper()
	p := picture{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %.40q %x", data, sha256.Sum256(data))
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + target
		}
		p[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkPicture(t *testing.T, what string, got, want picture) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// mustInstall installs or ends the test.
func mustInstall(t *testing.T, prefix string, p Payload) *Plan {
	t.Helper()
	plan, err := Install(deadline(t), Options{Prefix: prefix, Payload: p})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// text is a file's content.
func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// actions is a plan in one line.
func actions(p *Plan) string {
	var words []string
	for _, s := range p.Steps {
		words = append(words, fmt.Sprintf("%s:%s", filepath.Base(s.Path), s.Action))
	}
	return strings.Join(words, " ")
}
