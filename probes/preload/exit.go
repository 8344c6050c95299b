package preload

// Noticing the end of processes. A process that is killed writes nothing, so the kernel
// is asked: by pidfds (Linux 5.3), or where those cannot be had, again and again.

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// exitInterval is how often processes without a pidfd are asked for.
const exitInterval = time.Second

// exitNote is the end of a process, as soon as it was noticed.
type exitNote struct {
	pid  uint32
	time int64 // CLOCK_MONOTONIC
}

// exitWatch notes the ends of processes on a goroutine of its own, whose only work that
// is. Its methods may be called from any goroutine.
type exitWatch struct {
	epoll, wake  int
	withoutPidfd bool
	done         chan struct{}

	mu    sync.Mutex
	notes []exitNote
	// fds are the pidfds, asked the start times of processes without one, by pid.
	fds   map[uint32]int
	asked map[uint32]int64
}

func newExitWatch(withoutPidfd bool) (_ *exitWatch, err error) {
	w := &exitWatch{epoll: -1, wake: -1, withoutPidfd: withoutPidfd, done: make(chan struct{}), fds: map[uint32]int{}, asked: map[uint32]int64{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("watch for the ends of processes: %w", err)
			unix.Close(w.epoll) // of −1 an error without harm
			unix.Close(w.wake)
		}
	}()
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.wake)}); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// add begins to watch a process that was there at a time (CLOCK_MONOTONIC). If it is not
// there any more, its end is noted at once, also if another has its number now.
func (w *exitWatch) add(pid uint32, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.fds[pid]; ok {
		return
	}
	if _, ok := w.asked[pid]; ok {
		return
	}
	// The descriptor first: what is found out then is of the same process.
	fd, err := -1, unix.ENOSYS
	if !w.withoutPidfd {
		fd, err = pidfdOpen(pid)
	}
	start, alive := startTime(pid)
	if err == unix.ESRCH || err == unix.EINVAL || !alive || start > at+int64(startMargin) {
		if fd >= 0 {
			unix.Close(fd)
		}
		w.notes = append(w.notes, exitNote{pid, backend.Monotonic()})
		return
	}
	if fd >= 0 {
		if unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd), Pad: int32(pid)}) == nil {
			w.fds[pid] = fd
			return
		}
		unix.Close(fd)
	}
	w.asked[pid] = start
	if len(w.asked) == 1 {
		w.rouse()
	}
}

func pidfdOpen(pid uint32) (int, unix.Errno) {
	fd, err := unix.PidfdOpen(int(pid), 0) // close-on-exec always
	if err == nil {
		return fd, 0
	}
	var errno unix.Errno
	errors.As(err, &errno)
	return -1, errno
}

func (w *exitWatch) rouse() {
	// One after the other can only fail because it is roused already.
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// take appends what was noted since the last time.
func (w *exitWatch) take(notes []exitNote) []exitNote {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes = append(notes, w.notes...)
	w.notes = w.notes[:0]
	return notes
}

func (w *exitWatch) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		timeout := -1
		w.mu.Lock()
		if len(w.asked) > 0 {
			timeout = int(exitInterval / time.Millisecond)
		}
		w.mu.Unlock()
		n, err := unix.EpollWait(w.epoll, events, timeout)
		if err != nil && err != unix.EINTR {
			return // closed: nothing else makes it fail
		}
		now := backend.Monotonic()
		w.mu.Lock()
		if w.fds == nil {
			w.mu.Unlock()
			return
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == w.wake {
				var b [8]byte
				_, _ = unix.Read(w.wake, b[:])
				continue
			}
			pid := uint32(e.Pad)
			delete(w.fds, pid)
			unix.Close(int(e.Fd)) // with it, it leaves the epoll set
			w.notes = append(w.notes, exitNote{pid, now})
		}
		if n == 0 {
			w.ask(now)
		}
		w.mu.Unlock()
	}
}

// ask looks for the processes without a pidfd.
func (w *exitWatch) ask(now int64) {
	for pid, was := range w.asked {
		if start, alive := startTime(pid); !alive || start != was {
			delete(w.asked, pid)
			w.notes = append(w.notes, exitNote{pid, now})
		}
	}
}

func (w *exitWatch) close() error {
	w.mu.Lock()
	fds := w.fds
	w.fds = nil
	w.mu.Unlock()
	w.rouse()
	<-w.done
	var errs []error
	for _, fd := range fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(append(errs, unix.Close(w.epoll), unix.Close(w.wake))...)
}
