package preload

// Putting the library where the workload's dynamic loader can map it.

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Shim is the library, as a file.
type Shim struct {
	// Path is by what the dynamic loader finds it.
	Path string
	// fd is the file in memory that Path leads to, −1 if it is an ordinary one. It has no
	// finalizer: it is to stay open as long as this process runs, if nobody closes it.
	fd int
}

// Close gives up a library that exists in memory alone: processes that carry it keep it,
// but no other can load it any more. One in a directory stays, for the next time.
func (s *Shim) Close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

// Library is the library for this machine's architecture; nil where there is none.
func Library() []byte { return library }

const (
	shimPrefix = "libtokenscope-"
	shimSuffix = ".so"
	hashDigits = 16
)

// LibraryName is the file name of the library: it tells its content, so that two releases
// do not get into each other's way.
var LibraryName = sync.OnceValue(func() string {
	sum := sha256.Sum256(library)
	return shimPrefix + hex.EncodeToString(sum[:])[:hashDigits] + shimSuffix
})

// isShimName reports whether a file name is that of any build of the library.
func isShimName(name string) bool {
	hash, ok := strings.CutPrefix(name, shimPrefix)
	hash, so := strings.CutSuffix(hash, shimSuffix)
	if !ok || !so || len(hash) != hashDigits {
		return false
	}
	return strings.Trim(hash, "0123456789abcdef") == ""
}

// Unpack makes sure that the library is in a directory from which it can be loaded, and
// says where. The directories are tried in order, and made if need be; nil stands for
// DefaultDirs. Where none will do, it exists in memory, as long as this process does.
//
// A library that is there is taken only if nobody but this user and root can have
// written it, and if it is what it should be.
func Unpack(dirs []string) (*Shim, error) {
	if len(library) == 0 {
		return nil, fmt.Errorf("unpack library: there is none for %s; only eBPF can watch here", runtime.GOARCH)
	}
	if dirs == nil {
		dirs = DefaultDirs()
	}
	if os.Geteuid() == 0 {
		dirs = reachableFirst(dirs)
	}
	u := unpacker{content: library, name: LibraryName(), uid: uint32(os.Geteuid()), memfd: unix.MemfdCreate}
	s, err := u.unpack(dirs)
	if err != nil {
		return nil, fmt.Errorf("unpack library: %w", err)
	}
	return s, nil
}

// DefaultDirs are the directories that Unpack tries: beside the running program
// (PREFIX/lib/tokenscope for PREFIX/bin/instrument), where a user's programs keep what
// can be made again, and where anybody may write.
func DefaultDirs() []string {
	own := "tokenscope-" + strconv.Itoa(os.Geteuid())
	var dirs []string
	if exe, err := os.Executable(); err == nil && filepath.Base(filepath.Dir(exe)) == "bin" {
		dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(exe)), "lib", "tokenscope"))
	}
	for _, in := range []struct{ dir, sub string }{
		{os.Getenv("XDG_CACHE_HOME"), "tokenscope"},
		{join(os.Getenv("HOME"), ".cache"), "tokenscope"},
		{os.Getenv("XDG_RUNTIME_DIR"), "tokenscope"},
		{os.Getenv("TMPDIR"), own},
		{"/tmp", own},
		{"/var/tmp", own},
		{"/dev/shm", own},
	} {
		// The XDG specification has relative paths ignored; for TMPDIR it is the same.
		if filepath.IsAbs(in.dir) {
			dirs = append(dirs, filepath.Join(in.dir, in.sub))
		}
	}
	return dirs
}

// join is filepath.Join, but nothing for nothing.
func join(dir, sub string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, sub)
}

// reachableFirst puts the directories first that every user can reach, in their order.
// What root starts often goes on as another user; one who cannot reach the library (in
// /root, say) goes without, and glibc's loader says so in the workload's own output.
func reachableFirst(dirs []string) []string {
	var first, rest []string
	for _, dir := range dirs {
		if reachable(dir) {
			first = append(first, dir)
		} else {
			rest = append(rest, dir)
		}
	}
	return append(first, rest...)
}

