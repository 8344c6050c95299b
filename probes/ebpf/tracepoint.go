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
		return 0, fmt.Errorf("find it: %w", err)
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, fmt.Errorf("read its id: %w", err)
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(buf[:n])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read its id: %w", err)
	}
	return id, nil
}

// perfEvent is a tracepoint that was opened; closing it detaches its program.
type perfEvent int

func (p perfEvent) Close() error { return unix.Close(int(p)) }

// openTracepoint opens the tracepoint with this number. For attaching a program it
// stands for all processes on all CPUs: the event is opened for one CPU, but a
// program hangs on the tracepoint itself (kernel/trace/bpf_trace.c,
// perf_event_attach_bpf_prog). Until then it is switched off.
func openTracepoint(id uint64) (perfEvent, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_TRACEPOINT,
		Config:      id,
		Size:        uint32(unix.PERF_ATTR_SIZE_VER5),
		Sample_type: unix.PERF_SAMPLE_RAW,
		Sample:      1,
		Wakeup:      1,
		Bits:        unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("open perf event: %w", err)
	}
	return perfEvent(fd), nil
}

// attach makes prog run at the tracepoint.
func (p perfEvent) attach(prog *ebpf.Program) error {
	if err := unix.IoctlSetInt(int(p), unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return fmt.Errorf("attach program: %w", err)
	}
	if err := unix.IoctlSetInt(int(p), unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enable perf event: %w", err)
	}
	return nil
}

// tracepoints opens tracepoints of system calls ahead and all at once.
//
// Alone that gains nothing: the twelve take a millisecond. But whoever closes a
// tracepoint or a probe has the kernel wait for several grace periods, some 60 ms
// and more, and keep meanwhile the lock that opening one needs as well (event_mutex
// in kernel/trace/trace_event_perf.c, Linux 6.18). Beside three others that opened
// and closed theirs, Open took up to 1.7 s, in the median 0.8, when each tracepoint
// stood at the end of that queue anew. Now they stand in it together, while the
// verifier works, and nobody puts all of his into it at once (see closeAll): at most
// 0.4 s, in the median 0.13.
type tracepoints struct {
	fs     *tracefs
	opened map[string]*opening
}

// opening is a tracepoint that is being opened.
type opening struct {
	done  chan struct{}
	event perfEvent // once done
	err   error
}

func newTracepoints(fs *tracefs) *tracepoints {
	return &tracepoints{fs: fs, opened: map[string]*opening{}}
}

// begin opens tracepoints without waiting for it. Nothing may be begun twice
// before it is taken.
func (t *tracepoints) begin(names ...string) {
	for _, name := range names {
		o := &opening{done: make(chan struct{})}
		t.opened[name] = o
		go func() {
			defer close(o.done)
			id, err := t.fs.id(name)
			if err == nil {
				o.event, err = openTracepoint(id)
			}
			if err != nil {
				o.err = fmt.Errorf("tracepoint %s: %w", name, err)
			}
		}()
	}
}

// take returns the tracepoint, which is the caller's to close.
func (t *tracepoints) take(name string) (perfEvent, error) {
	if t.opened[name] == nil {
		t.begin(name)
	}
	o := t.opened[name]
	delete(t.opened, name)
	<-o.done
	return o.event, o.err
}

// Close closes what was opened and not taken.
func (t *tracepoints) Close() error {
	var errs []error
	for _, o := range t.opened {
		<-o.done
		if o.err == nil {
			errs = append(errs, o.event.Close())
		}
	}
	t.opened = nil
	return errors.Join(append(errs, t.fs.Close())...)
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
