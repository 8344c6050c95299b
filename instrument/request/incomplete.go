package request

// Reasons for Request.Incomplete: what is missing, a colon, and why. They are part of
// the request line's format and of tokenscope.incomplete.
const (
	// EngineNotCaptured: the response names an id that no engine message had.
	EngineNotCaptured = "engine:not_captured"
	// EngineNotDecoded: engine messages were captured, but of an engine or release that
	// is not understood.
	EngineNotDecoded = "engine:not_decoded"
	// EngineNotJoined: the response named no id, and the engine request behind it could
	// not be told from others.
	EngineNotJoined = "engine:not_joined"
	// EngineEndNotSeen: the engine never said how the request ended there.
	EngineEndNotSeen = "engine:end_not_seen"
	// HTTPNotCaptured: only the engine's side was seen.
	HTTPNotCaptured = "http:not_captured"
	// HTTPEventsLost: bytes of the request or the response were lost.
	HTTPEventsLost = "http:events_lost"
	// RequestBodyCut and ResponseBodyCut: the body was longer than what is captured.
	RequestBodyCut  = "request_body:not_captured_whole"
	ResponseBodyCut = "response_body:not_captured_whole"
	// ResponseEndNotSeen: capture or the workload ended before the response did.
	ResponseEndNotSeen = "response:end_not_seen"
	// WallClockUnknown: nothing said how the monotonic clock relates to the wall clock;
	// points in time are off, lengths are right.
	WallClockUnknown = "time:wall_clock_unknown"
	// EngineClockForeign: the engine's stamps are not of this machine's clock. Their
	// differences are right; they cannot be placed beside captured times.
	EngineClockForeign = "engine_clock:of_another_machine"
	// QueueTimeStatsDisabled: the engine sends no scheduler events (--disable-log-stats).
	QueueTimeStatsDisabled = "queue_time:stats_disabled"
	// StartNotCaptured: capture began after the request had entered the engine.
	StartNotCaptured = "start:not_captured"
	// ArrivalNotCaptured: the message with the arrival time was cut or lost; the last
	// byte of the HTTP request stands for it.
	ArrivalNotCaptured = "arrival:not_captured"
	// ReceiveNotCaptured: only the engine's sends were seen, so the times at which the
	// front-end received tokens are unknown.
	ReceiveNotCaptured = "receive:not_captured"
	// SendNotCaptured: only what the front-end received was seen; what the engine made
	// after the front-end had ended the request is unknown.
	SendNotCaptured = "send:not_captured"
	// TokensEventsLost: engine messages were lost while the request ran.
	TokensEventsLost = "tokens:events_lost"
	// TokensFrameCut: an engine message was longer than what is captured.
	TokensFrameCut = "tokens:message_cut"
	// TokensEndUnknown: the front-end ended the request at a time that was not seen, so it
	// is unknown which of the last tokens it still counted.
	TokensEndUnknown = "tokens:end_not_captured"
)
