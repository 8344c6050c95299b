package ebpf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// lineReader reads a child's output.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReader(r)} }

func (l *lineReader) next(t *testing.T) string {
	t.Helper()
	line, err := l.r.ReadString('\n')
	if err != nil {
		t.Fatalf("read child's output: %v", err)
	}
	return strings.TrimSpace(line)
}

// runChild is what the test binary does when it is a child.
//
//	serve CALLS…       a server that makes exactly these system calls on one connection
//	serve-unix CALLS…  the same on a Unix socket
//	nest DEPTH CALLS…  starts itself DEPTH deep, then serves
//	orphan CALLS…      starts a server and leaves it to init
//	inherit            serves on descriptor 3 without accepting
//	agent              a Source with the default root; prints the pids it saw HTTP of
//	open               opens a Source and says what came of it
//	check WORDS…       prints what Check says, under what the words say
//	bare MODE          drops all capabilities for good, then is another of these
//	container          PID 1 of a namespace, which runs an agent and a server
func runChild(mode string, args []string) error {
	switch mode {
	case "serve":
		return serve(args, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	case "serve-unix":
		dir, err := os.MkdirTemp("", "ebpf")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		return serve(args, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")})
	case "nest":
		depth, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		if depth == 0 {
			return runChild("serve", args[1:])
		}
		args[0] = strconv.Itoa(depth - 1)
		return self("nest", args).Run()
	case "orphan":
		cmd := self("serve", args)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	case "inherit":
		return calls(3, args)
	case "open":
		return tryOpen()
	case "check":
		return printCheck(args)
	case "bare":
		return dropCapabilities(args[0])
	case "agent":
		return runAgent()
	case "container":
		return runContainer()
	}
	return fmt.Errorf("unknown mode %q", mode)
}

// self is this binary again, with this process's standard files.
func self(mode string, args []string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// serve listens, says where, accepts one connection and makes the calls on it.
func serve(script []string, at unix.Sockaddr) error {
	runtime.LockOSThread()
	family := unix.AF_INET
	if _, ok := at.(*unix.SockaddrUnix); ok {
		family = unix.AF_UNIX
	}
	l, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(l, at); err != nil {
		return err
	}
	if err := unix.Listen(l, 8); err != nil {
		return err
	}
	addr, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		fmt.Printf("127.0.0.1:%d\n", a.Port)
	case *unix.SockaddrUnix:
		fmt.Println(a.Name)
	}
	fd, err := accept(l)
	if err != nil {
		return err
	}
	for len(script) > 0 && script[0] == "again" {
		// Closed in a way that nobody sees, so that the next one gets its number.
		if err := calls(fd, []string{"read"}); err != nil {
			return err
		}
		if err := unix.CloseRange(uint(fd), uint(fd), 0); err != nil {
			return err
		}
		if fd, err = accept(l); err != nil {
			return err
		}
		script = script[1:]
	}
	return calls(fd, script)
}

func accept(l int) (int, error) {
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// calls makes system calls on a connection, as the words say:
//
//	read, recvfrom, readv, recvmsg, peek    one call, into up to 64 KiB
//	write:N, sendto:N, writev:N,N…, sendmsg:N,N…   of so many bytes of pattern
//	flood:N         N bytes by non-blocking writes, waiting for room between
//	burst:N         N writes of ten bytes
//	shutdown, close
//	wait            for a line, or the end, of standard input
//	say             prints a line
func calls(fd int, script []string) error {
	at := 0
	for _, word := range script {
		call, arg, _ := strings.Cut(word, ":")
		var sizes []int
		for s := range strings.SplitSeq(arg, ",") {
			n, _ := strconv.Atoi(s)
			sizes = append(sizes, n)
		}
		var bufs [][]byte
		for _, n := range sizes {
			bufs = append(bufs, pattern(at, n))
			at += n
		}
		if err := oneCall(fd, call, sizes[0], bufs); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func oneCall(fd int, call string, n int, bufs [][]byte) (err error) {
	in := make([]byte, 64<<10)
	switch call {
	case "read":
		_, err = unix.Read(fd, in)
	case "recvfrom":
		_, _, err = unix.Recvfrom(fd, in, 0)
	case "peek":
		_, _, err = unix.Recvfrom(fd, in, unix.MSG_PEEK)
	case "readv":
		_, err = unix.Readv(fd, [][]byte{in[:7], in[7:50], in[50:]})
	case "recvmsg":
		_, _, _, _, err = unix.RecvmsgBuffers(fd, [][]byte{in[:20], in[20:]}, nil, 0)
	case "write":
		_, err = unix.Write(fd, bufs[0])
	case "sendto":
		err = unix.Send(fd, bufs[0], 0)
	case "writev":
		_, err = unix.Writev(fd, bufs)
	case "sendmsg":
		_, err = unix.SendmsgBuffers(fd, bufs, nil, nil, 0)
	case "flood":
		err = flood(fd, bufs[0])
	case "burst":
		for i := range n {
			if _, err = unix.Write(fd, pattern(i*10, 10)); err != nil {
				return err
			}
		}
	case "shutdown":
		err = unix.Shutdown(fd, unix.SHUT_WR)
	case "close":
		err = unix.Close(fd)
	case "say":
		fmt.Println("here")
	case "wait":
		var b [1]byte
		for err == nil && b[0] != '\n' {
			_, err = os.Stdin.Read(b[:])
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	default:
		err = errors.New("unknown call")
	}
	return err
}

func flood(fd int, data []byte) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		switch {
		case errors.Is(err, unix.EAGAIN):
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(p, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			data = data[n:]
		}
	}
	return nil
}

// pattern is bytes of which each place can be told: position at of the stream on.
func pattern(at, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		p := at + i
		b[i] = byte('a' + (p+p/251)%26)
	}
	return b
}

// runAgent is a Source as the product runs it: a child of the supervisor. It
// starts a server of its own, which is none of the workload.
func runAgent() error {
	s, err := Open(Options{Poll: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SelfTest(context.Background()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make(chan uint32, 16)
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(e *capture.Event) {
			if e.Kind == capture.KindOpen {
				seen <- e.PID
			}
		})
	}()
	own := exec.Command("/proc/self/exe", "read", "write:10", "close")
	own.Env = append(os.Environ(), childEnv+"=serve")
	out, err := own.StdoutPipe()
	if err != nil {
		return err
	}
	if err := own.Start(); err != nil {
		return err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", strings.TrimSpace(addr))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if _, err := io.ReadAll(conn); err != nil {
		return err
	}
	conn.Close()
	if err := own.Wait(); err != nil {
		return err
	}
	fmt.Println("ready")
	fmt.Println(<-seen)
	cancel()
	return <-done
}

// runContainer is a supervisor in its own PID and mount namespaces. It prints the
// pid of its server, as it is numbered there, and the one that the agent says.
func runContainer() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	agent := self("agent", nil)
	agent.Stdout = nil
	out, err := agent.StdoutPipe()
	if err != nil {
		return err
	}
	if err := agent.Start(); err != nil {
		return err
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("agent says %q: %w", line, err)
	}
	server := self("serve", []string{"read", "write:9", "close"})
	server.Stdout = nil
	addr, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(addr).ReadString('\n')
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", strings.TrimSpace(line))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if _, err := io.ReadAll(conn); err != nil {
		return err
	}
	seen, err := said.ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Printf("%d %s", server.Process.Pid, seen)
	return errors.Join(server.Wait(), agent.Wait())
}

// request is one that a server of any kind would take.
const request = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
