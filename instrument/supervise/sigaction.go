package supervise

// Signal actions as the kernel has them. os/signal cannot tell whether a signal was
// ignored when we started, nor give one back its true default action.

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// numSignals is one more than the highest signal number, on every Linux architecture
// that we build for.
const numSignals = 65

// sigaction is the kernel's struct sigaction, the same on amd64 and arm64. The zero
// value is the default action.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// sigIgnore is the handler of an ignored signal, SIG_IGN.
const sigIgnore = 1

func getAction(sig syscall.Signal, act *sigaction) error {
	return rtSigaction(sig, nil, act)
}

func setAction(sig syscall.Signal, act *sigaction) error {
	return rtSigaction(sig, act, nil)
}

func rtSigaction(sig syscall.Signal, act, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(act)), uintptr(unsafe.Pointer(old)),
		unsafe.Sizeof(sigaction{}.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
