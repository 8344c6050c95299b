package ebpf

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/ebpf/internal/standin"
)

func TestPrivilegeCure(t *testing.T) {
	const bpf, perfmon, ptrace, admin = 1 << unix.CAP_BPF, 1 << unix.CAP_PERFMON, 1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_SYS_ADMIN
	for _, tc := range []struct {
		name string
		p    privilege
		want string // part of it
	}{
		{"nothing", privilege{}, "missing: CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE)"},
		{"one is missing", privilege{capabilities: bpf | ptrace}, "missing: CAP_PERFMON)"},
		{"CAP_SYS_ADMIN stands for two", privilege{capabilities: admin}, "missing: CAP_SYS_PTRACE)"},
		{"all", privilege{capabilities: bpf | perfmon | ptrace}, "SELinux"},
		{"all, under seccomp", privilege{capabilities: admin | ptrace, seccomp: true}, "seccomp filter is in force"},
		{"all, on a paranoid kernel", privilege{capabilities: bpf | perfmon | ptrace, paranoid: 4}, "perf_event_paranoid is 4"},
		{"administrator of a paranoid kernel", privilege{capabilities: admin | ptrace, paranoid: 4}, "SELinux"},
		{"the usual level", privilege{capabilities: bpf | perfmon | ptrace, paranoid: 2}, "SELinux"},
		{"a user namespace", privilege{capabilities: ^uint64(0), ownUsers: true}, "rootless"},
		{"locked down", privilege{capabilities: ^uint64(0), lockdown: "confidentiality"}, "lockdown=integrity"},
		{"locked down a little", privilege{lockdown: "integrity"}, "missing"},
		{"gVisor", privilege{capabilities: ^uint64(0), gvisor: true}, "another container runtime"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.p.cure(); !strings.Contains(got, tc.want) {
				t.Errorf("%+v.cure() = %q; want %q in it", tc.p, got, tc.want)
			}
		})
	}
	for _, tc := range []struct {
		name string
		p    privilege
		want string
	}{
		{"gVisor", privilege{gvisor: true, seccomp: true}, "gVisor"},
		{"seccomp", privilege{seccomp: true}, "seccomp"},
		{"neither", privilege{}, "CONFIG_BPF_SYSCALL"},
	} {
		t.Run("missing call, "+tc.name, func(t *testing.T) {
			if got := tc.p.cureMissing(); !strings.Contains(got, tc.want) {
				t.Errorf("%+v.cureMissing() = %q; want %q in it", tc.p, got, tc.want)
			}
		})
	}
}

// TestCureSelfTest wants a cure for each error that only the self-test has.
func TestCureSelfTest(t *testing.T) {
	for want, err := range map[string]error{
		"uretprobe":           fmt.Errorf("self-test: %w", unavailable(Feature{Err: &standin.Died{Signal: unix.SIGSEGV}})),
		"report it":           fmt.Errorf("self-test: %w", unavailable(Feature{Err: unseen("it does not fire")})),
		"CAP_DAC_READ_SEARCH": fmt.Errorf("%w: %w", errNoTracefs, unix.EPERM),
	} {
		if got := Cure(err); !strings.Contains(got, want) {
			t.Errorf("Cure(%v) = %q; want %q in it", err, got, want)
		}
	}
}

func TestReadStatus(t *testing.T) {
	for _, tc := range []struct {
		name, status string
		want         privilege
	}{
		{"root", "Name:\tinstrument\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n", privilege{capabilities: 0x1ffffffffff}},
		{"a container", "CapEff:\t00000000a80425fb\nSeccomp:\t2\nSeccomp_filters:\t1\n", privilege{capabilities: 0xa80425fb, seccomp: true}},
		{"a kernel without seccomp", "CapEff:\t0000000000000000\n", privilege{}},
		{"not a status", "CapEff\nSeccomp", privilege{}},
		{"empty", "", privilege{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got privilege
			got.readStatus(tc.status)
			if got != tc.want {
				t.Errorf("readStatus = %+v; want %+v", got, tc.want)
			}
		})
	}
}

func TestIsWholeRange(t *testing.T) {
	for uidMap, want := range map[string]bool{
		"         0          0 4294967295\n":                                   true,
		"         0       1000          1\n":                                   false,
		"         0       1000          1\n         1     100000      65536\n": false,
		"": false,
	} {
		if got := isWholeRange(uidMap); got != want {
			t.Errorf("isWholeRange(%q) = %v; want %v", uidMap, got, want)
		}
	}
}

func TestIsGVisor(t *testing.T) {
	for version, want := range map[string]bool{
		"#1 SMP Sun Jan 10 15:06:54 PST 2016":               true,
		"#1 SMP PREEMPT_DYNAMIC Debian 6.1.112-1 (2024-09)": false,
	} {
		if got := isGVisor(version); got != want {
			t.Errorf("isGVisor(%q) = %v; want %v", version, got, want)
		}
	}
}
