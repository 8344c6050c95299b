package bootstrap

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// nothing is a verdict on a way that does not work.
func nothing(why, cure string) func(context.Context) Verdict {
	return func(context.Context) Verdict { return Verdict{Err: errors.New(why), Cure: cure} }
}

// podMachine is a Kubernetes pod that grants nothing, with a server in it.
var podMachine = map[string]string{
	"proc/self/status":             "PPid:\t0\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t7\nCapEff:\t0\nCapBnd:\t00000000a80425fb\nNoNewPrivs:\t1\nSeccomp:\t2\n",
	"proc/self/ns/pid":             "-> pid:[4026532001]",
	"proc/self/mountinfo":          "22 1 254:0 / / ro - overlay overlay rw\n23 22 0:21 / /proc rw - proc proc rw\n24 22 0:22 / /opt rw,noexec - tmpfs tmpfs rw\n",
	"sys/kernel/security/lockdown": "-", "sys/kernel/tracing": "-", "sys/kernel/btf": "-",
	"proc/sys/kernel/perf_event_paranoid": "4\n",
	"proc/31/comm":                        "VLLM::EngineCor\n", "proc/31/exe": "-> /usr/bin/python3.12",
	"proc/31/status":  "PPid:\t30\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0\nCapBnd:\t0\n",
	"proc/31/environ": "SECRET=x\x00LD_PRELOAD=/opt/lib/tokenscope/libtokenscope-0123.so\x00TOKENSCOPE_PRELOAD=/proc/30/fd/5\x00",
	"proc/31/maps": "7f00-7f01 r-xp 0 fe:00 10 /v/pyzmq.libs/libzmq-2f.so.5.2.5\n7f02-7f03 r-xp 0 fe:00 11 /opt/lib/tokenscope/libtokenscope-0123.so\n" +
		"7f04-7f05 r-xp 0 fe:00 12 /lib64/libc.so.6\n7f06-7f07 r-xp 0 fe:00 13 /v/lib-dynload/_ssl.so\n",
	"proc/30/exe": "-> /shared/bin/instrument", "proc/30/status": "PPid:\t0\nUid:\t0 0\nCapEff:\t0\nCapBnd:\t0\n",
	"proc/32/comm": "bad\x1b[31mname\n", "proc/32/status": "PPid:\t0\nUid:\t0 0\nCapEff:\t0\nCapBnd:\t0\n", "proc/32/maps": "",
}

func TestCheckGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		ebpf  func(context.Context) Verdict
		args  string
		code  int
	}{
		{"check-whole", nil, nil, nil, "", 0},
		{"check-pod", podMachine, map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, nothing("open ebpf capture: operation not permitted", "run with CAP_BPF"), "", 0},
		{"check-pid", podMachine, nil, nil, "--pid 32", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.machine(c.files)
			w.env = map[string]string{"PATH": "/venv/bin:/other/bin"}
			for k, v := range c.env {
				w.env[k] = v
			}
			if c.ebpf != nil {
				w.app.EBPF = c.ebpf
			}
			for ext, args := range map[string]string{".txt": "-a check ", ".json": "-a check --json "} {
				code, stdout, stderr := w.run(strings.Fields(args + c.args)...)
				if code != c.code || stderr != "" {
					t.Errorf("%s = %d, %q; want %d", args, code, stderr, c.code)
				}
				golden(t, c.name+ext, stdout)
			}
		})
	}
}

// TestCheckDecides: which way is taken, and when the status is 1.
func TestCheckDecides(t *testing.T) {
	works := func(context.Context) Verdict { return Verdict{} }
	broken := nothing("refused", "ask")
	for _, c := range []struct {
		name          string
		ebpf, preload func(context.Context) Verdict
		capture       string
		code          int
		want          string
	}{
		{"both work", works, works, captureAuto, 0, "would watch by ebpf (it was tried and sees)"},
		{"only the library", broken, works, captureAuto, 0, "would watch by preload (eBPF does not work here)"},
		{"only eBPF", works, broken, captureAuto, 0, "would watch by ebpf (it was tried and sees)"},
		{"neither", broken, broken, captureAuto, 1, "see nothing of it: neither way works here"},
		{"neither is linked in", nil, nil, captureAuto, 1, "does not work: it is not part of this build"},
		{"the library by name", works, works, BackendPreload, 0, "would watch by preload (asked for by name)"},
		{"eBPF by name, which is refused", broken, works, BackendEBPF, 1, "see nothing of it: asked for by name"},
		{"off", broken, broken, captureOff, 0, "nothing is watched, as asked for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.app.EBPF, w.app.Preload = c.ebpf, c.preload
			code, err := w.app.Check(t.Context(), CheckOptions{Capture: c.capture, Stdout: &w.stdout})
			if code != c.code || err != nil || !strings.Contains(w.stdout.String(), c.want) {
				t.Errorf("Check = %d, %v:\n%s\nwant %d, %q", code, err, w.stdout.String(), c.code, c.want)
			}
		})
	}
}

