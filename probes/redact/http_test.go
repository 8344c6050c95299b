package redact

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// A piece of one direction of a connection.
type piece struct {
	kind capture.Kind
	in   string
	want string
}

const (
	read  = capture.KindRead
	write = capture.KindWrite
)

func TestHTTP(t *testing.T) {
	tests := []struct {
		name   string
		pieces []piece
	}{
		{"request and answer", []piece{
			{read, "POST /v1/completions?key=s HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer s\r\nX-Request-Id: r-1\r\nX-Bob: 1\r\nContent-Length: 26\r\n\r\n{\"model\":\"m\",\"prompt\":\"a\"}",
				"POST /v1/completions?xxxxx HTTP/1.1\r\nHost: xxx\r\nAuthorization: xxxxxxxx\r\nX-Request-Id: r-1\r\nxxxxx: x\r\nContent-Length: 26\r\n\r\n{\"model\":\"m\",\"prompt\":\"x\"}"},
			{write, "HTTP/1.1 200 OK\r\nset-cookie: c=1\r\ncontent-type: application/json\r\ncontent-length: 21\r\n\r\n{\"id\":\"1\",\"text\":\"a\"}",
				"HTTP/1.1 200 OK\r\nset-cookie: xxx\r\ncontent-type: application/json\r\ncontent-length: 21\r\n\r\n{\"id\":\"1\",\"text\":\"x\"}"},
		}},
		{"keep-alive", []piece{
			{read, "GET /health HTTP/1.1\r\nHost: h\r\n\r\n", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"},
			{write, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"},
			{read, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"},
			{write, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nvllm 1", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nxxxxxx"},
		}},
		{"pipelined", []piece{
			{read, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"},
			{write, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"},
		}},
		{"stream", []piece{
			{read, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"},
			{write, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"},
			{write, "A;a=b\r\ndata: {\"te\r\nc\r\nxt\":\"abcd\"}\n\r\n1\r\n\n\r\n", "A;xxx\r\ndata: {\"te\r\nc\r\nxt\":\"xxxx\"}\n\r\n1\r\n\n\r\n"},
			{write, "e\r\ndata: [DONE]\n\n\r\n0\r\nX-Bob: s\r\nServer: u\r\n\r\n", "e\r\ndata: [DONE]\n\n\r\n0\r\nxxxxx: x\r\nServer: u\r\n\r\n"},
			{read, "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"},
		}},
		{"continue", []piece{
			{read, "POST /generate HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", "POST /generate HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"},
			{write, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"},
		}},
		{"body up to the end", []piece{
			{write, "HTTP/1.0 200 OK\r\n\r\n{\"text\":\"a", "HTTP/1.0 200 OK\r\n\r\n{\"text\":\"x"},
			{write, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "xxxxxxxxxxxxxXXXxxxxxxxxxxxxxxxxxxxxxx"},
		}},
		{"compressed", []piece{
			{write, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n{\"n\":71}",
				"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\nxxxxxxxx"},
		}},
		{"form", []piece{
			{read, "POST /v1/audio/transcriptions HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\n--b\r\n{}\r\n",
				"POST /v1/audio/transcriptions HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\nxxxxxxxxx"},
		}},
		{"absolute target", []piece{
			{read, "GET http://u:p@h/a HTTP/1.1\r\n\r\n", "GET xxxxxxxxxxxxxx HTTP/1.1\r\n\r\n"},
		}},
		{"path with parameters", []piece{
			{read, "GET /a;s=1 HTTP/1.1\r\n\r\nGET /a#s?s HTTP/1.0\r\n\r\n", "GET /a;xxx HTTP/1.1\r\n\r\nGET /a#xxx HTTP/1.0\r\n\r\n"},
		}},
		{"reason of its own", []piece{
			{write, "HTTP/1.1 400 Bad prompt\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 400 Bad xxxxxx\r\ncontent-length: 0\r\n\r\n"},
		}},
		{"no HTTP", []piece{{read, "secret words\r\n", "xxxxxxxxxxxxxx"}, {write, "secret", "xxxxxx"}}},
		{"method of nobody", []piece{{read, "POSTER / HTTP/1.1\r\n\r\n", "xxxxxxxxxxxxxxxxxxxxx"}}},
		{"HTTP/2", []piece{{read, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "xxxxxxxxxxxxxxxxxxxxxxxx"}}},
		{"line without a colon", []piece{
			{read, "GET / HTTP/1.1\r\nsecret words\r\n\r\n", "GET / HTTP/1.1\r\nxxxxxxxxxxxxxxxx"},
		}},
		{"folded line", []piece{
			{read, "GET / HTTP/1.1\r\nserver: a\r\n secret\r\n\r\n", "GET / HTTP/1.1\r\nserver: a\r\nxxxxxxxxxxx"},
		}},
		{"two lengths", []piece{
			{read, "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", "POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nxxx"},
		}},
		{"bad chunk size", []piece{
			{write, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nsecret\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxxxxxxxx"},
		}},
		{"websocket", []piece{
			{read, "GET /v1/realtime HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", "GET /v1/realtime HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"},
			{write, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nsecret", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nxxxxxx"},
			{read, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", strings.Repeat("x", 27)},
		}},
		{"wrong path again", []piece{
			{read, "secret", "xxxxxx"},
			{read, "secret GET / HTTP/1.1\r\nHost: h\r\n\r\n", strings.Repeat("x", 34)},
			{read, "GET / HTTP/1.1\r\nSome: h\r\n\r\n", strings.Repeat("x", 27)},
			{read, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New()
			r.Event(&capture.Event{Kind: capture.KindOpen, PID: 1, Conn: 2})
			for _, p := range tt.pieces {
				got := string(r.Event(&capture.Event{Kind: p.kind, PID: 1, Conn: 2, Len: len(p.in), Data: []byte(p.in)}).Data)
				if !sameButFiller(got, p.want) {
					t.Fatalf("Event(%q) =\n%q; want\n%q", p.in, got, p.want)
				}
			}
		})
	}
}

// sameButFiller takes both kinds of filler for the same.
func sameButFiller(a, b string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && !(a[i]|0x20 == 'x' && b[i]|0x20 == 'x') {
			return false
		}
	}
	return len(a) == len(b)
}

// However the bytes of a whole exchange are split, the result is the same: everything
// in it that is known is known in one piece as in many.
func TestHTTPSplits(t *testing.T) {
	in := "POST /v1/completions HTTP/1.1\r\nHost: h:1\r\ncontent-type: application/json\r\nContent-Length: 26\r\n\r\n" +
		`{"model":"m","prompt":"a"}` + "GET /health HTTP/1.1\r\naccept: a\r\n\r\n"
	whole := pieces(t, read, in, nil)
	for cut := range len(in) {
		if got := pieces(t, read, in, []int{cut}); got != whole {
			t.Fatalf("cut at %d: %q; want %q", cut, got, whole)
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var cuts []int
		for at := 0; at < len(in); at += 1 + rnd.IntN(9) {
			cuts = append(cuts, at)
		}
		if got := pieces(t, read, in, cuts); got != whole {
			t.Fatalf("cuts %v: %q; want %q", cuts, got, whole)
		}
	}
}

func pieces(t *testing.T, kind capture.Kind, in string, cuts []int) string {
	t.Helper()
	r := New()
	r.Event(&capture.Event{Kind: capture.KindOpen})
	var out strings.Builder
	at := 0
	for i, cut := range append(cuts, len(in)) {
		e := &capture.Event{Kind: kind, Seq: uint64(i + 1), Len: cut - at, Data: []byte(in[at:cut])}
		out.Write(r.Event(e).Data)
		at = cut
	}
	return out.String()
}

func TestHTTPMissingBytes(t *testing.T) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
	const blanked = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
	const start = `{"model":"m","prompt":"`
	next := "GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
	nextWant := "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
	sse := "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
	tests := []struct {
		name    string
		kind    capture.Kind
		head    string
		missing int
		tail    string
		want    string
		then    string // what the next event's bytes become
		next    string
	}{
		{"in a body of known length", read, head + start, 70, `,"n":1}`, blanked + start + `,"n":1}`, nextWant, next},
		{"up to a body's last byte", read, head + start, 77, next, blanked + start + nextWant, nextWant, next},
		{"beyond a body", read, head + start, 78, next, blanked + start + strings.Repeat("x", len(next)), nextWant, next},
		{"in a head", read, head[:30], 5, next, head[:30] + strings.Repeat("x", len(next)), "xxxxxx", "secret"},
		{"in a chunk", write, sse + "64\r\ndata: {\"text\":\"sec", 52, "ret\"}\n\ndata: {\"text\":\"abcd\"}\n\n",
			sse + "64\r\ndata: {\"text\":\"xxx" + "xxxxx\n\ndata: {\"text\":\"xxxx\"}\n\n", "\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"},
		{"over chunks", write, sse + "64\r\ndata: {", 300, "cret\"}\n\n\r\n15\r\ndata: {\"text\":\"ab\"}\n\n\r\n15\r\ndata: {\"text\":\"ab\"}\n\n\r\n",
			sse + "64\r\ndata: {" + "xxxxxxxxxx" + "15\r\nxxxxxxxxxxxxxxxxxxx\n\n\r\n15\r\ndata: {\"text\":\"xx\"}\n\n\r\n", "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"},
		{"over chunks, to be found later", write, sse + "64\r\ndata: {", 300, "secret", sse + "64\r\ndata: {xxxxxx", "e\r\nxxxxxxxxxxxx\n\n\r\n0\r\n\r\n", "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"},
		{"beyond a chunk", write, sse + "64\r\ndata: ", 200, "secret", sse + "64\r\ndata: xxxxxx", "xxxxxxxxx", "\r\n0\r\nsecr"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New()
			r.Event(&capture.Event{Kind: capture.KindOpen})
			e := &capture.Event{Kind: tt.kind, Len: len(tt.head) + tt.missing + len(tt.tail), Data: []byte(tt.head + tt.tail), Tail: len(tt.tail)}
			if got := string(r.Event(e).Data); got != tt.want {
				t.Errorf("Event(%q…%q) =\n%q; want\n%q", tt.head, tt.tail, got, tt.want)
			}
			e = &capture.Event{Kind: tt.kind, Len: len(tt.next), Data: []byte(tt.next)}
			if got := string(r.Event(e).Data); got != tt.then {
				t.Errorf("Event(%q) afterwards = %q; want %q", tt.next, got, tt.then)
			}
		})
	}
}
