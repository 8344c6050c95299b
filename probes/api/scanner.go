package api

// A JSON reader for documents that come in pieces and may break off anywhere.

import (
	"bytes"
	"encoding/json"
)

// node names a place in a JSON document that a visitor knows. ignored is any other.
type node uint8

const (
	ignored node = iota
	root         // the document's own object
	firstNode
)

// kind is a scalar's kind.
type kind uint8

const (
	kindString kind = iota
	kindOther       // a number, true, false or null: a bare word
)

// visitor is told of the nodes that it names. Tokens are valid only during the call.
type visitor interface {
	// child names the value of a key in an object; key is without its quotes.
	child(parent node, key []byte) node
	// element names the elements of an array.
	element(array node) node
	// enter says whether to look inside an object or array.
	enter(n node, array bool) bool
	// leave is the end of an object or array that was entered, with its elements' number.
	leave(n node, elements int)
	// scalar is any other value.
	scalar(n node, k kind, v token)
}

// token is a scalar as it stands in the document.
type token struct {
	raw     []byte // without quotes; at most maxToken bytes of it
	escaped bool   // raw has escapes
	long    bool   // there was more than raw
}

// text returns a string's value, or nil where it is too long to be known.
func (v token) text() []byte {
	switch {
	case v.long:
		return nil
	case !v.escaped:
		return v.raw
	}
	quoted := append(append([]byte{'"'}, v.raw...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

const (
	// maxToken bounds a key or scalar that is looked at. Model names and ids are the
	// longest; servers see paths as model names.
	maxToken = 512
	// maxLevels bounds the nesting of places that a visitor enters: the deepest known
	// one is choices[].delta.content. What is ignored may nest without bound.
	maxLevels = 8
)

// place is what a scanner expects next.
type place uint8

const (
	atValue place = iota
	atFirst       // an array's first value, or its end
	atKey         // a key, or the object's end
	atColon
	atNext // a comma, or the end of what is open
	inString
	inWord // a number, true, false, null
	inSkip // an object or array that is ignored
	inSkipString
	atEnd // the document is over, or it is none
)

// scanner reads one JSON document that comes in pieces, and tells a visitor of the
// places that it knows. It keeps at most one token. It is lenient: it checks only the
// structure that it needs, and a document that breaks it is over there; what was seen
// before stands.
type scanner struct {
	at     place
	depth  int
	levels [maxLevels]level
	cur    node // of the value that comes or is being read
	key    bool // the string being read is a key
	nested int  // inside what is skipped
	slash  bool // the last byte was an unescaped backslash
	tok    token
	keep   [maxToken]byte // tok.raw, when it came in pieces
	kept   int
	object bool // the document is an object
	whole  bool // the document came to its own end
}

type level struct {
	node     node
	array    bool
	elements int
}

func (s *scanner) reset() {
	s.at, s.depth, s.cur, s.key, s.nested, s.slash, s.kept, s.object = atValue, 0, root, false, 0, false, 0, false
	s.whole = false
	s.tok = token{}
}

// stop ends the document: what comes next is unknown.
func (s *scanner) stop() { s.at = atEnd }

// feed takes the next piece.
func (s *scanner) feed(v visitor, p []byte) {
	for i := 0; i < len(p); {
		switch s.at {
		case inString:
			i += s.str(v, p[i:])
			continue
		case inWord:
			i += s.word(v, p[i:])
			continue
		case inSkip, inSkipString:
			i += s.skip(p[i:])
			continue
		case atEnd:
			return
		}
		b := p[i]
		i++
		if b == ' ' || b == '\n' || b == '\r' || b == '\t' {
			continue
		}
		switch s.at {
		case atFirst, atValue:
			if b == ']' && s.at == atFirst {
				s.levels[s.depth-1].elements = 0
				s.pop(v, true)
				continue
			}
			switch b {
			case '"':
				s.begin(inString, false)
			case '{', '[':
				s.push(v, b == '[')
			case ',', ':', ']', '}':
				s.stop()
			default:
				if s.depth == 0 {
					s.stop() // none of our documents is a bare word
					return
				}
				s.begin(inWord, false)
				i--
			}
		case atKey:
			switch b {
			case '"':
				s.begin(inString, true)
			case '}':
				s.pop(v, false)
			default:
				s.stop()
			}
		case atColon:
			if b != ':' {
				s.stop()
				return
			}
			s.at = atValue
		case atNext:
			l := &s.levels[s.depth-1]
			switch {
			case b == ',' && l.array:
				l.elements++
				s.cur, s.at = v.element(l.node), atValue
			case b == ',':
				s.at = atKey
			case b == ']' && l.array, b == '}' && !l.array:
				s.pop(v, l.array)
			default:
				s.stop()
			}
		}
	}
}

func (s *scanner) begin(at place, key bool) {
	s.at, s.key, s.slash, s.kept, s.tok = at, key, false, 0, token{}
}

// push opens an object or array.
func (s *scanner) push(v visitor, array bool) {
	if s.depth == 0 {
		s.object = !array
	}
	if s.cur == ignored || s.depth == maxLevels || !v.enter(s.cur, array) {
		s.at, s.nested = inSkip, 1
		return
	}
	s.levels[s.depth] = level{node: s.cur, array: array, elements: 1}
	s.depth++
	if s.at = atKey; array {
		s.at, s.cur = atFirst, v.element(s.cur)
	}
}

// pop closes what is open.
func (s *scanner) pop(v visitor, array bool) {
	s.depth--
	l := s.levels[s.depth]
	if !array {
		l.elements = 0
	}
	v.leave(l.node, l.elements)
	s.after()
}

// after is the end of a value.
func (s *scanner) after() {
	if s.at = atNext; s.depth == 0 {
		s.at, s.whole = atEnd, true
	}
}

// take keeps a piece of the token, or all of it (last) without a copy where it came in
// one piece.
func (s *scanner) take(p []byte, last bool) {
	if last && s.kept == 0 {
		s.tok.raw = p
		if len(p) > maxToken {
			s.tok.raw, s.tok.long = p[:maxToken], true
		}
		return
	}
	n := copy(s.keep[s.kept:], p)
	s.kept += n
	s.tok.long = s.tok.long || n < len(p)
	s.tok.raw = s.keep[:s.kept]
}

// str takes bytes of a string and returns how many.
func (s *scanner) str(v visitor, p []byte) int {
	n, closed := stringEnd(p, &s.slash, &s.tok.escaped)
	wanted := s.key || s.cur != ignored // nothing else is kept
	switch {
	case !closed:
		if wanted {
			s.take(p, false)
		}
		return n
	case wanted:
		s.take(p[:n-1], true)
	}
	if !s.key {
		if wanted {
			v.scalar(s.cur, kindString, s.tok)
		}
		s.after()
		return n
	}
	s.cur, s.at = ignored, atColon
	if key := s.tok.text(); key != nil {
		s.cur = v.child(s.levels[s.depth-1].node, key)
	}
	return n
}

// stringEnd returns how many bytes of p belong to a string, its closing quote
// included, and whether that quote was there. slash carries over whether a backslash
// came last, escaped is set where there was one.
func stringEnd(p []byte, slash, escaped *bool) (n int, closed bool) {
	if *slash && len(p) > 0 {
		n, *slash = 1, false
	}
	for n < len(p) {
		q := bytes.IndexByte(p[n:], '"')
		stretch := p[n:]
		if q >= 0 {
			stretch = p[n : n+q]
		}
		b := bytes.IndexByte(stretch, '\\')
		if b < 0 {
			if q < 0 {
				return len(p), false
			}
			return n + q + 1, true
		}
		*escaped = true
		if n += b + 2; n > len(p) {
			*slash = true
			return len(p), false
		}
	}
	return n, false
}

// word takes bytes of a bare word and returns how many.
func (s *scanner) word(v visitor, p []byte) int {
	for i, b := range p {
		switch b {
		case ',', ']', '}', ' ', '\n', '\r', '\t', '"', ':', '{', '[':
			s.take(p[:i], true)
			if s.cur != ignored {
				v.scalar(s.cur, kindOther, s.tok)
			}
			s.after()
			return i
		}
	}
	s.take(p, false)
	return len(p)
}

// skip takes bytes of an ignored object or array and returns how many.
func (s *scanner) skip(p []byte) int {
	for i := 0; i < len(p); {
		if s.at == inSkipString {
			var escaped bool
			n, closed := stringEnd(p[i:], &s.slash, &escaped)
			if i += n; !closed {
				return i
			}
			s.at = inSkip
			continue
		}
		b := p[i]
		i++
		switch b {
		case '"':
			s.at, s.slash = inSkipString, false
		case '{', '[':
			s.nested++
		case '}', ']':
			if s.nested--; s.nested == 0 {
				s.after()
				return i
			}
		}
	}
	return len(p)
}
