package standin

// waitid, which tells of an end without taking it.

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the kernel's siginfo_t as waitid fills it, on 64-bit machines
// (include/uapi/asm-generic/siginfo.h).
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [128 - 28]byte
}

// codeExited is CLD_EXITED; all else that is waited for here is a signal's doing.
const codeExited = 1

// error says what is wrong about the way it ended.
func (i *siginfo) error() error {
	switch {
	case i.code != codeExited:
		return &Died{unix.Signal(i.status)}
	case i.status != 0:
		return fmt.Errorf("a system call of the test process failed (step %d)", i.status)
	}
	return nil
}

// waitid waits for one child. It leaves info.pid 0 if that has not ended.
func waitid(pid int, info *siginfo, options int) error {
	for {
		*info = siginfo{}
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(info)), uintptr(options), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
