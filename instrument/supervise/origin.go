package supervise

// Who sent a signal. os/signal tells only the number, but a SIGINT from the terminal
// has reached the whole process group, while one from kill(1) has reached us alone and
// must be forwarded. The kernel tells the handler: si_code and si_pid. So a handler of
// our own notes the two and jumps on to the Go runtime's handler, which finds its
// arguments and its stack as the kernel made them.
//
// The handler (origin_amd64.s, origin_arm64.s) is entered on the runtime's signal stack
// between any two instructions of the program. It touches caller-saved registers and
// the two variables below and calls nothing.

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// numSignals is one more than the highest signal number, on every Linux architecture
// that we build for. The handlers know it too.
const numSignals = 65

var (
	// goHandler is the Go runtime's signal handler, the same for every signal. It is
	// written before ours is first installed.
	goHandler uintptr
	// origins holds the last origin of each signal, written by the handler:
	// si_code << 32 | originSeen | si_pid.
	origins [numSignals]uint64
)

const (
	// originSeen tells a recorded origin from none: SI_USER and the PID that is seen
	// for a sender outside of our PID namespace are both 0.
	originSeen = 1 << 31
	// From the kernel's include/uapi/asm-generic/siginfo.h.
	siUser  = 0  // kill
	siQueue = -1 // sigqueue
	siTkill = -6 // tgkill
)

// originHandlerAddr returns the address of the handler. (The address of an assembly
// function that Go takes is that of a wrapper, which needs a Go stack.)
func originHandlerAddr() uintptr

// origin is who sent a signal.
type origin struct {
	known bool
	code  int32
	pid   int // the sender's, where fromProcess; 0: outside of our PID namespace
}

// fromProcess says whether a process sent it; false for the kernel's own signals and
// where it is not known.
func (o origin) fromProcess() bool {
	return o.known && (o.code == siUser || o.code == siQueue || o.code == siTkill)
}

// lastOrigin is the origin of the last sig that this process got. The handler writes it
// before os/signal learns of the signal.
func lastOrigin(sig syscall.Signal) origin {
	v := atomic.LoadUint64(&origins[sig])
	return origin{
		known: v&originSeen != 0,
		code:  int32(v >> 32),
		pid:   int(uint32(v) &^ originSeen),
	}
}

// recordOrigins puts our handler in front of the Go runtime's for every one of sigs.
// Call it after signal.Notify, which installs the runtime's. A signal for which that
// fails, or whose handler is not the runtime's, merely has no known origin.
func recordOrigins(sigs []syscall.Signal) {
	ours := originHandlerAddr()
	for _, sig := range sigs {
		var act sigaction
		if err := getAction(sig, &act); err != nil {
			continue
		}
		if act.handler == sigDefault || act.handler == sigIgnore || act.handler == ours {
			continue
		}
		if goHandler == 0 {
			goHandler = act.handler
		}
		if act.handler != goHandler {
			continue
		}
		act.handler = ours
		_ = setAction(sig, &act)
	}
}

// sigaction is the kernel's struct sigaction, the same on amd64 and arm64. The zero
// value is the default action.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault = 0
	sigIgnore  = 1
)

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
