package host

// Reading files of this machine, or of a folder that stands for one.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// View is a machine as its files show it. The zero value is this one.
type View struct {
	// Root is the folder whose proc, sys, usr… are looked at; "" means /.
	Root string
}

// Reading is what a file says, or why that cannot be told.
type Reading struct {
	Text string
	Err  error
}

// Absent reports whether the file does not exist, as opposed to being unreadable.
func (r Reading) Absent() bool { return errors.Is(r.Err, fs.ErrNotExist) }

// Int is the number in the file; false where there is none.
func (r Reading) Int() (int, bool) {
	n, err := strconv.Atoi(r.Text)
	return n, r.Err == nil && err == nil
}

// maxFileBytes bounds what is read of a small file: those of the kernel that are read
// here have some kilobytes, and a package's METADATA may carry a whole README.
const maxFileBytes = 1 << 20

// path is where the view's file is for this process.
func (v View) path(name string) string { return filepath.Join("/", v.Root, name) }

// unpath is the name in the view of what path gave.
func (v View) unpath(path string) string {
	if v.Root == "" || v.Root == "/" {
		return path
	}
	rest, ok := strings.CutPrefix(path, filepath.Clean(v.Root))
	if !ok {
		return path
	}
	return filepath.Join("/", rest)
}

// read gives a small file's text without the white space around it.
func (v View) read(name string) Reading {
	data, err := readLimited(v.path(name), maxFileBytes)
	return Reading{Text: strings.TrimSpace(string(data)), Err: err}
}

func (v View) exists(name string) bool {
	_, err := os.Stat(v.path(name))
	return err == nil
}

// readLimited reads at most limit bytes. It does not wait: a FIFO on PATH would hold it
// for ever otherwise.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// errNotRegular is why a device, a FIFO or a folder is not read.
var errNotRegular = errors.New("not a regular file")

// openRegular opens a file for reading if it is a regular one; those of proc and sys
// are.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: %w", path, errNotRegular)
	}
	// Between the two it may become a FIFO, whose opening would wait for a writer.
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}
