package http1

// One direction of a connection: heads, bodies, chunks, and what was not captured.

import "bytes"

// state is where in a message a stream stands.
type state uint8

const (
	stStart      state = iota // before a message's first byte
	stHead                    // in a head
	stBody                    // in a body of known length: left bytes to come
	stChunkSize               // in a chunk's size
	stChunkExt                // behind the size, before its line's end
	stChunkData               // in a chunk: left bytes to come
	stChunkEnd                // at the line end behind a chunk
	stTrailer                 // in the trailers: line bytes of the current one seen
	stUntilClose              // in a body that lasts until the connection is closed
	stSeek                    // lost: waits for a segment that begins with a message
	stSeekChunk               // lost in a chunked body: waits for a chunk, or as stSeek
)

// stream is one direction.
type stream struct {
	dir   Direction
	state state
	// buf holds a head that came in pieces, scanned up to index scan.
	buf  []byte
	scan int
	// first is the time of the head's first byte.
	first int64
	left  int64
	// line counts the bytes of the chunk's size line or of the trailer's line, digits
	// those of the size; all counts those of all trailers.
	line, digits, all int
	// unsure says that whole requests may have been missed since the last one seen.
	unsure bool
}

// keepHead is how much of a head's buffer stays for the next one: usual heads.
const keepHead = 4 << 10

// drop empties the head's buffer.
func (s *stream) drop(b *Budget) {
	if b != nil {
		b.Free += len(s.buf)
	}
	if cap(s.buf) > keepHead {
		s.buf = nil
	}
	s.buf, s.scan = s.buf[:0], 0
}

// holds reports whether the next n bytes lie inside the present body or chunk.
func (s *stream) holds(n int64) bool {
	switch s.state {
	case stBody, stChunkData:
		return n <= s.left
	case stUntilClose:
		return true
	}
	return false
}

// take feeds one segment.
func (c *Conn) take(s *stream, t int64, data []byte, missing, tail int) {
	if c.dead {
		return
	}
	if missing <= 0 {
		missing, tail = 0, 0
	}
	tail = max(0, min(tail, len(data)))
	head, end := data[:len(data)-tail], data[len(data)-tail:]
	if (s.state == stSeek || s.state == stSeekChunk) && !c.recognise(s, t, head) {
		return
	}
	c.feed(s, t, head)
	if missing == 0 || c.dead {
		return
	}
	c.skip(s, t, missing)
	if s.state == stSeekChunk {
		i := findChunk(end)
		if i < 0 {
			return
		}
		end = end[i:]
		c.resume(s)
	}
	if s.state != stSeek {
		c.feed(s, t, end)
	}
}

// recognise reports whether a segment of a lost stream begins with something known,
// and sets the state for it. A whole start line is asked for, so that text which
// happens to begin like one is not taken for it.
func (c *Conn) recognise(s *stream, t int64, p []byte) bool {
	if s.state == stSeekChunk && chunkChain(p) {
		c.resume(s)
		return true
	}
	if len(p) == 0 || !plausible(s.dir, p[:min(len(p), maxMethod+1)]) || bytes.IndexByte(p, '\n') < 0 {
		return false
	}
	line, _ := cutLine(p)
	if s.dir == Request {
		if !parseRequest(line, &RequestHead{}) {
			return false
		}
	} else {
		if !parseResponse(line, &ResponseHead{}) {
			return false
		}
		if s.state == stSeekChunk {
			c.loseAll(t) // whose chunks were waited for
		}
	}
	s.state = stStart
	return true
}

// resume goes on at a chunk's size line.
func (c *Conn) resume(s *stream) {
	s.state, s.left, s.line, s.digits = stChunkSize, 0, 0, 0
}

// feed takes bytes that follow each other.
func (c *Conn) feed(s *stream, t int64, p []byte) {
	for len(p) > 0 && !c.dead {
		switch s.state {
		case stStart:
			if p[0] == '\r' || p[0] == '\n' {
				p = p[1:] // empty lines before a message (RFC 9112, 2.2)
				continue
			}
			s.first, s.state = t, stHead
		case stHead:
			p = c.head(s, t, p)
		case stBody:
			n := min(int64(len(p)), s.left)
			s.left -= n
			c.body(s, t, p[:n], 0)
			p = p[n:]
			if s.left == 0 {
				c.messageEnd(s, t)
			}
		case stUntilClose:
			c.body(s, t, p, 0)
			return
		case stSeek, stSeekChunk:
			return
		default:
			p = c.chunked(s, t, p)
		}
	}
}

