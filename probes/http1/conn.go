package http1

// Direction names the two streams of a connection.
type Direction uint8

const (
	// Request bytes are what the server reads.
	Request Direction = iota
	// Response bytes are what it writes.
	Response
)

// String gives "request" or "response".
func (d Direction) String() string {
	if d == Request {
		return "request"
	}
	return "response"
}

// Outcome says how an exchange ended.
type Outcome uint8

const (
	// Completed: the response came to its regular end.
	Completed Outcome = iota + 1
	// PeerLeft: the other side closed before the response was complete.
	PeerLeft
	// ServerLeft: the server closed before the response was complete.
	ServerLeft
	// Lost: its end lies in bytes that were not seen or not understood.
	Lost
	// Switched: the server changed to another protocol.
	Switched
	// Unfinished: watching ended before the exchange did (Conn.Abandon).
	Unfinished
)

// Reason says why a stream could not be followed any further.
type Reason string

// Reasons of Handler.Desync.
const (
	// BadStart: the bytes at a message's start are none. So begins a connection that
	// is no HTTP/1, or that was open before capture began.
	BadStart Reason = "bad_start"
	// BadHead: a start line or Content-Length that cannot be understood.
	BadHead Reason = "bad_head"
	// BadChunk: a chunk's size line or end is malformed.
	BadChunk Reason = "bad_chunk"
	// TooLong: a head, trailer or chunk extension beyond its limit, or no room left
	// in the Budget for a head that came in pieces.
	TooLong Reason = "too_long"
	// CutHead: a head was not captured whole.
	CutHead Reason = "cut_head"
	// CutBody: a cut reaches beyond its body or chunk.
	CutBody Reason = "cut_body"
	// Gap: segments were lost.
	Gap Reason = "gap"
	// GapPipelined: segments were lost on a connection that pipelines; it is given up.
	GapPipelined Reason = "gap_pipelined"
	// TooMany: more than MaxPipelined requests wait for a response; it is given up.
	TooMany Reason = "too_many_pipelined"
)

// Limits. What is beyond them makes a Desync.
const (
	// MaxHead bounds a head. Servers allow less: h11 64 KiB, nginx 32 KiB, hyper
	// about 400 KiB but proxies before it no more than the others.
	MaxHead = 64 << 10
	// MaxTrailer bounds the trailers of one body, which are not kept.
	MaxTrailer = 64 << 10
	// MaxChunkLine bounds a chunk's size line with its extensions, which are not kept.
	MaxChunkLine = 4 << 10
	// MaxPipelined bounds the requests of one connection that wait for a response.
	MaxPipelined = 64
)

// Handler takes what a Conn found. n numbers the exchanges of one connection from 1;
// calls for one n begin with RequestHead and end with Ended, each exactly once. The
// calls of a request and of its response may interleave, and those of pipelined
// requests come before earlier responses. Byte slices are valid only during the call.
type Handler interface {
	// RequestHead is a request's head; t is the time of its last byte.
	RequestHead(t int64, n uint64, h *RequestHead)
	// RequestBody is a piece of the body: data, or bytes that were not captured: their
	// number, or −1 where that is not known.
	RequestBody(t int64, n uint64, data []byte, missing int)
	// RequestEnd is the request's last byte.
	RequestEnd(t int64, n uint64)
	// Interim is a 1xx response other than 101.
	Interim(t int64, n uint64, status int)
	ResponseHead(t int64, n uint64, h *ResponseHead)
	// ResponseBody is like RequestBody.
	ResponseBody(t int64, n uint64, data []byte, missing int)
	// Missed says that bytes of the exchange were lost in one direction, or could not
	// be followed.
	Missed(t int64, n uint64, dir Direction)
	// Ended is the last call for n. For Completed, t is the response's last byte; for
	// PeerLeft, the moment the peer closed.
	Ended(t int64, n uint64, how Outcome)

	// Orphan is the head of a response to a request that was not seen.
	Orphan(t int64, h *ResponseHead)
	// Switched says that the connection speaks another protocol now (HTTP/2,
	// websocket); it is left alone from here on.
	Switched(t int64)
	// Desync says that a direction is not understood up to the next recognisable start.
	Desync(t int64, dir Direction, why Reason)
}

// Budget bounds the memory for split heads over many connections. It is not safe for
// concurrent use; the connections that share one belong to one goroutine.
type Budget struct{ Free int }

// Conn decodes one connection. Its methods are called in the order in which things
// happened, by one goroutine. Init makes it ready; it may be used again after.
type Conn struct {
	h      Handler
	budget *Budget
	req    stream
	res    stream

	// waiting are the requests whose response has not ended, oldest first.
	waiting []pending
	last    uint64 // number of the newest exchange
	reading uint64 // exchange whose request is being read; 0 where that has ended

	segment   uint64 // number of the current read segment
	endedIn   uint64 // read segment with the newest request's last byte
	pipelined bool   // the client was seen to send a request before the last was answered
	suspect   bool   // so it seems, unless the next write turns out to lie behind a gap
	owed      bool   // a response that is due was taken for lost: a gap must follow in the writes
	orphan    bool   // the response being written answers a request that was not seen
	dead      bool   // nothing more can be told of this connection

	peerClosed   bool
	peerClosedAt int64
}

// pending is a request whose response has not ended.
type pending struct {
	n        uint64
	noBody   bool // HEAD: the response has no body
	connect  bool
	answered bool // the final response's head was seen
}

// Init makes c ready for a new connection. Memory of an earlier use is kept.
func (c *Conn) Init(h Handler, budget *Budget) {
	c.release()
	*c = Conn{h: h, budget: budget, waiting: c.waiting[:0],
		req: stream{dir: Request, buf: c.req.buf[:0]}, res: stream{dir: Response, buf: c.res.buf[:0]}}
}

