package preload

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// server answers one request in Python, then starts a child that answers another, and
// says on which port it listens.
const server = `
import os, socket
def answer(listener):
    conn, _ = listener.accept()
    conn.recv(65536)
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    conn.recv(65536)
    conn.close()
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
answer(listener)
if os.fork() == 0:
    answer(listener)
    os._exit(0)
os.wait()
`

const request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestLibrary runs a server with the real library, from the environment to the events.
func TestLibrary(t *testing.T) {
	// What is on PATH may be a script that finds the interpreter, with processes of its own.
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skip("needs python3: ", err)
	}
	r := newRing(t, RingOptions{RingBytes: 1 << 20})
	w := start(t, r, Options{})
	s, err := Unpack([]string{t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(string(python), "-c", server)
	if cmd.Env, err = r.Inject(os.Environ(), s.Path); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port := strings.TrimSpace(line)
	for range 2 {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, request)
		conn.Read(make([]byte, 1000))
		conn.Close()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	w.await("exit of the server", isExit(pid))
	w.await("exit of its child", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) != pid })
	all := w.all()
	parent := kinds(all, pid)
	serve := []capture.Kind{capture.KindOpen, capture.KindRead, capture.KindWrite, capture.KindClose, capture.KindClose}
	if want := slices.Concat([]capture.Kind{capture.KindExec}, serve, []capture.Kind{capture.KindExit}); !slices.Equal(parent, want) {
		t.Errorf("kinds of the server = %v; want %v:\n%s", parent, want, show(all))
	}
	child := slices.DeleteFunc(slices.Clone(all), func(e capture.Event) bool { return int(e.PID) == pid || e.PID == 0 })
	if want := slices.Concat(serve, []capture.Kind{capture.KindExit}); !slices.Equal(kinds(child, 0), want) {
		t.Errorf("kinds of its child = %v; want %v:\n%s", kinds(child, 0), want, show(all))
	}
	closes := map[bool]int{}
	for _, e := range all {
		switch e.Kind {
		case capture.KindOpen:
			if strconv.Itoa(int(e.Port)) != port {
				t.Errorf("a connection to port %d; want %s", e.Port, port)
			}
		case capture.KindRead:
			if string(e.Data) != request || e.Seq != 1 || e.Comm != "python3" {
				t.Errorf("read: %s", show([]capture.Event{e}))
			}
		case capture.KindWrite:
			if !strings.HasSuffix(string(e.Data), "\r\n\r\nok") || e.Seq != 1 {
				t.Errorf("write: %s", show([]capture.Event{e}))
			}
		case capture.KindClose:
			closes[e.Peer]++
		case capture.KindLost:
			t.Errorf("lost %d by %s", e.Len, e.Cause)
		}
	}
	if closes[true] != 2 || closes[false] != 2 {
		t.Errorf("closes by the client and by the server: %v; want 2 of each", closes)
	}
}
