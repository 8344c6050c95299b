package main

// Places that can be made around a process by itself: other mounts, another user, system calls
// that are refused. They are made in a process that then becomes what is to run there.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An enclosure says what a process is to find around it.
type enclosure struct {
	// Memfd is the errno with which seccomp refuses memfd_create; 0: it does not.
	Memfd unix.Errno
	// Mounts are made one after the other in a mount namespace of the process's own.
	Mounts []mount
	// UID is who it is to be, without a privilege; 0: who it is.
	UID int
	// Clean leaves nothing of its environment. This process is no C program: nothing that is
	// preloaded is in it.
	Clean bool
}

// A mount covers a directory with itself, under other flags: what is in it stays there. All
// that is mounted below is hidden.
type mount struct {
	Dir   string
	Flags uintptr // of MS_RDONLY, MS_NOEXEC
}

// command runs argv in the enclosure.
func (e enclosure) command(t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	if e.Memfd == 0 && len(e.Mounts) == 0 && e.UID == 0 {
		return exec.Command(argv[0], argv[1:]...)
	}
	spec, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(self, append([]string{roleEnclose, string(spec)}, argv...)...)
}

// enclose does what a spec says and becomes argv; it returns only with an error.
func enclose(spec string, argv []string) error {
	var e enclosure
	if err := json.Unmarshal([]byte(spec), &e); err != nil {
		return fmt.Errorf("read enclosure: %w", err)
	}
	// Namespaces and filters are a thread's; the one that calls exec is what remains.
	runtime.LockOSThread()
	if err := makeMounts(e.Mounts); err != nil {
		return err
	}
	if e.UID != 0 {
		if err := become(e.UID); err != nil {
			return err
		}
	}
	if e.Memfd != 0 {
		if err := refuse(unix.SYS_MEMFD_CREATE, e.Memfd); err != nil {
			return fmt.Errorf("refuse memfd_create: %w", err)
		}
	}
	env := os.Environ()
	if e.Clean {
		env = nil
	}
	return fmt.Errorf("exec %s: %w", argv[0], unix.Exec(argv[0], argv, env))
}

func makeMounts(mounts []mount) error {
	if len(mounts) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range mounts {
		if m.Dir != "/" { // which is a mount already
			if err := unix.Mount(m.Dir, m.Dir, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("bind %s: %w", m.Dir, err)
			}
		}
		// A bind mount's flags are changed only by a second call (mount(2)).
		if err := unix.Mount("", m.Dir, "", unix.MS_REMOUNT|unix.MS_BIND|m.Flags, ""); err != nil {
			return fmt.Errorf("remount %s: %w", m.Dir, err)
		}
	}
	return nil
}

func become(id int) error {
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := unix.Setresgid(id, id, id); err != nil {
		return fmt.Errorf("become group %d: %w", id, err)
	}
	if err := unix.Setresuid(id, id, id); err != nil {
		return fmt.Errorf("become user %d: %w", id, err)
	}
	return nil
}

// refuse makes a system call fail with an error, for this thread and all that comes of it.
func refuse(call uint32, with unix.Errno) error {
	const numberOffset = 0 // struct seccomp_data.nr
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(with)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// allNoexec covers every directory in which the library could be put, so that nothing there can
// be run but what keep lists.
func allNoexec(keep ...string) []mount { return coverAll(unix.MS_NOEXEC, keep) }

func coverAll(flags uintptr, keep []string) []mount {
	mounts := []mount{{"/tmp", flags}, {"/var/tmp", flags}, {"/dev/shm", flags}}
	for _, dir := range keep {
		mounts = append(mounts, mount{Dir: dir})
	}
	return slices.Clip(mounts)
}
