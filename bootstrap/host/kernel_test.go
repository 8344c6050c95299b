package host

import (
	"strings"
	"testing"
)

func TestKernel(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  func(*Kernel) (got, want any)
	}{
		{"release", map[string]string{"proc/sys/kernel/osrelease": "6.8.0-45-generic\n"},
			func(k *Kernel) (any, any) { return k.Release.Text, "6.8.0-45-generic" }},
		{"release that is not readable", nil,
			func(k *Kernel) (any, any) { return k.Release.Absent(), true }},
		{"gVisor", map[string]string{"proc/sys/kernel/version": gvisorVersion},
			func(k *Kernel) (any, any) { return k.Sandbox, "gVisor" }},
		{"BTF", map[string]string{"sys/kernel/btf/vmlinux": "x"},
			func(k *Kernel) (any, any) { return k.BTF.Err, nil }},
		{"no BTF", nil, func(k *Kernel) (any, any) { return k.BTF.Absent(), true }},
		{"a folder in the place of BTF", map[string]string{"sys/kernel/btf/vmlinux/": ""},
			func(k *Kernel) (any, any) { return k.BTF.Err != nil && !k.BTF.Absent(), true }},
		{"lockdown", map[string]string{"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"},
			func(k *Kernel) (any, any) { return k.Lockdown.Text, "integrity" }},
		{"lockdown without brackets", map[string]string{"sys/kernel/security/lockdown": "none\n"},
			func(k *Kernel) (any, any) { return k.Lockdown.Text, "" }},
		{"perf_event_paranoid", map[string]string{"proc/sys/kernel/perf_event_paranoid": "-1\n"},
			func(k *Kernel) (any, any) { n, ok := k.PerfEventParanoid.Int(); return n == -1 && ok, true }},
		{"tracefs beside debugfs", map[string]string{"sys/kernel/debug/tracing/events/syscalls/sys_enter_close/id": "1"},
			func(k *Kernel) (any, any) { return k.Tracefs.Text, "/sys/kernel/debug/tracing" }},
		{"tracefs", map[string]string{
			"sys/kernel/tracing/events/syscalls/sys_enter_close/id":       "1",
			"sys/kernel/debug/tracing/events/syscalls/sys_enter_close/id": "1",
		}, func(k *Kernel) (any, any) { return k.Tracefs.Text, "/sys/kernel/tracing" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := machine(t, c.files).Kernel()
			if got, want := c.want(&k); got != want {
				t.Errorf("got %v; want %v", got, want)
			}
		})
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		release    string
		yes, known bool
	}{
		{"5.8.0", true, true}, {"5.7.19-x", false, true}, {"6.0", true, true}, {"4.18.0-553.el8", false, true},
		{"5.10-rc1", true, true}, {"10.1", true, true}, {"", false, false}, {"x", false, false}, {"5", false, false}, {"5.x", false, false},
	} {
		k := Kernel{Release: Reading{Text: c.release}}
		if yes, known := k.AtLeast(5, 8); yes != c.yes || known != c.known {
			t.Errorf("AtLeast(5, 8) of %q = %v, %v; want %v, %v", c.release, yes, known, c.yes, c.known)
		}
	}
}

// status is a process's, as Linux 6.8 prints it; lines that do not matter are left out.
const status = `Name:	python3
Pid:	17
PPid:	1
Uid:	1000	1001	1001	1001
NSpid:	4217	17
CapInh:	0000000000000000
CapEff:	000000c000080000
CapBnd:	000001ffffffffff
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	1
`

func TestPrivileges(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  func(*Privileges) bool
	}{
		{"effective user", map[string]string{"proc/self/status": status}, func(p *Privileges) bool { return p.UID == 1001 && p.Parent == 1 }},
		{"capabilities", map[string]string{"proc/self/status": status}, func(p *Privileges) bool {
			return strings.Join(p.Effective.Names(), " ") == "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE" && p.Bounding.Has(CapSysAdmin)
		}},
		{"no_new_privs and seccomp", map[string]string{"proc/self/status": status}, func(p *Privileges) bool { return p.NoNewPrivs && p.Seccomp == SeccompFilter }},
		{"gVisor prints fewer lines", map[string]string{"proc/self/status": "PPid:\t0\nUid:\t0 0 0 0\nCapEff:\t0\nCapBnd:\t0\n"}, func(p *Privileges) bool { return p.Err == nil && !p.NoNewPrivs && p.Seccomp == SeccompOff }},
		{"nested PID namespace", map[string]string{"proc/self/status": status}, func(p *Privileges) bool { return p.OwnPIDs && len(p.PIDs) == 2 }},
		{"the machine's PID namespace", map[string]string{"proc/self/status": strings.Replace(status, "4217	17", "17", 1), "proc/self/ns/pid": "-> pid:[4026531836]"}, func(p *Privileges) bool { return !p.OwnPIDs }},
		{"a container's PID namespace", map[string]string{"proc/self/status": strings.Replace(status, "4217	17", "17", 1), "proc/self/ns/pid": "-> pid:[4026532001]"}, func(p *Privileges) bool { return p.OwnPIDs }},
		{"the machine's users", map[string]string{"proc/self/status": status, "proc/self/uid_map": "         0          0 4294967295\n"}, func(p *Privileges) bool { return p.InitialUsers }},
		{"a rootless container's users", map[string]string{"proc/self/status": status, "proc/self/uid_map": "0 1000 1\n1 100000 65536\n"}, func(p *Privileges) bool { return !p.InitialUsers }},
		{"no proc", nil, func(p *Privileges) bool { return p.Err != nil }},
		{"a file that is no status", map[string]string{"proc/self/status": "x"}, func(p *Privileges) bool { return strings.Contains(p.Err.Error(), "has no line Uid") }},
		{"a number that is none", map[string]string{"proc/self/status": strings.Replace(status, "000000c000080000", "zz", 1)}, func(p *Privileges) bool { return strings.Contains(p.Err.Error(), "CapEff") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := machine(t, c.files).Privileges("self"); !c.want(&p) {
				t.Errorf("Privileges = %+v", p)
			}
		})
	}
}

