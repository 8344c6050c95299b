package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Where tracefs is usually mounted.
var tracefsPaths = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// tracefs gives the numbers of tracepoints.
type tracefs struct {
	dir *os.File
}

// openTracefs finds tracefs, or makes a mount of it that hangs in no directory
// and that nobody else sees (Linux 5.2, CAP_SYS_ADMIN): the machine's mounts stay
// as they are.
func openTracefs() (*tracefs, error) {
	for _, path := range tracefsPaths {
		if _, err := os.Stat(filepath.Join(path, "events/syscalls")); err == nil {
			dir, err := os.Open(path)
			if err == nil {
				return &tracefs{dir}, nil
			}
		}
	}
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open tracefs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("create tracefs: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("mount tracefs: %w", err)
	}
	return &tracefs{os.NewFile(uintptr(mount), "tracefs")}, nil
}

func (t *tracefs) Close() error { return t.dir.Close() }

// id is the number of the tracepoint syscalls:name.
func (t *tracefs) id(name string) (uint64, error) {
	fd, err := unix.Openat(int(t.dir.Fd()), "events/syscalls/"+name+"/id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("find tracepoint %s: %w", name, err)
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, fmt.Errorf("read id of tracepoint %s: %w", name, err)
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(buf[:n])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read id of tracepoint %s: %w", name, err)
	}
	return id, nil
}

// perfEvent is an attached tracepoint; closing it detaches the program.
type perfEvent int

func (p perfEvent) Close() error { return unix.Close(int(p)) }

// attachTracepoint runs prog at the tracepoint with this number, for all
// processes on all CPUs: the event is opened for one CPU, but a program hangs on
// the tracepoint itself (kernel/trace/bpf_trace.c, perf_event_attach_bpf_prog).
func attachTracepoint(id uint64, prog *ebpf.Program) (perfEvent, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_TRACEPOINT,
		Config:      id,
		Size:        uint32(unix.PERF_ATTR_SIZE_VER5),
		Sample_type: unix.PERF_SAMPLE_RAW,
		Sample:      1,
		Wakeup:      1,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("open perf event: %w", err)
	}
	p := perfEvent(fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return 0, errors.Join(fmt.Errorf("attach program: %w", err), p.Close())
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return 0, errors.Join(fmt.Errorf("enable perf event: %w", err), p.Close())
	}
	return p, nil
}

// syscallTracepoints says at which tracepoints the programs run.
var syscallTracepoints = map[string][]string{
	captureProgDoneFlat:      flatExits,
	captureProgDoneVector:    vectorExits,
	captureProgLeaveAccept:   {"sys_exit_accept", "sys_exit_accept4"},
	captureProgEnterClose:    {"sys_enter_close"},
	captureProgEnterShutdown: {"sys_enter_shutdown"},
	// On kernels before 5.15:
	captureProgEnterShort:  {"sys_enter_read", "sys_enter_write", "sys_enter_readv", "sys_enter_writev", "sys_enter_recvmsg", "sys_enter_sendmsg"},
	captureProgEnterLong:   {"sys_enter_recvfrom", "sys_enter_sendto"},
	captureProgLeaveFlat:   flatExits,
	captureProgLeaveVector: vectorExits,
}

var (
	flatExits   = []string{"sys_exit_read", "sys_exit_write", "sys_exit_recvfrom", "sys_exit_sendto"}
	vectorExits = []string{"sys_exit_readv", "sys_exit_writev", "sys_exit_recvmsg", "sys_exit_sendmsg"}
)