// TestMachineItems: what one thing that is missing looks like.
func TestMachineItems(t *testing.T) {
	privileges := func(effective, bounding string) string {
		return "PPid:\t0\nUid:\t0\t0\t0\t0\nCapEff:\t" + effective + "\nCapBnd:\t" + bounding + "\nNoNewPrivs:\t0\nSeccomp:\t0\n"
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		item  string
		state State
		want  string // in value, why and cure
	}{
		{"old kernel", map[string]string{"proc/sys/kernel/osrelease": "4.18.0-553.el8"}, "kernel", StateMissing, "use Linux 5.8 or later"},
		{"kernel of a strange name", map[string]string{"proc/sys/kernel/osrelease": "x"}, "kernel", StateUnknown, "Linux x"},
		{"no proc", map[string]string{"proc/sys": "-"}, "kernel", StateUnknown, "cannot be told"},
		{"gVisor", map[string]string{"proc/sys/kernel/version": "#1 SMP Sun Jan 10 15:06:54 PST 2016"}, "kernel", StateMissing, "played by gVisor"},
		{"no BTF", map[string]string{"sys/kernel/btf": "-"}, "btf", StateMissing, "CONFIG_DEBUG_INFO_BTF"},
		{"no capability", map[string]string{"proc/self/status": privileges("0", "1ffffffffff")}, "capabilities", StateMissing, "setcap"},
		{"no capability in a container", map[string]string{"proc/self/status": privileges("0", "a80425fb")}, "capabilities", StateMissing, "--cap-add"},
		{"CAP_SYS_ADMIN without CAP_SYS_PTRACE", map[string]string{"proc/self/status": privileges("200000", "1ffffffffff")}, "capabilities", StateMissing, "missing: CAP_SYS_PTRACE"},
		{"CAP_SYS_ADMIN and CAP_SYS_PTRACE", map[string]string{"proc/self/status": privileges("280000", "1ffffffffff")}, "capabilities", StateOK, "CAP_SYS_ADMIN"},
		{"rootless container", map[string]string{"proc/self/uid_map": "0 1000 1"}, "capabilities", StateMissing, "do not count"},
		{"seccomp", map[string]string{"proc/self/status": strings.Replace(privileges("1ffffffffff", "1ffffffffff"), "Seccomp:\t0", "Seccomp:\t2", 1)}, "seccomp", StateUnknown, "may forbid bpf"},
		{"no_new_privs", map[string]string{"proc/self/status": strings.Replace(privileges("0", "0"), "NoNewPrivs:\t0", "NoNewPrivs:\t1", 1)}, "no_new_privs", StateOK, "sudo"},
		{"locked down", map[string]string{"sys/kernel/security/lockdown": "none integrity [confidentiality]"}, "lockdown", StateMissing, "lockdown=integrity"},
		{"paranoid", map[string]string{"proc/sys/kernel/perf_event_paranoid": "4", "proc/self/status": privileges("c000080000", "0")}, "perf_event_paranoid", StateUnknown, "perf_event_paranoid=2"},
		{"paranoid, but CAP_SYS_ADMIN", map[string]string{"proc/sys/kernel/perf_event_paranoid": "4"}, "perf_event_paranoid", StateOK, "4"},
		{"no perf events", map[string]string{"proc/sys/kernel/perf_event_paranoid": "-"}, "perf_event_paranoid", StateMissing, "CONFIG_PERF_EVENTS"},
		{"no BPF", map[string]string{"proc/sys/kernel/unprivileged_bpf_disabled": "-"}, "unprivileged_bpf", StateMissing, "CONFIG_BPF_SYSCALL"},
		{"BPF for all", map[string]string{"proc/sys/kernel/unprivileged_bpf_disabled": "0"}, "unprivileged_bpf", StateOK, "of no use"},
		{"no tracefs", map[string]string{"sys/kernel/tracing": "-", "proc/self/status": privileges("c000080000", "0")}, "tracefs", StateMissing, "mount -t tracefs"},
		{"no tracefs, but CAP_SYS_ADMIN", map[string]string{"sys/kernel/tracing": "-"}, "tracefs", StateOK, "of its own"},
		{"no libc", map[string]string{"lib64": "-"}, "libc", StateMissing, "linked statically"},
		{"old libc", map[string]string{"lib64/libc.so.6": "GNU C Library stable release version 2.12."}, "libc", StateMissing, "glibc 2.17"},
		{"old libc and musl", map[string]string{"lib64/libc.so.6": "GNU C Library stable release version 2.12.", "lib/ld-musl-x86_64.so.1": ""}, "libc", StateOK, "glibc 2.12, musl"},
		{"first folder is noexec", map[string]string{"proc/self/mountinfo": "1 1 1:1 / / rw - ext4 x rw\n1 1 1:1 / /opt rw,noexec - ext4 x rw\n1 1 1:1 / /proc rw - proc proc rw\n"}, "library folder", StateOK, "/opt/lib/tokenscope (noexec)"},
		{"no folder", map[string]string{"proc/self/mountinfo": "1 1 1:1 / / rw,noexec - ext4 x rw\n1 1 1:1 / /proc rw - proc proc rw\n"}, "library folder", StateMissing, "TMPDIR"},
		{"hidden processes", map[string]string{"proc/self/mountinfo": "1 1 1:1 / /proc rw - proc proc rw,hidepid=2\n", "proc/self/status": strings.Replace(privileges("0", "0"), "Uid:\t0\t0", "Uid:\t5\t5", 1)}, "proc", StateUnknown, "hidepid=2"},
		{"Docker", map[string]string{".dockerenv": "", "proc/self/ns/pid": "-> pid:[1]"}, "container", StateOK, "Docker, PID namespace of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.machine(c.files)
			for _, i := range w.app.machine() {
				if i.Name != c.item {
					continue
				}
				if text := strings.Join([]string{i.Value, i.Why, i.Cure}, "\n"); i.State != c.state || !strings.Contains(text, c.want) {
					t.Errorf("%s = %s:\n%s\nwant %s, %q", c.item, i.State, text, c.state, c.want)
				}
				if i.State == StateMissing && i.Cure == "" {
					t.Errorf("%s is missing and nothing is said to help", c.item)
				}
				return
			}
			t.Errorf("there is no item %s", c.item)
		})
	}
	t.Run("memfd is forbidden, and not dumpable", func(t *testing.T) {
		w := newWorld(t)
		w.app.memfd = func() error { return errors.New("memfd_create: operation not permitted") }
		w.app.dumpable = func() (bool, error) { return false, nil }
		found := 0
		for _, i := range w.app.machine() {
			if (i.Name == "memfd" || i.Name == "dumpable") && strings.Contains(i.Why, "a file in a folder") {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%d items say that the ring is a file; want both", found)
		}
	})
}

