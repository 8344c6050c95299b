package semconv

import "go.opentelemetry.io/otel/attribute"

// The engines' own request spans. Origin: vLLM 0.32.0, vllm/tracing/utils.py
// (SpanAttributes); SGLang uses the same keys. No convention's: unstable by nature.
//
// All latencies are double, seconds. Under the ARMS dialect they are int, nanoseconds,
// for vLLM V1, because ARMS stores them so.
const (
	// GenAIRequestID is the request's id as the engine's front-end names it, without the
	// random suffix that newer vLLM adds inside. string; "cmpl-8f0c…-0".
	GenAIRequestID = attribute.Key("gen_ai.request.id")
	// GenAIRequestN is n in the engine's sampling parameters: 1 in each of the requests
	// that n > 1 becomes. int; 1.
	GenAIRequestN = attribute.Key("gen_ai.request.n")

	// GenAILatencyE2E: the API server received the last token's message − arrival.
	GenAILatencyE2E = attribute.Key("gen_ai.latency.e2e")
	// GenAILatencyTimeToFirstToken: the API server received the first token's message −
	// arrival.
	GenAILatencyTimeToFirstToken = attribute.Key("gen_ai.latency.time_to_first_token")
	// GenAILatencyTimeInQueue: first scheduled − last queued before it.
	GenAILatencyTimeInQueue = attribute.Key("gen_ai.latency.time_in_queue")
	// GenAILatencyTimeInScheduler: all time in the engine in which the request was not
	// running, i.e. the first wait and one per preemption.
	GenAILatencyTimeInScheduler = attribute.Key("gen_ai.latency.time_in_scheduler")
	// GenAILatencyTimeInModelPrefill: first token − scheduled.
	GenAILatencyTimeInModelPrefill = attribute.Key("gen_ai.latency.time_in_model_prefill")
	// GenAILatencyTimeInModelDecode: last token − first token.
	GenAILatencyTimeInModelDecode = attribute.Key("gen_ai.latency.time_in_model_decode")
	// GenAILatencyTimeInModelInference: last token − scheduled.
	GenAILatencyTimeInModelInference = attribute.Key("gen_ai.latency.time_in_model_inference")

	// GenAIUsagePromptTokens and GenAIUsageCompletionTokens are the engines' (and ARMS')
	// names of input and output tokens. int, {token}; 100.
	GenAIUsagePromptTokens     = attribute.Key("gen_ai.usage.prompt_tokens")
	GenAIUsageCompletionTokens = attribute.Key("gen_ai.usage.completion_tokens")
)

// ARMS. Origin: Alibaba Cloud ARMS, "Spans and metrics collected for vLLM and SGLang",
// and Alibaba's GenAI conventions (loongsuite-semantic-conventions-genai).
const (
	// GenAISpanKind is the kind of an entry span. string; "LLM", "EMBEDDING", "RERANKER".
	GenAISpanKind = attribute.Key("gen_ai.span.kind")
	// GenAIRequestModelName is GenAIRequestModel on ARMS' spans of vLLM V1. string.
	GenAIRequestModelName = attribute.Key("gen_ai.request.model_name")
	// ACSCMSWorkspace is the CloudMonitor 2.0 workspace, on the resource. string.
	ACSCMSWorkspace = attribute.Key("acs.cms.workspace")

	// GenAIIterationBatchSize is the requests in a token's step. int, {request}; 17.
	GenAIIterationBatchSize = attribute.Key("gen_ai.iteration.batch_size")
	// GenAIIterationWaitingRequests is the requests that waited then. int, {request}; 3.
	GenAIIterationWaitingRequests = attribute.Key("gen_ai.iteration.waiting_requests")
)

// Headers that carry ARMS' credentials to a collector. Origin: as above.
const (
	HeaderARMSLicenseKey = "x-arms-license-key"
	HeaderARMSProject    = "x-arms-project"
	HeaderCMSWorkspace   = "x-cms-workspace"
)
