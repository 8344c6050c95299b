package installer

// Which prefix is taken where nobody named one.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Environment is what the choice depends on.
type Environment struct {
	// Path are the folders of PATH; Home the user's folder; VirtualEnv the activated
	// Python environment. "" is none.
	Path             []string
	Home, VirtualEnv string
	// Root says that the user is root.
	Root bool
}

// Candidate is a prefix that could be taken, and why it is not.
type Candidate struct {
	Prefix string
	Err    error
}

// Reasons of a candidate.
var (
	errNotOnPath = errors.New("its bin is not on PATH")
	errOpen      = errors.New("others may write to its bin")
)

// systemBins belong to the distribution's own packages.
var systemBins = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}

// Candidates lists the prefixes that are considered, best first. The first without an
// error is the one to take.
//
// Root's is /usr/local, on the PATH of everybody; a user's is ~/.local, where pip and
// uv put programs too; then the activated Python environment, and then whatever bin on
// PATH can be written.
func Candidates(e Environment) []Candidate {
	var prefixes []string
	add := func(prefix string) {
		if prefix != "" && filepath.IsAbs(prefix) && !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	if e.Root {
		add("/usr/local")
	}
	if e.Home != "" {
		add(filepath.Join(e.Home, ".local"))
	}
	add(e.VirtualEnv)
	for _, folder := range e.Path {
		// Without a bin there would be no lib beside it.
		if filepath.Base(folder) == "bin" && !slices.Contains(systemBins, filepath.Clean(folder)) {
			add(filepath.Dir(filepath.Clean(folder)))
		}
	}
	var found []Candidate
	for _, prefix := range prefixes {
		found = append(found, Candidate{Prefix: prefix, Err: usable(prefix, e.Path)})
	}
	return found
}

// usable says why a prefix is not to be taken by itself.
func usable(prefix string, path []string) error {
	bin := filepath.Join(prefix, "bin")
	if !OnPath(bin, path) {
		return errNotOnPath
	}
	if info, err := os.Stat(bin); err == nil && info.Mode()&0o002 != 0 {
		return errOpen
	}
	for _, folder := range []string{bin, filepath.Join(prefix, Folder)} {
		if err := canWrite(folder); err != nil {
			return err
		}
	}
	return nil
}

// OnPath reports whether PATH names this folder, by whatever name.
func OnPath(folder string, path []string) bool {
	info, err := os.Stat(folder)
	for _, p := range path {
		if filepath.Clean(p) == folder {
			return true
		}
		if other, oerr := os.Stat(p); err == nil && oerr == nil && filepath.IsAbs(p) && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// canWrite asks the kernel whether files can be made in folder, or, where it does not
// exist yet, it itself. access(2) with AT_EACCESS knows of read-only mounts and of
// capabilities.
func canWrite(folder string) error {
	for {
		_, err := os.Stat(folder)
		if err == nil || !errors.Is(err, os.ErrNotExist) || folder == "/" {
			break
		}
		folder = filepath.Dir(folder)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "write to", Path: folder, Err: err}
	}
	return nil
}

// Choose takes the first candidate that is usable.
func Choose(e Environment) (string, error) {
	candidates := Candidates(e)
	var reasons []string
	for _, c := range candidates {
		if c.Err == nil {
			return c.Prefix, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s (%v)", c.Prefix, c.Err))
	}
	why := "PATH names none"
	if len(reasons) > 0 {
		why = strings.Join(reasons, ", ")
	}
	return "", fmt.Errorf("choose prefix: no folder on PATH can be written: %s; name one on a writable volume with --prefix DIR and start the server by DIR/bin/instrument", why)
}

// Cure says what helps against an error of a file system; "" where that is not known.
func Cure(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "choose a folder on a writable volume with --prefix"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "run as a user who may write there, or choose another folder with --prefix"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "make room there, or choose another folder with --prefix"
	case errors.Is(err, unix.ENOTDIR):
		return "a part of the path is a file: choose another folder with --prefix"
	}
	return ""
}