// TestCheckFeatures: a feature that is lost where the rest works is said.
func TestCheckFeatures(t *testing.T) {
	w := newWorld(t)
	w.app.EBPF = func(context.Context) Verdict {
		return Verdict{Features: []Feature{{Name: "http-close", Err: errors.New("refused"), Lost: "when the server closes a connection", Cure: "do this"}}}
	}
	code, stdout, _ := w.run("-a", "check")
	if code != 0 || !strings.Contains(stdout, "lost: when the server closes a connection (http-close: refused)") || !strings.Contains(stdout, "cure: do this") {
		t.Errorf("check = %d:\n%s\nwant the lost feature", code, stdout)
	}
}

func TestCheckFails(t *testing.T) {
	w := newWorld(t)
	for args, want := range map[string]string{
		"-a check --pid 99":         "bootstrap: look at process 99: no such process (or proc is mounted with hidepid)\n",
		"-a check --python /none":   "bootstrap: look at Python /none: stat ROOT/none: no such file or directory\n",
		"-a check --python /tmp -v": "bootstrap: look at Python /tmp: read ROOT/tmp: not a regular file\n",
	} {
		if code, stdout, stderr := w.run(strings.Fields(args)...); code != 1 || stdout != "" || stderr != want {
			t.Errorf("%s = %d, %q, %q; want 1, %q", args, code, stdout, stderr, want)
		}
	}
}
