package ebpf

import (
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestRecognition sends first bytes of several kinds.
func TestRecognition(t *testing.T) {
	w := start(t, Options{})
	for _, tc := range []struct {
		name  string
		sends []string
		http  bool
		count func(Stats) uint64
	}{
		{"GET", []string{"GET / HTTP/1.1\r\n\r\n"}, true, nil},
		{"OPTIONS", []string{"OPTIONS * HTTP/1.1\r\n\r\n"}, true, nil},
		{"one byte first", []string{"P", "OST / HTTP/1.1\r\n\r\n"}, true, nil},
		{"byte by byte", []string{"D", "E", "L", "E", "T", "E", " ", "/"}, true, nil},
		{"method without a space after it", []string{"GETTING"}, false, func(s Stats) uint64 { return s.Other }},
		{"lower case", []string{"get / HTTP/1.1\r\n\r\n"}, false, func(s Stats) uint64 { return s.Other }},
		{"response", []string{"HTTP/1.1 200 OK\r\n\r\n"}, false, func(s Stats) uint64 { return s.Other }},
		{"TLS hello", []string{"\x16\x03\x01\x02\x00\x01"}, false, func(s Stats) uint64 { return s.TLS }},
		{"HTTP/2 preface", []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, false, func(s Stats) uint64 { return s.HTTP2 }},
		{"ZeroMQ greeting", []string{"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"}, false, func(s Stats) uint64 { return s.Other }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, err := w.source.Stats()
			if err != nil {
				t.Fatal(err)
			}
			script := []string{}
			for range tc.sends {
				script = append(script, "read", "say")
			}
			c := spawn(t, nil, "serve", append(script, "write:5", "close")...)
			conn := c.dial(t)
			for _, s := range tc.sends {
				if _, err := io.WriteString(conn, s); err != nil {
					t.Fatal(err)
				}
				c.out.next(t) // it has read that
			}
			io.Copy(io.Discard, conn)
			c.finish(t)
			pid := c.Process.Pid
			w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
			reads, writes := of(w.all(), pid, capture.KindRead), of(w.all(), pid, capture.KindWrite)
			if tc.http {
				if got, want := stream(t, reads), strings.Join(tc.sends, ""); got != want || len(reads) != len(tc.sends) || len(writes) != 1 {
					t.Errorf("read %q in %d events, %d writes; want %q in %d, 1", got, len(reads), len(writes), want, len(tc.sends))
				}
				return
			}
			if opens := of(w.all(), pid, capture.KindOpen); len(opens)+len(reads)+len(writes) != 0 {
				t.Errorf("told of %d connections, %d reads, %d writes; want none", len(opens), len(reads), len(writes))
			}
			after, err := w.source.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if got := tc.count(after) - tc.count(before); got != 1 {
				t.Errorf("its counter grew by %d; want 1", got)
			}
		})
	}
}

// TestBeganLikeHTTP wants a connection that was told too early to be closed.
func TestBeganLikeHTTP(t *testing.T) {
	w := start(t, Options{})
	c := spawn(t, nil, "serve", "read", "say", "read", "write:5", "close")
	conn := c.dial(t)
	io.WriteString(conn, "GE")
	c.out.next(t)
	io.WriteString(conn, "RMANY")
	io.Copy(io.Discard, conn)
	c.finish(t)
	pid := c.Process.Pid
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
	all := w.all()
	if o, r, wr, cl := of(all, pid, capture.KindOpen), of(all, pid, capture.KindRead), of(all, pid, capture.KindWrite), of(all, pid, capture.KindClose); len(o) != 1 || len(r) != 1 || len(wr) != 0 || len(cl) != 1 {
		t.Errorf("%d opens, %d reads, %d writes, %d closes; want 1, 1, 0, 1:\n%s", len(o), len(r), len(wr), len(cl), show(all))
	}
}

