package preload

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func newUnpacker() *unpacker {
	return &unpacker{content: []byte("a library"), name: shimPrefix + "0123456789abcdef" + shimSuffix, uid: uint32(os.Geteuid()), memfd: noMemfd}
}

// mount mounts a tmpfs for a test; it needs root.
func mount(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size=1m,mode=0755"); err != nil {
		t.Skip("needs to mount a file system (root): ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestUnpackInto(t *testing.T) {
	u := newUnpacker()
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string)
		want    string // of the reason; empty: it is taken
	}{
		{"empty directory", func(*testing.T, string) {}, ""},
		{"it is there", func(t *testing.T, dir string) { put(t, dir, u.content, 0o755) }, ""},
		{"an older one is there", func(t *testing.T, dir string) { put(t, dir, []byte("something"), 0o755) }, ""},
		{"part of it is there", func(t *testing.T, dir string) { put(t, dir, u.content[:3], 0o755) }, ""},
		{"others may write to it", func(t *testing.T, dir string) { put(t, dir, u.content, 0o666) }, ""},
		{"others cannot read it", func(t *testing.T, dir string) { put(t, dir, u.content, 0o700) }, ""},
		{"a link is there", func(t *testing.T, dir string) { link(t, dir, u.content) }, ""},
		{"somebody else's is there", func(t *testing.T, dir string) {
			put(t, dir, u.content, 0o755)
			give(t, filepath.Join(dir, u.name))
		}, ""},
		{"somebody else's, not to be replaced", func(t *testing.T, dir string) {
			put(t, dir, u.content, 0o755)
			give(t, filepath.Join(dir, u.name))
			immutable(t, dir)
		}, "the library that is there belongs to user 12345"},
		{"a directory is there", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, u.name), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "something else by that name"},
		{"others may write to the directory", func(t *testing.T, dir string) { chmod(t, dir, 0o777) }, "can be written to by others (mode 0777)"},
		{"also a sticky one", func(t *testing.T, dir string) { chmod(t, dir, 0o777|os.ModeSticky) }, "can be written to by others (mode 1777)"},
		{"somebody else's directory", give, "the directory belongs to user 12345"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "lib")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			tc.prepare(t, dir)
			s, err := u.unpack([]string{dir})
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("unpack = %v, %v; want an error with %q", s, err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("unpack = %v", err)
			}
			wantLibrary(t, u, s, dir)
		})
	}
}

// wantLibrary wants the library alone in a directory, as everybody may read it and nobody
// else write.
func wantLibrary(t *testing.T, u *unpacker, s *Shim, dir string) {
	t.Helper()
	content, err := os.ReadFile(s.Path)
	if err != nil || !bytes.Equal(content, u.content) || filepath.Dir(s.Path) != dir {
		t.Errorf("%s holds %q, %v", s.Path, content, err)
	}
	if st, err := os.Lstat(s.Path); err != nil || st.Mode() != 0o755 {
		t.Errorf("%s: %v, %v", s.Path, st, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

func put(t *testing.T, dir string, content []byte, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, newUnpacker().name)
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

func link(t *testing.T, dir string, content []byte) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(target, content, 0o755), os.Symlink(target, filepath.Join(dir, newUnpacker().name))); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// give gives a file to a user that is not this one.
func give(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Skip("needs to give files away (root): ", err)
	}
}

// immutable forbids changes of a directory, for root as well.
func immutable(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
		f.Close()
	})
	const flag = 0x10 // FS_IMMUTABLE_FL, include/uapi/linux/fs.h
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag); err != nil {
		t.Skip("needs a file system with immutable directories, and root: ", err)
	}
}

// TestUnpackOrder goes on where a directory will not do, and says why when none does.
func TestUnpackOrder(t *testing.T) {
	noexec, readOnly, full := mount(t, unix.MS_NOEXEC), mount(t, 0), mount(t, 0)
	if err := unix.Mount("", readOnly, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	// The kernel gives back EDQUOT or ENOSPC when the last byte is taken.
	if err := os.WriteFile(filepath.Join(full, "filler"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the file system takes more than it has")
	}
	u := newUnpacker()
	bad := []string{noexec, filepath.Join(readOnly, "lib"), full, filepath.Join("/dev/null", "lib"), "/a:b", "relative"}
	_, err := u.unpack(bad)
	if err == nil {
		t.Fatal("unpack = nil; want an error")
	}
	for _, want := range []string{
		noexec + ": it cannot be run from there (is it mounted noexec?): operation not permitted",
		readOnly + "/lib: mkdir: read-only file system", full + ": write: no space left on device", "/dev/null/lib: mkdir: not a directory",
		"/a:b", "not absolute", "memory: memfd_create: operation not permitted", "TMPDIR",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error without %q:\n%v", want, err)
		}
	}
	good := filepath.Join(t.TempDir(), "new", "lib")
	s, err := u.unpack(append(bad, good))
	if err != nil {
		t.Fatalf("unpack = %v", err)
	}
	wantLibrary(t, u, s, good)
}

// TestUnpackIntoMemory is the last resort, and the kernels that do it in another way.
func TestUnpackIntoMemory(t *testing.T) {
	for name, memfd := range map[string]func(string, int) (int, error){
		"this kernel": unix.MemfdCreate,
		"before 6.3": func(name string, flags int) (int, error) {
			if flags&unix.MFD_EXEC != 0 {
				return -1, unix.EINVAL
			}
			return unix.MemfdCreate(name, flags)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUnpacker()
			u.memfd = memfd
			s, err := u.unpack(nil)
			if err != nil {
				t.Fatal(err)
			}
			if content, err := os.ReadFile(s.Path); err != nil || !bytes.Equal(content, u.content) {
				t.Errorf("%s holds %q, %v", s.Path, content, err)
			}
			if err := os.WriteFile(s.Path, []byte("other"), 0); err == nil {
				t.Error("it can be written to")
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			}
			if _, err := os.Stat(s.Path); err == nil {
				t.Error("it is there after Close")
			}
		})
	}
}

func TestDefaultDirs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/cache")
	t.Setenv("HOME", "/home/me")
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	t.Setenv("TMPDIR", "")
	got := DefaultDirs()
	at := slices.Index(got, "/cache/tokenscope")
	if at < 0 || got[at+1] != "/home/me/.cache/tokenscope" || !strings.HasPrefix(got[at+2], "/tmp/tokenscope-") {
		t.Errorf("DefaultDirs() = %q", got)
	}
}

// TestReachableFirst: root's own directories come last, since what it starts may go on
// as another user.
func TestReachableFirst(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	closed = filepath.Join(closed, "lib")
	if got, want := reachableFirst([]string{closed, "/usr/lib", "/nowhere"}), []string{"/usr/lib", "/nowhere", closed}; !slices.Equal(got, want) {
		t.Errorf("reachableFirst = %q; want %q", got, want)
	}
}

func TestShimName(t *testing.T) {
	for name, want := range map[string]bool{
		LibraryName(): true, "libtokenscope-0123456789abcdef.so": true, "libtokenscope-0123456789ABCDEF.so": false,
		"libtokenscope-.so": false, "libtokenscope.so": false, "libc.so.6": false, "": false, "libtokenscope-0123456789abcdefg.so": false,
	} {
		if got := isShimName(name); got != want {
			t.Errorf("isShimName(%q) = %v; want %v", name, got, want)
		}
	}
}
