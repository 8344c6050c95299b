package ebpf

import (
	"bytes"
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

// stream joins the data of events, whose numbers must be 1, 2, 3… and which must
// be complete.
func stream(t *testing.T, events []capture.Event) string {
	t.Helper()
	var b strings.Builder
	for i, e := range events {
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has number %d", i, e.Seq)
		}
		if !e.Complete() {
			t.Errorf("event %d has %d of %d bytes", i, len(e.Data), e.Len)
		}
		b.Write(e.Data)
	}
	return b.String()
}

// TestCalls has a server use each system call, and wants what it read and wrote.
func TestCalls(t *testing.T) {
	w := start(t, Options{})
	for _, tc := range []struct {
		name   string
		calls  string
		reads  int // events
		writes []int
		total  int
	}{
		{"read and write", "read write:100 close", 1, []int{100}, 100},
		{"recvfrom and sendto", "recvfrom sendto:1000 sendto:513 close", 1, []int{1000, 513}, 1513},
		{"readv and writev", "readv writev:10,0,500,4 writev:2000,3 close", 1, []int{514, 2003}, 2517},
		{"recvmsg and sendmsg", "recvmsg sendmsg:9,8,7 close", 1, []int{24}, 24},
		{"peeked bytes are told once", "peek read write:5 close", 1, []int{5}, 5},
		{"every class of size", "read write:512 write:513 write:2048 write:2049 write:8192 write:8193 write:20480 close", 1, []int{512, 513, 2048, 2049, 8192, 8193, 20480}, 41987},
		{"every class of size, in buffers", "read writev:1000,24 writev:1000,25 writev:4000,96 writev:1,4096 writev:10000,10480 close", 1, []int{1024, 1025, 4096, 4097, 20480}, 30722},
		{"thirty-two buffers", "read writev:" + strings.Repeat("3,", 31) + "3 close", 1, []int{96}, 96},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := spawn(t, nil, "serve", strings.Fields(tc.calls)...)
			conn := c.dial(t)
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			c.finish(t)
			pid := c.Process.Pid
			w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == pid })
			all := w.all()

			opens := of(all, pid, capture.KindOpen)
			if len(opens) != 1 {
				t.Fatalf("%d connections opened; want 1:\n%s", len(opens), show(all))
			}
			if port := conn.RemoteAddr().(*net.TCPAddr).Port; int(opens[0].Port) != port {
				t.Errorf("port = %d; want %d", opens[0].Port, port)
			}
			reads, writes := of(all, pid, capture.KindRead), of(all, pid, capture.KindWrite)
			if s := stream(t, reads); s != request || len(reads) != tc.reads {
				t.Errorf("read %q in %d events; want %q in %d", s, len(reads), request, tc.reads)
			}
			if s := stream(t, writes); s != string(got) || s != string(pattern(0, tc.total)) {
				t.Errorf("written %d bytes, not the %d that the client got", len(s), len(got))
			}
			var sizes []int
			for _, e := range writes {
				sizes = append(sizes, e.Len)
			}
			if !slices.Equal(sizes, tc.writes) {
				t.Errorf("sizes of writes = %v; want %v", sizes, tc.writes)
			}
			closes := of(all, pid, capture.KindClose)
			if len(closes) != 1 || closes[0].Peer {
				t.Errorf("closes = %s; want one, by the server", show(closes))
			}
			for _, e := range slices.Concat(reads, writes, closes) {
				if e.Conn != opens[0].Conn {
					t.Errorf("connection %x; want %x", e.Conn, opens[0].Conn)
				}
				if e.TID == 0 || e.Time == 0 || e.Comm == "" {
					t.Errorf("event without thread, time or name: %s", show([]capture.Event{e}))
				}
			}
		})
	}
}

// TestHeadAndTail wants of long writes their ends and true lengths.
func TestHeadAndTail(t *testing.T) {
	const head, tail = 1000, 300
	for _, tc := range []struct {
		name, call string
		total      int
		captured   int // of 1300, all if shorter
	}{
		{"one buffer", "write:5000", 5000, head + tail},
		{"one byte more than both", "write:1301", 1301, head + tail},
		{"exactly both", "write:1300", 1300, head + tail},
		{"several buffers", "writev:600,600,600,600,100", 2500, head + tail},
		{"a long buffer between", "writev:3,70000,3", 70006, head + tail},
		{"an empty one at the end", "writev:5000,0", 5000, head + tail},
		{"more buffers than are looked at, long", "writev:" + strings.Repeat("100,", 39) + "100", 4000, head},
		{"more buffers than are looked at, short", "writev:" + strings.Repeat("10,", 39) + "10", 400, 320},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, Options{HeadBytes: head, TailBytes: tail})
			c := spawn(t, nil, "serve", "read", tc.call, "close")
			conn := c.dial(t)
			io.WriteString(conn, request)
			io.Copy(io.Discard, conn)
			c.finish(t)
			w.await("close", func(e *capture.Event) bool { return e.Kind == capture.KindClose })
			writes := of(w.all(), c.Process.Pid, capture.KindWrite)
			if len(writes) != 1 {
				t.Fatalf("%d writes; want 1:\n%s", len(writes), show(w.all()))
			}
			e := writes[0]
			if e.Len != tc.total || len(e.Data) != tc.captured {
				t.Fatalf("captured %d of %d; want %d of %d", len(e.Data), e.Len, tc.captured, tc.total)
			}
			want := pattern(0, tc.total)
			front := e.Data[:len(e.Data)-e.Tail]
			if !bytes.Equal(front, want[:len(front)]) {
				t.Errorf("the front is not what was written")
			}
			if !bytes.Equal(e.Data[len(front):], want[tc.total-e.Tail:]) {
				t.Errorf("the tail of %d is not what was written", e.Tail)
			}
			if wantTail := map[bool]int{true: tail}[tc.captured == head+tail && tc.total > head+tail]; e.Tail != wantTail {
				t.Errorf("tail = %d; want %d", e.Tail, wantTail)
			}
		})
	}
}

// TestPartialWrites has a server write more than the socket takes.
func TestPartialWrites(t *testing.T) {
	w := start(t, Options{})
	const total = 8 << 20
	c := spawn(t, nil, "serve", "read", "flood:8388608", "close")
	conn := c.dial(t)
	io.WriteString(conn, request)
	got, err := io.ReadAll(conn)
	if err != nil || len(got) != total {
		t.Fatalf("client read %d bytes, %v", len(got), err)
	}
	c.finish(t)
	w.await("close", func(e *capture.Event) bool { return e.Kind == capture.KindClose })
	at := 0
	writes := of(w.all(), c.Process.Pid, capture.KindWrite)
	if len(writes) < 2 {
		t.Fatalf("%d writes; the socket took all at once", len(writes))
	}
	for i, e := range writes {
		front := e.Data[:len(e.Data)-e.Tail]
		if e.Seq != uint64(i+1) || !bytes.HasPrefix(got[at:], front) || !bytes.HasSuffix(got[:at+e.Len], e.Data[len(front):]) {
			t.Fatalf("write %d (number %d) at %d of %d bytes does not hold what the client got", i, e.Seq, at, e.Len)
		}
		at += e.Len
	}
	if at != total {
		t.Errorf("writes add up to %d; want %d", at, total)
	}
}

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
