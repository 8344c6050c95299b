package installer

// The manifest: which files are ours.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Folder holds what is not on PATH, and the manifest, both below the prefix.
const (
	Folder       = "lib/tokenscope"
	ManifestPath = Folder + "/manifest.json"
)

// manifestTemporary is the manifest while it is being written. Its name is fixed, so
// that a killed process leaves none that nobody knows.
const manifestTemporary = Folder + "/.manifest.json.new"

// manifestFormat is the version of the form below.
const manifestFormat = 1

// maxManifestBytes bounds what is read: a manifest has a kilobyte.
const maxManifestBytes = 1 << 20

// States of an installation.
const (
	stateComplete = "complete"
	// stateChanging: an install has begun and not ended. Files holds the old ones and
	// the new ones, the same path perhaps twice.
	stateChanging = "changing"
)

// Manifest is what the file of that name says.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"`
	State     string    `json:"state"`
	Installed time.Time `json:"installed"`
	Files     []Entry   `json:"files"`
	// Folders are those that were made, below the prefix, the outer ones first; Above
	// counts those made for it: itself and its parents.
	Folders []string `json:"folders"`
	Above   int      `json:"folders_above"`
	// Temporary are files that exist only while an install is at work.
	Temporary []string `json:"temporary,omitempty"`
}

// Entry is one file. All paths are below the prefix.
type Entry struct {
	Path string `json:"path"`
	// Target is where a link points to; then the rest is empty.
	Target string `json:"target,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Mode   string `json:"mode,omitempty"` // octal: "0755"
}

// ErrNotInstalled is wrapped where a prefix has no manifest.
var ErrNotInstalled = errors.New("not installed")

// ReadManifest reads that of a prefix.
func ReadManifest(prefix string) (*Manifest, error) {
	path := filepath.Join(prefix, ManifestPath)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w under %s", ErrNotInstalled, prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w; it does not come from this program: remove it by hand if nothing needs it", path, err)
	}
	return m, nil
}

// parseManifest reads a manifest and refuses one whose paths lead out of the prefix: it
// decides what is deleted.
func parseManifest(data []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("format %d is not %d", m.Format, manifestFormat)
	}
	if m.State != stateComplete && m.State != stateChanging {
		return nil, fmt.Errorf("state %q is unknown", m.State)
	}
	if m.Above < 0 {
		return nil, fmt.Errorf("folders_above is %d", m.Above)
	}
	paths := append(append([]string{}, m.Folders...), m.Temporary...)
	for _, e := range m.Files {
		paths = append(paths, e.Path)
		if e.Target == "" && e.SHA256 == "" {
			return nil, fmt.Errorf("file %q has neither target nor sha256", e.Path)
		}
	}
	for _, p := range paths {
		if !filepath.IsLocal(p) || filepath.Clean(p) != p || p == "." {
			return nil, fmt.Errorf("path %q is not below the prefix", p)
		}
	}
	return &m, nil
}

// encode is the file's text.
func (m *Manifest) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // strings and numbers only: it cannot fail
	return b.Bytes()
}

// entries are those of a path; a nil manifest has none.
func (m *Manifest) entries(path string) []Entry {
	if m == nil {
		return nil
	}
	var found []Entry
	for _, e := range m.Files {
		if e.Path == path {
			found = append(found, e)
		}
	}
	return found
}

// matches reports whether the file under prefix is as the entry says.
func (e Entry) matches(prefix string) (bool, error) {
	path := filepath.Join(prefix, e.Path)
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	if e.Target != "" {
		if info.Mode().Type() != fs.ModeSymlink {
			return false, nil
		}
		target, err := os.Readlink(path)
		return err == nil && target == e.Target, err
	}
	if !info.Mode().IsRegular() || info.Size() != e.Size {
		return false, nil
	}
	sum, _, err := hashFile(path)
	return sum == e.SHA256, err
}

// octal is a mode as the manifest has it.
func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }

func hashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
