package redact

// HTTP heads: which lines, names and values stay.

import (
	"bytes"
	"net/http"
	"strconv"
)

const (
	// maxHeadBytes bounds a message head; servers refuse far smaller ones.
	maxHeadBytes = 64 << 10
	// maxPathBytes is how much of a path may stay: known routes are much shorter.
	maxPathBytes = 256
	// maxHeaderValue is how much of an allow-listed header's value may stay; tracestate
	// is the longest, 512 by its specification.
	maxHeaderValue = 512
	// maxParsedValue is how much of a value is kept aside for framing.
	maxParsedValue = 128
)

var methods = wordsOf("GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH")

// keptHeaders are those whose values stay.
var keptHeaders = wordsOf(`
	content-type content-length transfer-encoding content-encoding accept-encoding
	connection keep-alive x-request-id traceparent tracestate user-agent server date expect upgrade
`)

// knownHeaders are those whose names stay; other names may be somebody's own.
var knownHeaders = newWords(append(wordsOf(`
	accept accept-charset accept-language access-control-allow-origin
	access-control-allow-credentials access-control-allow-headers
	access-control-allow-methods access-control-expose-headers age allow alt-svc api-key
	authorization baggage b3 cache-control content-disposition content-language
	content-location cookie dnt etag expires forwarded from host if-modified-since
	if-none-match last-modified link location max-forwards openai-organization
	openai-project origin pragma proxy-authenticate proxy-authorization range referer
	retry-after set-cookie strict-transport-security te trailer vary via warning
	www-authenticate anthropic-version anthropic-beta x-api-key x-correlation-id
	x-forwarded-for x-forwarded-host x-forwarded-proto x-real-ip
	x-stainless-arch x-stainless-lang x-stainless-os x-stainless-retry-count
	x-stainless-runtime x-stainless-runtime-version x-stainless-async
`), keptHeaders...)...)

type headState uint8

const (
	headStart   headState = iota // before the start line; empty lines may stand here
	headMethod                   // request line
	headTarget                   //
	headProto                    //
	headVersion                  // status line
	headStatus                   //
	headReason                   //
	headLineEnd                  // CR was seen, LF must follow
	headLine                     // at the start of a header line
	headName
	headValue
	headEnd // behind an empty line's CR
)

// headRedactor follows the head of one HTTP message, or a chunked body's trailer.
type headRedactor struct {
	response, trailer bool

	state  headState
	m      matcher
	list   words
	keep   bool // what we are in may stay so far
	n      int  // bytes of what we are in
	total  int  // bytes of the head
	header int  // index in knownHeaders, −1 for an unknown one
	spaces bool // only white space of the value so far
	value  [maxParsedValue]byte
	vlen   int

	// What the head says.
	status  int
	connect bool // method CONNECT
	isHead  bool // method HEAD
	length  int64
	chunked bool
	coding  bool // a Transfer-Encoding was there
	coded   bool // a content or transfer coding that hides the text
	kind    bodyKind
	bad     bool // contradictory or unreadable framing
}

// reset starts a new head.
func (h *headRedactor) reset() {
	*h = headRedactor{response: h.response, length: -1}
}

// resetTrailer starts the lines behind a chunked body's last chunk.
func (h *headRedactor) resetTrailer() {
	h.reset()
	h.trailer = true
	h.state = headLine
}

// redact overwrites the head in p from at on. It returns the place behind what it
// took and whether the head is complete; ok is false where this is no head.
func (h *headRedactor) redact(p []byte, at int) (next int, complete, ok bool) {
	start := at
	for i := at; i < len(p); i++ {
		b := p[i]
		before := h.state
		if h.total++; h.total > maxHeadBytes || !h.step(p, start, i, b) {
			// The whole line is in doubt.
			line := max(at, bytes.LastIndexByte(p[:i], '\n')+1)
			return line, false, false
		}
		if h.state != before {
			start = i + 1
			if h.state == headName {
				start = i // its first byte has decided
			}
		}
		if h.state == headEnd && b == '\n' {
			return i + 1, true, true
		}
	}
	return len(p), false, true
}

// step takes one byte. Within p, the current element begins at start.
func (h *headRedactor) step(p []byte, start, i int, b byte) bool {
	h.n++
	switch h.state {
	case headStart:
		if b == '\r' || b == '\n' {
			return true
		}
		h.keep, h.n, h.list = true, 1, methods
		h.m = methods.matcher()
		h.state = headMethod
		if h.response {
			h.state = headVersion
			return b == 'H'
		}
		return h.m.step(methods, b)
	case headMethod:
		if b == ' ' {
			k := h.m.index(methods)
			if k < 0 {
				return false
			}
			h.connect, h.isHead = methods[k] == "CONNECT", methods[k] == "HEAD"
			h.begin(headTarget)
			return true
		}
		return h.m.step(methods, b)
	case headTarget:
		return h.target(p, i, b)
	case headProto:
		const proto = "HTTP/1."
		switch {
		case h.n <= len(proto):
			return b == proto[h.n-1]
		case h.n == len(proto)+1:
			return b == '0' || b == '1'
		}
		return h.lineEnd(b)
	case headVersion:
		const proto = "HTTP/1."
		switch {
		case h.n <= len(proto):
			return b == proto[h.n-1]
		case h.n == len(proto)+1:
			return b == '0' || b == '1'
		}
		h.begin(headStatus)
		return b == ' '
	case headStatus:
		if h.n <= 3 {
			h.status = h.status*10 + int(b) - '0'
			return b >= '0' && b <= '9'
		}
		if b != ' ' {
			return h.lineEnd(b)
		}
		h.list = newWords(http.StatusText(h.status))
		h.m = h.list.matcher()
		h.begin(headReason)
		return h.status >= 100
	case headReason:
		if b == '\r' || b == '\n' {
			return h.lineEnd(b)
		}
		h.keep = h.keep && h.m.step(h.list, b)
		if !h.keep {
			p[i] = 'x'
		}
		return b >= ' ' || b == '\t'
	case headLineEnd:
		h.begin(headLine)
		return b == '\n'
	case headLine:
		switch b {
		case '\r':
			h.begin(headEnd)
			return true
		case '\n':
			h.begin(headEnd)
			return true
		case ' ', '\t':
			return false // folded lines are long gone from HTTP
		}
		h.begin(headName)
		h.n = 1
		h.m = knownHeaders.matcher()
		return h.name(p, i, i, b)
	case headName:
		return h.name(p, start, i, b)
	case headValue:
		return h.valueByte(p, i, b)
	case headEnd:
		return b == '\n'
	}
	return false
}

