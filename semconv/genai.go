package semconv

import "go.opentelemetry.io/otel/attribute"

// GenAI spans. Origin: OpenTelemetry, semantic-conventions 1.41.1, docs/gen-ai, and
// semantic-conventions-genai where it says so; all in development.
const (
	// GenAIOperationName is what the request asked for. string; "chat".
	GenAIOperationName = attribute.Key("gen_ai.operation.name")
	// GenAIProviderName is the engine. string; "vllm" (a custom value).
	GenAIProviderName = attribute.Key("gen_ai.provider.name")

	// GenAIRequestModel is the model that the request names. string; "Qwen/Qwen3-8B".
	GenAIRequestModel = attribute.Key("gen_ai.request.model")
	// GenAIRequestChoiceCount is n, absent where it is 1. int, {choice}; 2.
	GenAIRequestChoiceCount = attribute.Key("gen_ai.request.choice.count")
	// GenAIRequestStream is set, and true, for streamed answers only. bool; true.
	GenAIRequestStream = attribute.Key("gen_ai.request.stream")
	// GenAIRequestMaxTokens is the most tokens to be made. int, {token}; 512.
	GenAIRequestMaxTokens = attribute.Key("gen_ai.request.max_tokens")
	// GenAIRequestTemperature is the sampling temperature. double; 0.7.
	GenAIRequestTemperature = attribute.Key("gen_ai.request.temperature")
	// GenAIRequestTopP is nucleus sampling's share. double; 0.95.
	GenAIRequestTopP = attribute.Key("gen_ai.request.top_p")
	// GenAIRequestTopK is top-k sampling's k. int, as semantic-conventions-genai has it
	// (1.41.1: double), since an engine's k is a whole number; 20.
	GenAIRequestTopK = attribute.Key("gen_ai.request.top_k")
	// GenAIRequestSeed is the sampling seed. int; 42.
	GenAIRequestSeed = attribute.Key("gen_ai.request.seed")
	// GenAIRequestFrequencyPenalty and GenAIRequestPresencePenalty. double; 0.1.
	GenAIRequestFrequencyPenalty = attribute.Key("gen_ai.request.frequency_penalty")
	GenAIRequestPresencePenalty  = attribute.Key("gen_ai.request.presence_penalty")

	// GenAIResponseID is the id in the response. string; "chatcmpl-8f0c…".
	GenAIResponseID = attribute.Key("gen_ai.response.id")
	// GenAIResponseModel is the model that the response names. string; "Qwen/Qwen3-8B".
	GenAIResponseModel = attribute.Key("gen_ai.response.model")
	// GenAIResponseFinishReasons has one reason a choice. string[]; ["stop"].
	GenAIResponseFinishReasons = attribute.Key("gen_ai.response.finish_reasons")

	// GenAIUsageInputTokens and GenAIUsageOutputTokens count prompt and answer. int,
	// {token}; 100.
	GenAIUsageInputTokens  = attribute.Key("gen_ai.usage.input_tokens")
	GenAIUsageOutputTokens = attribute.Key("gen_ai.usage.output_tokens")
	// GenAIUsageCacheReadInputTokens counts the prompt tokens that came from a cache.
	// int, {token}; 64.
	GenAIUsageCacheReadInputTokens = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	// GenAIUsageReasoningOutputTokens counts the answer's tokens of reasoning. int,
	// {token}; 30.
	GenAIUsageReasoningOutputTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")
)
