package bootstrap

// What the findings about a machine mean for watching.

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/bootstrap/host"
)

// State says how an item is.
type State string

// States.
const (
	StateOK State = "ok"
	// StateMissing: it stands in the way of the backend it belongs to, or of something
	// that this would see.
	StateMissing State = "missing"
	// StateUnknown: it may stand in the way; only trying tells.
	StateUnknown State = "unknown"
)

// Item is one finding.
type Item struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Value string `json:"value"`
	// Backend is the way of watching that it is for, "" for both.
	Backend string `json:"backend,omitempty"`
	Why     string `json:"why,omitempty"`
	Cure    string `json:"cure,omitempty"`
}

// marks stand before the lines of a page.
var marks = map[State]string{StateOK: "ok", StateMissing: "--", StateUnknown: "??"}

func (i *Item) linesTo(p *page) {
	p.line("  %-2s  %-20s  %s", marks[i.State], i.Name, i.Value)
	if i.Why != "" {
		p.line("  %-2s  %-20s  %s", "", "", i.Why)
	}
	if i.Cure != "" {
		p.line("  %-2s  %-20s  cure: %s", "", "", i.Cure)
	}
}

// machine reads and judges everything.
func (a *App) machine() []Item {
	kernel, own := a.view.Kernel(), a.view.Privileges("self")
	mounts, err := a.view.Mounts()
	items := []Item{
		kernelItem(&kernel), btfItem(&kernel), capabilitiesItem(&own), noNewPrivsItem(&own), seccompItem(&own),
		lockdownItem(&kernel), paranoidItem(&kernel, &own), unprivilegedItem(&kernel), tracefsItem(&kernel, &own),
		a.namespaceItem(&own), procItem(mounts, err, &own), a.dumpableItem(), a.memfdItem(), a.libcItem(), a.foldersItem(mounts),
	}
	return items
}

// unread is an item whose file cannot be read.
func unread(name, backend string, r host.Reading) Item {
	return Item{Name: name, State: StateUnknown, Value: "cannot be told: " + r.Err.Error(), Backend: backend}
}

// oldestKernel is what the programs need: a ring buffer, and capabilities of their own.
var oldestKernel = [2]int{5, 8}

func kernelItem(k *host.Kernel) Item {
	if k.Release.Err != nil {
		return unread("kernel", "", k.Release)
	}
	i := Item{Name: "kernel", State: StateOK, Value: fmt.Sprintf("Linux %s %s", k.Release.Text, runtime.GOARCH)}
	enough, known := k.AtLeast(oldestKernel[0], oldestKernel[1])
	switch {
	case k.Sandbox != "":
		i.State, i.Backend, i.Value = StateMissing, BackendEBPF, i.Value+", played by "+k.Sandbox
		i.Why, i.Cure = "it has no BPF", "run under another container runtime, or do without eBPF"
	case !known:
		i.State, i.Backend = StateUnknown, BackendEBPF
	case !enough:
		i.State, i.Backend = StateMissing, BackendEBPF
		i.Why = fmt.Sprintf("eBPF capture needs Linux %d.%d", oldestKernel[0], oldestKernel[1])
		i.Cure = fmt.Sprintf("use Linux %d.%d or later", oldestKernel[0], oldestKernel[1])
	}
	return i
}

func btfItem(k *host.Kernel) Item {
	i := Item{Name: "btf", State: StateOK, Value: "/sys/kernel/btf/vmlinux", Backend: BackendEBPF}
	switch {
	case k.BTF.Err == nil:
	case k.BTF.Absent():
		i.State, i.Value = StateMissing, "none"
		i.Why, i.Cure = "the programs find the kernel's fields by it", "use a kernel with CONFIG_DEBUG_INFO_BTF, and mount /sys in the container"
	default:
		return unread("btf", BackendEBPF, k.BTF)
	}
	return i
}

// ebpfCapabilities are what the programs want, each of which CAP_SYS_ADMIN stands for
// but for the last.
var ebpfCapabilities = []host.Capabilities{host.CapBPF, host.CapPerfmon, host.CapSysPtrace}