func (h *headRedactor) begin(s headState) {
	h.state, h.n, h.keep = s, 0, true
}

func (h *headRedactor) lineEnd(b byte) bool {
	switch b {
	case '\r':
		h.begin(headLineEnd)
	case '\n':
		h.begin(headLine)
	default:
		return false
	}
	return true
}

// target keeps a path up to its query, fragment or parameters. Any other form of
// target may hold an address or a password and goes.
func (h *headRedactor) target(p []byte, i int, b byte) bool {
	switch {
	case b == ' ':
		empty := h.n == 1
		h.begin(headProto)
		return !empty
	case b <= ' ' || b == 0x7f:
		return false
	case h.n == 1 && b != '/' && b != '*', h.n > maxPathBytes:
		h.keep = false
	case b == '?' || b == '#' || b == ';':
		if h.keep {
			h.keep = false // the sign itself stays: it ends the path
			return true
		}
	}
	if !h.keep {
		p[i] = 'x'
	}
	return true
}

// name takes a byte of a header's name, which begins at start as far as it is in p.
func (h *headRedactor) name(p []byte, start, i int, b byte) bool {
	if b == ':' {
		h.header = -1
		if h.keep {
			h.header = h.m.index(knownHeaders)
		}
		if h.header < 0 {
			fill(p[start:i], 'x')
		}
		empty := h.n == 1
		h.begin(headValue)
		h.spaces, h.vlen = true, 0
		h.keep = h.header >= 0 && keptHeaders.has(knownHeaders[h.header])
		return !empty
	}
	if !isTokenByte(b) {
		return false
	}
	lower := b
	if b >= 'A' && b <= 'Z' {
		lower += 'a' - 'A'
	}
	if h.keep && !h.m.step(knownHeaders, lower) {
		h.keep = false
		fill(p[start:i], 'x')
	}
	if !h.keep {
		p[i] = 'x'
	}
	return true
}

func (h *headRedactor) valueByte(p []byte, i int, b byte) bool {
	if b == '\r' || b == '\n' {
		h.headerEnd()
		return h.lineEnd(b)
	}
	if h.spaces && (b == ' ' || b == '\t') {
		h.n--
		return true
	}
	h.spaces = false
	if h.vlen < len(h.value) {
		h.value[h.vlen] = b
		h.vlen++
	}
	if !h.keep || h.n > maxHeaderValue || b < ' ' || b > '~' {
		p[i] = 'x'
	}
	return b >= ' ' || b == '\t'
}

// headerEnd takes from a header what framing and the body's reading need.
func (h *headRedactor) headerEnd() {
	if h.header < 0 || h.trailer {
		return
	}
	v := bytes.ToLower(bytes.TrimRight(h.value[:h.vlen], " \t"))
	switch knownHeaders[h.header] {
	case "content-length":
		n, err := strconv.ParseUint(string(v), 10, 62)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			h.bad = true
		}
		h.length = int64(n)
	case "transfer-encoding":
		last := v[bytes.LastIndexByte(v, ',')+1:]
		h.chunked = string(bytes.TrimSpace(last)) == "chunked"
		h.coded = h.coded || len(last) != len(v)
		h.bad = h.bad || h.coding || !h.chunked && string(v) != "identity" || h.vlen == len(h.value)
		h.coding = true
	case "content-encoding":
		h.coded = h.coded || len(v) > 0 && string(v) != "identity"
	case "content-type":
		h.kind = kindOf(v)
	}
}

// kindOf says how to read a body of a media type. Anything that is no JSON text makes
// the JSON machine blank it, so that a wrong type does no harm.
func kindOf(mediaType []byte) bodyKind {
	mediaType, _, _ = bytes.Cut(mediaType, []byte(";"))
	switch {
	case bytes.HasPrefix(mediaType, []byte("text/event-stream")):
		return bodySSE
	case bytes.Contains(mediaType, []byte("json")),
		len(mediaType) == 0,
		// curl's default; servers parse it as what it is.
		bytes.HasPrefix(mediaType, []byte("application/x-www-form-urlencoded")):
		return bodyJSON
	}
	return bodyOpaque
}

// isTokenByte says which bytes a header's name may have (RFC 9110, section 5.6.2).
func isTokenByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
		bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
}
