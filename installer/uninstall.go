package installer

// Uninstalling.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Removal is what an uninstall did, or would do. Paths are below the prefix.
type Removal struct {
	Version string
	Removed []string
	// Changed are left, because they are not as they were installed.
	Changed []string
}

// NewRemoval says what an uninstall would do and changes nothing.
func NewRemoval(prefix string, force bool) (*Removal, error) {
	m, err := ReadManifest(prefix)
	if err != nil {
		return nil, err
	}
	r := &Removal{Version: m.Version}
	for _, e := range m.Files {
		if slices.Contains(r.Removed, e.Path) || slices.Contains(r.Changed, e.Path) {
			continue
		}
		ok, err := anyMatches(m.entries(e.Path), prefix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("look at %s: %w", filepath.Join(prefix, e.Path), err)
		case ok || force:
			r.Removed = append(r.Removed, e.Path)
		case m.State == stateChanging:
			// The install that was killed had not come that far: it is still somebody else's.
		default:
			r.Changed = append(r.Changed, e.Path)
		}
	}
	return r, nil
}

// Uninstall removes what the manifest lists, and the folders that were made for it if
// nothing else is in them. Files that were changed stay, unless Force is set, and then
// the manifest stays too and lists them. If it is stopped, the next one goes on.
func Uninstall(ctx context.Context, o Options) (*Removal, error) {
	r, err := o.uninstall(ctx)
	if err != nil && !errors.Is(err, ErrNotInstalled) {
		return nil, fmt.Errorf("uninstall from %s: %w", o.Prefix, err)
	}
	return r, err
}

func (o *Options) uninstall(ctx context.Context) (*Removal, error) {
	if _, err := ReadManifest(o.Prefix); err != nil {
		return nil, err
	}
	t := &transaction{prefix: o.Prefix, before: o.before}
	unlock, err := lock(ctx, t.path(Folder))
	if errors.Is(err, errGone) {
		return nil, fmt.Errorf("%w under %s", ErrNotInstalled, o.Prefix)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := ReadManifest(o.Prefix)
	if err != nil {
		return nil, err
	}
	r, err := NewRemoval(o.Prefix, o.Force)
	if err != nil {
		return nil, err
	}
	o.progress(1, uninstallParts, "remove %d files", len(r.Removed))
	for _, name := range slices.Concat(m.Temporary, []string{manifestTemporary}, r.Removed) {
		if err := t.step("remove " + name); err != nil {
			return nil, err
		}
		if err := os.Remove(t.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	o.progress(2, uninstallParts, "remove folders and manifest")
	if len(r.Changed) > 0 {
		m.Files = slices.DeleteFunc(m.Files, func(e Entry) bool { return !slices.Contains(r.Changed, e.Path) })
		m.State, m.Temporary = stateComplete, nil
		return r, t.writeManifest(m)
	}
	return r, t.removeFolders(m)
}

// removeFolders removes the manifest and the folders around it, from the inside out.
func (t *transaction) removeFolders(m *Manifest) error {
	outside := slices.DeleteFunc(slices.Clone(m.Folders), func(name string) bool {
		return name == Folder || name == filepath.Dir(Folder)
	})
	for _, name := range slices.Backward(outside) {
		if err := t.step("folder " + name); err != nil {
			return err
		}
		if err := removeEmpty(t.path(name)); err != nil {
			return err
		}
	}
	if err := t.step("manifest"); err != nil {
		return err
	}
	if err := os.Remove(t.path(ManifestPath)); err != nil {
		return err
	}
	// Nobody else has a use for the innermost one.
	inner := []string{Folder}
	if slices.Contains(m.Folders, filepath.Dir(Folder)) {
		inner = append(inner, filepath.Dir(Folder))
	}
	for _, name := range inner {
		if err := removeEmpty(t.path(name)); err != nil {
			return err
		}
	}
	for path, left := t.prefix, m.Above; left > 0; path, left = filepath.Dir(path), left-1 {
		if err := removeEmpty(path); err != nil {
			return err
		}
	}
	return nil
}
