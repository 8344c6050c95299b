package host

// The kernel, and what it lets be asked of it.

import (
	"strconv"
	"strings"
)

// Kernel is what is known of the kernel.
type Kernel struct {
	Release, Version Reading
	// Sandbox names a program that plays the kernel, "" where none is recognised.
	Sandbox string
	// BTF is empty text where the kernel's types can be read.
	BTF Reading
	// Lockdown is "none", "integrity" or "confidentiality".
	Lockdown Reading
	// PerfEventParanoid and UnprivilegedBPF are the numbers of these settings.
	PerfEventParanoid, UnprivilegedBPF Reading
	// Tracefs is the folder of single system calls' tracepoints.
	Tracefs Reading
}

// gvisorVersion is the version that gVisor reports to every program
// (google/gvisor, pkg/sentry/syscalls/linux/linux64.go, _LINUX_VERSION).
const gvisorVersion = "#1 SMP Sun Jan 10 15:06:54 PST 2016"

// Kernel reads what the machine's kernel says of itself.
func (v View) Kernel() Kernel {
	k := Kernel{
		Release:           v.read("/proc/sys/kernel/osrelease"),
		Version:           v.read("/proc/sys/kernel/version"),
		PerfEventParanoid: v.read("/proc/sys/kernel/perf_event_paranoid"),
		UnprivilegedBPF:   v.read("/proc/sys/kernel/unprivileged_bpf_disabled"),
		Lockdown:          v.lockdown(),
		Tracefs:           v.tracefs(),
	}
	if strings.HasPrefix(k.Version.Text, gvisorVersion) {
		k.Sandbox = "gVisor"
	}
	f, err := openRegular(v.path("/sys/kernel/btf/vmlinux"))
	if err == nil {
		err = f.Close()
	}
	k.BTF = Reading{Err: err}
	return k
}

// AtLeast reports whether the kernel is of this release or a later one; known is false
// where its release cannot be read as numbers.
func (k *Kernel) AtLeast(major, minor int) (yes, known bool) {
	first, rest, _ := strings.Cut(k.Release.Text, ".")
	second := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		second = rest[:end]
	}
	a, err := strconv.Atoi(first)
	if err != nil {
		return false, false
	}
	b, err := strconv.Atoi(second)
	if err != nil {
		return false, false
	}
	return a > major || a == major && b >= minor, true
}

// lockdown reads the mode in brackets: "none [integrity] confidentiality". A kernel
// without the module, and most containers, have no such file.
func (v View) lockdown() Reading {
	r := v.read("/sys/kernel/security/lockdown")
	_, rest, _ := strings.Cut(r.Text, "[")
	r.Text, _, _ = strings.Cut(rest, "]")
	return r
}

// tracefsFolders are where tracefs is mounted; the second is a view of the first that
// comes up by itself where debugfs is mounted.
var tracefsFolders = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// tracefs finds the folder whose tracepoints of single system calls can be read.
func (v View) tracefs() Reading {
	var first error
	for _, folder := range tracefsFolders {
		f, err := openRegular(v.path(folder + "/events/syscalls/sys_enter_close/id"))
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			return Reading{Text: folder}
		}
		if first == nil {
			first = err
		}
	}
	return Reading{Err: first}
}
