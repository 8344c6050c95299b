package redact

// HTTP framing of one direction, followed to know where content begins and ends.

import "bytes"

type bodyKind uint8

const (
	bodyJSON bodyKind = iota
	bodySSE
	bodyOpaque
)

type httpState uint8

const (
	httpLost httpState = iota // up to an event that begins with a whole head
	httpDead                  // for good: another protocol is spoken here
	httpHead
	httpLength // in a body of known length
	httpClose  // in a body that ends with the connection
	httpChunkSize
	httpChunkExt
	httpChunkSizeEnd // behind the size line's CR
	httpChunkData
	httpChunkDataEnd // the line end behind a chunk
	httpTrailer
	httpChunkLost // in a chunked body, up to an event that consists of whole chunks
)

// maxPipelined is how many requests may wait for their answers: as many as pending
// has bits.
const maxPipelined = 64

// connection is one HTTP connection of the server.
type connection struct {
	read, write httpSide
	// pending has a bit for each request whose answer has not ended, the oldest lowest:
	// set for HEAD, whose answer has no body.
	pending uint64
	waiting int
}

func newConnection() *connection {
	c := &connection{}
	c.write.head.response = true
	return c
}

// fresh says that both directions begin here.
func (c *connection) fresh() {
	c.read.restart()
	c.write.restart()
}

// lose makes both directions unknown.
func (c *connection) lose() {
	c.read.lose()
	c.write.lose()
	c.pending, c.waiting = 0, 0
}

func (c *connection) asked(isHead bool) {
	if c.waiting == maxPipelined {
		c.lose()
		return
	}
	if isHead {
		c.pending |= 1 << c.waiting
	}
	c.waiting++
}

// answering reports whether the oldest request was a HEAD.
func (c *connection) answering() bool { return c.pending&1 == 1 }

func (c *connection) answered() {
	if c.waiting > 0 {
		c.pending >>= 1
		c.waiting--
	}
}

// upgraded gives the connection up for good.
func (c *connection) upgraded() {
	c.read.state, c.write.state = httpDead, httpDead
}

// httpSide is one direction of a connection.
type httpSide struct {
	state  httpState
	last   uint64 // Seq of the last event
	head   headRedactor
	kind   bodyKind
	json   jsonRedactor
	sse    sseRedactor
	left   int64 // bytes of the body or chunk still to come
	digits int
}

func (s *httpSide) restart() {
	s.state = httpHead
	s.head.reset()
}

// lose makes everything unknown up to an event that begins with a whole head.
func (s *httpSide) lose() {
	if s.state != httpDead {
		s.state = httpLost
	}
}

// event overwrites the bytes of one event: head, then missing bytes that were not
// captured, then tail.
func (s *httpSide) event(c *connection, head []byte, missing int64, tail []byte) {
	if (s.state == httpLost || s.state == httpChunkLost) && wholeHead(head, s.head.response) {
		s.restart()
		if s.head.response {
			c.pending, c.waiting = 0, 0 // nobody knows which request this answers
		}
	}
	if s.state == httpChunkLost && wholeChunks(head) {
		s.chunked()
	}
	s.redact(c, head)
	if missing > 0 {
		s.skip(c, missing)
		if s.state == httpChunkLost {
			at := chunksIn(tail)
			fill(tail[:at], 'x')
			if tail = tail[at:]; len(tail) > 0 {
				s.chunked()
			}
		}
	}
	s.redact(c, tail)
}

// skip goes on behind n bytes that nobody saw: only a body's length can tell where
// that is. Beyond a chunk the body itself goes on, and chunks can be recognised.
func (s *httpSide) skip(c *connection, n int64) {
	switch s.state {
	case httpLength, httpChunkData, httpClose, httpChunkSize, httpChunkExt, httpChunkSizeEnd, httpChunkDataEnd, httpChunkLost:
		s.json.lose()
		if s.kind == bodySSE {
			s.sse.lose()
		}
	default:
		s.lose()
		return
	}
	switch {
	case s.state == httpClose:
	case (s.state == httpLength || s.state == httpChunkData) && n <= s.left:
		s.advance(c, n)
	case s.state == httpLength:
		s.lose()
	default:
		s.state = httpChunkLost
	}
}