func capabilitiesItem(p *host.Privileges) Item {
	i := Item{Name: "capabilities", State: StateOK, Backend: BackendEBPF}
	if p.Err != nil {
		return unread(i.Name, i.Backend, host.Reading{Err: p.Err})
	}
	i.Value = fmt.Sprintf("uid %d: none of those that help", p.UID)
	if names := p.Effective.Names(); len(names) > 0 {
		i.Value = fmt.Sprintf("uid %d: %s", p.UID, strings.Join(names, " "))
	}
	var missing, barred []string
	for _, c := range ebpfCapabilities {
		if p.Effective.Has(c) || c != host.CapSysPtrace && p.Effective.Has(host.CapSysAdmin) {
			continue
		}
		missing = append(missing, c.Names()...)
		if !p.Bounding.Has(c) {
			barred = append(barred, c.Names()...)
		}
	}
	switch {
	case len(missing) > 0:
		i.State, i.Why = StateMissing, "missing: "+strings.Join(missing, " ")
		i.Cure = "run as root, or give them to the program (setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep)"
		if len(barred) > 0 {
			i.Cure = "give them to the container (docker run --cap-add, securityContext.capabilities.add in Kubernetes): nothing inside it can"
		}
	case !p.InitialUsers:
		i.State, i.Why = StateMissing, "they are of a user namespace (a rootless container) and do not count for bpf"
		i.Cure = "run in the machine's own user namespace"
	}
	return i
}

func noNewPrivsItem(p *host.Privileges) Item {
	if p.Err != nil {
		return unread("no_new_privs", "", host.Reading{Err: p.Err})
	}
	i := Item{Name: "no_new_privs", State: StateOK, Value: yesNo(p.NoNewPrivs)}
	if p.NoNewPrivs {
		i.Why = "neither sudo nor setcap gives more privilege here; the preloaded library needs none"
	}
	return i
}

func seccompItem(p *host.Privileges) Item {
	if p.Err != nil {
		return unread("seccomp", BackendEBPF, host.Reading{Err: p.Err})
	}
	i := Item{Name: "seccomp", State: StateOK, Value: "off", Backend: BackendEBPF}
	if p.Seccomp != host.SeccompOff {
		i.State, i.Value = StateUnknown, "a filter is in force"
		i.Why = "it may forbid bpf and perf_event_open, as Docker's and containerd's do without the capabilities"
	}
	return i
}

func lockdownItem(k *host.Kernel) Item {
	i := Item{Name: "lockdown", State: StateOK, Value: k.Lockdown.Text, Backend: BackendEBPF}
	switch {
	case k.Lockdown.Absent():
		i.Value = "not there"
	case k.Lockdown.Err != nil:
		return unread(i.Name, i.Backend, k.Lockdown)
	case k.Lockdown.Text == "confidentiality":
		i.State, i.Why = StateMissing, "no program may read memory"
		i.Cure = "boot with lockdown=integrity or none"
	}
	return i
}

// paranoidAny is the level from which on Debian's and Ubuntu's kernels let nobody without
// CAP_SYS_ADMIN open perf events; others know no level above 2.
const paranoidAny = 3

func paranoidItem(k *host.Kernel, p *host.Privileges) Item {
	i := Item{Name: "perf_event_paranoid", State: StateOK, Value: k.PerfEventParanoid.Text, Backend: BackendEBPF}
	level, ok := k.PerfEventParanoid.Int()
	switch {
	case k.PerfEventParanoid.Absent():
		i.State, i.Value, i.Why = StateMissing, "not there", "the kernel has no perf events"
		i.Cure = "use a kernel with CONFIG_PERF_EVENTS"
	case !ok:
		return unread(i.Name, i.Backend, k.PerfEventParanoid)
	case level >= paranoidAny && !p.Effective.Has(host.CapSysAdmin):
		i.State, i.Why = StateUnknown, "at this level some kernels let only CAP_SYS_ADMIN open perf events"
		i.Cure = "sysctl kernel.perf_event_paranoid=2, or CAP_SYS_ADMIN"
	}
	return i
}

func unprivilegedItem(k *host.Kernel) Item {
	i := Item{Name: "unprivileged_bpf", State: StateOK, Value: "disabled", Backend: BackendEBPF}
	n, ok := k.UnprivilegedBPF.Int()
	switch {
	case k.UnprivilegedBPF.Absent():
		i.State, i.Value, i.Why = StateMissing, "not there", "the kernel has no BPF"
		i.Cure = "use a kernel with CONFIG_BPF_SYSCALL"
	case !ok:
		return unread(i.Name, i.Backend, k.UnprivilegedBPF)
	case n == 0:
		i.Value, i.Why = "enabled", "of no use here: these programs need the capabilities all the same"
	}
	return i
}

func tracefsItem(k *host.Kernel, p *host.Privileges) Item {
	i := Item{Name: "tracefs", State: StateOK, Value: k.Tracefs.Text, Backend: BackendEBPF}
	if k.Tracefs.Err == nil {
		return i
	}
	i.Value = "not mounted, or not readable"
	if p.Err == nil && p.Effective.Has(host.CapSysAdmin) {
		i.Why = "CAP_SYS_ADMIN lets instrument have a view of it of its own (fsopen, Linux 5.2)"
		return i
	}
	i.State = StateMissing
	if errors.Is(k.Tracefs.Err, fs.ErrPermission) {
		i.Value = "not readable"
	}
	i.Why = "system calls can be watched all the same, but by tracepoints that slow every one of the machine"
	i.Cure = "mount -t tracefs tracefs /sys/kernel/tracing (of a container: from outside)"
	return i
}

