package api

import "bytes"

// repeat recognises an event that differs from an earlier one in nothing but its text,
// as most events of a stream do, without reading it as JSON.
//
// It is exact, whatever the server's way to write JSON. A scanner that gets the same
// bytes is in the same state at the text's opening quote; a text has no effect but that
// there is output; and from the closing quote on the bytes are the same again. So an
// event whose like said nothing new says nothing new.
type repeat struct {
	// event is the earlier one, from its first line's start to the end of the empty line
	// behind it, without its text, which stood at index text. Empty: none is known.
	event []byte
	text  int
}

const (
	// maxRepeat bounds an event that is remembered: a usual one of a chat has 200 bytes.
	maxRepeat = 1 << 10
	// maxText bounds a text that is looked through here; the scanner is quicker with
	// long ones.
	maxText = 256
)

// reset forgets the event; other strings in it may be of an answer.
func (r *repeat) reset() {
	clear(r.event)
	r.event, r.text = r.event[:0], 0
}

// learn remembers an event. text is the text in it, as the scanner gave it.
func (r *repeat) learn(event, text []byte) {
	r.reset()
	// Slices of one array end where it ends, so that their capacities tell the distance;
	// unless the text came in pieces, and is another array's.
	from := cap(event) - cap(text)
	if len(text) == 0 || from <= 0 || from >= len(event) || &event[from] != &text[0] {
		return
	}
	n := textLen(event[from:])
	if n < 0 || len(event)-n > maxRepeat {
		return
	}
	r.event, r.text = append(append(r.event, event[:from]...), event[from+n:]...), from
}

// match returns the length of the event that p begins with, if it is like the one that
// was learned; else 0.
func (r *repeat) match(p []byte) int {
	if r.text == 0 || !bytes.HasPrefix(p, r.event[:r.text]) {
		return 0
	}
	n := textLen(p[r.text:])
	if n < 0 || !bytes.HasPrefix(p[r.text+n:], r.event[r.text:]) {
		return 0
	}
	return len(r.event) + n
}

// textLen returns the length of the string that p goes on with, its closing quote not
// included; −1 if it is not closed in p, too long, or broken by the end of a line.
func textLen(p []byte) int {
	p = p[:min(len(p), maxText)]
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '"':
			return i
		case '\\':
			if i++; i < len(p) && p[i] == '\n' {
				return -1
			}
		case '\n':
			return -1
		}
	}
	return -1
}
