package host

// Machines made of files.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine makes a folder that stands for a machine. A text that begins with "-> " is a
// link; a name that ends with a slash is a folder.
func machine(t *testing.T, files map[string]string) View {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return View{Root: root}
}
