package http1

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// log is a Handler that writes down what it is told, bodies joined so that the same
// bytes give the same log however they were split.
type log struct {
	out  []string
	body map[string][]byte // by direction and exchange
	live map[uint64]bool
	bad  []string // broken promises
}

func newLog() *log { return &log{body: map[string][]byte{}, live: map[uint64]bool{}} }

func (l *log) add(format string, a ...any) { l.out = append(l.out, fmt.Sprintf(format, a...)) }

func (l *log) alive(n uint64, call string) {
	if !l.live[n] {
		l.bad = append(l.bad, fmt.Sprintf("%s(%d) outside of the exchange's life", call, n))
	}
}

func (l *log) RequestHead(t int64, n uint64, h *RequestHead) {
	if n == 0 || l.live[n] {
		l.bad = append(l.bad, fmt.Sprintf("RequestHead(%d) twice", n))
	}
	l.live[n] = true
	var f []string
	for k, v := range h.Fields() {
		f = append(f, fmt.Sprintf("%s=%s", k, v))
	}
	l.add("%d request %s %s 1.%d [%s]", n, h.Method, h.Target, h.Minor, strings.Join(f, "|"))
}

func (l *log) piece(key string, data []byte, missing int) {
	if missing > 0 {
		data = bytes.Repeat([]byte{'?'}, missing)
	} else if missing < 0 {
		data = []byte("<cut>")
	}
	l.body[key] = append(l.body[key], data...)
}

// flush writes down what a body came to.
func (l *log) flush(n uint64, dir string) {
	key := fmt.Sprintf("%d %s", n, dir)
	if b, ok := l.body[key]; ok {
		l.add("%s body %q", key, b)
		delete(l.body, key)
	}
}

func (l *log) RequestBody(_ int64, n uint64, data []byte, missing int) {
	l.alive(n, "RequestBody")
	l.piece(fmt.Sprintf("%d request", n), data, missing)
}

func (l *log) RequestEnd(_ int64, n uint64) {
	l.alive(n, "RequestEnd")
	l.flush(n, "request")
	l.add("%d request end", n)
}

func (l *log) Interim(_ int64, n uint64, status int) {
	l.alive(n, "Interim")
	l.add("%d interim %d", n, status)
}

func (l *log) ResponseHead(_ int64, n uint64, h *ResponseHead) {
	l.alive(n, "ResponseHead")
	l.add("%d response %d 1.%d", n, h.Status, h.Minor)
}

func (l *log) ResponseBody(_ int64, n uint64, data []byte, missing int) {
	l.alive(n, "ResponseBody")
	l.piece(fmt.Sprintf("%d response", n), data, missing)
}

func (l *log) Missed(_ int64, n uint64, dir Direction) {
	l.alive(n, "Missed")
	l.add("%d missed %v", n, dir)
}

func (l *log) Ended(t int64, n uint64, how Outcome) {
	l.alive(n, "Ended")
	delete(l.live, n)
	l.flush(n, "request")
	l.flush(n, "response")
	l.add("%d ended %s", n, [...]string{"", "completed", "peer left", "server left", "lost", "switched", "unfinished"}[how])
}

func (l *log) Orphan(_ int64, h *ResponseHead)           { l.add("orphan %d", h.Status) }
func (l *log) Switched(int64)                            { l.add("switched") }
func (l *log) Desync(_ int64, dir Direction, why Reason) { l.add("desync %v %s", dir, why) }
func (l *log) String() string                            { return strings.Join(l.out, "\n") }

// step is one thing that happens to a connection.
type step struct {
	op      byte // r, w: a segment; R, W: a gap of missing bytes; p, s: a close; a: abandoned
	data    string
	missing int
	tail    string
}

func r(s string) step { return step{op: 'r', data: s} }
func w(s string) step { return step{op: 'w', data: s} }

func run(steps []step) *log {
	l := newLog()
	var c Conn
	c.Init(l, nil)
	for i, s := range steps {
		t := int64(i + 1)
		switch s.op {
		case 'r':
			c.Read(t, []byte(s.data+s.tail), s.missing, len(s.tail))
		case 'w':
			c.Write(t, []byte(s.data+s.tail), s.missing, len(s.tail))
		case 'R':
			c.ReadGap(t, s.missing)
		case 'W':
			c.WriteGap(t, s.missing)
		case 'p':
			c.PeerClose(t)
		case 's':
			c.ServerClose(t)
		case 'a':
			c.Abandon(t)
		}
	}
	return l
}

