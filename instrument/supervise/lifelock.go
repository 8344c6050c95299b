package supervise

// The life lock: how an agent's death is noticed before the agent can be reaped.
//
// A killed process can be waited for once the kernel has released all its files. For an
// agent that is seconds late, since the release of each probe waits for a grace period
// (synchronize_rcu_tasks_trace): with some forty probes 3 s on an idle machine and 11 s on
// a busy one, measured on Linux 6.18. The end of a pipe that the agent held is as late,
// for the pipe is released together with the probes (fs/file_table.c, __fput as task work).
//
// A POSIX record lock belongs to the process. The kernel drops it in the walk over the
// descriptors that comes before any release (fs/open.c, filp_close calls
// locks_remove_posix); it was free 3 ms after a SIGKILL. By the same rule it is dropped
// when its process closes any descriptor of the file, and it is not inherited: a child
// that the agent leaves behind does not hold it.

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lifeLockName shows up in /proc/PID/fd of both processes.
const lifeLockName = "tokenscope-agent-life"

// A lifeLock is the supervisor's side of one agent's lock.
type lifeLock struct {
	fd int // −1 where the system gives us no file
	// gone is closed when the agent, having held the lock, has let go of it.
	gone    chan struct{}
	watched bool
}

// newLifeLock makes the file for one agent. The lock is usable after an error too: it
// is never watched then, and the agent's end is noticed when it can be reaped.
func newLifeLock() (*lifeLock, error) {
	l := &lifeLock{fd: -1, gone: make(chan struct{})}
	// A file that can never be executed is all that vm.memfd_noexec=2 permits; before
	// Linux 6.3 the flag is unknown.
	fd, err := unix.MemfdCreate(lifeLockName, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(lifeLockName, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return l, fmt.Errorf("create life lock: %w", err)
	}
	l.fd = fd
	return l, nil
}

// watch starts to wait for the lock. Call it only when the agent holds it: a lock that is
// free means that the agent is gone. What waits is a thread in a system call, which only
// the lock ends; after an agent that outlives us it stays until our own exit.
func (l *lifeLock) watch() {
	if l.fd < 0 || l.watched {
		return
	}
	l.watched = true
	go l.wait()
}

func (l *lifeLock) wait() {
	defer unix.Close(l.fd)
	for {
		switch unix.FcntlFlock(uintptr(l.fd), unix.F_SETLKW, wholeFile()) {
		case nil:
			close(l.gone)
			return
		case unix.EINTR:
		default:
			return // noticed when it can be reaped
		}
	}
}

// close gives the file back where nobody waits for its lock; whoever waits does it itself.
// It must not run at the same time as watch.
func (l *lifeLock) close() {
	if l.fd >= 0 && !l.watched {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// takeLifeLock takes the lock on the file in descriptor fd for this process and says
// whether it holds it now. A descriptor that is no such file is left alone.
func takeLifeLock(fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, wholeFile()) == nil
}

// wholeFile is a write lock on a file from its start to wherever it ends.
func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
}
