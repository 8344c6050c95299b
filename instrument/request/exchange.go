package request

import "slices"

// Endpoint is a kind of API call, whatever its route is called.
type Endpoint uint8

const (
	EndpointOther Endpoint = iota
	EndpointChat
	EndpointCompletions
	EndpointResponses
	EndpointMessages
	EndpointEmbeddings
	EndpointRerank
	EndpointScore
	EndpointPooling
	EndpointClassify
	EndpointGenerate
)

// Exchange is one HTTP request and its response on a connection of the server. The
// HTTP decoder owns and fills it, and tells an HTTPSink when something is known; the
// sink may keep it, but reads it only inside those calls and after ExchangeEnded.
//
// Times are nanoseconds of CLOCK_MONOTONIC, 0 where not seen.
type Exchange struct {
	PID  uint32
	Conn uint64
	Port uint16 // the server's, 0 where unknown
	TLS  bool   // the connection is encrypted (https)

	// FirstByte and ReadEnd are the first and the last byte of the request, body included.
	FirstByte, ReadEnd int64
	Method             string
	// Path has no query. Route is Path where it is a route of the server that we know,
	// else "".
	Path, Route string
	Endpoint    Endpoint
	Proto       string // "1.1", "1.0"
	UserAgent   string
	Host        string
	// Traceparent, Tracestate and RequestID (X-Request-Id) are headers as sent.
	Traceparent, Tracestate, RequestID string

	// From the request's body; zero or nil where the body does not say or was not seen.
	Model       string
	Stream      *bool
	Prompts     int    // number of prompts; 0 where unknown
	BodyID      string // "request_id" in the body
	Params      Params
	BodyMissing bool // part of the request's body was not captured

	// Status is 0 until the response's head was seen.
	Status int
	// FirstResponseByte, FirstToken (first SSE event that carries output) and End (last
	// byte of the response, or the moment the client left).
	FirstResponseByte, FirstToken, End int64
	// ResponseID and ResponseModel come from the response's body.
	ResponseID, ResponseModel string
	// FinishReasons by choice index, as the API words them.
	FinishReasons []string
	// Usage is what the client was told; nil where it was not.
	Usage *Usage
	// ErrorType is "type" of an error body or of an error event in a stream.
	ErrorType string
	// SSE says that the response is an event stream; Events counts those with data.
	SSE    bool
	Events int
	// Complete: the response came to its regular end. Disconnected: the connection ended
	// before, by the client. ServerClosed: it ended before, by the server.
	Complete, Disconnected, ServerClosed bool
	// Late says that capture began in the middle of this exchange.
	Late bool
	// RequestGap and ResponseGap: bytes were lost (not merely cut) in that direction.
	RequestGap, ResponseGap bool
	// ResponseCut: the response's body was not captured whole, so that fields of it may
	// be missing.
	ResponseCut bool
}

// clone is a copy that shares nothing that may change.
func (x *Exchange) clone() *Exchange {
	c := *x
	c.FinishReasons = slices.Clone(x.FinishReasons)
	if x.Usage != nil {
		c.Usage = new(*x.Usage)
	}
	return &c
}

// maxChoices is the largest n that is believed. vLLM refuses more than 16384
// (VLLM_MAX_N_SEQUENCES); where the server does not read it, a body may say anything.
const maxChoices = 16384

// choices is how many sequences are asked for of each prompt; 0 where that is not known.
func (x *Exchange) choices() int {
	switch x.Endpoint {
	case EndpointChat, EndpointCompletions, EndpointGenerate:
	default:
		return 1
	}
	if x.BodyMissing && x.Params.N == nil {
		return 0
	}
	if n := x.Params.N; n != nil {
		if *n < 1 || *n > maxChoices {
			return 0
		}
		return *n
	}
	return 1
}

// Usage is a response's own token counts; −1 where a number was not said.
type Usage struct {
	Prompt, Completion, Cached, Reasoning int
}

// HTTPSink takes what the HTTP decoder found. The Tracker is one. Calls for one
// Exchange come in the order of the methods; only the first and the last are sure.
type HTTPSink interface {
	// ExchangeBegan: the request's head was read.
	ExchangeBegan(*Exchange)
	// ExchangeRead: the request was read to its end.
	ExchangeRead(*Exchange)
	// ExchangeNamed: ResponseID is known now.
	ExchangeNamed(*Exchange)
	// ExchangeEnded: nothing more will come.
	ExchangeEnded(*Exchange)
}
