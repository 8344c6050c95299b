package semconv

import "strings"

// ScopeName is the instrumentation scope of all that Tokenscope exports.
const ScopeName = "github.com/tokenscope/tokenscope"

// Distro is the value of TelemetryDistroName.
const Distro = "tokenscope"

// Span names. An API request's span is called method and route, and the span inside it
// operation and model; see ServerSpan and OperationSpan.
const (
	// SpanLLMRequest is one request inside the engine, as vLLM names it.
	SpanLLMRequest = "llm_request"
	// SpanWait is queued → scheduled, and preempted → scheduled again.
	SpanWait = "wait"
	// SpanPrefill is scheduled → first token.
	SpanPrefill = "prefill"
	// SpanDecode is first token → last token.
	SpanDecode = "decode"
)

// Span events of llm_request. Origin: Alibaba's GenAI conventions.
const (
	EventTokenScheduled = "gen_ai.token.scheduled"
	EventTokenGenerated = "gen_ai.token.generated"
)

// Values of GenAIOperationName. Rerank is ARMS'; Pooling and Classify are ours; the
// others are OpenTelemetry's.
const (
	OperationChat           = "chat"
	OperationTextCompletion = "text_completion"
	OperationEmbeddings     = "embeddings"
	OperationRerank         = "rerank"
	OperationPooling        = "pooling"
	OperationClassify       = "classify"
)

// Values of GenAISpanKind.
const (
	KindLLM       = "LLM"
	KindEmbedding = "EMBEDDING"
	KindReranker  = "RERANKER"
)

// Values of GenAIProviderName.
const (
	ProviderVLLM   = "vllm"
	ProviderSGLang = "sglang"
)

// EngineVLLMV1 is the engine whose latencies ARMS stores in nanoseconds.
const EngineVLLMV1 = "vllm-v1"

// Values of ErrorType beside HTTP status codes and the types in error bodies.
const (
	// ErrorTypeClientDisconnect: the client closed before the response was complete.
	ErrorTypeClientDisconnect = "client_disconnect"
	// ErrorTypeServerClosed: the server closed before the response was complete.
	ErrorTypeServerClosed = "server_closed"
	// ErrorTypeEngineDead: the engine failed, and with it all that was in flight.
	ErrorTypeEngineDead = "engine_dead"
	// ErrorTypeEngineError: the engine ended this request with an error.
	ErrorTypeEngineError = "engine_error"
	// ErrorTypeAbort: the request was dropped, and not because its client left.
	ErrorTypeAbort = "abort"
)

// Values of WaitCause.
const (
	WaitQueued    = "queued"
	WaitPreempted = "preempted"
)

// MethodOther stands for an HTTP method that is not registered, and Other for any
// other value that would be unbounded.
const (
	MethodOther = "_OTHER"
	Other       = "_other"
)

// Values of URLScheme.
const (
	SchemeHTTP  = "http"
	SchemeHTTPS = "https"
)

// Provider is the GenAIProviderName of an engine ("vllm-v1"), "" where it is unknown.
func Provider(engine string) string {
	for _, p := range []string{ProviderVLLM, ProviderSGLang} {
		if engine == p || strings.HasPrefix(engine, p+"-") {
			return p
		}
	}
	return ""
}

// ServerSpan is the name of an API request's span: method and route, or the method
// alone where the route is unknown; never the path, which is unbounded. An unknown
// method is called HTTP, as the HTTP conventions ask.
func ServerSpan(method, route string) string {
	if method == MethodOther {
		method = "HTTP"
	}
	if route == "" {
		return method
	}
	return method + " " + route
}

// OperationSpan is the name of the span inside: operation and model, or the operation
// alone where the model is unknown.
func OperationSpan(operation, model string) string {
	if model == "" {
		return operation
	}
	return operation + " " + model
}