// advance goes n bytes on in a body or chunk.
func (s *httpSide) advance(c *connection, n int64) {
	if s.left -= n; s.left > 0 {
		return
	}
	if s.state == httpChunkData {
		s.state = httpChunkDataEnd
		return
	}
	s.ended(c)
}

// ended is called at the end of each message.
func (s *httpSide) ended(c *connection) {
	if s.head.response && s.head.status >= 200 {
		c.answered()
	}
	s.restart()
}

// redact overwrites p, the next bytes.
func (s *httpSide) redact(c *connection, p []byte) {
	for i := 0; i < len(p); {
		b := p[i]
		switch s.state {
		case httpLost, httpDead, httpChunkLost:
			fill(p[i:], 'x')
			return
		case httpHead, httpTrailer:
			next, complete, ok := s.head.redact(p, i)
			i = next
			switch {
			case !ok:
				s.lose()
			case complete && s.state == httpTrailer:
				s.ended(c)
			case complete:
				s.begin(c)
			}
		case httpLength, httpChunkData:
			n := int(min(s.left, int64(len(p)-i)))
			if s.state == httpLength && s.kind == bodyJSON && s.json.behind && int64(n) == s.left {
				s.json.end(p[i : i+n])
			} else {
				s.text(p[i : i+n])
			}
			s.advance(c, int64(n))
			i += n
		case httpClose:
			s.text(p[i:])
			return
		default:
			if !s.chunkByte(p, i, b) {
				s.lose()
				continue
			}
			i++
		}
	}
}

// text overwrites bytes of a body.
func (s *httpSide) text(p []byte) {
	switch s.kind {
	case bodyJSON:
		s.json.redact(p)
	case bodySSE:
		s.sse.redact(p)
	default:
		fill(p, 'x')
	}
}

// begin goes on behind a head.
func (s *httpSide) begin(c *connection) {
	h := &s.head
	root := requestRoot
	s.kind = h.kind
	if h.coded {
		s.kind = bodyOpaque
	}
	none := false
	if h.response {
		root = responseRoot
		none = h.status < 200 || h.status == 204 || h.status == 304 || c.answering()
		if h.status == 101 {
			c.upgraded()
			return
		}
	} else {
		if h.connect {
			c.upgraded()
			return
		}
		c.asked(h.isHead)
	}
	switch {
	case h.bad:
		s.lose()
		return
	case none:
		s.ended(c)
		return
	case h.chunked:
		s.chunked()
	case h.length > 0:
		s.state, s.left = httpLength, h.length
	case h.response && h.length < 0:
		s.state = httpClose
	default:
		s.ended(c)
		return
	}
	if s.kind == bodySSE {
		s.sse.reset(&s.json, root)
	} else {
		s.json.done = false
		s.json.reset(root)
	}
}

// wholeHead reports whether p begins with a complete and well-formed message head,
// so that it is certain that a message begins here.
func wholeHead(p []byte, response bool) bool {
	h := headRedactor{response: response}
	h.reset()
	p = p[:min(len(p), maxHeadBytes)]
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 || p[0] == '\r' || p[0] == '\n' {
		return false
	}
	scratch := bytes.Clone(p[:end+4])
	_, complete, ok := h.redact(scratch, 0)
	if !complete || !ok || h.bad {
		return false
	}
	lower := bytes.ToLower(p[:end+2])
	if response {
		return h.chunked || h.length >= 0 || bytes.Contains(lower, []byte("\r\ncontent-type:"))
	}
	return bytes.Contains(lower, []byte("\r\nhost:"))
}
