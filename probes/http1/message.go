package http1

// Whole heads: what a request or a response with them means for its connection.

// request takes a whole request head.
func (c *Conn) request(s *stream, t int64, p []byte) {
	h := RequestHead{First: s.first}
	if !parseRequest(p, &h) {
		// HTTP/2 without an upgrade begins with what looks like a request (RFC 9113, 3.4).
		if line, _ := cutLine(p); string(line) == "PRI * HTTP/2.0" {
			c.switched(t)
			return
		}
		c.desync(s, t, BadHead)
		return
	}
	f := parseFraming(h.fields)
	if f.bad || f.coded {
		c.desync(s, t, BadHead)
		return
	}

	if len(c.waiting) > 0 {
		switch {
		case c.endedIn == c.segment:
			c.pipelined = true
		case s.unsure || c.res.state == stSeekChunk:
			// A client that does not pipeline has the earlier responses; that they were
			// not seen whole means that they were lost.
			c.owed = c.res.state != stSeekChunk
			c.loseAll(t)
		default:
			c.suspect = true
		}
	}
	s.unsure = false
	if c.reading != 0 {
		c.h.Missed(t, c.reading, Request) // its last chunks were cut away
	}
	if c.orphan {
		// So with a response to something unseen (to a HEAD, it may have looked longer).
		c.orphan = false
		c.res.drop(c.budget)
		c.res.state = stSeek
	}
	if len(c.waiting) >= MaxPipelined {
		c.giveUp(t, Request, TooMany)
		return
	}
	c.last++
	c.reading = c.last
	c.waiting = append(c.waiting, pending{
		n: c.last, noBody: string(h.Method) == "HEAD", connect: string(h.Method) == "CONNECT"})
	c.h.RequestHead(t, c.last, &h)
	switch {
	case f.chunked:
		c.resume(s)
	case f.length > 0:
		s.state, s.left = stBody, f.length
	default:
		c.messageEnd(s, t)
	}
}

// response takes a whole response head.
func (c *Conn) response(s *stream, t int64, p []byte) {
	h := ResponseHead{First: s.first}
	if !parseResponse(p, &h) {
		c.desync(s, t, BadHead)
		return
	}
	s.state = stStart
	if h.Status < 200 {
		if h.Status == 101 {
			c.switched(t)
		} else if len(c.waiting) > 0 {
			c.h.Interim(t, c.waiting[0].n, h.Status)
		}
		return
	}

	var to pending
	if c.orphan = len(c.waiting) == 0; c.orphan {
		c.h.Orphan(t, &h)
	} else {
		c.waiting[0].answered = true
		to = c.waiting[0]
		c.h.ResponseHead(t, to.n, &h)
	}
	if to.connect && h.Status < 300 {
		c.switched(t)
		return
	}
	f := parseFraming(h.fields)
	switch {
	case to.noBody || h.Status == 204 || h.Status == 304 || f.length == 0:
		c.messageEnd(s, t)
	case f.bad:
		c.desync(s, t, BadHead)
	case f.chunked:
		c.resume(s)
	case f.length > 0:
		s.state, s.left = stBody, f.length
	default:
		s.state = stUntilClose
	}
}
