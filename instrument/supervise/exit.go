package supervise

// How the workload's end becomes our own, so that whoever waits for us sees what it
// would have seen without us.

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exit codes that shells give a command that did not run.
const (
	exitUsage         = 2
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalBase    = 128
)

// ExitStatus is how a process ended. The zero value is success.
type ExitStatus struct {
	// Code is the exit code; meaningful only where Signal is 0.
	Code int
	// Signal is the signal that ended the process, 0 where it exited by itself.
	Signal syscall.Signal
	// CoreDumped: the process left a core file.
	CoreDumped bool
}

func exitStatusOf(ws syscall.WaitStatus) ExitStatus {
	if ws.Signaled() {
		return ExitStatus{Signal: ws.Signal(), CoreDumped: ws.CoreDump()}
	}
	return ExitStatus{Code: ws.ExitStatus()}
}

// ShellCode is the status as a shell's $? shows it: the code, or 128 plus the signal.
func (s ExitStatus) ShellCode() int {
	if s.Signal != 0 {
		return exitSignalBase + int(s.Signal)
	}
	return s.Code
}

// String reads like a shell's report: "exit status 3", "signal: killed (core dumped)".
func (s ExitStatus) String() string {
	switch {
	case s.Signal == 0:
		return fmt.Sprintf("exit status %d", s.Code)
	case s.CoreDumped:
		return fmt.Sprintf("signal: %v (core dumped)", s.Signal)
	default:
		return fmt.Sprintf("signal: %v", s.Signal)
	}
}

// Exit ends this process with the status: an exit code as it is, a death by signal by
// dying of the same signal. Where that cannot be (PID 1 is immune to signals of its own
// namespace) the code is 128 plus the signal. It does not return and runs no deferred
// functions.
func (s ExitStatus) Exit() {
	if s.Signal != 0 && os.Getpid() != 1 {
		dieOf(s.Signal)
	}
	os.Exit(s.ShellCode())
}

// dieOf raises sig on the calling thread with its default action and no core file: the
// core, if any, was the workload's. It returns only where the kernel does not let us die.
func dieOf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	// A core limit of 0 keeps the kernel from writing a file, but not from feeding a
	// core_pattern that is a pipe; an undumpable process is left alone by both.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)

	// signal.Reset would give the Go runtime's idea of a default: a stack trace for
	// SIGQUIT and SIGSEGV. SIGKILL has no action to set; the error does not matter.
	_ = setAction(sig, &sigaction{})
	maskSignal(unix.SIG_UNBLOCK, sig)
	raise(sig)
}

// maskSignal blocks or unblocks (SIG_BLOCK, SIG_UNBLOCK) sig for the calling thread.
func maskSignal(how int, sig syscall.Signal) {
	var set unix.Sigset_t
	n := uint(sig) - 1
	set.Val[n/64] |= 1 << (n % 64)
	_ = unix.PthreadSigmask(how, &set, nil)
}

// raise sends sig to the calling thread. An unblocked signal has had its effect when
// raise returns: the kernel delivers it on the way back from the system call.
func raise(sig syscall.Signal) {
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
