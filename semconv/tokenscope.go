package semconv

import "go.opentelemetry.io/otel/attribute"

// Tokenscope's own keys, for what no convention names. Stable from version 1 on.
const (
	// Incomplete says what of the request was not observed, and why; absent when nothing
	// is missing. string[]; ["queue_time:stats_disabled"].
	Incomplete = attribute.Key("tokenscope.incomplete")
	// Record is the key of the request's line in the ledger. string; a UUID.
	Record = attribute.Key("tokenscope.record")
	// Lora is the adapter that the request used. string; "sql-lora".
	Lora = attribute.Key("tokenscope.lora")
	// HTTPTimeToFirstToken: the first event that carries output left the server − the
	// request's first byte, for streamed answers. double, s; 0.134.
	HTTPTimeToFirstToken = attribute.Key("tokenscope.http.time_to_first_token")

	// EngineRequestID is the id inside the engine, random suffix included. string.
	EngineRequestID = attribute.Key("tokenscope.engine.request_id")
	// EngineIndex is the data-parallel rank. int; 0.
	EngineIndex = attribute.Key("tokenscope.engine.index")
	// SequenceIndex counts the engine's requests behind one API request. int; 1.
	SequenceIndex = attribute.Key("tokenscope.sequence.index")
	// SequencesLeftOut is how many of the request's sequences have no llm_request span,
	// because there were too many. int; 3840.
	SequencesLeftOut = attribute.Key("tokenscope.sequences.left_out")
	// Preemptions is how often the request was preempted. int, {preemption}; 1.
	Preemptions = attribute.Key("tokenscope.preemptions")
	// Aborted says that the front-end told the engine to drop the request (a stop string
	// was found, or the client left). Set only when true. bool; true.
	Aborted = attribute.Key("tokenscope.aborted")
	// GeneratedTokens is what the engine made, where that is not what the API server had
	// received when it ended the request. int, {token}; 33.
	GeneratedTokens = attribute.Key("tokenscope.generated_tokens")

	// WaitCause says what a wait follows. string; "queued", "preempted".
	WaitCause = attribute.Key("tokenscope.wait.cause")
	// WaitUnfinished marks a wait that ended with the request, which never ran again.
	// Set only when true. bool; true.
	WaitUnfinished = attribute.Key("tokenscope.wait.unfinished")

	// TokenEventsTotal is the number of steps that gave tokens. int, {event}; 1000.
	TokenEventsTotal = attribute.Key("tokenscope.token_events.total")
	// TokenEventsLeftOut is how many of them have no event. int, {event}; 873.
	TokenEventsLeftOut = attribute.Key("tokenscope.token_events.left_out")
	// TokenCount is the tokens that one step gave. int, {token}; 1.
	TokenCount = attribute.Key("tokenscope.token.count")
	// TokenPosition is TokenCount and all tokens before. int, {token}; 17.
	TokenPosition = attribute.Key("tokenscope.token.position")

	// DialectKey is the Dialect of spans and metrics, on the resource. string; "both".
	DialectKey = attribute.Key("tokenscope.dialect")
	// EngineName is the engine and its generation, on the resource. string; "vllm-v1".
	EngineName = attribute.Key("tokenscope.engine.name")
	// EngineVersion is the engine's release, on the resource. string; "0.32.0".
	EngineVersion = attribute.Key("tokenscope.engine.version")
	// EngineModel is the model that the engine serves, on the resource. string.
	EngineModel = attribute.Key("tokenscope.engine.model")
)
