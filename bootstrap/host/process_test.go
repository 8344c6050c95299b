package host

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

const maps = `00400000-00401000 r-xp 00000000 fe:00 9                          /usr/bin/python3.12
7f0000000000-7f0000001000 r--p 00000000 fe:00 10 /v/pyzmq.libs/libzmq-2f02442c.so.5.2.5
7f0000001000-7f0000002000 r-xp 00001000 fe:00 10 /v/pyzmq.libs/libzmq-2f02442c.so.5.2.5
7f0000003000-7f0000004000 r-xp 00001000 fe:00 11 /v/zmq/backend/cython/_zmq.abi3.so
7f0000005000-7f0000006000 r-xp 00001000 fe:00 12 /usr/lib/x86_64-linux-gnu/libssl.so.3
7f0000007000-7f0000008000 r-xp 00001000 fe:00 13 /opt/lib/tokenscope/libtokenscope-0123456789abcdef.so (deleted)
7f0000009000-7f000000a000 r-xp 00001000 fe:00 14 /usr/lib/libssl-tools.txt
7f000000b000-7f000000c000 rw-p 00000000 00:00 0 [heap]
7f000000d000-7f000000e000 rw-p 00000000 00:00 0
7f000000f000-7f0000010000 rw-s 00000000 00:01 1 /memfd:ring (deleted)
short line
`

func TestProcess(t *testing.T) {
	v := machine(t, map[string]string{
		"proc/42/comm": "VLLM::EngineCor\n", "proc/42/status": status, "proc/42/exe": "-> /usr/bin/python3.12", "proc/42/maps": maps,
		"proc/42/environ": "HOME=/root\x00API_KEY=secret\x00LD_PRELOAD=/a.so:/b.so\x00XLD_PRELOAD=no\x00TOKENSCOPE_PRELOAD=/proc/7/fd/5\x00LD_PRELOAD=/second.so\x00",
		"proc/1/status":   strings.Replace(status, "PPid:	1", "PPid:	0", 1), "proc/1/exe": "-> /usr/local/bin/instrument",
		"proc/42/root/v/pyzmq.libs/libzmq-2f02442c.so.5.2.5": "no ELF file, though it is as long as the head of one needs to be, which is some bytes more",
	})
	p, err := v.Process(42)
	if err != nil {
		t.Fatal(err)
	}
	if p.Comm != "VLLM::EngineCor" || p.Exe.Text != "/usr/bin/python3.12" || p.Preload.Text != "/a.so:/b.so" || p.Ring.Text != "/proc/7/fd/5" || p.Launcher != 1 || !p.Carries() {
		t.Errorf("Process = %+v", p)
	}
	var got []string
	for _, l := range p.Libraries {
		got = append(got, fmt.Sprintf("%s %s %s %v", l.Kind, l.Path, l.Version, l.Deleted))
		if l.Err == nil {
			t.Errorf("%s: no error; its file is none, or is not there", l.Path)
		}
	}
	want := []string{
		"libzmq /v/pyzmq.libs/libzmq-2f02442c.so.5.2.5 5.2.5 false",
		"zmq-module /v/zmq/backend/cython/_zmq.abi3.so  false",
		"libssl /usr/lib/x86_64-linux-gnu/libssl.so.3 3 false",
		"shim /opt/lib/tokenscope/libtokenscope-0123456789abcdef.so  true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("libraries =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if l := p.Libraries[0]; !strings.Contains(l.Err.Error(), "bad magic number") {
		t.Errorf("%s: %v; want that it is no ELF file", l.Path, l.Err)
	}
	servers, _, err := v.Servers()
	if err != nil || len(servers) != 1 || servers[0].PID != 42 {
		t.Errorf("Servers = %v, %v; want the one", servers, err)
	}
	if _, err := v.Process(43); !errors.Is(err, ErrNoProcess) {
		t.Errorf("Process(43) = %v; want that there is none", err)
	}
}

// TestProcessReal looks at a program of this machine that is linked dynamically.
func TestProcessReal(t *testing.T) {
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("there is no cat here")
	}
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	// It has begun when it answers.
	if _, err := fmt.Fprintln(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p, err := View{}.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Maps != nil || p.Exe.Err != nil || p.Err != nil || p.Preload.Err != nil {
		t.Errorf("Process = %+v; want that all of a child can be read", p)
	}
	libc := p.Of(LibC)
	if len(libc) == 0 {
		t.Skipf("%s loads no C library", path)
	}
	if libc[0].Err != nil {
		t.Errorf("libc %+v; want that it can be read", libc[0])
	}
}

func TestLibraryKind(t *testing.T) {
	for name, want := range map[string]LibraryKind{
		"libzmq.so.5": LibZMQ, "libzmq.so": LibZMQ, "libzmq-2f02442c.so.5.2.5": LibZMQ,
		"libssl.so.3": LibSSL, "libssl-81259c47.so.1.1.1k": LibSSL, "libssl3.so": "",
		"libc.so.6": LibC, "libc-2.31.so": LibC, "ld-musl-x86_64.so.1": LibC, "libcrypto.so.3": "", "libc-client.so.2007e": "",
		"_zmq.cpython-311-x86_64-linux-gnu.so": ModuleZMQ, "_ssl.abi3.so": ModuleSSL, "_sslx.so": "",
		"libtokenscope-0123456789abcdef.so": LibShim, "libzmq.txt": "", "zmq": "",
	} {
		if got, ok := libraryKind(name); got != want || ok != (want != "") {
			t.Errorf("libraryKind(%s) = %q, %v; want %q", name, got, ok, want)
		}
	}
}

func FuzzMapping(f *testing.F) {
	for line := range strings.Lines(maps) {
		f.Add(strings.TrimSuffix(line, "\n"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		if _, path, ok := mapping(line); ok && !strings.HasPrefix(path, "/") {
			t.Errorf("mapping(%q) gives the path %q", line, path)
		}
		parseMounts(line)
		if p, err := parseStatus(line); err == nil && p.UID < 0 {
			t.Errorf("parseStatus(%q) gives the user %d", line, p.UID)
		}
	})
}
