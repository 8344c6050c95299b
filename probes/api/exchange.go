package api

import (
	"bytes"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/http1"
)

// maxHeader bounds a header value that an Exchange keeps; W3C Baggage, the longest of
// them, must allow 8192 bytes. A longer value is absent rather than shortened.
const maxHeader = 8 << 10

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
		if len(name) == 0 || len(value) > maxHeader {
			continue
		}
		switch {
		case is(name, "host"):
			ex.Host = string(value)
		case is(name, "user-agent"):
			ex.UserAgent = string(value)
		case is(name, "traceparent"):
			parents++
			ex.Traceparent = string(value)
		case is(name, "tracestate"):
			ex.Tracestate = list(ex.Tracestate, value)
		case is(name, "baggage"):
			ex.Baggage = list(ex.Baggage, value)
		case is(name, "x-request-id"):
			ex.RequestID = string(value)
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

// list joins the values of a header that may occur several times.
func list(have string, value []byte) string {
	switch {
	case have == "":
		return string(value)
	case len(have)+1+len(value) > maxHeader:
		return have
	}
	return have + "," + string(value)
}

// is compares a field name or token with one in lower case.
func is(p []byte, lower string) bool {
	return len(p) == len(lower) && bytes.EqualFold(p, []byte(lower))
}