// Read takes a segment that the server read: its captured bytes, of which the last
// tail come behind the missing ones.
func (c *Conn) Read(t int64, data []byte, missing, tail int) {
	c.segment++
	c.take(&c.req, t, data, missing, tail)
}

// Write takes a segment that the server wrote, like Read.
func (c *Conn) Write(t int64, data []byte, missing, tail int) {
	if c.dead {
		return
	}
	if c.suspect && len(c.waiting) > 0 {
		c.pipelined = true
	}
	c.suspect = false
	if c.owed {
		// No gap: the client did not wait for that response, and this may be it.
		c.giveUp(t, Response, GapPipelined)
	}
	c.take(&c.res, t, data, missing, tail)
}

// ReadGap says that n bytes (0 or less: an unknown number) that the server read were
// lost before the next Read.
func (c *Conn) ReadGap(t int64, n int) { c.gap(&c.req, t, n) }

// WriteGap is like ReadGap for written bytes.
func (c *Conn) WriteGap(t int64, n int) { c.gap(&c.res, t, n) }

// Waiting reports whether an exchange has not ended.
func (c *Conn) Waiting() bool { return len(c.waiting) > 0 }

// PeerClose says that the other side closed, or closed its sending direction: the
// server may still write. Exchanges end only when that is decided: by the response's
// end, ServerClose, or Abandon.
func (c *Conn) PeerClose(t int64) {
	if !c.peerClosed {
		c.peerClosed, c.peerClosedAt = true, t
	}
}

// ServerClose says that the server closed: every exchange ends.
func (c *Conn) ServerClose(t int64) {
	if len(c.waiting) > 0 && c.waiting[0].answered && !c.peerClosed && c.res.state == stUntilClose {
		c.end(t, Completed)
	}
	c.endAll(t, ServerLeft)
	c.stop()
}

// Abandon ends every exchange, because watching ends.
func (c *Conn) Abandon(t int64) {
	c.endAll(t, Unfinished)
	c.stop()
}

// stop makes the rest of the connection be ignored.
func (c *Conn) stop() {
	c.dead = true
	c.release()
}

func (c *Conn) release() {
	c.req.drop(c.budget)
	c.res.drop(c.budget)
}

// end ends the oldest exchange.
func (c *Conn) end(t int64, how Outcome) {
	n := c.waiting[0].n
	copy(c.waiting, c.waiting[1:])
	c.waiting = c.waiting[:len(c.waiting)-1]
	if c.reading == n {
		c.reading = 0 // what is left of its request is parsed, but nobody's
	}
	c.h.Ended(t, n, how)
}

// endAll ends every exchange. One that was cut short after its peer had closed is the
// peer's doing, whoever closed last. One whose last chunks lie behind a cut may have
// been complete: that is not known.
func (c *Conn) endAll(t int64, how Outcome) {
	if len(c.waiting) > 0 && c.res.state == stSeekChunk {
		c.h.Missed(t, c.waiting[0].n, Response)
		c.end(t, Lost)
	}
	if c.peerClosed && (how == ServerLeft || how == Unfinished) {
		t, how = c.peerClosedAt, PeerLeft
	}
	for len(c.waiting) > 0 {
		c.end(t, how)
	}
}

// loseAll ends every exchange as Lost. What is left of a response is not looked at.
func (c *Conn) loseAll(t int64) {
	if len(c.waiting) > 0 && c.res.state != stStart {
		c.res.drop(c.budget)
		c.res.state = stSeek
	}
	for len(c.waiting) > 0 {
		c.h.Missed(t, c.waiting[0].n, Response)
		c.end(t, Lost)
	}
}

// giveUp ends everything, because requests and responses cannot be paired any more.
func (c *Conn) giveUp(t int64, dir Direction, why Reason) {
	c.loseAll(t)
	c.h.Desync(t, dir, why)
	c.stop()
}

func (c *Conn) switched(t int64) {
	for len(c.waiting) > 0 {
		c.end(t, Switched)
	}
	c.h.Switched(t)
	c.stop()
}

// desync makes a direction wait for the next recognisable start.
func (c *Conn) desync(s *stream, t int64, why Reason) {
	s.drop(c.budget)
	s.state = stSeek
	c.h.Desync(t, s.dir, why)
	if s.dir == Response {
		c.loseAll(t)
		c.orphan = false
		return
	}
	s.unsure = true
	if c.reading != 0 {
		c.h.Missed(t, c.reading, Request)
		c.reading = 0
	}
}

func (c *Conn) gap(s *stream, t int64, n int) {
	if c.dead {
		return
	}
	if n > 0 && s.holds(int64(n)) {
		if x := c.current(s); x != 0 {
			c.h.Missed(t, x, s.dir)
		}
		c.skip(s, t, n)
		return
	}
	if s.dir == Response {
		c.suspect, c.owed = false, false // the earlier response may lie in the gap
	} else if len(c.waiting) > 0 && c.reading == 0 {
		// More was read while a whole request waited for its response.
		c.suspect = true
	}
	if c.pipelined {
		c.giveUp(t, s.dir, GapPipelined)
		return
	}
	c.desync(s, t, Gap)
}

// current is the exchange that a direction is busy with, 0 if none.
func (c *Conn) current(s *stream) uint64 {
	switch {
	case s.dir == Request:
		return c.reading
	case c.orphan || len(c.waiting) == 0 || !c.waiting[0].answered:
		return 0
	}
	return c.waiting[0].n
}
