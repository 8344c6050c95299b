package host

// What a mapped file is: which library, which build of it, and whether what is to be
// watched can be found in it.

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// LibraryKind says what a library is for us.
type LibraryKind string

// Kinds of libraries.
const (
	LibZMQ  LibraryKind = "libzmq"
	LibSSL  LibraryKind = "libssl"
	LibShim LibraryKind = "shim"
	LibC    LibraryKind = "libc"
	// Two modules of Python's that hold libzmq or OpenSSL themselves where they were
	// built without the shared library.
	ModuleZMQ LibraryKind = "zmq-module"
	ModuleSSL LibraryKind = "ssl-module"
)

// Library is one that a process has mapped.
type Library struct {
	Kind LibraryKind
	Path string
	// Version is what its file's name says behind ".so.", "" for nothing.
	Version string
	// BuildID names its build, "" where it has none.
	BuildID string
	// Missing are the functions to be watched that it does not export.
	Missing []string
	// Deleted says that the file was replaced since: a new one is on the path.
	Deleted bool
	// Err is why its file could not be looked into.
	Err error
}

// ShimPrefix begins the name of our own library's file.
const ShimPrefix = "libtokenscope"

// libraryKind tells a library by its file's name; false for others.
func libraryKind(name string) (LibraryKind, bool) {
	shared := strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.")
	switch {
	case !shared && !strings.HasPrefix(name, "ld-musl-"):
		return "", false
	case strings.HasPrefix(name, ShimPrefix):
		return LibShim, true
	case strings.HasPrefix(name, "libzmq"):
		return LibZMQ, true
	case strings.HasPrefix(name, "libssl.") || strings.HasPrefix(name, "libssl-"):
		return LibSSL, true
	case name == "libc.so.6" || strings.HasPrefix(name, "libc-2.") || strings.HasPrefix(name, "ld-musl-"):
		return LibC, true
	case strings.HasPrefix(name, "_zmq."):
		return ModuleZMQ, true
	case strings.HasPrefix(name, "_ssl."):
		return ModuleSSL, true
	}
	return "", false
}

// watched are the functions of each kind that are to be found.
var watched = map[LibraryKind][]string{
	LibZMQ:    {"zmq_msg_send", "zmq_msg_recv"},
	ModuleZMQ: {"zmq_msg_send", "zmq_msg_recv"},
	LibSSL:    {"SSL_read", "SSL_write"},
	ModuleSSL: {"SSL_read", "SSL_write"},
}

// inspect looks into the library's file: the first of paths that can be read. The error
// is about the last, which is the one that every user may try.
func (l *Library) inspect(paths ...string) {
	_, after, ok := strings.Cut(filepath.Base(l.Path), ".so.")
	if ok {
		l.Version = after
	}
	for _, path := range paths {
		if l.Err = l.inspectFile(path); l.Err == nil {
			return
		}
	}
}

// maxNote bounds a note that is read; a build id has twenty bytes.
const maxNote = 4096

func (l *Library) inspectFile(path string) error {
	// debug/elf reads a file that somebody else made: since it checks sizes against the
	// file's own, a bad one costs an error.
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("read library %s: %w", l.Path, err)
	}
	if s := f.Section(".note.gnu.build-id"); s != nil && s.Size <= maxNote {
		if data, err := s.Data(); err == nil {
			l.BuildID = buildID(data, f)
		}
	}
	want := watched[l.Kind]
	if len(want) == 0 {
		return nil
	}
	exported := map[string]bool{}
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("read symbols of %s: %w", l.Path, err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			exported[s.Name] = true
		}
	}
	l.Missing = nil
	for _, name := range want {
		if !exported[name] {
			l.Missing = append(l.Missing, name)
		}
	}
	return nil
}

// buildID reads a note: sizes of name and description, type, name, description.
func buildID(note []byte, f *elf.File) string {
	if len(note) < 16 {
		return ""
	}
	name, size := f.ByteOrder.Uint32(note), f.ByteOrder.Uint32(note[4:])
	if name != 4 || string(note[12:16]) != "GNU\x00" || uint64(size) > uint64(len(note)-16) {
		return ""
	}
	return hex.EncodeToString(note[16 : 16+size])
}
