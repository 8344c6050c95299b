package supervise

// Starting the workload with exactly what this process was given.

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxListedFD bounds the table of descriptors that is built for the workload's start.
// Descriptors above it are still handed down, only the agent is not kept from them.
const maxListedFD = 1 << 16

// Environ returns the environment that this process was started with, to the byte and
// in order: os.Environ drops what appears twice. Changes by os.Setenv are not in it.
func Environ() []string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil || len(b) == 0 {
		return os.Environ()
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// A command is the workload before its start.
type command struct {
	argv []string
	env  []string
	// plain is the environment without the shim, for where the kernel does not take env;
	// nil where env is that. shed says, after start, that it was used.
	plain []string
	shed  bool
	path  string    // the file to run
	files []uintptr // the descriptors to hand down, by number
}

// start runs the workload from the calling thread, whose end ends the workload: the
// kernel sends it SIGKILL then (PR_SET_PDEATHSIG goes by thread). The warning, if any, is
// for the log.
func (c *command) start(r *reaper) (p *process, warning string, _ *startError) {
	path, argv, byShell := c.path, c.argv, false
	attr := &syscall.ProcAttr{
		Env:   c.env,
		Files: c.files,
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	}
	for {
		p, err := r.start(path, argv, attr)
		switch {
		case err == nil:
			return p, warning, nil

		case err == unix.ENOEXEC && !byShell && isScript(c.path):
			// An executable text without "#!": run by the shell, as shells and execvp do.
			byShell = true
			path, argv = scriptShell, append([]string{scriptShell, c.path}, c.argv[1:]...)

		case err == unix.E2BIG && c.plain != nil:
			// Arguments and environment have one limit together, a quarter of the stack's
			// (bprm_stack_limits in fs/exec.c), and only the shim's variables are beyond it.
			attr.Env, c.plain, c.shed = c.plain, nil, true

		case (err == unix.EPERM || err == unix.EINVAL) && attr.Sys != nil:
			// Perhaps exec said so, perhaps a sandbox that forbids prctl.
			attr.Sys = nil
			warning = "workload will outlive a killed supervisor: parent death signal refused"

		case (err == unix.EBADF || err == unix.EMFILE || err == unix.EINVAL) && len(attr.Files) > 3:
			// The table reaches up to the descriptor limit, and the fork needs one more
			// beyond it. The other way to hand them down has no such need.
			for fd, mapped := range attr.Files[3:] {
				if mapped != closedFD {
					setCloseOnExec(fd+3, false)
				}
			}
			attr.Files = attr.Files[:3]

		default:
			return nil, "", explain(c.argv[0], path, err)
		}
	}
}

// closedFD marks a descriptor in syscall.ProcAttr.Files that the child must not have.
const closedFD = ^uintptr(0)

// takeInherited finds the descriptors that we were started with and marks them
// close-on-exec, so that the agent does not hold them (a listening socket, the end of
// someone's pipe) after the workload has ended. It returns them as the table that hands
// them to the workload. Everything that Go opens is close-on-exec from the start, so
// what is not was inherited; call this before anything else is opened all the same.
func takeInherited() []uintptr {
	files := []uintptr{0, 1, 2}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return files // no /proc: the agent shares them
	}
	names, _ := dir.Readdirnames(-1)
	dir.Close()

	var fds []int
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 || fd > maxListedFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	for _, fd := range fds {
		setCloseOnExec(fd, true)
		for len(files) < fd {
			files = append(files, closedFD)
		}
		files = append(files, uintptr(fd))
	}
	return files
}

func setCloseOnExec(fd int, on bool) {
	flags := 0
	if on {
		flags = unix.FD_CLOEXEC
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags)
}
