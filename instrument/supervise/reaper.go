package supervise

// The one place that waits for children.

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reaper starts processes and waits for them. It is the only waiter of this process:
// it runs after each SIGCHLD, asks for our own children one by one and, where orphans are
// given to us (PID 1, or a subreaper), for all others too. Its methods may be called
// from any goroutine.
type reaper struct {
	orphans bool // orphans are ours to reap
	chld    chan os.Signal
	stop    chan struct{}
	stopped chan struct{}

	mu    sync.Mutex
	procs map[int]*process // started and not yet reaped
	// starting counts forks whose PID is not in procs yet. While there are any, we do not
	// ask for all children: we could reap one without knowing whose it is.
	starting int
}

// A process was started by a reaper.
type process struct {
	pid int
	// exited is closed when the process has been reaped; status is set before.
	exited chan struct{}
	status syscall.WaitStatus
	// jobChange has room for one notice that the process has stopped or continued.
	jobChange chan struct{}
	isStopped bool // under reaper.mu
}

func newReaper() *reaper {
	r := &reaper{
		orphans: os.Getpid() == 1 || isSubreaper(),
		// One place is enough: a sweep takes all that there is.
		chld:    make(chan os.Signal, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		procs:   make(map[int]*process),
	}
	signal.Notify(r.chld, unix.SIGCHLD)
	go r.run()
	return r
}

// isSubreaper says whether whoever exec'd us had made this process a subreaper; the
// attribute survives exec.
func isSubreaper() bool {
	var is int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0)
	return err == nil && is != 0
}

func (r *reaper) run() {
	defer close(r.stopped)
	for {
		select {
		case <-r.chld:
			r.mu.Lock()
			r.sweep()
			r.mu.Unlock()
		case <-r.stop:
			return
		}
	}
}

// close ends the waiting. Processes that still run are left alone.
func (r *reaper) close() {
	signal.Stop(r.chld)
	close(r.stop)
	<-r.stopped
}

// start runs a process. The error is the bare errno of fork or exec.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()

	// Not under the lock: this returns after the child's exec, which a dead file
	// server can hold up for long, and signals must get through meanwhile.
	pid, err := syscall.ForkExec(path, argv, attr)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	var p *process
	if err == nil {
		p = &process{
			pid:       pid,
			exited:    make(chan struct{}),
			jobChange: make(chan struct{}, 1),
		}
		r.procs[pid] = p
	}
	// Its SIGCHLD, or an orphan's, may have come before it was in procs.
	r.sweep()
	return p, err
}

// signal sends sig to a process. The lock keeps the PID from being reaped, and so from
// being another process, meanwhile. One that has ended is no error.
func (r *reaper) signal(p *process, sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[p.pid] != p {
		return nil
	}
	return unix.Kill(p.pid, sig)
}

// hasStopped says whether a process is stopped, as by SIGSTOP or Ctrl-Z.
func (r *reaper) hasStopped(p *process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.isStopped
}

const waitFlags = unix.WNOHANG | unix.WUNTRACED | unix.WCONTINUED

// sweep takes every change of state that is to be had. Called with r.mu held.
func (r *reaper) sweep() {
	for pid := range r.procs {
		for r.waitOne(pid) {
		}
	}
	if r.orphans && r.starting == 0 {
		for r.waitOne(-1) {
		}
	}
}

// waitOne takes one change of state of a child, or of any for −1, and says whether there
// was one.
func (r *reaper) waitOne(pid int) bool {
	var ws syscall.WaitStatus
	var got int
	var err error
	for {
		got, err = syscall.Wait4(pid, &ws, waitFlags, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil || got <= 0 {
		return false
	}
	p := r.procs[got]
	if p == nil {
		return true // an orphan
	}
	switch {
	case ws.Stopped(), ws.Continued():
		p.isStopped = ws.Stopped()
		select {
		case p.jobChange <- struct{}{}:
		default:
		}
	default:
		delete(r.procs, got)
		p.status = ws
		close(p.exited)
	}
	return true
}
