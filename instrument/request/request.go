package request

// A Request is one call of the server's API that has ended, or an engine request
// that ended without its HTTP side having been seen. The Tracker makes it; nothing
// changes it afterwards.
type Request struct {
	// Record is the unique key of the request's line (a UUID, version 7).
	Record [16]byte
	// TraceID and the two span contexts: TraceID is the caller's where it sent a valid
	// traceparent, else new. ParentSpanID is the caller's span, zero without one.
	TraceID      [16]byte
	ParentSpanID [8]byte
	// Sampled is the caller's sampled flag; meaningful only with a ParentSpanID.
	Sampled    bool
	Tracestate string

	// HTTP is nil where the HTTP side was not captured.
	HTTP *Exchange
	// Sequences are the engine's requests behind this one, in index order.
	Sequences []*Sequence

	// ID is the response's id, or the one that the engine ids imply where no response
	// named one; "" where neither is known.
	ID string
	// Engine ("vllm-v1"), EngineVersion: "" where unknown.
	Engine, EngineVersion string
	Model, Lora           string
	Stream                *bool
	Status                int // 0: no response seen
	ErrorType             string
	Disconnected          bool
	FinishReason          string
	Usage                 *Usage
	// Incomplete says what is missing and why; empty when nothing is.
	Incomplete []string

	// Start and End are CLOCK_MONOTONIC nanoseconds: first byte of the request (else the
	// first message about it) and the end of its response (else its last message).
	Start, End int64
	// WallOffset is CLOCK_REALTIME − CLOCK_MONOTONIC in nanoseconds, for all of this
	// Request's times.
	WallOffset int64
}

// Wall turns a captured time into Unix nanoseconds.
func (r *Request) Wall(mono int64) int64 { return mono + r.WallOffset }

// WallS turns an engine's monotonic seconds into Unix nanoseconds.
func (r *Request) WallS(s float64) int64 { return SecondsToNs(s) + r.WallOffset }

// SecondsToNs converts an engine's float64 seconds to nanoseconds.
func SecondsToNs(s float64) int64 {
	whole := int64(s)
	return whole*1e9 + int64((s-float64(whole))*1e9+0.5)
}

// Sequence is one request inside the engine: the only one of most Requests, one of n
// for n > 1, one a prompt for several prompts.
type Sequence struct {
	Index int
	// EngineID is the engine's own id; EngineIndex its data-parallel rank, −1 unknown.
	EngineID    string
	EngineIndex int
	PID         uint32 // of the front-end, else of the engine

	// AddTime is when the front-end handed it over (captured; 0 unknown). ArrivalS is
	// the front-end's wall-clock arrival in seconds; valid iff HasArrival.
	AddTime    int64
	ArrivalS   float64
	HasArrival bool
	Params     Params
	Lora       string
	Pooling    bool
	// RustFrontEnd: vLLM's Rust front-end handed it over. It divides in another order
	// (see Metrics).
	RustFrontEnd bool

	// PromptTokens, CachedTokens: −1 unknown.
	PromptTokens, CachedTokens int
	// CompletionTokens were received by the front-end before it ended the request;
	// GeneratedTokens were made by the engine. −1 unknown.
	CompletionTokens, GeneratedTokens int
	// Preemptions: −1 unknown.
	Preemptions int
	Finish      FinishReason
	// Aborted: the front-end told the engine to drop it, at AbortTime (captured).
	Aborted   bool
	AbortTime int64

	// QueuedS, ScheduledS: the engine's last QUEUED before, and its first SCHEDULED;
	// FirstTokenS, LastTokenS: the engine's stamps of the outputs that the front-end
	// counted. 0 where not seen.
	QueuedS, ScheduledS, FirstTokenS, LastTokenS float64
	// ForeignClock: the engine's seconds are of another machine's clock. Differences
	// hold; Request.WallS does not.
	ForeignClock bool
	// Waits are the times in which it was not running: the first wait and one per
	// preemption (End 0 where it never ran again).
	Waits []Wait
	// EngineDead: the engine died before it ended the request. The response may give the
	// error another type.
	EngineDead bool

	// FirstTokenTime and LastTokenTime are when the front-end received those tokens
	// (captured; 0 where receives were not captured).
	FirstTokenTime, LastTokenTime int64

	// Steps are the outputs kept for token events, in time order; StepsTotal is how many
	// there were.
	Steps      []TokenStep
	StepsTotal int

	Spec *SpecDecoding
}

// Wait is a time in which a request was not running, in the engine's seconds.
type Wait struct{ StartS, EndS float64 }

// TokenStep is one step that gave a sequence tokens.
type TokenStep struct {
	// TS is the engine's stamp; Time is when the front-end received it (0: not captured).
	TS     float64
	Time   int64
	Tokens int // new ones
	Total  int // with those before
	// Batch and Waiting are the step's running batch (sequences with output) and the
	// scheduler's waiting requests; −1 unknown.
	Batch, Waiting int
}

// Metrics are vLLM's per-request metrics by its own definitions. Nil pointers are
// numbers that could not be had. Milliseconds, and tokens per second.
type Metrics struct {
	TimeToFirstTokenMs *float64
	GenerationTimeMs   *float64
	QueueTimeMs        *float64
	MeanITLMs          *float64
	TokensPerSecond    *float64
	Spec               *SpecDecoding
}

// Metrics computes the five numbers with the engine's own expressions, over the
// outputs that the front-end counted.
//
// Source: vLLM 0.32.0, entrypoints/generate/base/serving.py,
// build_per_request_timing_metrics. The order of the floating-point operations is
// part of the result: do not simplify. The Rust front-end (measured on 0.33.0) takes
// the mean of the milliseconds, which may differ in the last bit.
func (s *Sequence) Metrics() *Metrics {
	m := &Metrics{Spec: s.Spec}
	if s.ScheduledS > 0 && s.FirstTokenS > 0 {
		m.TimeToFirstTokenMs = ptr((s.FirstTokenS - s.ScheduledS) * 1000)
	}
	if s.FirstTokenS > 0 && s.LastTokenS > 0 {
		m.GenerationTimeMs = ptr((s.LastTokenS - s.FirstTokenS) * 1000)
	}
	if s.QueuedS > 0 && s.ScheduledS > 0 {
		m.QueueTimeMs = ptr((s.ScheduledS - s.QueuedS) * 1000)
	}
	if s.FirstTokenS > 0 && s.LastTokenS > 0 && s.CompletionTokens > 1 {
		decode := s.LastTokenS - s.FirstTokenS
		if s.RustFrontEnd {
			m.MeanITLMs = ptr(decode * 1000 / float64(s.CompletionTokens-1))
		} else {
			m.MeanITLMs = ptr(decode / float64(s.CompletionTokens-1) * 1000)
		}
	}
	if s.ScheduledS > 0 && s.LastTokenS > 0 && s.CompletionTokens >= 0 {
		if inference := (s.LastTokenS - s.ScheduledS) * 1000; inference > 0 {
			m.TokensPerSecond = ptr(float64(s.CompletionTokens) / inference * 1000)
		}
	}
	return m
}

func ptr[T any](v T) *T { return &v }
