package ebpf

// What would help, for a reason that a program, an attachment or the self-test failed.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/ebpf/internal/standin"
)

// Cure names, for a reason that a program or an attachment was refused, or that the
// self-test failed, what would help; empty where that is not known.
func Cure(err error) string {
	var verifier *ebpf.VerifierError
	var died *standin.Died
	var missed unseen
	switch {
	case err == nil:
		return ""
	case errors.As(err, &died):
		// The attached process gets SIGSEGV, or what its seccomp filter has for it, where
		// return probes are a system call (Linux 6.11, ff474a78cef5) that the filter does
		// not know, until cf6cb56ef244 ("seccomp: passthrough uretprobe systemcall without
		// filtering", 6.14). Stable kernels got that in the middle of their series, and
		// distributions when they liked: a release does not tell.
		return "a server would die as well; at a return probe that is known of Linux 6.11 to 6.13 under a seccomp filter: use another kernel, or a profile that allows the system call uretprobe (335)"
	case errors.As(err, &missed):
		return "please report it with the kernel's version (uname -r)"
	case errors.Is(err, errNoTracefs):
		return "mount tracefs (mount -t tracefs tracefs /sys/kernel/tracing; CAP_SYS_ADMIN does without) and run as root or with CAP_DAC_READ_SEARCH, as its directory is root's alone"
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		// First: the verifier's refusal is an EACCES as well.
		return "the kernel's verifier refuses the program; please report it with the kernel's version (uname -r)"
	case errors.Is(err, errMemlock):
		return "before Linux 5.11: run with CAP_SYS_RESOURCE besides CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, or raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity)"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return readPrivilege().cure()
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "btf"), strings.Contains(err.Error(), "no BTF"):
		return "use a kernel with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)"
	case errors.Is(err, unix.ENOSYS):
		return readPrivilege().cureMissing()
	case errors.Is(err, ebpf.ErrNotSupported):
		return "use Linux 5.8 or later"
	}
	return ""
}

// privilege is what decides about permission here.
type privilege struct {
	lockdown     string // "none", "integrity", "confidentiality", "" where there is none
	capabilities uint64 // effective, by number
	seccomp      bool   // a filter is in force
	ownUsers     bool   // in a user namespace of its own, whose capabilities count for little
	paranoid     int    // kernel.perf_event_paranoid, 0 where it cannot be read
	gvisor       bool
}

// needed are the capabilities that eBPF capture wants, each of which CAP_SYS_ADMIN
// stands for, but for the last.
var needed = []struct {
	number uint
	name   string
}{
	{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
}

func (p privilege) has(capability uint) bool { return p.capabilities>>capability&1 != 0 }

// paranoidAny is the level from which on Debian's and Ubuntu's kernels let nobody
// without CAP_SYS_ADMIN open perf events; other kernels know no level above 2.
const paranoidAny = 3

// cure says what would help where something is not permitted.
func (p privilege) cure() string {
	var missing []string
	for _, c := range needed {
		if !p.has(c.number) && (!p.has(unix.CAP_SYS_ADMIN) || c.number == unix.CAP_SYS_PTRACE) {
			missing = append(missing, c.name)
		}
	}
	switch {
	case p.gvisor:
		return p.cureMissing()
	case p.lockdown == "confidentiality":
		return "the kernel is locked down (confidentiality): boot with lockdown=integrity or none"
	case p.ownUsers:
		return "the capabilities of a user namespace (a rootless container) do not count: run in the machine's own, with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
	case len(missing) > 0:
		return fmt.Sprintf("run with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE (missing: %s); in a container the seccomp profile must allow bpf and perf_event_open", strings.Join(missing, ", "))
	case p.paranoid >= paranoidAny && !p.has(unix.CAP_SYS_ADMIN):
		return fmt.Sprintf("kernel.perf_event_paranoid is %d, at which some kernels let only CAP_SYS_ADMIN open perf events: set it to 2 or less, or run with CAP_SYS_ADMIN", p.paranoid)
	case p.seccomp:
		return "no capability is missing, but a seccomp filter is in force: its profile must allow bpf and perf_event_open"
	}
	return "no capability is missing: a security module (SELinux, AppArmor) may refuse bpf or perf_event_open; its log says so"
}

// cureMissing says what would help where a system call is not there.
func (p privilege) cureMissing() string {
	switch {
	case p.gvisor:
		return "gVisor's kernel has no BPF: run under another container runtime"
	case p.seccomp:
		return "a seccomp filter is in force that hides a system call: its profile must allow bpf and perf_event_open"
	}
	return "use Linux 5.8 or later, built with CONFIG_BPF_SYSCALL and CONFIG_PERF_EVENTS"
}

// readPrivilege looks at this process and its machine. What cannot be read is taken
// for what would not explain a refusal.
func readPrivilege() privilege {
	p := privilege{lockdown: lockdown()}
	if status, err := os.ReadFile("/proc/thread-self/status"); err == nil {
		p.readStatus(string(status))
	}
	if data, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		p.ownUsers = !isWholeRange(string(data))
	}
	if data, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err == nil {
		p.paranoid, _ = strconv.Atoi(strings.TrimSpace(string(data))) // 0 on error
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		p.gvisor = isGVisor(unix.ByteSliceToString(u.Version[:]))
	}
	return p
}

// readStatus takes from the text of a status file what it has.
func (p *privilege) readStatus(status string) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "CapEff":
			p.capabilities, _ = strconv.ParseUint(value, 16, 64) // 0 on error
		case "Seccomp":
			p.seccomp = value == "2" // SECCOMP_MODE_FILTER
		}
	}
}

// isWholeRange reports whether a uid_map is that of the machine's first user
// namespace, in which every number stands for itself.
func isWholeRange(uidMap string) bool {
	return strings.Join(strings.Fields(uidMap), " ") == "0 0 4294967295"
}

// isGVisor knows gVisor by the version that its uname has had since its beginning,
// whatever the release says (pkg/sentry/syscalls/linux/linux64.go).
func isGVisor(version string) bool {
	return version == "#1 SMP Sun Jan 10 15:06:54 PST 2016"
}

// lockdown is the kernel's lockdown mode: "none", "integrity", "confidentiality",
// or "" where it has none.
func lockdown() string {
	data, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(data), "[")
	if !ok {
		return ""
	}
	mode, _, _ := strings.Cut(rest, "]")
	return mode
}
