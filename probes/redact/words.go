package redact

// The words that may stay where a schema asks for a word. They are the vocabulary
// of the OpenAI, Anthropic, vLLM and SGLang APIs: nobody's content.

// finishWords say why an answer ended. A stop_reason may also be the stop string
// itself, which is content unless it happens to be one of these.
var finishWords = wordsOf(`
	stop length abort error repetition content_filter tool_calls function_call
	end_turn max_tokens stop_sequence tool_use pause_turn refusal max_output_tokens
	model_context_window_exceeded
`)

// apiWords are types, objects, roles, states and event names.
var apiWords = wordsOf(`
	chat.completion chat.completion.chunk text_completion list embedding model
	model_permission error response conversation score rerank classify pooling
	vllm sglang
	user assistant system developer tool function
	text image_url input_text output_text input_image input_audio video_url audio_url
	image audio video document file message reasoning reasoning_text summary_text thinking
	redacted_thinking refusal function_call function_call_output tool_use tool_result
	json_object json_schema structural_tag regex grammar ebnf
	text_delta input_json_delta thinking_delta signature_delta citations_delta
	auto none required any default disabled float base64 bytes
	priority flex scale
	queued in_progress completed incomplete failed cancelled ready ok
	stop length abort matched
	message_start message_delta message_stop content_block_start content_block_delta
	content_block_stop ping
	response.created response.queued response.in_progress response.completed
	response.failed response.incomplete
	response.output_item.added response.output_item.done
	response.content_part.added response.content_part.done
	response.output_text.delta response.output_text.done
	response.output_text.annotation.added
	response.refusal.delta response.refusal.done
	response.reasoning_text.delta response.reasoning_text.done
	response.reasoning_part.added response.reasoning_part.done
	response.reasoning_summary_part.added response.reasoning_summary_part.done
	response.reasoning_summary_text.delta response.reasoning_summary_text.done
	response.function_call_arguments.delta response.function_call_arguments.done
	response.mcp_call_arguments.delta response.mcp_call_arguments.done
	response.mcp_call.in_progress response.mcp_call.completed response.mcp_call.failed
	response.web_search_call.in_progress response.web_search_call.searching
	response.web_search_call.completed
	response.code_interpreter_call.in_progress response.code_interpreter_call.interpreting
	response.code_interpreter_call.completed
	response.code_interpreter_call_code.delta response.code_interpreter_call_code.done
`)

// errorPhrases are error types that are no identifiers. The last ones are the fixed
// messages of CPython's json decoder (Lib/json/decoder.py), which old SGLang
// releases send as a type; '0' stands for any number.
var errorPhrases = newWords(
	"Bad Request", "Unauthorized", "Forbidden", "Not Found", "Method Not Allowed",
	"Request Timeout", "Conflict", "Request Entity Too Large", "Content Too Large",
	"Unsupported Media Type", "Unprocessable Entity", "Unprocessable Content",
	"Too Many Requests", "Internal Server Error", "Not Implemented", "Bad Gateway",
	"Service Unavailable", "Gateway Timeout", "Internal server error",
	"Expecting value: line 0 column 0 (char 0)",
	"Extra data: line 0 column 0 (char 0)",
	"Expecting property name enclosed in double quotes: line 0 column 0 (char 0)",
	"Expecting ':' delimiter: line 0 column 0 (char 0)",
	"Expecting ',' delimiter: line 0 column 0 (char 0)",
	"Unterminated string starting at: line 0 column 0 (char 0)",
	"Invalid control character at: line 0 column 0 (char 0)",
)

// topWords may stand as "type" at the top of a response: an event's name, or the error
// type of a release that wraps errors in nothing.
var topWords = newWords(append(append(wordsOf(`
	BadRequestError NotFoundError InternalServerError UnprocessableEntityError
	AuthenticationError PermissionDeniedError NotImplementedError ServiceUnavailableError
	RateLimitError ConflictError TimeoutError GenerationError ValueError TypeError
	RuntimeError KeyError EngineDeadError EngineGenerateError ValidationError
	VLLMValidationError VLLMNotFoundError RequestValidationError HTTPException Unauthorized
	invalid_request_error authentication_error permission_error not_found_error
	request_too_large rate_limit_error api_error overloaded_error timeout_error server_error
`), apiWords...), errorPhrases...)...)
