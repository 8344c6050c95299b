package api

import (
	"bytes"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/http1"
)

// Bounds of the header values that an Exchange keeps. A longer value is absent rather
// than shortened: clients choose them, and keep thousands of requests open.
const (
	// maxHost: a name of 255 bytes and a port.
	maxHost = 255 + len(":65535")
	// maxUserAgent is more than is exported of one.
	maxUserAgent = 512
	// maxTraceparent is that of version 00 (55 bytes) with room for a later one.
	maxTraceparent = 128
	// maxTracestate: W3C Trace Context asks for 512 bytes at least.
	maxTracestate = 1 << 10
	// maxRequestID: the Tracker follows no longer ids.
	maxRequestID = 1 << 10
)

// exchange is a request.Exchange in the making. It is used again; the Exchange is not.
type exchange struct {
	n    uint64 // its number on the connection
	ex   *request.Exchange
	req  requestBody
	res  responseBody
	late bool // the sink has heard more than that the request began
}

// begin makes x ready to fill ex.
func (x *exchange) begin(n uint64, ex *request.Exchange) {
	x.n, x.ex, x.late = n, ex, false
	x.req.reset(ex)
	x.res.reset(ex)
}

// forget drops what came from bodies, so that no text of theirs outlives the exchange.
func (x *exchange) forget() {
	x.ex, x.req.ex, x.res.ex = nil, nil, nil
	x.req.tail.reset()
	x.res.tail.reset()
	x.res.repeat.reset()
	clear(x.req.json.keep[:])
	clear(x.res.json.keep[:])
}

// requestHeaders fills in what the request's header fields say.
func (x *exchange) requestHeaders(h *http1.RequestHead) {
	ex, parents := x.ex, 0
	for name, value := range h.Fields() {
		switch {
		case is(name, "host"):
			ex.Host = short(value, maxHost)
		case is(name, "user-agent"):
			ex.UserAgent = short(value, maxUserAgent)
		case is(name, "traceparent"):
			parents++
			ex.Traceparent = short(value, maxTraceparent)
		case is(name, "tracestate"):
			ex.Tracestate = list(ex.Tracestate, value)
		case is(name, "x-request-id"):
			ex.RequestID = short(value, maxRequestID)
		case is(name, "content-encoding"):
			x.req.opaque = !is(value, "identity")
		}
	}
	if parents > 1 {
		ex.Traceparent, ex.Tracestate = "", "" // W3C Trace Context: then there is none
	}
	if x.req.opaque {
		ex.BodyMissing = true
	}
}

// responseHeaders decides how the response's body is read.
func (x *exchange) responseHeaders(h *http1.ResponseHead) {
	typ, coded := []byte(nil), false
	for name, value := range h.Fields() {
		switch {
		case is(name, "content-type"):
			typ, _, _ = bytes.Cut(value, []byte{';'})
			typ = bytes.TrimRight(typ, " \t")
		case is(name, "content-encoding"):
			coded = !is(value, "identity")
		}
	}
	x.ex.SSE = is(typ, "text/event-stream")
	switch {
	case coded:
		x.ex.ResponseCut = true
	case x.ex.SSE:
		x.res.form = formSSE
	case is(typ, "application/json"), len(typ) == 0:
		x.res.form = formJSON
	}
}

// short is value, or nothing where it is longer than limit.
func short(value []byte, limit int) string {
	if len(value) > limit {
		return ""
	}
	return string(value)
}

// list joins the values of a header that may occur several times.
func list(have string, value []byte) string {
	switch {
	case len(have)+1+len(value) > maxTracestate:
		return have
	case have == "":
		return string(value)
	}
	return have + "," + string(value)
}

// is compares a field name or token with one in lower case.
func is(p []byte, lower string) bool {
	return len(p) == len(lower) && bytes.EqualFold(p, []byte(lower))
}
