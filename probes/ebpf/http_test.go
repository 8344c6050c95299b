package ebpf

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

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
	for _, tc := range []callsCase{
		{"read and write", "read write:100 close", 1, []int{100}, 100},
		{"recvfrom and sendto", "recvfrom sendto:1000 sendto:513 close", 1, []int{1000, 513}, 1513},
		{"readv and writev", "readv writev:10,0,500,4 writev:2000,3 close", 1, []int{514, 2003}, 2517},
		{"recvmsg and sendmsg", "recvmsg sendmsg:9,8,7 close", 1, []int{24}, 24},
		{"peeked bytes are told once", "peek read write:5 close", 1, []int{5}, 5},
		{"every class of size", "read write:512 write:513 write:2048 write:2049 write:8192 write:8193 write:20480 close", 1, []int{512, 513, 2048, 2049, 8192, 8193, 20480}, 41987},
		{"every class of size, in buffers", "read writev:1000,24 writev:1000,25 writev:4000,96 writev:1,4096 writev:10000,10480 close", 1, []int{1024, 1025, 4096, 4097, 20480}, 30722},
		{"thirty-two buffers", "read writev:" + strings.Repeat("3,", 31) + "3 close", 1, []int{96}, 96},
	} {
		t.Run(tc.name, func(t *testing.T) { testCalls(t, w, "serve", tc) })
	}
}

// TestCallsOnUnixSocket wants the same of a server behind a proxy on its machine.
func TestCallsOnUnixSocket(t *testing.T) {
	w := start(t, Options{})
	for _, tc := range []callsCase{
		{"read and write", "read write:100 close", 1, []int{100}, 100},
		{"recvfrom and sendto", "recvfrom sendto:1000 sendto:513 close", 1, []int{1000, 513}, 1513},
		{"readv and writev", "readv writev:10,0,500,4 writev:2000,3 close", 1, []int{514, 2003}, 2517},
		{"recvmsg and sendmsg", "recvmsg sendmsg:9,8,7 close", 1, []int{24}, 24},
		{"peeked bytes are told once", "peek read write:5 close", 1, []int{5}, 5},
		{"shut down, then closed", "read write:9 shutdown close", 1, []int{9}, 9},
	} {
		t.Run(tc.name, func(t *testing.T) { testCalls(t, w, "serve-unix", tc) })
	}
}

// callsCase is what a server does on a connection, and what is to be seen of it.
type callsCase struct {
	name   string
	calls  string
	reads  int // events
	writes []int
	total  int
}

// testCalls runs a server of this mode.
func testCalls(t *testing.T, w *watch, mode string, tc callsCase) {
	c := spawn(t, nil, mode, strings.Fields(tc.calls)...)
	network, address := c.address(t)
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
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
	port := 0 // of a Unix socket
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		port = addr.Port
	}
	if int(opens[0].Port) != port {
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
