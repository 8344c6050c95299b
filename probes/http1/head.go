package http1

import (
	"bytes"
	"iter"
)

// RequestHead is a request's line and header fields. It and everything that it gives
// out are valid only during the call that gets it.
type RequestHead struct {
	// First is the time of the segment with the head's first byte.
	First          int64
	Method, Target []byte
	// Minor is the x of HTTP/1.x.
	Minor  int
	fields []byte
}

// Fields iterates over the header fields, values without surrounding blanks.
func (h *RequestHead) Fields() iter.Seq2[[]byte, []byte] { return fields(h.fields) }

// ResponseHead is a final response's status line and header fields. It and everything
// that it gives out are valid only during the call that gets it.
type ResponseHead struct {
	// First is the time of the segment with the head's first byte.
	First  int64
	Status int
	Minor  int
	fields []byte
}

// Fields iterates over the header fields, values without surrounding blanks.
func (h *ResponseHead) Fields() iter.Seq2[[]byte, []byte] { return fields(h.fields) }

func fields(p []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		rest := p
		for len(rest) > 0 {
			var line []byte
			line, rest = cutLine(rest)
			colon := bytes.IndexByte(line, ':')
			if colon <= 0 {
				continue // the empty line at the end, or no field: servers differ, we ignore it
			}
			if !yield(bytes.TrimRight(line[:colon], " \t"), bytes.Trim(line[colon+1:], " \t")) {
				return
			}
		}
	}
}

// cutLine splits p behind its first line; the line comes without its CRLF or LF.
func cutLine(p []byte) (line, rest []byte) {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		return p, nil
	}
	line, rest = p[:i], p[i+1:]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

// headEnd returns the index behind the empty line that ends a head, or −1. It looks
// only at line ends from index from on.
func headEnd(p []byte, from int) int {
	for i := from; i < len(p); {
		j := bytes.IndexByte(p[i:], '\n')
		if j < 0 {
			return -1
		}
		i += j + 1
		if i < len(p) && p[i] == '\n' {
			return i + 1
		}
		if i+1 < len(p) && p[i] == '\r' && p[i+1] == '\n' {
			return i + 2
		}
	}
	return -1
}

// unfold joins continued header lines (obs-fold) by blanks. It returns p itself when
// there are none, else a changed copy.
func unfold(p []byte) []byte {
	var out []byte
	for i := 0; i+1 < len(p); i++ {
		if p[i] != '\n' || (p[i+1] != ' ' && p[i+1] != '\t') {
			continue
		}
		if out == nil {
			out = bytes.Clone(p)
		}
		out[i] = ' '
		if i > 0 && out[i-1] == '\r' {
			out[i-1] = ' '
		}
	}
	if out == nil {
		return p
	}
	return out
}

// maxMethod is the longest method that is taken for one; the longest registered one
// is UPDATEREDIRECTREF (17).
const maxMethod = 20

// plausible reports whether p, at least one byte, can be the start of a head.
func plausible(dir Direction, p []byte) bool {
	if dir == Response {
		const start = "HTTP/1."
		n := min(len(p), len(start))
		return string(p[:n]) == start[:n]
	}
	for i, b := range p {
		switch {
		case b == ' ':
			return i > 0
		case i >= maxMethod || (b < 'A' || b > 'Z') && b != '-':
			return false
		}
	}
	return true
}

// parseRequest parses a whole request head.
func parseRequest(p []byte, h *RequestHead) bool {
	line, rest := cutLine(p)
	method, after, ok := bytes.Cut(line, []byte{' '})
	if !ok || !plausible(Request, line) {
		return false
	}
	sp := bytes.IndexByte(after, ' ')
	if sp <= 0 {
		return false
	}
	minor, ok := parseProto(after[sp+1:])
	if !ok {
		return false
	}
	h.Method, h.Target, h.Minor, h.fields = method, after[:sp], minor, rest
	return true
}

// parseResponse parses a whole response head.
func parseResponse(p []byte, h *ResponseHead) bool {
	line, rest := cutLine(p)
	// "HTTP/1.1 200" at least; the reason phrase may be missing.
	if len(line) < 12 || line[8] != ' ' || (len(line) > 12 && line[12] != ' ') {
		return false
	}
	minor, ok := parseProto(line[:8])
	if !ok {
		return false
	}
	status := 0
	for _, b := range line[9:12] {
		if b < '0' || b > '9' {
			return false
		}
		status = status*10 + int(b-'0')
	}
	if status < 100 {
		return false
	}
	h.Status, h.Minor, h.fields = status, minor, rest
	return true
}

func parseProto(p []byte) (minor int, ok bool) {
	if len(p) != 8 || string(p[:7]) != "HTTP/1." || p[7] < '0' || p[7] > '9' {
		return 0, false
	}
	return int(p[7] - '0'), true
}

// framing is what the header fields say of the body's length.
type framing struct {
	length  int64 // Content-Length; −1 without one
	chunked bool  // the last transfer coding is chunked
	coded   bool  // there is a Transfer-Encoding, but chunked is not its last coding
	bad     bool  // contradictory or unreadable Content-Length
}

func parseFraming(p []byte) framing {
	f := framing{length: -1}
	for name, value := range fields(p) {
		switch {
		case equalFold(name, "content-length"):
			// A list of equal values is one value (RFC 9110, 8.6).
			for part := range bytes.SplitSeq(value, []byte{','}) {
				n, ok := parseLength(bytes.Trim(part, " \t"))
				if !ok || (f.length >= 0 && f.length != n) {
					f.bad = true
				}
				f.length = n
			}
		case equalFold(name, "transfer-encoding"):
			last := value[bytes.LastIndexByte(value, ',')+1:]
			f.chunked = equalFold(bytes.Trim(last, " \t"), "chunked")
			f.coded = !f.chunked
		}
	}
	if f.chunked || f.coded {
		f.length, f.bad = -1, false // Transfer-Encoding overrides (RFC 9112, 6.3)
	}
	return f
}

// maxDigits keeps lengths far from int64's limit: 15 decimal or hex digits are more
// than any transfer.
const maxDigits = 15

func parseLength(p []byte) (int64, bool) {
	if len(p) == 0 || len(p) > maxDigits {
		return 0, false
	}
	var n int64
	for _, b := range p {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, true
}

// equalFold compares a field name or token with one in lower case.
func equalFold(p []byte, lower string) bool {
	if len(p) != len(lower) {
		return false
	}
	for i, b := range p {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}
