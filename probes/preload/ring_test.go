package preload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// noMemfd is a kernel, or a seccomp filter, that makes no files in memory.
func noMemfd(string, int) (int, error) { return -1, unix.EPERM }

func TestCreate(t *testing.T) {
	r := newRing(t, RingOptions{RingBytes: 100_000, HeadBytes: 10, TailBytes: 20, FrameBytes: 30})
	h := r.header
	if h.Magic != ringMagic || h.Version != ringVersion || h.HeaderBytes != ringHeaderBytes || h.DataBytes != 128<<10 || h.Epoch != 0 ||
		h.HeadBytes != 10 || h.TailBytes != 20 || h.FrameBytes != 30 || h.Nonce == 0 {
		t.Errorf("header: %v", []any{h.Magic, h.Version, h.HeaderBytes, h.DataBytes, h.Epoch, h.HeadBytes, h.TailBytes, h.FrameBytes, h.Nonce})
	}
	if !strings.HasPrefix(r.Path(), "/proc/") {
		t.Skipf("memfd_create is not possible here: the ring is %s", r.Path())
	}
	seals, err := unix.FcntlInt(r.File().Fd(), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL; err != nil || seals&want != want {
		t.Errorf("seals = %#x, %v; want %#x in it", seals, err, want)
	}
	if flags, err := unix.FcntlInt(r.File().Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Error("the workload would inherit the descriptor")
	}
	if err := os.Truncate(r.Path(), 1); err == nil {
		t.Error("the file can be shortened")
	}
}

func TestCreateRefuses(t *testing.T) {
	for _, o := range []RingOptions{{HeadBytes: 1}, {FrameBytes: -1}, {RingBytes: -1}, {RingBytes: 1 << 40}} {
		if r, err := Create(o); err == nil {
			r.Close()
			t.Errorf("Create(%+v) = nil; want an error", o)
		}
	}
}

// TestNamedFile is what is left without files in memory.
func TestNamedFile(t *testing.T) {
	dir := t.TempDir()
	small := filepath.Join(t.TempDir(), "missing")
	r, err := Create(RingOptions{RingBytes: minDataBytes, memfd: noMemfd, Dirs: []string{"", "relative", small, dir}})
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(r.Path())
	if err != nil || filepath.Dir(r.Path()) != dir || st.Mode() != 0o600 || st.Size() != ringHeaderBytes+minDataBytes {
		t.Errorf("file = %s, %v, %v", r.Path(), st, err)
	}
	if err := r.Reserve(); err != nil {
		t.Fatal(err)
	}
	var raw unix.Stat_t
	if err := unix.Stat(r.Path(), &raw); err != nil || raw.Blocks*512 < st.Size() {
		t.Errorf("%d bytes are reserved, %v; want %d", raw.Blocks*512, err, st.Size())
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left after Close: %v", left)
	}
	if err := r.Reserve(); err == nil {
		t.Error("Reserve of a closed ring = nil; want an error")
	}
	r.Deactivate() // does nothing
	if err := r.Close(); err != nil {
		t.Errorf("second Close() = %v", err)
	}
}

// TestNoPlace names each place with its reason, and a cure.
func TestNoPlace(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Create(RingOptions{memfd: noMemfd, Dirs: []string{missing, "/proc"}})
	if err == nil {
		t.Fatal("Create = nil; want an error")
	}
	for _, want := range []string{"memfd_create: operation not permitted", missing + ": no such file", "/proc", "TMPDIR"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Create = %v; want %q in it", err, want)
		}
	}
}

// TestOldKernel knows no flag of newer ones.
func TestOldKernel(t *testing.T) {
	r := newRing(t, RingOptions{memfd: func(name string, flags int) (int, error) {
		if flags&unix.MFD_NOEXEC_SEAL != 0 {
			return -1, unix.EINVAL
		}
		return unix.MemfdCreate(name, flags)
	}})
	if !strings.HasPrefix(r.Path(), "/proc/") {
		t.Errorf("the ring is %s; want one in memory", r.Path())
	}
}

// TestNotDumpable: nobody could open the descriptors of such a process.
func TestNotDumpable(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Skip("needs PR_SET_DUMPABLE: ", err)
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	r := newRing(t, RingOptions{Dirs: []string{t.TempDir()}})
	if strings.HasPrefix(r.Path(), "/proc/") {
		t.Errorf("the ring is %s; want a file", r.Path())
	}
}

// TestAbandonedFiles removes what a supervisor left that was killed, and nothing else.
func TestAbandonedFiles(t *testing.T) {
	dir := t.TempDir()
	o := RingOptions{RingBytes: minDataBytes, memfd: noMemfd, Dirs: []string{dir}}
	living := newRing(t, o)
	abandoned := filepath.Join(dir, ringFilePrefix+"0123")
	linked := filepath.Join(dir, ringFilePrefix+"link")
	target := filepath.Join(dir, "target")
	for _, name := range []string{abandoned, target} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, linked); err != nil {
		t.Fatal(err)
	}
	newRing(t, o)
	if _, err := os.Lstat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the abandoned file: %v", err)
	}
	for _, name := range []string{living.Path(), linked, target} {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestAllocate writes where the file system cannot reserve.
func TestAllocate(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := allocate(f, 100, 200_000); err != nil {
		t.Fatal(err)
	}
	if st, err := f.Stat(); err != nil || st.Size() != 200_100 {
		t.Errorf("size = %d, %v", st.Size(), err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	defer full.Close()
	if err := allocate(full, 0, 10); err == nil {
		t.Error("allocate of /dev/full = nil; want an error")
	}
}
