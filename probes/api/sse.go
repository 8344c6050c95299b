package api

import "bytes"

// sse splits a stream of server-sent events (WHATWG HTML, 9.2) and feeds the data of
// each to a responseBody as a document. Lines end in LF or CRLF; the lone CR that the
// standard also allows is used by no inference server and is left inside the line.
// Only data and event lines matter here.
type sse struct {
	in     part
	length int // bytes of the present line, without CR
	data   bool
	field  [len("event")]byte // the field's name so far
	name   [maxType]byte      // of the event: line
	nameN  int
}

// part is where in a line a stream stands.
type part uint8

const (
	inField part = iota // at the line's start, or in the field's name
	inData
	inName    // in the value of an event line
	inComment // in a line that does not matter
	inLost    // behind missing bytes: up to an empty line
	inLostNew // the same, but at a chunk's start: an event may begin here
)

var lineFeed = []byte{'\n'}

func (s *sse) reset() { *s = sse{} }

// cut says that bytes are missing here.
func (s *sse) cut(chunk bool) {
	*s = sse{in: inLost}
	if chunk {
		s.in = inLostNew
	}
}

// named reports whether the present event has this name.
func (s *sse) named(name string) bool { return string(s.name[:s.nameN]) == name }

func (s *sse) feed(b *responseBody, t int64, p []byte) {
	if s.in == inLostNew && len(p) > 0 {
		s.in = inLost
		if bytes.HasPrefix(p, []byte("data:")) || bytes.HasPrefix(p, []byte("event:")) {
			s.in = inField
		}
	}
	var event []byte // p from the present event's start on; nil where that is not in p
	for len(p) > 0 {
		if s.between() {
			if n := b.repeat.match(p); n > 0 {
				b.ex.Events++
				p = p[n:]
				continue
			}
			event = p
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.piece(b, p)
			return
		}
		s.piece(b, p[:i])
		p = p[i+1:]
		s.lineEnd(b, t, event[:max(0, len(event)-len(p))])
	}
}

// between reports whether nothing of an event was seen yet.
func (s *sse) between() bool { return s.in == inField && s.length == 0 && !s.data && s.nameN == 0 }

// lineEnd is the end of a line; of an empty one, it is the end of an event. event is the
// event so far; empty where it is not known from its start.
func (s *sse) lineEnd(b *responseBody, t int64, event []byte) {
	empty := s.length == 0
	switch {
	case s.in == inLost && !empty:
	case empty:
		if s.data {
			b.event(t, s.name[:s.nameN])
			if len(event) > 0 && b.plain() {
				b.repeat.learn(event, b.text)
			}
			b.document()
		}
		s.reset()
	case s.in == inData:
		b.json.feed(b, lineFeed) // several data lines make one value
		fallthrough
	default:
		s.in = inField
	}
	s.length = 0
}

// piece takes a part of one line.
func (s *sse) piece(b *responseBody, p []byte) {
	if s.in == inField {
		p = s.fieldName(p)
	}
	if len(p) == 0 {
		return
	}
	switch s.in {
	case inData:
		b.json.feed(b, p) // a CR at the end is white space to it
	case inName:
		for _, c := range p {
			if c == '\r' || (c == ' ' && s.nameN == 0) {
				continue
			}
			if s.nameN == len(s.name) {
				s.nameN, s.in = 0, inComment // too long to be one that matters
				break
			}
			s.name[s.nameN] = c
			s.nameN++
		}
	case inLost:
		s.count(p)
	}
}

// fieldName takes bytes up to the colon and returns the rest.
func (s *sse) fieldName(p []byte) (rest []byte) {
	if s.length == 0 && bytes.HasPrefix(p, []byte("data:")) {
		s.length, s.in, s.data = len("data:"), inData, true
		return p[len("data:"):]
	}
	for i, c := range p {
		if c == ':' {
			switch name := s.field[:min(s.length, len(s.field))]; {
			case s.length == len("data") && string(name) == "data":
				s.in, s.data = inData, true
			case s.length == len("event") && string(name) == "event":
				s.in, s.nameN = inName, 0
			default:
				s.in = inComment
			}
			s.length++
			return p[i+1:]
		}
		if s.length < len(s.field) {
			s.field[s.length] = c
		}
		s.count(p[i : i+1])
	}
	return nil
}

// count adds to the line's length, which matters only as far as the field's name.
func (s *sse) count(p []byte) {
	for _, c := range p {
		if c != '\r' && s.length <= len(s.field) {
			s.length++
		}
	}
}
