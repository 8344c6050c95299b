package http1

import (
	"strings"
	"testing"
)

// TestConnLoss: cuts, gaps and malformed bytes.
func TestConnLoss(t *testing.T) {
	chunks := "5\r\nfirst\r\n"
	tests := []struct {
		name  string
		steps []step
		want  string
	}{
		{"cut inside a body of known length", []step{
			{op: 'r', data: "POST /p HTTP/1.1\r\nContent-Length: 10\r\n\r\nab", missing: 5, tail: "xyz" + get}, w(ok), w(ok)}, `
1 request POST /p 1.1 [Content-Length=10]
1 request body "ab?????xyz"
1 request end
2 request GET /a 1.1 [Host=h]
2 request end
1 response 200 1.1
1 response body "ok"
1 ended completed
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"cut inside one chunk", []step{r(get), {op: 'w', data: sse + "10\r\nabcd", missing: 8, tail: "wxyz\r\n0\r\n\r\n"}}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "abcd????????wxyz"
1 ended completed`},
		{"cut over chunks, a whole one in the tail", []step{r(get), {op: 'w', data: sse + "10\r\nabcd", missing: 40, tail: "zz\r\n5\r\nlatin\r\n3\r\nend\r\n"}, w("0\r\n\r\n")}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "abcd<cut>latinend"
1 ended completed`},
		{"cut over chunks, none in the tail, one in the next segment", []step{r(get), {op: 'w', data: sse + "10\r\nabcd", missing: 40, tail: "zz\r\nno"}, w("rubbish"), w("5\r\nlatin\r\n"), w("0\r\n\r\n"), r(get)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "abcd<cut>latin"
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end`},
		{"cut over chunks, nothing found before the next request", []step{r(get), {op: 'w', data: sse + "10\r\nabcd", missing: 40, tail: "zz"}, r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 missed response
1 response body "abcd<cut>"
1 ended lost
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"cut in a head", []step{{op: 'r', data: "POST /p HTTP/1.1\r\nX: ", missing: 9, tail: "\r\nContent-Length: 1\r\n\r\nx"}, w(ok), r(get), w(ok)}, `
desync request cut_head
orphan 200
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
		{"gap of known length inside a body", []step{r("POST /p HTTP/1.1\r\nContent-Length: 10\r\n\r\nab"), {op: 'R', missing: 5}, r("xyz"), w(ok)}, `
1 request POST /p 1.1 [Content-Length=10]
1 missed request
1 request body "ab?????xyz"
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
		{"gap in a request's body", []step{r("POST /p HTTP/1.1\r\nContent-Length: 10\r\n\r\nab"), {op: 'R'}, r("xyz"), w(ok), r(get), w(ok)}, `
1 request POST /p 1.1 [Content-Length=10]
desync request gap
1 missed request
1 response 200 1.1
1 request body "ab"
1 response body "ok"
1 ended completed
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"request lost, its response is not the next one's", []step{r(get), w(ok), w("HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n"), {op: 'R'}, r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed
orphan 500
desync request gap
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"gap in a stream ends it", []step{r(get), w(sse + chunks), {op: 'W'}, w(chunks + "0\r\n\r\n"), r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response gap
1 missed response
1 response body "first"
1 ended lost
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"response lost, next request seen before the gap is known", []step{r(get), r(get), {op: 'W'}, w(ok), r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
2 request GET /a 1.1 [Host=h]
2 request end
desync response gap
1 missed response
1 ended lost
2 missed response
2 ended lost
orphan 200
3 request GET /a 1.1 [Host=h]
3 request end
3 response 200 1.1
3 response body "ok"
3 ended completed`},
		{"response and next request lost at once", []step{r(get), w(sse + chunks), {op: 'W'}, w("6\r\nsecond\r\n"), w("0\r\n\r\n"), {op: 'R'}, r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response gap
1 missed response
1 response body "first"
1 ended lost
desync request gap
2 request GET /a 1.1 [Host=h]
2 request end
2 response 200 1.1
2 response body "ok"
2 ended completed`},
		{"gap on a connection that pipelines", []step{r(get + get), {op: 'R'}, r(get), w(ok), w(ok), w(ok), r(get)}, `
1 request GET /a 1.1 [Host=h]
1 request end
2 request GET /a 1.1 [Host=h]
2 request end
1 missed response
1 ended lost
2 missed response
2 ended lost
desync request gap_pipelined`},
		{"requests lost among pipelined ones not known as such", []step{r(get), {op: 'R'}, r(get), w(ok), w(ok), r(get), w(ok)}, `
1 request GET /a 1.1 [Host=h]
1 request end
desync request gap
1 missed response
1 ended lost
2 request GET /a 1.1 [Host=h]
2 request end
2 missed response
2 ended lost
desync response gap_pipelined`},
		{"seen from the middle", []step{w("cd\r\n"), r("lo\"}"), w("d8\r\nrest"), r(get), w(ok)}, `
desync response bad_start
desync request bad_start
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
		{"unanswerable: unseen HEAD leaves the decoder in a body", []step{w("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), r(get), w(ok)}, `
orphan 200
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
1 response body "ok"
1 ended completed`},
		{"contradictory lengths", []step{r("POST /p HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), r(get)}, `
desync request bad_head
1 request GET /a 1.1 [Host=h]
1 request end`},
		{"no size before a chunk", []step{r(get), w(sse + "\r\n"), r(get)}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response bad_chunk
1 missed response
1 ended lost
2 request GET /a 1.1 [Host=h]
2 request end`},
		{"chunk longer than its size", []step{r(get), w(sse + "1\r\nabc")}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response bad_chunk
1 missed response
1 response body "a"
1 ended lost`},
		{"size beyond any transfer", []step{r(get), w(sse + "ffffffffffffffffff\r\n")}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response bad_chunk
1 missed response
1 ended lost`},
		{"endless head", []step{r("GET /a HTTP/1.1\r\nX: " + strings.Repeat("x", MaxHead)), r(get)}, `
desync request too_long
1 request GET /a 1.1 [Host=h]
1 request end`},
		{"endless chunk extension", []step{r(get), w(sse + "1;" + strings.Repeat("x", MaxChunkLine))}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response too_long
1 missed response
1 ended lost`},
		{"endless trailer", []step{r(get), w(sse + "0\r\n" + strings.Repeat("x: y\r\n", MaxTrailer/6+1))}, `
1 request GET /a 1.1 [Host=h]
1 request end
1 response 200 1.1
desync response too_long
1 missed response
1 ended lost`},
		{"TLS bytes", []step{r("\x16\x03\x01\x02\x00\x01"), w("\x16\x03\x03"), {op: 's'}}, `
desync request bad_start
desync response bad_start`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, want := run(tt.steps), strings.TrimSpace(tt.want)
			if got.String() != want || got.bad != nil {
				t.Errorf("calls =\n%s\n%v\nwant\n%s", got, got.bad, want)
			}
		})
	}
}

func TestConnTooManyPipelined(t *testing.T) {
	l := run([]step{r(strings.Repeat(get, MaxPipelined+1)), w(ok)})
	if len(l.live) != 0 || l.bad != nil || !strings.Contains(l.String(), string(TooMany)) {
		t.Errorf("%d exchanges are left, %v; want none and a Desync\n%s", len(l.live), l.bad, l)
	}
}

// TestConnBudget: memory for split heads comes out of one budget and goes back to it.
func TestConnBudget(t *testing.T) {
	b := &Budget{Free: 100}
	var c, d Conn
	lc, ld := newLog(), newLog()
	c.Init(lc, b)
	d.Init(ld, b)
	c.Read(1, []byte("GET /"+strings.Repeat("a", 80)), 0, 0)
	d.Read(2, []byte("GET /"+strings.Repeat("b", 80)), 0, 0)
	if got, want := ld.String(), "desync request too_long"; got != want {
		t.Errorf("second head beyond the budget: %q; want %q", got, want)
	}
	c.Abandon(3)
	d.Abandon(4)
	if b.Free != 100 {
		t.Errorf("budget after all = %d; want 100", b.Free)
	}
}

func TestConnAllocs(t *testing.T) {
	var c Conn
	c.Init(quiet{}, &Budget{Free: MaxHead})
	c.Read(1, []byte(get), 0, 0)
	c.Write(2, []byte(sse), 0, 0)
	chunk := []byte("a\r\n0123456789\r\n")
	if n := testing.AllocsPerRun(1000, func() { c.Write(3, chunk, 0, 0) }); n != 0 {
		t.Errorf("allocations per body segment = %v; want 0", n)
	}
}

// quiet is a Handler that does nothing.
type quiet struct{}

func (quiet) RequestHead(int64, uint64, *RequestHead)   {}
func (quiet) RequestBody(int64, uint64, []byte, int)    {}
func (quiet) RequestEnd(int64, uint64)                  {}
func (quiet) Interim(int64, uint64, int)                {}
func (quiet) ResponseHead(int64, uint64, *ResponseHead) {}
func (quiet) ResponseBody(int64, uint64, []byte, int)   {}
func (quiet) Missed(int64, uint64, Direction)           {}
func (quiet) Ended(int64, uint64, Outcome)              {}
func (quiet) Orphan(int64, *ResponseHead)               {}
func (quiet) Switched(int64)                            {}
func (quiet) Desync(int64, Direction, Reason)           {}
