package request

// Side says on which side of the engine's message queue something was seen.
type Side uint8

const (
	// FrontEnd is the process that speaks HTTP (vLLM: the API server).
	FrontEnd Side = iota + 1
	// Core is the engine's process.
	Core
)

// Add is a request that the front-end handed to the engine. Byte slices are valid
// only during the call that gets it.
type Add struct {
	Time int64 // sent (FrontEnd) or received (Core)
	PID  uint32
	Side Side

	// Engine is the decoder's name for the engine: "vllm-v1".
	Engine string
	// ID is the engine's own request id. External is the id that the front-end gave
	// it before the engine added a random suffix; nil where the release has none or
	// it lies behind a cut.
	ID, External []byte
	// Suffixed says that the release puts "-" and 8 hex digits behind the id.
	Suffixed bool
	// ArrivalS is the front-end's wall-clock time in seconds; HasArrival is false
	// where it lies behind a cut.
	ArrivalS   float64
	HasArrival bool
	// PromptTokens is the length of the prompt; −1 where not seen.
	PromptTokens int
	Params       Params
	// Lora is the adapter's name; nil without one.
	Lora []byte
	// Priority is the scheduling priority; 0 by default.
	Priority int
	// Pooling says that the request makes no tokens (embeddings, scores).
	Pooling bool
	// Cut says that the message was not captured whole.
	Cut bool
}

// Params are sampling parameters. A nil pointer means that the message does not say.
type Params struct {
	N           *int
	MaxTokens   *int
	Temperature *float64
	TopP        *float64
	TopK        *int
	Seed        *int64
	// FrequencyPenalty and PresencePenalty as the API defines them.
	FrequencyPenalty, PresencePenalty *float64
	// Stream is true when outputs are deltas (vLLM: output_kind DELTA); nil where the
	// front-end does not send it (Rust) or it lies behind a cut.
	Stream *bool
}

// FinishReason is the engine's word for why it stopped, numbered as vLLM V1 does.
type FinishReason int8

const (
	FinishNone       FinishReason = -1
	FinishStop       FinishReason = 0
	FinishLength     FinishReason = 1
	FinishAbort      FinishReason = 2
	FinishError      FinishReason = 3
	FinishRepetition FinishReason = 4
)

// String gives the word that the engine and its API use; "" for FinishNone.
func (f FinishReason) String() string {
	switch f {
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	case FinishAbort:
		return "abort"
	case FinishError:
		return "error"
	case FinishRepetition:
		return "repetition"
	case FinishNone:
		return ""
	}
	return "unknown"
}

// EventType is a scheduler event, numbered as vLLM V1 does.
type EventType uint8

const (
	EventQueued    EventType = 1
	EventScheduled EventType = 2
	EventPreempted EventType = 3
)

// EngineEvent is one scheduler event with the engine's own monotonic time.
type EngineEvent struct {
	Type EventType
	TS   float64
}

// Output is what one step gave one request.
type Output struct {
	// ID is the engine's request id; valid only during the call that gets it.
	ID []byte
	// Tokens is how many new tokens there are: 0 or more.
	Tokens int
	Finish FinishReason
	// Events are the scheduler events since the request's previous output.
	Events []EngineEvent
	// Cached is the number of prompt tokens that came from a cache; −1 where not said.
	Cached int
	// Prompt is the prompt's length as the engine counts it; −1 where not said.
	Prompt int
	// Suffixed says that the release puts a random suffix behind ids (see Add).
	Suffixed bool
	// Pooling says that the output is no tokens but a vector or a score.
	Pooling bool
	// Spec holds the request's speculative-decoding counters, nil mostly.
	Spec *SpecDecoding
}

// SpecDecoding is what vLLM says of one request's speculative decoding on its last
// output, when asked for (--per-request-spec-decode-metrics).
type SpecDecoding struct {
	NumSpecTokens, NumDraftTokens int
	Histogram                     []int
	PerStepAccepted               []int
	PerStepDrafted                []int
}

// Step is one message of outputs from the engine: what one iteration made. It and
// its slices are valid only during the call that gets them.
type Step struct {
	Time int64 // sent (Core) or received (FrontEnd)
	PID  uint32
	Side Side

	EngineIndex int
	// TimestampS is the engine's monotonic time in seconds; HasTimestamp is false in
	// releases without one and behind a cut.
	TimestampS   float64
	HasTimestamp bool
	Outputs      []Output
	// Running and Waiting are the scheduler's requests after this step; −1 where the
	// message has no statistics.
	Running, Waiting int
	// Cut says that the message was not captured whole: Outputs has those before the
	// cut, and the ones behind it are unknown.
	Cut bool
}

// Abort is the front-end telling the engine to drop requests: a stop string was
// found, or the client has left.
type Abort struct {
	Time int64
	PID  uint32
	Side Side
	IDs  [][]byte // valid only during the call
	// Cut says that there were more ids than were captured.
	Cut bool
}

// Ready is what an engine says of itself when it starts. Zero values mean not said.
type Ready struct {
	Time int64
	PID  uint32
	Side Side
	// Engine is "vllm-v1", "vllm-v0" or "sglang".
	Engine, Version string
	// Model, where the message says it.
	Model       string
	NumBlocks   int
	MaxModelLen int
}

// Dead is an engine's last word: it has failed, and everything in flight with it.
type Dead struct {
	Time int64
	PID  uint32
	Side Side
}

// EngineSink takes what an engine decoder found. The Tracker is one.
type EngineSink interface {
	Add(*Add)
	Step(*Step)
	Abort(*Abort)
	Ready(*Ready)
	Dead(*Dead)
	// EngineGap says that messages on a socket of process pid, seen on side, were lost
	// or could not be decoded: counts of what was in flight there are not to be trusted.
	EngineGap(time int64, pid uint32, side Side)
}
