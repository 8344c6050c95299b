package main

// The agent holds keys, and bytes of other people's requests: its memory stays where it is.

import (
	"errors"
	"fmt"
	"io"
	stdlog "log"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// keepToOurselves is for the agent's process alone, at its start. The supervisor stays as
// it is: the workload opens files of its /proc/PID/fd, which an undumpable process hides.
//
//   - No core file, and no core for a core_pattern that is a pipe. The latter does not ask
//     for the limit but for the dumpable attribute (fs/coredump.c), which also closes
//     /proc/PID/environ, mem and ptrace to other processes of the same user.
//   - Nothing from package log: none of our lines goes there, but net/http writes each
//     header of an HTTP/2 export to it where GODEBUG has http2debug.
func keepToOurselves() error {
	// An undumpable process without root does not own its /proc/self/mem, in which
	// cilium/ebpf looks for the kernel's version before it loads a kprobe program
	// (internal/linux/vdso.go). It looks once; an error will be its own to report.
	_, _ = features.LinuxVersionCode()

	stdlog.SetOutput(io.Discard)
	var errs []error
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		errs = append(errs, fmt.Errorf("set core limit: %w", err))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		errs = append(errs, fmt.Errorf("make process undumpable: %w", err))
	}
	return errors.Join(errs...)
}
