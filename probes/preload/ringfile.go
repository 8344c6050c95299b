package preload

// Files for the ring: in memory alone, or in a directory.

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotDumpable is why a file in memory would be of no use.
var errNotDumpable = errors.New("this process is not dumpable (its file has capabilities, or cannot be read by its user), so others cannot open its descriptors")

// memoryFile makes a file that has no name and cannot change its size: a workload that
// could shrink it would kill whoever reads it.
func memoryFile(create func(string, int) (int, error), size int64) (*os.File, error) {
	// PR_GET_DUMPABLE is 1 where other processes of this user may look into
	// /proc/<pid>/fd (prctl(2); proc_fd_permission in fs/proc/fd.c).
	if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || d != 1 {
		return nil, errNotDumpable
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Since Linux 6.3 vm.memfd_noexec may demand that the caller says whether the file is
	// to be run; before, the flag is EINVAL.
	fd, err := create(ringName, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = create(ringName, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), ringName)
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(fmt.Errorf("size file in memory: %w", err), f.Close())
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(fmt.Errorf("seal file in memory: %w", err), f.Close())
	}
	return f, nil
}

// ringName is a ring's name in memory, and begins those in directories.
const ringName = "tokenscope-ring"

const ringFilePrefix = ringName + "-"

// namedFile makes a file in the first directory that has room for it; why is the reason
// why it is not one in memory.
func namedFile(dirs []string, size int64, why error) (*os.File, error) {
	if dirs == nil {
		dirs = []string{"/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp", "/var/tmp"}
	}
	reasons := []string{why.Error()}
	for _, dir := range dirs {
		// Relative to what the workload's working directory will be, nobody knows.
		if !filepath.IsAbs(dir) {
			continue
		}
		removeAbandoned(dir)
		f, err := namedFileIn(dir, size)
		if err == nil {
			return f, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, fmt.Errorf("no place for %d bytes: %s; allow memfd_create, or set TMPDIR to a directory with room", size, strings.Join(reasons, "; "))
}

func namedFileIn(dir string, size int64) (*os.File, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	// Containers often have 64 MiB of /dev/shm, which NCCL needs: at most half of what
	// is free is taken.
	if free := int64(fs.Bavail) * fs.Bsize; free < 2*size {
		return nil, fmt.Errorf("%s: %d bytes free, and %d must stay free beside the ring", dir, free, size)
	}
	var random [12]byte
	rand.Read(random[:]) // never fails
	name := filepath.Join(dir, ringFilePrefix+hex.EncodeToString(random[:]))
	// O_EXCL: neither a link nor a file that somebody put there is taken. Readable by its
	// user alone: it will hold what is sent.
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	// Held as long as anyone has this open file: see removeAbandoned.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, os.Remove(name), f.Close())
	}
	return f, nil
}

// maxAbandoned bounds how many files are looked at: a directory may hold anything.
const maxAbandoned = 64

// removeAbandoned removes rings of this user whose supervisor was killed: their lock went
// with it.
func removeAbandoned(dir string) {
	// The pattern is well-formed: the only error that Glob has.
	names, _ := filepath.Glob(filepath.Join(escapeGlob(dir), ringFilePrefix+"*"))
	for _, name := range names[:min(len(names), maxAbandoned)] {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() &&
			// Whoever makes one locks it a moment after: an empty one is left alone.
			st.Size > 0 && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(name) // the next one tries again
		}
		f.Close()
	}
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// allocate makes sure that a part of a file has its room, as posix_fallocate does: the
// file system is asked, and where it cannot do that (NFS before 4.2, some sandboxes), zeros
// are written. Nobody else may write there yet.
func allocate(f *os.File, from, n int64) error {
	err := fallocate(f, from, n)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	zeros := make([]byte, 64<<10)
	for end := from + n; from < end; {
		w, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-from)], from)
		if err != nil {
			return err
		}
		from += int64(w)
	}
	return nil
}

// fallocate is the system call; its error is errors.ErrUnsupported where the file system
// cannot do it.
func fallocate(f *os.File, from, n int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), 0, from, n); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
