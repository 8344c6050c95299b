package supervise

// Finding the workload's file, as a shell does, and what to say when it does not run.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is searched where the environment has no PATH, as shells do.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// scriptShell runs executable files that the kernel does not know how to run.
const scriptShell = "/bin/sh"

// sniffBytes is how much of a file is read to tell a script from a binary, and to name
// a script's interpreter: the kernel's own limit for a "#!" line.
const sniffBytes = 256

// A startError says why a command did not start.
type startError struct {
	name   string // as the user typed it
	reason string
	code   int // what a shell exits with
}

func (e *startError) Error() string { return e.name + ": " + e.reason }

// lookUp finds the file that a shell would run for name: a name with a slash is a path,
// any other is looked for along the PATH of env. A relative directory in PATH is as good
// as any other, and an empty one is the current directory.
func lookUp(name string, env []string) (string, *startError) {
	if strings.Contains(name, "/") {
		if reason, code := whyNotExecutable(name); code != 0 {
			return "", &startError{name, reason, code}
		}
		return name, nil
	}
	notFound := &startError{name, "command not found", exitNotFound}
	if name == "" {
		return "", notFound
	}
	for _, dir := range strings.Split(searchPath(env), ":") {
		if dir == "" {
			dir = "."
		}
		path := strings.TrimSuffix(dir, "/") + "/" + name
		_, code := whyNotExecutable(path)
		if code == 0 {
			return path, nil
		}
		// A file that may not be run gives way to one further on. A directory of that
		// name is passed over in silence, as is a directory that we may not search.
		if code == exitNotExecutable && isFile(path) {
			notFound = &startError{path, "permission denied", exitNotExecutable}
		}
	}
	return "", notFound
}

// searchPath is the first PATH of env.
func searchPath(env []string) string {
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			return path
		}
	}
	return defaultPath
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && !fi.IsDir()
}

// whyNotExecutable returns code 0 for a file that we may execute, else the reason and
// the exit code that go with it.
func whyNotExecutable(path string) (reason string, code int) {
	fi, err := os.Stat(path)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		if errno == unix.EACCES {
			return errno.Error(), exitNotExecutable
		}
		return errno.Error(), exitNotFound
	}
	if fi.IsDir() {
		return "is a directory", exitNotExecutable
	}
	// The effective user counts, as it does for exec.
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err == unix.EACCES {
		return "permission denied", exitNotExecutable
	}
	// Any other failure may be a sandbox that does not let us ask: exec will tell.
	return "", 0
}

// explain turns what exec returned for path into what a shell would say and exit with.
func explain(name, path string, err error) *startError {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		if _, statErr := os.Stat(path); statErr != nil {
			return &startError{name, err.Error(), exitNotFound}
		}
		// The file is there, so it is what the file asks for that is not.
		if interp := interpreter(path); interp != "" {
			return &startError{name, fmt.Sprintf("%s: bad interpreter: %v", interp, err), exitNotFound}
		}
		return &startError{name, "cannot execute: required file not found", exitNotFound}
	case unix.ENOEXEC:
		return &startError{name, "cannot execute binary file: " + err.Error(), exitNotExecutable}
	}
	return &startError{name, err.Error(), exitNotExecutable}
}

// head returns the first bytes of a file, none where it cannot be read.
func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, sniffBytes))
	return b
}

// isScript says whether a file that exec refused with ENOEXEC is text for a shell: as
// POSIX has it, whether its first line has no NUL byte. An empty file is an empty script.
func isScript(path string) bool {
	line, _, _ := bytes.Cut(head(path), []byte("\n"))
	return bytes.IndexByte(line, 0) < 0
}

// interpreter is the file that a "#!" line names, "" where there is no such line.
func interpreter(path string) string {
	line, _, _ := bytes.Cut(head(path), []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return ""
	}
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return ""
	}
	return string(words[0])
}