// head takes bytes of a head, and what is behind it gives back.
func (c *Conn) head(s *stream, t int64, p []byte) (rest []byte) {
	if len(s.buf) == 0 && plausible(s.dir, p) {
		if end := headEnd(p, 0); end >= 0 && end <= MaxHead {
			c.message(s, t, p[:end])
			return p[end:]
		}
	}
	before := len(s.buf)
	n := min(len(p), MaxHead-before)
	if c.budget != nil {
		if c.budget.Free < n {
			c.desync(s, t, TooLong)
			return nil
		}
		c.budget.Free -= n
	}
	s.buf = append(s.buf, p[:n]...)
	if !plausible(s.dir, s.buf[:min(len(s.buf), maxMethod+1)]) {
		c.desync(s, t, BadStart)
		return nil
	}
	end := headEnd(s.buf, s.scan)
	switch {
	case end >= 0:
		// message may drop s.buf, but nothing writes into it before it returns.
		c.message(s, t, s.buf[:end])
		s.drop(c.budget)
		return p[end-before:]
	case len(s.buf) >= MaxHead:
		c.desync(s, t, TooLong)
		return nil
	}
	s.scan = max(0, len(s.buf)-len("\n\r\n")+1)
	return p[n:]
}

// message takes a whole head.
func (c *Conn) message(s *stream, t int64, p []byte) {
	p = unfold(p)
	if s.dir == Request {
		c.request(s, t, p)
	} else {
		c.response(s, t, p)
	}
}

// body passes on body bytes of the current exchange, if there is one.
func (c *Conn) body(s *stream, t int64, p []byte, missing int) {
	n := c.current(s)
	switch {
	case n == 0:
	case s.dir == Request:
		c.h.RequestBody(t, n, p, missing)
	default:
		c.h.ResponseBody(t, n, p, missing)
	}
}

// messageEnd is the last byte of a request or response.
func (c *Conn) messageEnd(s *stream, t int64) {
	s.state = stStart
	if s.dir == Request {
		c.endedIn = c.segment
		if n := c.reading; n != 0 {
			c.reading = 0
			c.h.RequestEnd(t, n)
		}
		return
	}
	if c.current(s) != 0 {
		c.end(t, Completed)
	}
	c.orphan = false
}

// chunked takes bytes of a chunked body.
func (c *Conn) chunked(s *stream, t int64, p []byte) (rest []byte) {
	switch s.state {
	case stChunkSize:
		if s.digits == 0 {
			// Taken at once it leaves the stream as the steps below do: before the next size.
			if data, rest, ok := bareChunk(p); ok {
				c.body(s, t, data, 0)
				return rest
			}
		}
		for i, b := range p {
			v, ok := unhex(b)
			if !ok {
				if s.digits == 0 {
					c.desync(s, t, BadChunk)
					return nil
				}
				s.state = stChunkExt
				return p[i:]
			}
			if s.digits++; s.digits > maxDigits {
				c.desync(s, t, BadChunk)
				return nil
			}
			s.left = s.left<<4 | int64(v)
		}
		return nil

	case stChunkExt:
		// Behind the size: blanks, or ";" and extensions.
		if s.line == 0 && p[0] != ';' && p[0] != ' ' && p[0] != '\t' && p[0] != '\r' && p[0] != '\n' {
			c.desync(s, t, BadChunk)
			return nil
		}
		lf := bytes.IndexByte(p, '\n')
		n := lf + 1
		if lf < 0 {
			n = len(p)
		}
		if s.line += n; s.line > MaxChunkLine {
			c.desync(s, t, TooLong)
			return nil
		}
		if lf >= 0 {
			s.state, s.line, s.all = stChunkData, 0, 0
			if s.left == 0 {
				s.state = stTrailer
			}
		}
		return p[n:]

	case stChunkData:
		n := min(int64(len(p)), s.left)
		s.left -= n
		if s.left == 0 {
			s.state = stChunkEnd
		}
		c.body(s, t, p[:n], 0)
		return p[n:]

	case stChunkEnd:
		switch {
		case p[0] == '\n':
			c.resume(s)
		case p[0] == '\r' && s.line == 0:
			s.line++
		default:
			c.desync(s, t, BadChunk)
			return nil
		}
		return p[1:]
	}

	// stTrailer: lines up to an empty one. A lone CR does not make a line less empty.
	for i, b := range p {
		if s.all++; s.all > MaxTrailer {
			c.desync(s, t, TooLong)
			return nil
		}
		switch b {
		case '\n':
			if s.line == 0 {
				c.messageEnd(s, t)
				return p[i+1:]
			}
			s.line = 0
		case '\r':
		default:
			s.line++
		}
	}
	return nil
}

// skip passes over n bytes that were not captured.
func (c *Conn) skip(s *stream, t int64, n int) {
	switch s.state {
	case stBody, stChunkData:
		k := min(int64(n), s.left)
		s.left -= k
		beyond := k < int64(n)
		switch {
		case s.state == stBody:
			if k > 0 {
				c.body(s, t, nil, int(k))
			}
			if s.left == 0 {
				c.messageEnd(s, t)
			}
			if beyond {
				c.desync(s, t, CutHead)
			}
		case beyond:
			c.body(s, t, nil, -1)
			s.state = stSeekChunk
		default:
			c.body(s, t, nil, int(k))
			if s.left == 0 {
				s.state, s.line = stChunkEnd, 0
			}
		}
	case stChunkSize, stChunkExt, stChunkEnd:
		c.body(s, t, nil, -1)
		s.state = stSeekChunk
	case stUntilClose:
		c.body(s, t, nil, n)
	case stStart, stHead:
		c.desync(s, t, CutHead)
	case stTrailer:
		c.desync(s, t, CutBody)
	}
}