func (a *App) namespaceItem(p *host.Privileges) Item {
	i := Item{Name: "container", State: StateOK, Value: "no sign of one"}
	if kind := a.view.Container(a.getenv()); kind != "" {
		i.Value = kind
	}
	if p.Err == nil && p.OwnPIDs {
		i.Value += ", PID namespace of its own"
	}
	return i
}

func procItem(mounts []host.Mount, err error, p *host.Privileges) Item {
	if err != nil {
		return unread("proc", "", host.Reading{Err: err})
	}
	i := Item{Name: "proc", State: StateOK, Value: "shows all processes"}
	if hide := host.HidePID(mounts); hide != "" {
		i.Value = "hidepid=" + hide
		if p.UID != 0 {
			i.State, i.Why = StateUnknown, "servers of other users are not seen"
		}
	}
	return i
}

// dumpableItem is about the launcher: its ring is opened through proc by the workload.
func (a *App) dumpableItem() Item {
	read := a.dumpable
	if read == nil {
		read = host.Dumpable
	}
	yes, err := read()
	if err != nil {
		return unread("dumpable", BackendPreload, host.Reading{Err: err})
	}
	i := Item{Name: "dumpable", State: StateOK, Value: yesNo(yes), Backend: BackendPreload}
	if !yes {
		i.Why = "the ring is a file in a folder instead of one in memory"
	}
	return i
}

func (a *App) memfdItem() Item {
	try := a.memfd
	if try == nil {
		try = host.Memfd
	}
	i := Item{Name: "memfd", State: StateOK, Value: "can be made", Backend: BackendPreload}
	if err := try(); err != nil {
		i.Value, i.Why = err.Error(), "the ring is a file in a folder instead of one in memory"
	}
	return i
}

func (a *App) libcItem() Item {
	i := Item{Name: "libc", State: StateOK, Backend: BackendPreload}
	var words []string
	old := true
	for _, l := range a.view.Libcs() {
		words = append(words, strings.TrimSpace(l.Name+" "+l.Version))
		var minor int
		n, err := fmt.Sscanf(l.Version, "2.%d", &minor)
		old = old && n == 1 && err == nil && minor < oldestGlibc
	}
	i.Value = strings.Join(words, ", ")
	switch {
	case len(words) == 0:
		i.State, i.Value, i.Why = StateMissing, "none found", "programs that are linked statically load no library"
		i.Cure = "start the server in the image that it runs in"
	case old:
		i.State, i.Why = StateMissing, fmt.Sprintf("the library needs glibc 2.%d, or musl", oldestGlibc)
		i.Cure = "use a newer distribution"
	}
	return i
}

// oldestGlibc is the second number of the oldest glibc that loads the library.
const oldestGlibc = 17

// foldersItem finds where the library could be unpacked: what the launcher tries, it
// tries in this order, and by really mapping it.
func (a *App) foldersItem(mounts []host.Mount) Item {
	i := Item{Name: "library folder", State: StateMissing, Value: "none that allows programs to be run", Backend: BackendPreload}
	if a.LibraryFolders == nil {
		i.State, i.Value = StateUnknown, "this build has no library"
		return i
	}
	var refused []string
	for _, folder := range a.LibraryFolders() {
		m, ok := host.MountOf(mounts, folder)
		switch {
		case ok && m.Has("noexec"):
			refused = append(refused, folder+" (noexec)")
		case !a.writable(folder):
			refused = append(refused, folder+" (not writable)")
		default:
			i.State, i.Value = StateOK, folder
			if len(refused) > 0 {
				i.Why = "not in " + strings.Join(refused, ", ")
			}
			return i
		}
	}
	i.Why = strings.Join(refused, ", ")
	i.Cure = "set TMPDIR to a folder on a volume that is not mounted noexec, or install under such a one with --prefix; the last resort is memory"
	return i
}

// writable asks the kernel about a folder or the nearest one above that exists.
func (a *App) writable(folder string) bool {
	for {
		err := unix.Faccessat(unix.AT_FDCWD, filepath.Join("/", a.view.Root, folder), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if !errors.Is(err, fs.ErrNotExist) || folder == "/" {
			return err == nil
		}
		folder = filepath.Dir(folder)
	}
}
