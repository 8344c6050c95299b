package redact

import "strings"

// Inside of JSON keys, strings, numbers and literals.

// Limits of what may stay.
const (
	// maxKeptString is the longest name or id that stays: model names and client-made
	// request ids are shorter, a text that poses as one is not.
	maxKeptString = 256
	// maxKeptNumber is the longest number that stays; the longest float64 that Python
	// and Go print has 24 bytes.
	maxKeptNumber = 32
)

// Kinds of bytes in a number, for what may follow.
const (
	numSign = iota
	numInt
	numDot
	numFrac
	numE
	numESign
	numExp
)

// jsonToken is the state inside a string, number or literal.
type jsonToken struct {
	list    words // a key's or a word's possibilities
	m       matcher
	rule    stringRule
	keep    bool // so far it may stay
	ident   bool // errorString: identifier so far
	esc     int  // bytes of an escape sequence still to come; −1 after the backslash
	n       int  // bytes so far
	num     uint8
	literal string
}

func (j *jsonRedactor) key(b byte) bool {
	keys := j.stack[len(j.stack)-1].node.keys
	j.token = jsonToken{list: keys, m: keys.matcher(), keep: true}
	j.state = jsonInKey
	return b == '"'
}

func (j *jsonRedactor) inKey(p []byte, start, i int) {
	t := &j.token
	if t.esc == 0 && p[i] == '"' {
		object := j.stack[len(j.stack)-1].node
		j.node = blank
		if k := t.m.index(t.list); t.keep && k >= 0 {
			j.node = object.kids[k]
		} else if t.keep {
			fill(p[start:i], 'X')
		}
		j.state = jsonColon
		return
	}
	// A key with an escape sequence is none of ours.
	escaped, ok := t.escape(p[i])
	if !ok || p[i] < ' ' {
		j.fault(p, start, i)
		return
	}
	if t.keep && (escaped || !t.m.step(t.list, p[i])) {
		t.keep = false
		fill(p[start:i], 'X')
	}
	if !t.keep {
		p[i] = 'X'
	}
}

// escape follows escape sequences: whether b is part of one, and whether it may be.
func (t *jsonToken) escape(b byte) (escaped, ok bool) {
	switch {
	case t.esc == -1:
		t.esc = 0
		if b == 'u' {
			t.esc = 4
		}
		return true, strings.IndexByte(`"\/bfnrtu`, b) >= 0
	case t.esc > 0:
		t.esc--
		return true, b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
	case b == '\\':
		t.esc = -1
		return true, true
	}
	return false, true
}

// fault gives up in the middle of a token: what is left of it in this piece goes too.
func (j *jsonRedactor) fault(p []byte, start, i int) {
	fill(p[start:i+1], 'X')
	j.state = jsonLost
}

func (j *jsonRedactor) beginString() {
	j.state = jsonInString
	rule := j.node.str
	if n := len(j.stack); n > 0 && j.stack[n-1].array {
		rule = blankString // a list of names is none of the places where names stay
	}
	t := jsonToken{rule: rule, keep: rule != blankString, ident: true}
	switch rule {
	case apiString:
		t.list = apiWords
	case finishString:
		t.list = finishWords
	case topString:
		t.list = topWords
	case errorString:
		t.list = errorPhrases
	}
	t.m = t.list.matcher()
	j.token = t
}

func (j *jsonRedactor) inString(p []byte, start, i int) {
	t := &j.token
	b := p[i]
	if t.esc == 0 && b == '"' {
		if t.keep && !t.whole() {
			fill(p[start:i], 'X')
		}
		j.ended()
		return
	}
	inside := t.esc != 0
	escaped, ok := t.escape(b)
	if !ok || b < ' ' {
		j.fault(p, start, i)
		return
	}
	t.n++
	switch t.rule {
	case blankString:
		p[i] = 'x'
	case nameString:
		// Escape sequences stay, and stay whole: PHP's clients escape '/', Python's
		// everything beyond ASCII.
		if t.n > maxKeptString && !inside {
			t.keep = false
		}
		if !t.keep {
			p[i] = 'x'
		}
	case idString:
		if escaped || t.n > maxKeptString || !isIDByte(b) {
			p[i] = 'x'
		}
	default:
		if t.keep && !t.wordByte(b, escaped) {
			t.keep = false
			fill(p[start:i], 'X')
		}
		if !t.keep {
			p[i] = 'X'
		}
	}
}

// wordByte takes a byte of a string that must be one of a list.
func (t *jsonToken) wordByte(b byte, escaped bool) bool {
	if escaped {
		return false
	}
	inList := t.m.step(t.list, b)
	if t.rule != errorString {
		return inList
	}
	t.ident = t.ident && t.n <= maxErrorType && isIdentByte(b)
	return inList || t.ident
}

// maxErrorType bounds error types that are identifiers: names of exception classes.
const maxErrorType = 64

// whole reports whether a string that ended was really on the list.
func (t *jsonToken) whole() bool {
	switch t.rule {
	case apiString, finishString, topString:
		return t.m.index(t.list) >= 0
	case errorString:
		return t.ident || t.m.index(t.list) >= 0
	}
	return true
}

func (j *jsonRedactor) inLiteral(p []byte, i int) {
	t := &j.token
	if p[i] != t.literal[t.n] {
		p[i] = 'x'
		j.state = jsonLost
		return
	}
	if !t.keep {
		p[i] = "null "[t.n]
	}
	if t.n++; t.n == len(t.literal) {
		j.ended()
	}
}

// inNumber takes a byte of a number; false says that the number has ended before it.
func (j *jsonRedactor) inNumber(p []byte, i int) bool {
	t := &j.token
	b := p[i]
	switch {
	case b >= '0' && b <= '9':
		switch t.num {
		case numSign:
			t.num = numInt
		case numDot:
			t.num = numFrac
		case numE, numESign:
			t.num = numExp
		}
		if !t.keep || t.n >= maxKeptNumber {
			p[i] = '1'
			if t.num == numExp {
				p[i] = '0'
			}
		}
	case b == '-' && t.n == 0:
	case (b == '-' || b == '+') && t.num == numE:
		t.num = numESign
	case b == '.' && t.num == numInt:
		t.num = numDot
	case (b == 'e' || b == 'E') && (t.num == numInt || t.num == numFrac):
		t.num = numE
	default:
		j.ended()
		return false
	}
	t.n++
	return true
}

// isIDByte says which bytes identifiers are made of.
func isIDByte(b byte) bool {
	return isIdentByte(b) || b == ':' || b == '/' || b == '@' || b == '+' || b == '=' || b == '~' || b == '#'
}

// isIdentByte says which bytes names of classes and versions are made of.
func isIdentByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
		b == '_' || b == '-' || b == '.'
}
