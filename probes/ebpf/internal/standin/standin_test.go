package standin

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// parentEnv makes this test binary a process that starts a stand-in and waits.
const parentEnv = "TOKENSCOPE_STANDIN_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) == "" {
		os.Exit(m.Run())
	}
	p, err := Start()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID)
	select {}
}

// limit bounds waiting for what must come; nothing is measured by it.
const limit = 30 * time.Second

func begin(t *testing.T) (*Process, context.Context) {
	t.Helper()
	p, err := Start()
	if err != nil {
		t.Fatalf("Start() = %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if err := unix.Kill(p.PID, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("kill(%d, 0) after Close = %v; want %v", p.PID, err, unix.ESRCH)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return p, ctx
}

// TestSpeak wants the answer that was written, every step done, and an end that
// nobody is told of by a signal.
func TestSpeak(t *testing.T) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	for range 20 {
		p, ctx := begin(t)
		if err := p.Speak(ctx); err != nil {
			t.Fatalf("Speak() = %v", err)
		}
		if !strings.HasPrefix(string(p.Request()), "GET /") || !strings.HasSuffix(string(p.Request()), "\r\n\r\n") {
			t.Errorf("Request() = %q; want one of HTTP", p.Request())
		}
		if n := len(p.Received()); n > messageVSMSize-messageData {
			t.Errorf("Received() has %d bytes; more than fit into a message", n)
		}
	}
	select {
	case <-children:
		t.Error("SIGCHLD came")
	default:
	}
}

// TestOwnBytes wants other bytes of each stand-in.
func TestOwnBytes(t *testing.T) {
	a, _ := begin(t)
	b, _ := begin(t)
	for name, said := range map[string]func(*Process) []byte{
		"Request": (*Process).Request, "Answer": (*Process).Answer, "VectorAnswer": (*Process).VectorAnswer,
		"Sent": (*Process).Sent, "Received": (*Process).Received,
	} {
		if bytes.Equal(said(a), said(b)) {
			t.Errorf("%s() = %q of two stand-ins", name, said(a))
		}
	}
}

// TestTrouble wants what went wrong in the stand-in said.
func TestTrouble(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		p, ctx := begin(t)
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		var died *Died
		if err := p.Speak(ctx); !errors.As(err, &died) || died.Signal != unix.SIGKILL {
			t.Errorf("Speak() = %v; want death by SIGKILL", err)
		}
	})
	t.Run("a fault", func(t *testing.T) {
		// The handlers of this process, which Go has for SIGSEGV, must not run in it.
		s := newScript(-1, -1)
		s.steps[1] = step{function: 16}
		p := started(t, s)
		var died *Died
		if err := p.Speak(t.Context()); !errors.As(err, &died) || died.Signal != unix.SIGSEGV {
			t.Errorf("Speak() = %v; want death by SIGSEGV", err)
		}
	})
	t.Run("a system call that fails", func(t *testing.T) {
		s := newScript(-1, -1) // its fifth step reads from a descriptor
		p := started(t, s)
		if err := p.Speak(t.Context()); err == nil || !strings.Contains(err.Error(), "step 5") {
			t.Errorf("Speak() = %v; want the fifth step to fail", err)
		}
	})
	t.Run("no end", func(t *testing.T) {
		s := newScript(-1, -1)
		s.steps[1] = step{number: unix.SYS_PPOLL}
		p := started(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := p.Speak(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Speak() = %v; want %v", err, context.DeadlineExceeded)
		}
	})
}

// started forks a stand-in with a list of its own, whose parent talks to nobody.
func started(t *testing.T, s *script) *Process {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	pid := fork(&s.steps[0], &s.all, &s.old)
	if pid < 0 {
		t.Fatal(unix.Errno(-pid))
	}
	p := &Process{PID: int(pid), script: s, conn: null}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return p
}

// TestDescriptors wants a stand-in to hold none but its own.
func TestDescriptors(t *testing.T) {
	p, _ := begin(t)
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
		if err == nil && len(fds) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it holds %v, %v", fds, err)
		}
	}
}

// TestParentDies wants a stand-in that waits to end with the process that made it.
func TestParentDies(t *testing.T) {
	cmd := exec.Command(File)
	cmd.Env = append(os.Environ(), parentEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("kill(%d, 0) = %v; want it to wait", pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // its error is the kill
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return // a zombie where nobody reaps orphans
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// TestOffsets compares with this program's symbols, which it has as a test.
func TestOffsets(t *testing.T) {
	got, err := Offsets()
	if err != nil {
		t.Fatalf("Offsets() = %v", err)
	}
	f, err := elf.Open(File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		t.Skip("the test binary has no symbols")
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, suffix := range map[string]string{
		"zmq_msg_send": "standin.messageSend", "zmq_msg_recv": "standin.messageReceive",
		"zmq_socket": "standin.socketOpen", "zmq_close": "standin.socketClose",
	} {
		want, found := uint64(0), false
		for _, s := range symbols {
			for _, p := range f.Progs {
				if strings.HasSuffix(strings.TrimSuffix(s.Name, ".abi0"), suffix) && p.Type == elf.PT_LOAD && p.Vaddr <= s.Value && s.Value < p.Vaddr+p.Memsz {
					want, found = s.Value-p.Vaddr+p.Off, true
				}
			}
		}
		if !found {
			t.Errorf("no symbol ends in %s", suffix)
		}
		if got[name] != want {
			t.Errorf("Offsets()[%s] = %#x; want %#x", name, got[name], want)
		}
	}
	if len(got) != functionCount {
		t.Errorf("Offsets() has %d functions; want %d", len(got), functionCount)
	}
}

func TestFileOffset(t *testing.T) {
	const maps = `00400000-00401000 r--p 00000000 00:1f 1234 /usr/bin/instrument
00401000-01c5a000 r-xp 00001000 00:1f 1234 /usr/bin/instrument
01c5a000-03a00000 r--p 0185a000 00:1f 1234 /usr/bin/instrument
not a line of it
7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [vdso]
`
	for _, tc := range []struct {
		name    string
		address uint64
		want    uint64
		err     error
	}{
		{"in the text", 0x401020, 0x1020, nil},
		{"first byte", 0x401000, 0x1000, nil},
		{"behind the last byte", 0x1c5a000, 0, errNotMapped},
		{"in data", 0x400010, 0, errNotMapped},
		{"in a later mapping", 0x7f0000000fff, 0xfff, nil},
		{"nowhere", 0x10, 0, errNotMapped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := fileOffset(strings.NewReader(maps), tc.address)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("fileOffset(%#x) = %#x, %v; want %#x, %v", tc.address, got, err, tc.want, tc.err)
			}
		})
	}
}

// BenchmarkStandIn is what a stand-in costs without any probe.
func BenchmarkStandIn(b *testing.B) {
	for b.Loop() {
		p, err := Start()
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Speak(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
