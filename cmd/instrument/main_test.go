package main

// The real binary, built once, and a workload for it: the parts that the tests of secrets run.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// What the test binary is with one of these as its first argument.
const (
	roleServer  = "be-server"   // a workload
	rolePrivate = "be-private"  // a process that keeps to itself, and says how far it got
	roleEnclose = "be-enclosed" // what an enclosure says, then what follows
)

// binary is `instrument` as it is shipped.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == roleServer {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == rolePrivate {
		if err := bePrivate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 3 && os.Args[1] == roleEnclose {
		fmt.Fprintln(os.Stderr, enclose(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

// bePrivate does it as a user who may do nothing, in a process that was dumpable.
func bePrivate() error {
	const nobody = 65534
	if os.Geteuid() == 0 {
		if err := errors.Join(unix.Setgid(nobody), unix.Setuid(nobody), unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)); err != nil {
			return err
		}
	}
	if err := keepToOurselves(); err != nil {
		return err
	}
	if _, err := features.LinuxVersionCode(); err != nil {
		return fmt.Errorf("eBPF would fail now: %w", err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return err
	}
	fmt.Printf("dumpable %d, core limit %d of %d", dumpable, limit.Cur, limit.Max)
	return nil
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "instrument")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // some tests are another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "instrument")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// serve is a server that answers each request with the same completion. It leaves its
// environment and its port in dir, and ends when dir has a file called stop.
//
// It asks the kernel directly, so that what is seen of it does not hang on the runtime's
// poller, and answers one connection at a time.
func serve(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(os.Environ(), "\x00")), 0o600); err != nil {
		return err
	}
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(l, 8); err != nil {
		return err
	}
	address, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	port := strconv.Itoa(address.(*unix.SockaddrInet4).Port)
	if err := writeWhole(filepath.Join(dir, "port"), port); err != nil {
		return err
	}
	for {
		ready := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
		switch n, err := unix.Poll(ready, 20); {
		case err != nil && err != unix.EINTR:
			return err
		case n <= 0:
			if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
				return nil
			}
			continue
		}
		c, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if err != nil {
			return err
		}
		answer(c)
		_ = unix.Close(c)
	}
}

// answer reads one request, which ends with a brace, and answers it.
func answer(c int) {
	const body = `{"id":"chatcmpl-1","object":"chat.completion","model":"m",` +
		`"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x"}}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	buf := make([]byte, 64<<10)
	for n := 0; !bytes.HasSuffix(buf[:n], []byte("}")); {
		more, _, _, _, err := unix.RecvmsgBuffers(c, [][]byte{buf[n:]}, nil, 0)
		if err != nil || more == 0 {
			return
		}
		n += more
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", len(body))
	_, _ = unix.SendmsgBuffers(c, [][]byte{[]byte(head), []byte(body)}, nil, nil, unix.MSG_NOSIGNAL)
}

// writeWhole writes a file that appears with all that it has.
func writeWhole(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
