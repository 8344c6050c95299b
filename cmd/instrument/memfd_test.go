package main

// The ring where files in memory are refused.

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// ringsLeft are the rings in the directories in which one may have been made.
func ringsLeft(t *testing.T, dirs ...string) []string {
	t.Helper()
	var left []string
	for _, dir := range append(dirs, "/dev/shm", "/tmp", "/var/tmp") {
		names, err := filepath.Glob(filepath.Join(dir, "tokenscope-ring-*"))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, names...)
	}
	return left
}

// TestRingInAFile: with memfd_create refused the ring is a file, with all that comes of it, and
// gone at the end.
func TestRingInAFile(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			before := ringsLeft(t)
			v, o := place{around: enclosure{Memfd: errno}}.visitBoth(t, 3)
			o.says(t)
			v.saw(3)
			if left := ringsLeft(t, v.dir); len(left) != len(before) {
				t.Errorf("left behind: %q; before: %q", left, before)
			}
		})
	}
}

// TestNoPlaceForTheRing: the server runs, and one line says why it is not seen.
func TestNoPlaceForTheRing(t *testing.T) {
	needsRoot(t)
	v, o := place{
		around: enclosure{Memfd: unix.ENOSYS, Mounts: coverAll(unix.MS_RDONLY, nil)},
	}.visitBoth(t, 1)
	o.says(t, "nothing is observed")
	if len(v.requests()) != 0 {
		t.Error("and yet requests were seen")
	}
	t.Log(o.said)
}