const (
	get  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	post = "POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
	ok   = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	sse  = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// whole are connections of which every byte was seen: they hold however they are split.
var whole = []struct {
	name  string
	steps []step
	want  string
}{
	{"get and post on one connection", []step{r(get), w(ok), r(post), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed
2 request POST /p 1.1 [Content-Length=5]
2 request body "hello"
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
	{"chunked with extensions, trailers and both cases of hex", []step{r(get), w(sse + "a\r\n0123456789\r\nB;x=\"y\"\r\n0123456789a\r\n00\r\nTrailer: v\r\nT2: w\r\n\r\n"), r(get)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "01234567890123456789a"
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end`},
	{"chunked request", []step{r("POST /p HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"), w(ok)}, `
1 request POST /p 1.1 [Transfer-Encoding=gzip, Chunked]
1 request body "abc"
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
	{"chunked wins over Content-Length", []step{r(get), w("HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"), r(get)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "x"
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end`},
	{"bare LF everywhere", []step{r("POST /p HTTP/1.1\nTransfer-Encoding: chunked\n\n2\nab\n0\n\n"), w("HTTP/1.1 200\nContent-Length: 1\n\nx")}, `
1 request POST /p 1.1 [Transfer-Encoding=chunked]
1 request body "ab"
1 request end
1 response 200 1.1
1 response body "x"
1 ended completed`},
	{"folded header and empty lines before the request", []step{r("\r\n\nPOST /p HTTP/1.1\r\nX: a\r\n  b\r\nContent-Length:\r\n 1\r\n\r\nz"), w(ok)}, `
1 request POST /p 1.1 [X=a    b|Content-Length=1]
1 request body "z"
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
	{"HEAD, 204 and 304 have no body", []step{
		r("HEAD / HTTP/1.1\r\n\r\n"), w("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
		r(get), w("HTTP/1.1 204 No Content\r\n\r\n"), r(get), w("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n")}, `
1 request HEAD / 1.1 []
1 request end
1 response 200 1.1
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end
2 response 204 1.1
2 ended completed
3 request GET /a 1.1 [Host=h]
3 request end
3 response 304 1.1
3 ended completed`},
	{"interim responses", []step{r("POST /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"), w("HTTP/1.1 100 Continue\r\n\r\n"), r("x"), w("HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + ok)}, `
1 request POST /p 1.1 [Expect=100-continue|Content-Length=1]
1 interim 100
1 request body "x"
1 request end
1 interim 103
1 response 200 1.1
1 response body "ok"
1 ended completed`},
	{"HTTP/1.0 until close", []step{r("GET / HTTP/1.0\r\n\r\n"), w("HTTP/1.0 200 OK\r\n\r\nabc"), {op: 's'}}, `
1 request GET / 1.0 []
1 request end
1 response 200 1.0
1 response body "abc"
1 ended completed`},
	{"until close but the client leaves", []step{r("GET / HTTP/1.0\r\n\r\n"), w("HTTP/1.0 200 OK\r\n\r\nabc"), {op: 'p'}, {op: 's'}}, `
1 request GET / 1.0 []
1 request end
1 response 200 1.0
1 response body "abc"
1 ended peer left`},
	{"client leaves in a stream", []step{r(get), w(sse + "2\r\nab\r\n"), {op: 'p'}, {op: 's'}}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ab"
1 ended peer left`},
	{"half-closed client still gets its answer", []step{r(get), {op: 'p'}, w(ok), {op: 's'}}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
	{"server leaves", []step{r(get), w(sse + "2\r\nab\r\n"), {op: 's'}}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ab"
1 ended server left`},
	{"answer before the request's end", []step{r("POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\nhe"), w(ok), r("llo" + get), w(ok)}, `
1 request POST /p 1.1 [Content-Length=5]
1 response 200 1.1
1 request body "he"
1 response body "ok"
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
	{"pipelined", []step{r(get + post + get), w(ok + ok), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
2 request POST /p 1.1 [Content-Length=5]
2 request body "hello"
2 request end
3 request GET /a 1.1 [Host=h]
3 request end
1 response 200 1.1
1 response body "ok"
1 ended completed
2 response 200 1.1
2 response body "ok"
2 ended completed
3 response 200 1.1
3 response body "ok"
3 ended completed`},
	{"websocket", []step{r("GET /v1/realtime HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), w("HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello"), r("\x81\x00")}, `
1 request GET /v1/realtime 1.1 [Upgrade=websocket]
1 request end
1 ended switched
switched`},
	{"HTTP/2 with prior knowledge", []step{r("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), r(get)}, `
switched`},
	{"equal lengths are one", []step{r("POST /p HTTP/1.1\r\nContent-Length: 1, 1\r\nContent-Length: 1\r\n\r\nx")}, `
1 request POST /p 1.1 [Content-Length=1, 1|Content-Length=1]
1 request body "x"
1 request end`},
	{"response without a request", []step{w("HTTP/1.1 408 Timeout\r\nContent-Length: 1\r\n\r\nx"), r(get), w(ok)}, `
orphan 408
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
}

// split cuts each segment into pieces of the sizes that size gives.
func split(steps []step, size func() int) []step {
	var out []step
	for _, s := range steps {
		for s.missing == 0 && (s.op == 'r' || s.op == 'w') && len(s.data) > 0 {
			n := min(size(), len(s.data))
			out = append(out, step{op: s.op, data: s.data[:n]})
			s.data = s.data[n:]
		}
		if s.data != "" || (s.op != 'r' && s.op != 'w') {
			out = append(out, s)
		}
	}
	return out
}

func TestConnWhole(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, tt := range whole {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.TrimSpace(tt.want)
			check := func(how string, steps []step) {
				t.Helper()
				got := run(steps)
				if got.String() != want || got.bad != nil {
					t.Fatalf("%s: calls =\n%s\n%v\nwant\n%s", how, got, got.bad, want)
				}
			}
			check("whole", tt.steps)
			check("byte by byte", split(tt.steps, func() int { return 1 }))
			for i := range 50 {
				check(fmt.Sprint("random split ", i), split(tt.steps, func() int { return 1 + rnd.IntN(20) }))
			}
			for cut := 1; cut < 120; cut++ { // every prefix of each segment, then the rest
				first := true
				check(fmt.Sprint("split at ", cut), split(tt.steps, func() int {
					if first = !first; first {
						return 1 << 20
					}
					return cut
				}))
			}
		})
	}
}

// TestConnPrefix ends every connection after each of its bytes: each exchange that
// began must end, once.
func TestConnPrefix(t *testing.T) {
	for _, tt := range whole {
		steps := split(tt.steps, func() int { return 1 })
		for n := range steps {
			l := run(append(steps[:n:n], step{op: 'a'}))
			if len(l.live) != 0 || l.bad != nil {
				t.Fatalf("%s, first %d bytes: %d exchanges never ended, %v\n%s", tt.name, n, len(l.live), l.bad, l)
			}
		}
	}
}

// FuzzConn feeds any bytes in any split. Before the first Desync the split must not
// matter, and calls must keep the Handler's promises throughout.
func FuzzConn(f *testing.F) {
	for _, tt := range whole {
		var in, out string
		for _, s := range tt.steps {
			switch s.op {
			case 'r':
				in += s.data
			case 'w':
				out += s.data
			}
		}
		f.Add([]byte(in), []byte(out), uint64(1), false)
		f.Add([]byte(in), []byte(out), uint64(7), true)
	}
	f.Fuzz(func(t *testing.T, in, out []byte, seed uint64, lossy bool) {
		steps := []step{r(string(in)), w(string(out)), {op: 's'}}
		whole := run(steps)
		rnd := rand.New(rand.NewPCG(seed, 1))
		pieces := split(steps, func() int { return 1 + rnd.IntN(40) })
		if lossy {
			for i := range pieces {
				if p := &pieces[i]; p.op != 's' && rnd.IntN(4) == 0 {
					switch rnd.IntN(3) {
					case 0:
						p.op, p.missing = p.op&^0x20, rnd.IntN(50)
					case 1:
						n := rnd.IntN(len(p.data) + 1)
						p.data, p.tail, p.missing = p.data[:n], p.data[n:], 1+rnd.IntN(100)
					case 2:
						p.op = 'p'
					}
				}
			}
		}
		parts := run(pieces)
		for _, l := range []*log{whole, parts} {
			if l.bad != nil || len(l.live) != 0 {
				t.Fatalf("broken promises: %v, %d never ended\n%s", l.bad, len(l.live), l)
			}
		}
		// Behind a response to nothing, or bytes that are no HTTP, segments matter.
		if lossy || strings.Contains(whole.String(), "desync") || strings.Contains(whole.String(), "orphan") {
			return
		}
		if whole.String() != parts.String() {
			t.Fatalf("whole:\n%s\nin pieces:\n%s", whole, parts)
		}
	})
}
