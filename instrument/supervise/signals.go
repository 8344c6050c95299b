package supervise

// Which signals reach us, which of them go on to the workload, and stopping as a job.
// The rules stand in the package comment.

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalBacklog is how many signals may wait for the supervisor's loop. The loop never
// waits for long, and equal signals merge in the kernel as well, so that one of each
// kind is enough.
const signalBacklog = numSignals

// caught reports whether we take a signal. SIGKILL and SIGSTOP cannot be caught; the Go
// runtime does not give away 32 to 34, which C libraries use within themselves; the
// package comment has the rest.
func caught(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG,
		unix.SIGTTIN, unix.SIGTTOU, unix.SIGPROF, 32, 33, 34:
		return false
	}
	return true
}

// catchSignals starts to take signals. One that is ignored (nohup, or a shell's
// background job) stays ignored, and the workload inherits that.
//
// They are never let go of again: after the workload's end a signal must not change
// the exit status that is about to be passed on.
func catchSignals() <-chan os.Signal {
	var sigs []os.Signal
	for sig := syscall.Signal(1); sig < numSignals; sig++ {
		var act sigaction
		if err := getAction(sig, &act); err == nil && act.handler == sigIgnore {
			continue
		}
		if caught(sig) {
			sigs = append(sigs, sig)
		}
	}
	ch := make(chan os.Signal, signalBacklog)
	signal.Notify(ch, sigs...)
	return ch
}

// aboutUs reports whether a signal is the price of a write of our own: standard error is
// a pipe that nobody reads any more, or a file that has reached the size limit. We catch
// these two only so that they do not end us; the workload is sent its own when it writes.
func aboutUs(sig syscall.Signal) bool {
	return sig == unix.SIGPIPE || sig == unix.SIGXFSZ
}

// toWorkload decides whether a signal that reached us goes on to the workload.
// foreground is asked only where the answer depends on it.
func toWorkload(sig syscall.Signal, foreground func() bool) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH:
		// What the terminal sends, it sends to its whole foreground group.
		return !foreground()
	}
	return !aboutUs(sig)
}

// endsByDefault reports whether a signal's default action is to end the process.
func endsByDefault(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGCHLD, unix.SIGCONT, unix.SIGURG, unix.SIGWINCH,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGSTOP:
		return false
	}
	return true
}

// inForeground reports whether our process group is the foreground group of our
// controlling terminal; false without a terminal.
func inForeground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// stopSelf stops this process by the default action of SIGTSTP and returns when it has
// been continued. The kernel decides as for any other process: in an orphaned process
// group (nobody could continue us) and as PID 1 nothing happens.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ours sigaction
	if err := getAction(unix.SIGTSTP, &ours); err != nil {
		return
	}
	if err := setAction(unix.SIGTSTP, &sigaction{}); err != nil {
		return
	}
	maskSignal(unix.SIG_UNBLOCK, unix.SIGTSTP)
	raise(unix.SIGTSTP)
	_ = setAction(unix.SIGTSTP, &ours)
}
