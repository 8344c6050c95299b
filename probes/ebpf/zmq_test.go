package ebpf

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// pythonEnv names a Python interpreter that has pyzmq.
const pythonEnv = "TOKENSCOPE_TEST_PYTHON"

// python returns an interpreter with pyzmq, or skips the test.
func python(t *testing.T) string {
	t.Helper()
	needPrivileges(t)
	path := os.Getenv(pythonEnv)
	if path == "" {
		path = "python3"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		t.Skipf("needs Python with pyzmq: set %s: %v", pythonEnv, err)
	}
	if out, err := exec.Command(path, "-c", "import zmq").CombinedOutput(); err != nil {
		t.Skipf("needs Python with pyzmq: set %s: %s: %s", pythonEnv, path, bytes.TrimSpace(out))
	}
	return path
}

// runPython runs a script in the workload. It may wait for a line of input.
func runPython(t *testing.T, path, script string) *child {
	t.Helper()
	cmd := exec.Command(path, "-c", script, filepath.Join(t.TempDir(), "socket"))
	cmd.Stderr = t.Output()
	return launch(t, cmd)
}

// frames of the script below: two parts each, the second of these sizes. They
// cover all of libzmq's kinds of message.
var frameSizes = []int{0, 1, 33, 34, 5000, 15000, 21000, 66000, 70000, 300000}

const pairs = `
import sys
sys.stdin.readline()
import zmq
addr = "ipc://" + sys.argv[1]
ctx = zmq.Context()
router, dealer = ctx.socket(zmq.ROUTER), ctx.socket(zmq.DEALER)
push, pull = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
pub, sub = ctx.socket(zmq.PUB), ctx.socket(zmq.SUB)
dealer.setsockopt(zmq.IDENTITY, b"\x01\x00")
router.bind(addr + "r"); dealer.connect(addr + "r")
push.bind(addr + "p"); pull.connect(addr + "p")
pub.bind(addr + "b"); sub.connect(addr + "b")
dealer.send(b"READY"); assert router.recv_multipart() == [b"\x01\x00", b"READY"]
pub.send(b"broadcast")
for size in (0, 1, 33, 34, 5000, 15000, 21000, 66000, 70000, 300000):
    body = bytes(97 + i % 26 for i in range(size))
    for copy in (False, True):
        router.send_multipart([b"\x01\x00", b"\x00", body], copy=copy)
        got = dealer.recv_multipart(copy=copy)
        push.send_multipart([b"kind", body], copy=copy)
        got = pull.recv_multipart(copy=copy)
print("done", flush=True)
sys.stdin.read()
`

// message is what is wanted of a frame.
type message struct {
	socket capture.SocketType
	body   string
	more   bool
}

// wantedMessages are those that the script sends from, or gets at, these sockets.
func wantedMessages(sends bool) []message {
	var out []message
	if sends {
		out = append(out, message{capture.SocketDealer, "READY", false})
	} else {
		out = append(out, message{capture.SocketRouter, "\x01\x00", true}, message{capture.SocketRouter, "READY", false})
	}
	for _, size := range frameSizes {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(97 + i%26)
		}
		for range 2 {
			if sends {
				out = append(out,
					message{capture.SocketRouter, "\x01\x00", true}, message{capture.SocketRouter, "\x00", true}, message{capture.SocketRouter, string(body), false},
					message{capture.SocketPush, "kind", true}, message{capture.SocketPush, string(body), false})
			} else {
				out = append(out,
					message{capture.SocketDealer, "\x00", true}, message{capture.SocketDealer, string(body), false},
					message{capture.SocketPull, "kind", true}, message{capture.SocketPull, string(body), false})
			}
		}
	}
	return out
}

// checkMessages compares the frames with those wanted. pyzmq also sends itself
// eight bytes about each buffer that it has shared, and at last "DIE": these are
// left out, by their socket, whose first frame they are.
func checkMessages(t *testing.T, all []capture.Event, pid int, kind capture.Kind, want []message) {
	t.Helper()
	var got []capture.Event
	own := map[uint64]bool{}
	for _, e := range of(all, pid, kind) {
		if e.Seq == 1 && !e.More && (e.Len == 8 || string(e.Data) == "DIE") {
			own[e.Conn] = true
		}
		if !own[e.Conn] {
			got = append(got, e)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d frames of kind %d; want %d:\n%s", len(got), kind, len(want), show(got))
	}
	seqs := map[uint64]uint64{}
	for i, e := range got {
		w := want[i]
		seqs[e.Conn]++
		if e.Socket != w.socket || e.More != w.more || e.Len != len(w.body) || e.Seq != seqs[e.Conn] {
			t.Errorf("frame %d: socket %d, more %v, %d bytes, number %d; want %d, %v, %d, %d", i, e.Socket, e.More, e.Len, e.Seq, w.socket, w.more, len(w.body), seqs[e.Conn])
			continue
		}
		front := string(e.Data[:len(e.Data)-e.Tail])
		if !strings.HasPrefix(w.body, front) || !strings.HasSuffix(w.body, string(e.Data[len(front):])) || len(e.Data) != captured(e.Len) {
			t.Errorf("frame %d of %d bytes holds %d bytes that were not sent", i, e.Len, len(e.Data))
		}
	}
}

// begin lets a script go on when the probes for its process are in place: those
// for sending when its exec is told, those for receiving by the next look at the
// ring, which a tick after it proves.
func begin(t *testing.T, w *watch, c *child) {
	t.Helper()
	exec := w.await("exec", func(e *capture.Event) bool { return e.Kind == capture.KindExec && int(e.PID) == c.Process.Pid })
	w.await("tick", func(e *capture.Event) bool { return e.Kind == capture.KindTick && e.Time > exec.Time })
	io.WriteString(c.in, "\n")
}

func quit(t *testing.T, w *watch, c *child) []capture.Event {
	t.Helper()
	c.finish(t)
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == c.Process.Pid })
	return w.all()
}

