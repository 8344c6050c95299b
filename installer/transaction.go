package installer

// Changing files so that each change can be taken back.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// transaction is a series of changes.
type transaction struct {
	prefix string
	// before is called in front of each change with its name; its error is that of the
	// change. Tests fail there, or stop as a killed process does.
	before func(step string) error
	undo   []func() error
}

// errKilled stands for the end of the process: nothing is taken back.
var errKilled = errors.New("killed")

func (t *transaction) path(name string) string { return filepath.Join(t.prefix, name) }

// step announces a change.
func (t *transaction) step(name string) error {
	if t.before == nil {
		return nil
	}
	return t.before(name)
}

// rollback takes all changes back, the last one first, and returns err with what went
// wrong besides.
func (t *transaction) rollback(err error) error {
	if errors.Is(err, errKilled) {
		return err
	}
	var failed []error
	for _, f := range slices.Backward(t.undo) {
		if uerr := f(); uerr != nil && !errors.Is(uerr, fs.ErrNotExist) {
			failed = append(failed, uerr)
		}
	}
	t.undo = nil
	if len(failed) > 0 {
		return fmt.Errorf("%w; what was there before could not be put back: %w", err, errors.Join(failed...))
	}
	return err
}

// folder makes a folder that is not there yet, readable for all whatever the umask: a
// volume that is filled by root is used by others.
func (t *transaction) folder(path string) (made bool, err error) {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return false, &os.PathError{Op: "make folder", Path: path, Err: unix.ENOTDIR}
		}
		return false, nil
	}
	if err := t.step("folder"); err != nil {
		return false, err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) { // another install was faster
			return false, nil
		}
		return false, err
	}
	t.undo = append(t.undo, func() error { return removeEmpty(path) })
	return true, os.Chmod(path, 0o755)
}

// removeEmpty removes a folder unless something is in it.
func removeEmpty(path string) error {
	err := os.Remove(path)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stage writes a file's future content beside it and gives what the manifest is to say.
func (t *transaction) stage(s *Step, temporary string) (Entry, error) {
	if err := t.step("stage " + s.Path); err != nil {
		return Entry{}, err
	}
	path := t.path(temporary)
	t.undo = append(t.undo, func() error { return os.Remove(path) })
	if s.Target != "" {
		err := os.Symlink(s.Target, path)
		if err == nil {
			return s.wanted[0], nil
		}
		if !noLinks(err) {
			return Entry{}, err
		}
	}
	return s.wanted[len(s.wanted)-1], s.copyTo(path)
}

// noLinks recognises a file system that has no symbolic links: FAT, some network and
// object stores.
func noLinks(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// copyTo writes the content to path, which must not exist, and sees that it reached the
// disk.
func (s *Step) copyTo(path string) (err error) {
	var content io.Reader = strings.NewReader(string(s.file.Data))
	if s.file.Source != "" {
		in, err := os.Open(s.file.Source)
		if err != nil {
			return err
		}
		defer in.Close()
		content = in
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := io.Copy(out, content); err != nil {
		return err
	}
	if err := out.Chmod(s.file.Mode); err != nil {
		return err
	}
	if info, err := out.Stat(); err == nil && info.Mode().Perm()&0o111 != s.file.Mode&0o111 {
		return fmt.Errorf("write %s: the file system does not keep execute permissions; choose another folder with --prefix", path)
	}
	return out.Sync()
}

// replace moves the staged file to its path. Who opens the path gets the old file or
// the new one. What was there is kept under the name backup.
func (t *transaction) replace(name, temporary, backup string) error {
	if err := t.step("replace " + name); err != nil {
		return err
	}
	path := t.path(name)
	if err := t.backUp(name, backup); err != nil {
		return err
	}
	if err := os.Rename(t.path(temporary), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// remove moves a file away.
func (t *transaction) remove(name, backup string) error {
	if err := t.step("remove " + name); err != nil {
		return err
	}
	path := t.path(name)
	t.undo = append(t.undo, func() error { return os.Rename(t.path(backup), path) })
	return os.Rename(path, t.path(backup))
}

// backUp gives the file a second name.
func (t *transaction) backUp(name, backup string) error {
	path, kept := t.path(name), t.path(backup)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		t.undo = append(t.undo, func() error { return os.Remove(path) })
		return nil
	}
	t.undo = append(t.undo, func() error {
		err := os.Rename(kept, path)
		// rename(2) does nothing, and says so to nobody, where both names are already of
		// one file.
		if rerr := os.Remove(kept); err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		return err
	})
	if err := os.Link(path, kept); err != nil {
		// No hard links here, or not of this file (fs.protected_hardlinks): then there is
		// a moment without it.
		return os.Rename(path, kept)
	}
	return nil
}

// writeManifest puts a manifest in place.
func (t *transaction) writeManifest(m *Manifest) error {
	if err := t.step("manifest " + m.State); err != nil {
		return err
	}
	return t.replaceManifest(m.encode())
}

func (t *transaction) replaceManifest(data []byte) error {
	temporary := t.path(manifestTemporary)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s := Step{file: File{Data: data, Mode: 0o644}}
	if err := s.copyTo(temporary); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, t.path(ManifestPath)); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncFolder(t.path(Folder))
}

// syncFolder sees that renames reached the disk. Some file systems cannot say so of a
// folder (EINVAL); then it is theirs to care.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return nil
}
