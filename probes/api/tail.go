package api

// The last members of a JSON document whose middle was not captured.

// maxTail is how much of a body's end is kept once a part of it is missing: as much
// as a capture's tail, by default.
const maxTail = 4 << 10

// tail keeps the last bytes of a JSON body behind its last missing ones.
type tail struct {
	on  bool
	buf []byte
}

// reset forgets what is kept; it came from a body that may hold a prompt.
func (k *tail) reset() {
	clear(k.buf)
	k.on, k.buf = false, k.buf[:0]
}

// cut says that bytes are missing here.
func (k *tail) cut() {
	k.on, k.buf = true, k.buf[:0]
}

func (k *tail) feed(p []byte) {
	if !k.on {
		return
	}
	if len(p) >= maxTail {
		k.buf = append(k.buf[:0], p[len(p)-maxTail:]...)
		return
	}
	if over := len(k.buf) + len(p) - maxTail; over > 0 {
		k.buf = k.buf[:copy(k.buf, k.buf[over:])]
	}
	k.buf = append(k.buf, p...)
}

// members returns the bytes behind the first comma of the document's own object
// that is known to be one: from there on a scanner can go on as if behind "{". p is the
// end of a whole document. nil where there is no such comma.
//
// Going backwards from the end, one is outside of a string, and a quote is a
// delimiter unless an odd number of backslashes stands before it (backslashes occur
// only inside strings), so strings, brackets and commas can be told apart.
func members(p []byte) []byte {
	i := len(p) - 1
	for i >= 0 && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t') {
		i--
	}
	if i < 0 || p[i] != '}' {
		return nil
	}
	comma, depth, inside := -1, 1, false
	for i--; i >= 0; i-- {
		b := p[i]
		if b == '"' {
			j := i
			for j > 0 && p[j-1] == '\\' {
				j--
			}
			if j == 0 && j < i {
				break // the backslashes begin before p: nobody knows how many there are
			}
			if (i-j)%2 == 0 {
				inside = !inside
			}
			i = j
			continue
		}
		if inside {
			continue
		}
		switch b {
		case '}', ']':
			depth++
		case '{', '[':
			if depth--; depth == 0 {
				return p[i+1:] // the document's own start
			}
		case ',':
			if depth == 1 {
				comma = i
			}
		}
	}
	if comma < 0 {
		return nil
	}
	return p[comma+1:]
}

// finish reads the kept end of a body with v. The body must have been seen to its end.
func (k *tail) finish(v visitor) {
	if !k.on {
		return
	}
	if m := members(k.buf); m != nil {
		var s scanner
		s.reset()
		s.feed(v, []byte{'{'})
		s.feed(v, m)
	}
}