// TestEnds has connections end in every way.
func TestEnds(t *testing.T) {
	w := start(t, Options{})
	for _, tc := range []struct {
		name  string
		calls string
		leave func(*net.TCPConn)
		peers []bool // Peer of the closes, in order
	}{
		{"server closes", "read write:3 close", nil, []bool{false}},
		{"server shuts down, then closes", "read write:3 shutdown read close", func(c *net.TCPConn) { io.Copy(io.Discard, c) }, []bool{false}},
		{"client leaves", "read read read close", nil, []bool{true, false}},
		{"client resets", "read read close", func(c *net.TCPConn) { c.SetLinger(0) }, []bool{true, false}},
		{"client has sent all, server answers", "read read write:3 close", func(c *net.TCPConn) { c.CloseWrite(); io.Copy(io.Discard, c) }, []bool{true, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := spawn(t, nil, "serve", strings.Fields(strings.Replace(tc.calls, "read", "read say", 1))...)
			conn := c.dial(t)
			io.WriteString(conn, request)
			c.out.next(t)
			if tc.leave != nil {
				tc.leave(conn)
			}
			conn.Close()
			c.in.Close()
			c.Wait() // a server whose client has left may fail
			pid := c.Process.Pid
			w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
			var peers []bool
			for _, e := range of(w.all(), pid, capture.KindClose) {
				peers = append(peers, e.Peer)
			}
			// A reset ends the script at its read: the close is then the exit's.
			if want := tc.peers; !slices.Equal(peers, want) && !(tc.name == "client resets" && slices.Equal(peers, want[:1])) {
				t.Errorf("closes by the peer = %v; want %v", peers, want)
			}
		})
	}
}

// TestDescriptorUsedAgain closes one in a way that is not seen.
func TestDescriptorUsedAgain(t *testing.T) {
	w := start(t, Options{})
	c := spawn(t, nil, "serve", "again", "read", "write:4", "close")
	addr := c.out.next(t)
	for range 2 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		io.Copy(io.Discard, conn)
	}
	c.finish(t)
	pid := c.Process.Pid
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
	all := w.all()
	opens, closes := of(all, pid, capture.KindOpen), of(all, pid, capture.KindClose)
	if len(opens) != 2 || opens[0].Conn == opens[1].Conn || len(closes) != 2 || closes[0].Conn != opens[0].Conn {
		t.Errorf("two connections on one descriptor are told as:\n%s", show(append(opens, closes...)))
	}
	for _, e := range of(all, pid, capture.KindRead) {
		if e.Seq != 1 {
			t.Errorf("number of a first read = %d; want 1", e.Seq)
		}
	}
}

// TestInheritedSocket has a server get a connection that it did not accept.
func TestInheritedSocket(t *testing.T) {
	w := start(t, Options{})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	cmd := exec.Command("/proc/self/exe", "read", "write:7", "close")
	cmd.Env = append(os.Environ(), childEnv+"=inherit")
	cmd.ExtraFiles = []*os.File{theirs}
	c := launch(t, cmd)
	theirs.Close()
	io.WriteString(ours, request)
	if got, err := io.ReadAll(ours); err != nil || len(got) != 7 {
		t.Fatalf("read %q, %v", got, err)
	}
	c.finish(t)
	pid := c.Process.Pid
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
	all := w.all()
	if o, r, wr := of(all, pid, capture.KindOpen), of(all, pid, capture.KindRead), of(all, pid, capture.KindWrite); len(o) != 1 || stream(t, r) != request || stream(t, wr) != string(pattern(0, 7)) {
		t.Errorf("events of an inherited connection:\n%s", show(all))
	}
}

// TestLoss overfills a ring and wants the jump in the numbers and the count to
// agree.
func TestLoss(t *testing.T) {
	w := start(t, Options{RingBytes: 1, HeadBytes: 512, TailBytes: 64}) // one page
	held, release := make(chan struct{}), make(chan struct{})
	first := true
	w.mu.Lock()
	w.onSink = func(e *capture.Event) {
		if e.Kind == capture.KindRead && first {
			first = false
			close(held)
			<-release
		}
	}
	w.mu.Unlock()
	const burst = 300
	c := spawn(t, nil, "serve", "read", "wait", "burst:300", "say", "wait", "write:20", "close", "wait")
	conn := c.dial(t)
	io.WriteString(conn, request)
	<-held
	io.WriteString(c.in, "\n")
	c.out.next(t) // all are written, and nobody has read the ring
	close(release)
	w.await("loss", func(e *capture.Event) bool { return e.Kind == capture.KindLost })
	io.WriteString(c.in, "\n")
	w.await("last write", func(e *capture.Event) bool { return e.Kind == capture.KindWrite && e.Len == 20 })
	c.finish(t)
	w.stop()

	lost := 0
	for _, e := range of(w.all(), 0, capture.KindLost) {
		if e.Cause != capture.LostRingFull {
			t.Errorf("cause = %q; want %q", e.Cause, capture.LostRingFull)
		}
		lost += e.Len
	}
	writes := of(w.all(), c.Process.Pid, capture.KindWrite)
	last := writes[len(writes)-1]
	if last.Seq != burst+1 {
		t.Errorf("number of the last write = %d; want %d", last.Seq, burst+1)
	}
	if missing := int(last.Seq) - len(writes); missing != lost || lost == 0 {
		t.Errorf("%d events are missing, %d counted as lost", missing, lost)
	}
}