// reachable reports whether everybody may pass through those parts of a path that exist.
func reachable(dir string) bool {
	for {
		if st, err := os.Stat(dir); err == nil && st.Mode()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

// unpacker puts one file into the first directory that will do.
type unpacker struct {
	content []byte
	name    string
	uid     uint32
	memfd   func(string, int) (int, error)
}

func (u *unpacker) unpack(dirs []string) (*Shim, error) {
	var reasons []string
	for _, dir := range dirs {
		path := filepath.Join(dir, u.name)
		err := u.into(dir, path)
		if err == nil {
			return &Shim{Path: path, fd: -1}, nil
		}
		reasons = append(reasons, dir+": "+reason(err))
	}
	s, err := u.memory()
	if err == nil {
		return s, nil
	}
	reasons = append(reasons, "memory: "+reason(err))
	return nil, fmt.Errorf("no directory from which it could be loaded (%s); set TMPDIR to one of this user's on a file system that is not mounted noexec",
		strings.Join(reasons, "; "))
}

// reason is an error without the path, which stands before it.
func reason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Op + ": " + p.Err.Error()
	}
	return err.Error()
}

// into makes sure that the library is in a directory.
func (u *unpacker) into(dir, path string) error {
	if err := checkShimPath(path); err != nil {
		return err
	}
	// The workload may change its user, so that others must be able to read it.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	// Whoever may write to the directory may put another file in the place of ours.
	if err := u.trusted(&st, unix.S_IFDIR); err != nil {
		return fmt.Errorf("the directory %w", err)
	}
	found := u.check(path)
	if found == nil {
		return nil
	}
	if err := u.write(dir, path); err != nil {
		// What is wrong with the one that is there says more than that it cannot be replaced.
		if !errors.Is(found, os.ErrNotExist) {
			return found
		}
		return err
	}
	return u.check(path)
}

// trusted reports whether only this user and root can write to a file or directory.
func (u *unpacker) trusted(st *unix.Stat_t, kind uint32) error {
	switch {
	case st.Mode&unix.S_IFMT != kind:
		return errors.New("is something else by that name")
	case st.Uid != u.uid && st.Uid != 0:
		return fmt.Errorf("belongs to user %d", st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("can be written to by others (mode %04o)", st.Mode&0o7777)
	}
	return nil
}

// check reports whether the library is at path, and can be loaded from there.
func (u *unpacker) check(path string) error {
	// Not through a link, and not waiting for the other end of a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := u.trusted(&st, unix.S_IFREG); err != nil {
		return fmt.Errorf("the library that is there %w", err)
	}
	if st.Mode&0o444 != 0o444 {
		return fmt.Errorf("the library that is there cannot be read by all (mode %04o)", st.Mode&0o7777)
	}
	if st.Size != int64(len(u.content)) {
		return errors.New("the library that is there is another")
	}
	content := make([]byte, len(u.content))
	if _, err := f.ReadAt(content, 0); err != nil {
		return err
	}
	if !bytes.Equal(content, u.content) {
		return errors.New("the library that is there is another")
	}
	return mayRun(int(f.Fd()))
}

// mayRun maps the file as the loader will. That it is mounted noexec is a reason why that
// fails (path_noexec in mm/mmap.c), a rule of SELinux or AppArmor another.
func mayRun(fd int) error {
	p, err := unix.MmapPtr(fd, 0, nil, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("it cannot be run from there (is it mounted noexec?): %w", err)
	}
	return unix.MunmapPtr(p, 1)
}

// write puts the library there at once: who looks meanwhile finds either all of it, or
// what was there before.
func (u *unpacker) write(dir, path string) (err error) {
	var random [8]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the program if it would
	temporary := filepath.Join(dir, "."+u.name+"."+hex.EncodeToString(random[:]))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
		}
	}()
	_, err = f.Write(u.content)
	if err == nil {
		err = f.Chmod(0o755) // whatever the umask is
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// memory makes a file of the library that has no name. Its path leads through this
// process, so it is there for those who may look into it.
func (u *unpacker) memory() (_ *Shim, err error) {
	if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || d != 1 {
		return nil, errNotDumpable
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Where vm.memfd_noexec is 1 (Linux 6.3), who does not ask gets one that cannot be run.
	fd, err := u.memfd(u.name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = u.memfd(u.name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for rest := u.content; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		rest = rest[n:]
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if err := mayRun(fd); err != nil {
		return nil, err
	}
	return &Shim{Path: "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(fd), fd: fd}, nil
}