func TestZMQ(t *testing.T) {
	path := python(t)
	for name, perfEvents := range map[string]bool{"attached as the kernel can": false, "attached by perf events": true} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Options{WantReceives: func(Process) bool { return true }, perfEvents: perfEvents})
			c := runPython(t, path, pairs)
			begin(t, w, c)
			if line := c.out.next(t); line != "done" {
				t.Fatalf("script says %q", line)
			}
			all := quit(t, w, c)
			checkMessages(t, all, c.Process.Pid, capture.KindSend, wantedMessages(true))
			checkMessages(t, all, c.Process.Pid, capture.KindRecv, wantedMessages(false))
		})
	}
}

// TestZMQReceivesUnwanted sees what is sent and nothing that is received.
func TestZMQReceivesUnwanted(t *testing.T) {
	path := python(t)
	w := start(t, Options{})
	c := runPython(t, path, pairs)
	begin(t, w, c)
	c.out.next(t)
	all := quit(t, w, c)
	checkMessages(t, all, c.Process.Pid, capture.KindSend, wantedMessages(true))
	checkMessages(t, all, c.Process.Pid, capture.KindRecv, nil)
}

// echo sends itself a frame for each line of input, through the libzmq that its
// interpreter finds.
const echo = `
import sys
sys.stdin.readline()
import zmq
ctx = zmq.Context()
a, b = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
a.bind("ipc://" + sys.argv[1]); b.connect("ipc://" + sys.argv[1])
n = 0
print("ready", flush=True)
for line in sys.stdin:
    a.send(b"frame %d" % n); b.recv(); n += 1
    print("sent", flush=True)
`

// echoUntil has the script send frames until one is seen as kind: probes come
// when the agent has noticed the process or its library.
func echoUntil(t *testing.T, w *watch, c *child, kind capture.Kind) capture.Event {
	t.Helper()
	for range 100000 {
		io.WriteString(c.in, "\n")
		c.out.next(t)
		for _, e := range w.all() {
			if e.Kind == kind && strings.HasPrefix(string(e.Data), "frame ") {
				return e
			}
		}
	}
	t.Fatalf("no frame of kind %d:\n%s", kind, show(w.all()))
	panic("unreachable")
}

// TestZMQThreads wants the receives of threads and of forked processes: a probe
// for one process holds for all its threads.
func TestZMQThreads(t *testing.T) {
	path := python(t)
	for _, tc := range []struct{ name, script string }{
		{"another thread", "import threading\ndef main():\n" + indent(echo) + "\nt = threading.Thread(target=main); t.start(); t.join()\n"},
		{"a forked process", "import os\nif os.fork() == 0:\n" + indent(echo) + "\n    os._exit(0)\nos.wait()\n"},
		{"a name that is given later", "open('/proc/self/comm', 'w').write('VLLM::EngineCor')\n" + echo},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Options{}
			if !strings.Contains(tc.name, "name") {
				o.WantReceives = func(Process) bool { return true }
			}
			w := start(t, o)
			c := runPython(t, path, tc.script)
			begin(t, w, c)
			c.out.next(t)
			got := echoUntil(t, w, c, capture.KindRecv)
			if got.Socket != capture.SocketPull {
				t.Errorf("received %s", show([]capture.Event{got}))
			}
			quit(t, w, c)
		})
	}
}

func indent(script string) string {
	return strings.ReplaceAll(script, "\n", "\n    ")
}

// TestZMQLoadedLate loads libzmq long after the start, from an interpreter whose
// command line does not lead to it: only the maps do.
func TestZMQLoadedLate(t *testing.T) {
	path := python(t)
	w := start(t, Options{})
	cmd := exec.Command(path, "-c", echo, filepath.Join(t.TempDir(), "socket"))
	cmd.Args[0] = "python" // found through PATH, as a shell would
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "VIRTUAL_ENV="+filepath.Dir(filepath.Dir(path)))
	cmd.Stderr = t.Output()
	c := launch(t, cmd)
	w.await("exec", func(e *capture.Event) bool { return e.Kind == capture.KindExec && int(e.PID) == c.Process.Pid })
	io.WriteString(c.in, "\n")
	c.out.next(t)
	echoUntil(t, w, c, capture.KindSend)
	quit(t, w, c)
}

// TestZMQAdoption opens a Source beside a process with sockets: their types are
// not known any more.
func TestZMQAdoption(t *testing.T) {
	path := python(t)
	c := runPython(t, path, echo)
	io.WriteString(c.in, "\n\n")
	c.out.next(t)
	c.out.next(t) // it has sent a frame
	w := start(t, Options{WantReceives: func(Process) bool { return true }})
	w.await("exec", func(e *capture.Event) bool { return e.Kind == capture.KindExec && int(e.PID) == c.Process.Pid })
	echoUntil(t, w, c, capture.KindRecv)
	all := quit(t, w, c)
	first := of(all, c.Process.Pid, capture.KindSend)[0]
	if first.Seq != 1 || first.Socket != capture.SocketUnknown || string(first.Data) == "frame 0" {
		t.Errorf("first frame: %swant number 1 of an unknown socket", show([]capture.Event{first}))
	}
}

// captured is how much of a frame of n bytes is captured by default.
func captured(n int) int {
	if n > DefaultFrameBytes {
		return DefaultHeadBytes + DefaultTailBytes
	}
	return n
}
