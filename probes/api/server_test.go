package api

import (
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/http1"
)

const (
	ask        = "POST /v1/completions HTTP/1.1\r\nContent-Length: 13\r\n\r\n{\"prompt\":\"\"}"
	answ       = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"c\"}"
	stream     = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	tokenEvent = "35\r\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n\r\n"
	second     = int64(1e9)
)

func at(t int64, kind capture.Kind, data string) capture.Event {
	return capture.Event{Kind: kind, Time: t, PID: 7, Conn: 1, Data: []byte(data), Len: len(data)}
}

func read(t int64, data string) capture.Event  { return at(t, capture.KindRead, data) }
func write(t int64, data string) capture.Event { return at(t, capture.KindWrite, data) }

func closed(t int64, peer bool) capture.Event {
	return capture.Event{Kind: capture.KindClose, Time: t, PID: 7, Conn: 1, Peer: peer}
}

func numbered(e capture.Event, seq uint64) capture.Event { e.Seq = seq; return e }

func TestServerEnds(t *testing.T) {
	tick := func(t int64) capture.Event { return capture.Event{Kind: capture.KindTick, Time: t} }
	tests := []struct {
		name   string
		events []capture.Event
		want   string // flags of the only exchange
		end    int64
	}{
		{"answered, then closed by the client", []capture.Event{read(1, ask), write(2, answ), closed(3, true)}, "complete", 2},
		{"client left in a stream", []capture.Event{read(1, ask), write(2, stream+tokenEvent), closed(3, true), closed(4, false)}, "disconnected", 3},
		{"client left before the response", []capture.Event{read(1, ask), closed(3, true), closed(4, false)}, "disconnected", 3},
		{"client left in its request", []capture.Event{read(1, ask[:60]), closed(3, true), closed(4, false)}, "disconnected body-missing", 3},
		{"client left, server's close not seen", []capture.Event{read(1, ask), write(2, stream), closed(3, true), tick(4 + halfClosed)}, "disconnected", 3},
		{"half-closed client, answered in time", []capture.Event{read(1, ask), closed(2, true), tick(3 * second), write(4*second, answ), closed(5*second, false)}, "complete", 4 * second},
		{"half-closed client, stream goes on", []capture.Event{read(1, ask), closed(2, true), write(3*second, stream), tick(6 * second), write(7*second, tokenEvent), tick(11 * second), write(11*second, "0\r\n\r\n")}, "complete", 11 * second},
		{"server left in a stream", []capture.Event{read(1, ask), write(2, stream+tokenEvent), closed(3, false)}, "server-closed", 3},
		{"process ended", []capture.Event{read(1, ask), {Kind: capture.KindExit, Time: 9, PID: 7}}, "server-closed", 9},
		{"another process ended", []capture.Event{read(1, ask), {Kind: capture.KindExit, Time: 9, PID: 8}, write(10, answ)}, "complete", 10},
		{"still running at the end", []capture.Event{read(1, ask), write(2, stream+tokenEvent)}, "", 0},
		{"close after a loss may hide the end", []capture.Event{numbered(read(1, ask), 1), numbered(write(2, stream+tokenEvent), 1), {Kind: capture.KindLost, Time: 3, Len: 2}, closed(4, false)}, "response-gap", 0},
		{"loss before, without effect", []capture.Event{numbered(read(1, ask), 1), {Kind: capture.KindLost, Time: 2, Len: 2}, numbered(write(3, stream+tokenEvent), 1), closed(4, false)}, "server-closed", 4},
		{"loss where nothing is numbered", []capture.Event{read(1, ask), write(2, stream+tokenEvent), {Kind: capture.KindLost, Time: 3, Len: 1}, write(4, "0\r\n\r\n")}, "response-gap", 0},
		{"write lost", []capture.Event{numbered(read(1, ask), 1), numbered(write(2, stream), 1), numbered(write(3, "0\r\n\r\n"), 3)}, "response-gap", 0},
		{"agent attached anew in between", []capture.Event{numbered(read(1, ask), 1), {Kind: capture.KindAttach, Time: 2}, numbered(write(3, answ), 1)}, "response-gap", 0},
		{"opened again: the close was lost", []capture.Event{read(1, ask), {Kind: capture.KindOpen, Time: 5, PID: 7, Conn: 1}}, "", 0},
		{"websocket", []capture.Event{read(1, ask), write(2, "HTTP/1.1 101 Switching Protocols\r\n\r\nx"), closed(3, true)}, "", 0},
		{"answer before the request's end", []capture.Event{read(1, ask[:60]), write(2, answ), read(3, ask[60:])}, "complete body-missing", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := play(t, tt.events)
			if len(s.ended) != 1 {
				t.Fatalf("exchanges = %d; want 1", len(s.ended))
			}
			x := s.ended[0]
			_, flags, _ := strings.Cut(digest(x, nil)+" ", "times=0,0,0,0,0")
			if got := strings.TrimSpace(flags); got != tt.want || x.End != tt.end {
				t.Errorf("ended at %d as %q; want at %d as %q", x.End, got, tt.end, tt.want)
			}
		})
	}
}

