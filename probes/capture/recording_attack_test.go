package capture

// Recordings come from other people: what one must not do to its reader.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestConnectionNamesAreBounded(t *testing.T) {
	open := func(r *lineReader, name string) error {
		_, err := r.read(fmt.Appendf(nil, `{"t_ns":1,"src":"http","op":"open","conn":%q}`, name))
		return err
	}
	var r lineReader
	if err := open(&r, strings.Repeat("a", maxConnName+1)); err == nil {
		t.Error("a name that is too long was taken")
	}
	for i := range maxConnNames {
		if err := open(&r, fmt.Sprintf("host:%d", i)); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := open(&r, "one:more"); err == nil {
		t.Errorf("connection %d was taken", maxConnNames+1)
	}
	if _, err := r.read([]byte(`{"t_ns":1,"src":"http","op":"close","conn":"host:7"}`)); err != nil {
		t.Fatal(err)
	}
	if err := open(&r, "one:more"); err != nil {
		t.Errorf("after a close: %v", err)
	}
}

func TestMetaMustBeASmallFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"too long": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		path := filepath.Join(t.TempDir(), metaFile)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if name == "too long" {
			if err := os.Truncate(path, maxMeta+1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readMeta(path); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
