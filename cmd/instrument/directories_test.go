package main

// The library where directories are not what they should be.

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/preload"
)

// nobody is a user without a privilege.
const nobody = 65534

func TestDirectories(t *testing.T) {
	hostile := func(t *testing.T, dir string, make func(path string) error) {
		t.Helper()
		sub := filepath.Join(dir, "tokenscope-0")
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(sub, preload.LibraryName())); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		root bool
		// place gets a directory that is empty and everybody's.
		place func(t *testing.T, dir string) place
		seen  bool
		says  []string
	}{
		{name: "nothing odd", seen: true, place: func(t *testing.T, dir string) place { return place{} }},
		{name: "HOME is not set", seen: true, place: func(t *testing.T, dir string) place {
			return place{within: []string{"env", "-u", "HOME"}, env: []string{"HOME="}}
		}},
		{name: "TMPDIR is relative", seen: true, place: func(t *testing.T, dir string) place {
			return place{env: []string{"TMPDIR=tmp"}}
		}},
		{name: "TMPDIR does not exist, nor can it be made", seen: true, place: func(t *testing.T, dir string) place {
			return place{env: []string{"TMPDIR=/proc/nonexistent", "HOME=/proc/nonexistent"}}
		}},
		{name: "a space in all that is set", seen: true, place: func(t *testing.T, dir string) place {
			return place{env: []string{"TMPDIR=" + dir + "/a b", "HOME=" + dir + "/a b", "XDG_CACHE_HOME=" + dir + "/a b"}}
		}},
		{name: "a colon in all that is set", seen: true, place: func(t *testing.T, dir string) place {
			return place{env: []string{"TMPDIR=" + dir + "/a:b", "HOME=" + dir + "/a:b", "XDG_CACHE_HOME=" + dir + "/a:b"}}
		}},
		{name: "every directory is noexec", root: true, seen: true, place: func(t *testing.T, dir string) place {
			return place{around: enclosure{Mounts: allNoexec(filepath.Dir(binary))}}
		}},
		{
			name: "every directory is noexec, and memfd_create refused", root: true, seen: false,
			says: []string{"the workload cannot be given the library by which it is watched"},
			place: func(t *testing.T, dir string) place {
				return place{around: enclosure{Memfd: unix.EPERM, Mounts: allNoexec(filepath.Dir(binary))}}
			},
		},
		{name: "all is read-only but one directory", root: true, seen: true, place: func(t *testing.T, dir string) place {
			return place{
				around: enclosure{Memfd: unix.ENOSYS, Mounts: []mount{{"/", unix.MS_RDONLY}, {"/dev/shm", unix.MS_RDONLY}, {Dir: dir}}},
				env:    []string{"TMPDIR=" + dir, "HOME=/nonexistent"},
			}
		}},
		{name: "all is read-only", root: true, seen: true, place: func(t *testing.T, dir string) place {
			return place{
				around: enclosure{Mounts: []mount{{"/", unix.MS_RDONLY}, {"/dev/shm", unix.MS_RDONLY}}},
				env:    []string{"HOME=/nonexistent"},
			}
		}},
		{name: "another user's file by the library's name", root: true, seen: true, place: func(t *testing.T, dir string) place {
			hostile(t, dir, func(path string) error {
				if err := os.WriteFile(path, []byte("not a library"), 0o755); err != nil {
					return err
				}
				return os.Chown(path, nobody, nobody)
			})
			return place{env: []string{"TMPDIR=" + dir, "HOME="}}
		}},
		{name: "another user's folder by our name", root: true, seen: true, place: func(t *testing.T, dir string) place {
			sub := filepath.Join(dir, "tokenscope-0")
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(sub, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			return place{env: []string{"TMPDIR=" + dir, "HOME="}}
		}},
		{name: "a link by the library's name", root: true, seen: true, place: func(t *testing.T, dir string) place {
			hostile(t, dir, func(path string) error { return os.Symlink("/etc/passwd", path) })
			return place{env: []string{"TMPDIR=" + dir, "HOME="}}
		}},
		{name: "a pipe by the library's name", root: true, seen: true, place: func(t *testing.T, dir string) place {
			hostile(t, dir, func(path string) error { return unix.Mkfifo(path, 0o666) })
			return place{env: []string{"TMPDIR=" + dir, "HOME="}}
		}},
		{name: "a user without any privilege", root: true, seen: true, place: func(t *testing.T, dir string) place {
			return place{around: enclosure{UID: nobody}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				needsRoot(t)
			}
			v, o := c.place(t, openDir(t)).visitBoth(t, 2)
			o.says(t, c.says...)
			if c.seen {
				v.saw(2)
			} else {
				v.saw(0)
			}
		})
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil || len(passwd) == 0 {
		t.Errorf("/etc/passwd after all this: %d bytes, %v", len(passwd), err)
	}
}