// TestServerNoExchange: what makes no exchange is followed and counted.
func TestServerNoExchange(t *testing.T) {
	s := &sink{}
	srv := NewServer(s)
	for _, e := range []capture.Event{
		numbered(read(1, "GET /health HTTP/1.1\r\n\r\n"), 1), numbered(write(2, answ), 1),
		numbered(read(3, "POST /nope HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"), 2), numbered(write(4, answ), 2),
		numbered(read(5, "GET /v1/completions HTTP/1.1\r\n\r\n"), 3), numbered(write(6, answ), 3),
		numbered(write(7, answ), 4), // answers nothing
		numbered(read(8, "\"text\"}"), 9),
	} {
		srv.Handle(&e)
	}
	got := srv.Stats()
	if s.stage != nil || got.Exchanges != 0 || got.Other != 3 || got.Orphans != 1 || got.Gaps != 1 || got.Conns != 1 || got.Desyncs[http1.Gap] != 1 {
		t.Errorf("Stats() = %+v with %d exchanges; want 3 others, 1 orphan, 1 gap, 1 connection", got, len(s.stage))
	}
}

// TestServerFromTheMiddle: a connection that was open before capture began.
func TestServerFromTheMiddle(t *testing.T) {
	s := play(t, []capture.Event{
		write(1, tokenEvent), write(2, "0\r\n\r\n"), // of a request that nobody saw
		read(3, ask), write(4, answ),
	})
	if len(s.ended) != 1 || !s.ended[0].Complete || s.ended[0].ResponseGap {
		t.Errorf("exchanges = %d; want the second request's alone, complete", len(s.ended))
	}
}

func TestServerEviction(t *testing.T) {
	s := &sink{}
	srv := NewServer(s)
	for i := range maxConns + 10 {
		e := read(int64(i+1), ask)
		e.Conn = uint64(i + 1)
		srv.Handle(&e)
	}
	if st := srv.Stats(); st.Conns != maxConns || st.Evicted != 10 {
		t.Errorf("Stats() = %d connections, %d evicted; want %d, 10", st.Conns, st.Evicted, maxConns)
	}
	if len(s.ended) != 10 || s.ended[0].Conn != 1 {
		t.Errorf("%d exchanges ended; want the 10 oldest", len(s.ended))
	}
	srv.Flush(1 << 40)
	s.check(t)
}

func TestServerHeaders(t *testing.T) {
	head := "POST /v1/completions HTTP/1.1\r\n" +
		"traceparent: a\r\nTraceparent: b\r\ntracestate: x=1\r\n" +
		"User-Agent: " + strings.Repeat("u", maxUserAgent+1) + "\r\nContent-Encoding: gzip\r\nContent-Length: 14\r\n\r\n" + `{"model":"no"}`
	x := play(t, []capture.Event{read(1, head)}).ended[0]
	if x.Traceparent != "" || x.Tracestate != "" || x.UserAgent != "" || x.Model != "" || !x.BodyMissing || x.ReadEnd != 1 {
		t.Errorf("exchange = %+v; want no parent (two were sent), no user agent (too long), an unread body (gzip)", *x)
	}
}

// TestServerTLS: the bytes say whether they were encrypted, the beginning of a connection
// does not know it yet.
func TestServerTLS(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		r, w := read(2, ask), write(3, answ)
		r.TLS, w.TLS = encrypted, encrypted
		s := play(t, []capture.Event{{Kind: capture.KindOpen, Time: 1, PID: r.PID, Conn: r.Conn, Port: 8000}, r, w})
		if len(s.ended) != 1 || s.ended[0].TLS != encrypted || s.ended[0].Port != 8000 {
			t.Errorf("encrypted %v: %d exchanges, the first %+v", encrypted, len(s.ended), s.ended[0])
		}
	}
}

// TestServerAllocs: a token event costs no allocation once a stream runs.
func TestServerAllocs(t *testing.T) {
	s := &sink{}
	srv := NewServer(s)
	for _, e := range []capture.Event{read(1, ask), write(2, stream+tokenEvent)} {
		srv.Handle(&e)
	}
	e := write(3, tokenEvent)
	if n := testing.AllocsPerRun(1000, func() { srv.Handle(&e) }); n != 0 {
		t.Errorf("allocations per token event = %v; want 0", n)
	}
	if srv.Flush(4); s.ended[0].Events != 1002 { // AllocsPerRun calls once more to warm up
		t.Errorf("events = %d; want 1002", s.ended[0].Events)
	}
}

// BenchmarkServerToken is one token event of a real chat stream.
func BenchmarkServerToken(b *testing.B) {
	srv := NewServer(&sink{})
	evs := events(1, record(b, "vllm-0.32.0-chat-stream"))
	for i := range evs {
		evs[i].Seq = 0
	}
	for i := range evs[:4] {
		srv.Handle(&evs[i])
	}
	b.SetBytes(int64(evs[4].Len))
	b.ReportAllocs()
	for b.Loop() {
		srv.Handle(&evs[4])
	}
}