// mountinfo of a container, with a space in a path.
const mountinfo = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw,hidepid=invisible
24 22 0:22 / /tmp rw,nosuid,nodev,noexec - tmpfs tmpfs rw,size=64k
25 24 0:23 / /tmp/my\040dir rw - tmpfs tmpfs rw
26 22 0:24 / /data rw - tmpfs tmpfs rw
27 22 0:25 / /data ro - tmpfs tmpfs rw
28 22
29 22 0:25 / /short ro - tmpfs
`

func TestMounts(t *testing.T) {
	mounts, err := machine(t, map[string]string{"proc/self/mountinfo": mountinfo}).Mounts()
	if err != nil || len(mounts) != 6 {
		t.Fatalf("Mounts = %v, %v; want six", mounts, err)
	}
	for _, c := range []struct {
		path, point, has string
	}{
		{"/", "/", "relatime"}, {"/usr/bin", "/", "rw"}, {"/tmp", "/tmp", "noexec"}, {"/tmp/x/y", "/tmp", "noexec"},
		{"/tmpx", "/", "rw"}, {"/tmp/my dir/x", "/tmp/my dir", "rw"}, {"/data/x", "/data", "ro"},
	} {
		m, ok := MountOf(mounts, c.path)
		if !ok || m.Point != c.point || !m.Has(c.has) {
			t.Errorf("MountOf(%s) = %+v, %v; want %s with %s", c.path, m, ok, c.point, c.has)
		}
	}
	if m, ok := MountOf(nil, "/x"); ok {
		t.Errorf("MountOf of no mounts = %+v", m)
	}
}

func TestHidePID(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{"rw", ""}, {"rw,hidepid=0", ""}, {"rw,hidepid=off", ""}, {"rw,hidepid=2", "2"}, {"rw,hidepid=ptraceable,gid=5", "ptraceable"},
	} {
		mounts := parseMounts("23 22 0:21 / /proc rw - proc proc " + c.options + "\n")
		if got := HidePID(mounts); got != c.want {
			t.Errorf("HidePID(%s) = %q; want %q", c.options, got, c.want)
		}
	}
}

func TestContainer(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  string
	}{
		{"none", nil, nil, ""},
		{"Docker", map[string]string{".dockerenv": ""}, nil, "Docker"},
		{"Kubernetes over Docker", map[string]string{".dockerenv": ""}, map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"},
		{"Podman", map[string]string{"run/.containerenv": ""}, nil, "Podman"},
		{"systemd-nspawn", nil, map[string]string{"container": "systemd-nspawn"}, "systemd-nspawn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := machine(t, c.files).Container(func(name string) string { return c.env[name] }); got != c.want {
				t.Errorf("Container = %q; want %q", got, c.want)
			}
		})
	}
}

func TestLibcs(t *testing.T) {
	const banner = "\x00\x01GNU C Library (Debian GLIBC 2.31-13+deb11u11) stable release version 2.31.\nCopyright"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none: distroless", nil, ""},
		{"Debian", map[string]string{"lib64/ld-linux-x86-64.so.2": "", "lib/x86_64-linux-gnu/libc.so.6": banner}, "glibc 2.31 /lib64/ld-linux-x86-64.so.2"},
		{"arm64", map[string]string{"lib/ld-linux-aarch64.so.1": "", "lib/aarch64-linux-gnu/libc.so.6": banner}, "glibc 2.31 /lib/ld-linux-aarch64.so.1"},
		{"no banner", map[string]string{"lib64/ld-linux-x86-64.so.2": "", "lib64/libc.so.6": "GNU C Library "}, "glibc  /lib64/ld-linux-x86-64.so.2"},
		{"Alpine", map[string]string{"lib/ld-musl-x86_64.so.1": ""}, "musl  /lib/ld-musl-x86_64.so.1"},
		{"both", map[string]string{"lib64/ld-linux-x86-64.so.2": "", "lib/x86_64-linux-gnu/libc.so.6": banner, "lib/ld-musl-x86_64.so.1": ""},
			"glibc 2.31 /lib64/ld-linux-x86-64.so.2, musl  /lib/ld-musl-x86_64.so.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var words []string
			for _, l := range machine(t, c.files).Libcs() {
				words = append(words, l.Name+" "+l.Version+" "+l.Loader)
			}
			if got := strings.Join(words, ", "); got != c.want {
				t.Errorf("Libcs = %q; want %q", got, c.want)
			}
		})
	}
}
