package api

// One connection: http1's calls become Exchanges, in the order of its requests.

import (
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/http1"
)

// key names a connection.
type key struct {
	pid  uint32
	conn uint64
}

// conn is one connection: an http1.Handler that makes exchanges.
type conn struct {
	http http1.Conn
	s    *Server
	key
	port uint16
	tls  bool

	// read and written are the newest sequence numbers; 0 before the first.
	read, written uint64
	// counted: the backend numbers this connection's events.
	counted bool
	// last is the time of the newest segment.
	last int64
	// missed is set while a gap is told, so that missing bytes count as lost.
	missed bool
	// left is when the peer closed while a response was due; quiet since then.
	left, quiet int64

	live []*exchange // in order; mostly one
	used link        // place in Server.used
	half link        // place in Server.half, while left is set
}

func (c *conn) find(n uint64) *exchange {
	for _, x := range c.live {
		if x.n == n {
			return x
		}
	}
	return nil // not a call of the API
}

// RequestHead implements http1.Handler, as the methods below do.
func (c *conn) RequestHead(_ int64, n uint64, h *http1.RequestHead) {
	path := pathOf(h.Target)
	e, ok := lookup(path)
	if !ok || string(h.Method) != "POST" {
		c.s.stats.Other++
		return
	}
	if c.s.live >= maxLive {
		c.s.stats.Refused++
		return
	}
	c.s.stats.Exchanges++
	x := c.s.exchange()
	ex := &request.Exchange{
		PID: c.pid, Conn: c.conn, Port: c.port, TLS: c.tls, FirstByte: h.First,
		Method: "POST", Path: string(path), Route: e.route, Endpoint: e.kind, Proto: proto(h.Minor),
	}
	x.begin(n, ex)
	x.requestHeaders(h)
	c.live = append(c.live, x)
	c.s.sink.ExchangeBegan(ex)
}

func proto(minor int) string {
	if minor == 0 {
		return "1.0"
	}
	return "1.1"
}

func (c *conn) RequestBody(_ int64, n uint64, data []byte, missing int) {
	x := c.find(n)
	switch {
	case x == nil:
	case missing != 0:
		x.req.cut()
	default:
		x.req.feed(data)
	}
}

func (c *conn) RequestEnd(t int64, n uint64) {
	x := c.find(n)
	if x == nil {
		return
	}
	x.ex.ReadEnd = t
	x.req.end()
	if !x.late { // the sink's order: an answer may come before the request's end
		c.s.sink.ExchangeRead(x.ex)
	}
}

func (c *conn) Interim(int64, uint64, int) {}

func (c *conn) ResponseHead(_ int64, n uint64, h *http1.ResponseHead) {
	if x := c.find(n); x != nil {
		x.ex.Status, x.ex.FirstResponseByte = h.Status, h.First
		x.responseHeaders(h)
	}
}

func (c *conn) ResponseBody(t int64, n uint64, data []byte, missing int) {
	x := c.find(n)
	switch {
	case x == nil:
		return
	case missing != 0:
		x.res.cut(t, missing, c.missed)
	default:
		x.res.feed(t, data)
	}
	c.name(x)
}

// name tells the sink of the response's id, once.
func (c *conn) name(x *exchange) {
	if !x.late && x.ex.ResponseID != "" {
		x.late = true
		c.s.sink.ExchangeNamed(x.ex)
	}
}

func (c *conn) Missed(_ int64, n uint64, dir http1.Direction) {
	x := c.find(n)
	switch {
	case x == nil:
	case dir == http1.Response:
		x.ex.ResponseGap = true
	default:
		x.ex.RequestGap, x.ex.BodyMissing = true, true
	}
}

func (c *conn) Ended(t int64, n uint64, how http1.Outcome) {
	x := c.find(n)
	if x == nil {
		return
	}
	ex := x.ex
	// A close after events were lost somewhere: the response's end may be among them.
	doubt := c.s.lostAt != 0 && c.s.lostAt >= c.last
	switch {
	case how == http1.Completed:
		ex.End, ex.Complete = t, true
		x.res.end()
		c.name(x)
	case how == http1.PeerLeft && !doubt:
		ex.End, ex.Disconnected = t, true
	case how == http1.ServerLeft && !doubt:
		ex.End, ex.ServerClosed = t, true
	case how == http1.PeerLeft, how == http1.ServerLeft:
		ex.ResponseGap = true
	}
	if ex.ReadEnd == 0 {
		// It was answered early, or its last bytes were lost: the next read would tell.
		ex.BodyMissing = true
	}
	for i := range c.live {
		if c.live[i] == x {
			c.live = append(c.live[:i], c.live[i+1:]...)
			break
		}
	}
	c.s.sink.ExchangeEnded(ex)
	c.s.recycle(x)
}

func (c *conn) Orphan(int64, *http1.ResponseHead) { c.s.stats.Orphans++ }

func (c *conn) Switched(int64) { c.s.stats.Switched++ }

func (c *conn) Desync(_ int64, _ http1.Direction, why http1.Reason) {
	c.s.stats.Desyncs[why]++
}
