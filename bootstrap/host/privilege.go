package host

// What a process may do: user, capabilities, seccomp, namespaces.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capabilities is a set of them, as /proc/PID/status prints it.
type Capabilities uint64

// The capabilities that watching depends on.
const (
	CapSysPtrace   Capabilities = 1 << unix.CAP_SYS_PTRACE
	CapSysAdmin    Capabilities = 1 << unix.CAP_SYS_ADMIN
	CapSysResource Capabilities = 1 << unix.CAP_SYS_RESOURCE
	CapPerfmon     Capabilities = 1 << unix.CAP_PERFMON
	CapBPF         Capabilities = 1 << unix.CAP_BPF
)

var capabilityNames = []struct {
	bit  Capabilities
	name string
}{
	{CapBPF, "CAP_BPF"}, {CapPerfmon, "CAP_PERFMON"}, {CapSysPtrace, "CAP_SYS_PTRACE"},
	{CapSysAdmin, "CAP_SYS_ADMIN"}, {CapSysResource, "CAP_SYS_RESOURCE"},
}

// Has reports whether all of want are in the set.
func (c Capabilities) Has(want Capabilities) bool { return c&want == want }

// Names lists those of the set that watching depends on.
func (c Capabilities) Names() []string {
	var names []string
	for _, n := range capabilityNames {
		if c.Has(n.bit) {
			names = append(names, n.name)
		}
	}
	return names
}

// Seccomp modes, as /proc/PID/status has them.
const (
	SeccompOff    = 0
	SeccompStrict = 1
	SeccompFilter = 2
)

// Privileges are those of one process.
type Privileges struct {
	// Err is why the rest could not be read.
	Err error

	UID                 int // the effective one
	Parent              int // the parent's pid
	Effective, Bounding Capabilities
	NoNewPrivs          bool
	Seccomp             int // SeccompOff…
	// PIDs are the process's ids, in the namespace of this process's proc first.
	PIDs []int
	// InitialUsers says that the process is in the machine's own user namespace: only
	// there do capabilities count for bpf.
	InitialUsers bool
	// OwnPIDs says that the process has another PID namespace than the machine's first.
	OwnPIDs bool
}

// initialPIDNamespace is the inode of the first PID namespace, the same on every
// machine (include/uapi/linux/nsfs.h, PID_NS_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// allUsers is how many ids the initial user namespace maps onto themselves.
const allUsers = "4294967295"

// Privileges reads those of a process: "self", or its number.
func (v View) Privileges(process string) Privileges {
	folder := "/proc/" + process
	status := v.read(folder + "/status")
	if status.Err != nil {
		return Privileges{Err: status.Err}
	}
	p, err := parseStatus(status.Text)
	if err != nil {
		return Privileges{Err: fmt.Errorf("read %s/status: %w", folder, err)}
	}
	users := strings.Fields(v.read(folder + "/uid_map").Text)
	p.InitialUsers = len(users) == 3 && users[0] == "0" && users[1] == "0" && users[2] == allUsers
	// Another user's link cannot be read; then more than one id says it as well.
	space, err := os.Readlink(v.path(folder + "/ns/pid"))
	p.OwnPIDs = err == nil && space != initialPIDNamespace || len(p.PIDs) > 1
	return p
}

// errNoField is about a kernel that lacks a line, or a file that is none of its.
var errNoField = errors.New("has no line")

// parseStatus reads the lines that matter of /proc/PID/status.
func parseStatus(text string) (Privileges, error) {
	fields := map[string][]string{}
	for line := range strings.Lines(text) {
		name, values, ok := strings.Cut(line, ":")
		if ok {
			fields[name] = strings.Fields(values)
		}
	}
	var errs []error
	number := func(name string, index, base int) uint64 {
		values := fields[name]
		if len(values) <= index {
			errs = append(errs, fmt.Errorf("%w %s", errNoField, name))
			return 0
		}
		n, err := strconv.ParseUint(values[index], base, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return n
	}
	p := Privileges{
		UID:       int(number("Uid", 1, 10)),
		Parent:    int(number("PPid", 0, 10)),
		Effective: Capabilities(number("CapEff", 0, 16)),
		Bounding:  Capabilities(number("CapBnd", 0, 16)),
	}
	// gVisor prints neither of these two; then they are off as far as one can tell.
	if len(fields["NoNewPrivs"]) > 0 {
		p.NoNewPrivs = number("NoNewPrivs", 0, 10) != 0
	}
	if len(fields["Seccomp"]) > 0 {
		p.Seccomp = int(number("Seccomp", 0, 10))
	}
	for _, text := range fields["NSpid"] {
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("NSpid: %w", err))
		}
		p.PIDs = append(p.PIDs, n)
	}
	return p, errors.Join(errs...)
}
