package redact

// What may stay where in the JSON documents of the APIs.

import (
	"maps"
	"slices"
)

// stringRule says what of a JSON string may stay.
type stringRule uint8

const (
	blankString stringRule = iota
	// nameString keeps a name that somebody chose, such as a model's.
	nameString
	// idString keeps an identifier: letters, digits and a few signs.
	idString
	// apiString keeps a word of apiWords, finishString one of finishWords, topString one
	// of topWords.
	apiString
	finishString
	topString
	// errorString keeps an identifier or one of errorPhrases.
	errorString
)

// node describes the value at one place of a document. The zero node keeps
// nothing. An array's elements are described by the array's own node.
type node struct {
	str stringRule
	// scalar keeps a number, true and false; list keeps them inside an array too.
	scalar, list bool
	// keys and kids describe an object's known members; other keys are blanked.
	keys words
	kids []*node
}

type object map[string]*node

// with is n for values that are no objects, and o for those that are.
func (n node) with(o object) *node {
	n.keys = newWords(slices.Collect(maps.Keys(o))...)
	for _, k := range n.keys {
		n.kids = append(n.kids, o[k])
	}
	return &n
}

// merge is a new object with the members of all.
func merge(all ...object) object {
	out := object{}
	for _, o := range all {
		maps.Copy(out, o)
	}
	return out
}

// each gives every key of a text the same node.
func each(n *node, text string) object {
	out := object{}
	for _, k := range wordsOf(text) {
		out[k] = n
	}
	return out
}

var (
	blank  = &node{}
	number = &node{scalar: true}
	list   = &node{scalar: true, list: true}
	name   = &node{str: nameString}
	id     = &node{str: idString}
	word   = &node{str: apiString}
	finish = &node{str: finishString}
	fault  = &node{str: errorString}
)

// Members that both directions share: what people say to each other.
var (
	toolCall = (node{}).with(object{
		"id": blank, "type": word, "index": number,
		"function": (node{}).with(each(blank, "name arguments")),
	})
	contentPart = (node{}).with(merge(
		object{"type": word, "index": number},
		each(blank, `text image_url input_audio audio_url video_url image file source
			detail url data annotations logprobs refusal citations thinking signature
			id name input content tool_use_id cache_control`),
	))
	talk = object{
		"role": word, "type": word, "status": word, "content": contentPart, "tool_calls": toolCall,
		"reasoning": blank, "reasoning_content": blank, "refusal": blank, "text": blank,
		"name": blank, "tool_call_id": blank, "id": blank, "call_id": blank,
		"function_call": blank, "annotations": blank, "audio": blank, "arguments": blank,
		"output": blank, "summary": blank, "encrypted_content": blank, "phase": word,
	}
	message = (node{}).with(talk)
)

// requestRoot describes request bodies of all endpoints together.
var requestRoot = func() *node {
	sampling := merge(
		each(number, `n best_of max_tokens max_completion_tokens max_output_tokens
			max_new_tokens min_tokens min_new_tokens temperature top_p top_k min_p seed
			sampling_seed frequency_penalty presence_penalty repetition_penalty
			length_penalty ignore_eos skip_special_tokens spaces_between_special_tokens
			include_stop_str_in_output logprobs top_logprobs prompt_logprobs
			use_beam_search truncate_prompt_tokens no_stop_trim detokenize
			thinking_token_budget stream_interval`),
		each(blank, `stop stop_token_ids stop_sequences bad_words allowed_token_ids logit_bias
			guided_json guided_regex guided_choice guided_grammar structured_outputs
			json_schema regex ebnf extra_args custom_params vllm_xargs`),
	)
	return (node{}).with(merge(
		sampling,
		object{
			"model": name, "request_id": id, "rid": id,
			"stream_options":   (node{}).with(each(number, "include_usage continuous_usage_stats")),
			"sampling_params":  (node{}).with(sampling),
			"messages":         message,
			"input":            message,
			"tools":            (node{}).with(object{"type": word, "function": blank, "name": blank, "parameters": blank, "description": blank}),
			"tool_choice":      (node{str: apiString}).with(object{"type": word, "function": blank, "name": blank}),
			"response_format":  (node{}).with(object{"type": word, "json_schema": blank}),
			"encoding_format":  word,
			"reasoning_effort": blank,
			"service_tier":     word,
			"truncation":       word,
		},
		each(number, `stream priority echo store background parallel_tool_calls
			add_generation_prompt continue_final_message add_special_tokens dimensions
			top_n return_documents normalize return_logprob logprob_start_len
			top_logprobs_num return_token_ids return_text_in_logprobs use_activation`),
		each(blank, `prompt suffix system documents query queries texts text text_1 text_2 data
			input_ids input_embeds image_data user metadata chat_template
			chat_template_kwargs mm_processor_kwargs kv_transfer_params cache_salt
			instructions previous_response_id reasoning thinking tool_resources
			prompt_cache_key safety_identifier lora_path session_id`),
	))
}()

// responseRoot describes response bodies and the data of SSE events of all
// endpoints together. The `metrics` object is kept although no decoder reads it: it
// is what the engine says of itself, and comparing with it is what recordings are for.
var responseRoot = func() *node {
	details := (node{}).with(each(number, `cached_tokens audio_tokens reasoning_tokens
		text_tokens image_tokens cache_write_tokens tool_output_tokens
		accepted_prediction_tokens rejected_prediction_tokens`))
	usage := (node{}).with(merge(
		each(number, `prompt_tokens completion_tokens total_tokens reasoning_tokens
			cached_tokens input_tokens output_tokens cache_creation_input_tokens
			cache_read_input_tokens`),
		each(details, `prompt_tokens_details completion_tokens_details
			input_tokens_details output_tokens_details`),
	))
	logprobs := (node{}).with(each(blank, `content tokens token_logprobs top_logprobs
		text_offset token logprob bytes`))
	reason := (node{str: finishString}).with(object{"type": finish, "length": number, "matched": blank, "message": blank})
	choice := (node{}).with(merge(
		object{
			"index": number, "finish_reason": reason, "stop_reason": finish, "matched_stop": blank,
			"message": message, "delta": message, "logprobs": logprobs,
		},
		each(blank, "text token_ids prompt_token_ids prompt_logprobs routed_experts hidden_states"),
	))
	metrics := (node{}).with(merge(
		each(number, `time_to_first_token_ms generation_time_ms queue_time_ms mean_itl_ms
			tokens_per_second`),
		object{
			"speculative_decoding": (node{}).with(merge(
				each(number, `num_spec_tokens num_spec_steps num_draft_tokens
					num_accepted_draft_tokens draft_acceptance_rate acceptance_length
					mean_acceptance_length`),
				each(list, "histogram acceptance_histogram per_step_accepted per_step_drafted"),
			)),
			"output_token_metrics": (node{}).with(each(number, "reasoning content unclassified_token_count")),
		},
	))
	errorBody := (node{}).with(object{
		"object": word, "type": fault, "message": blank, "param": blank,
		"code": {str: errorString, scalar: true},
	})
	metaInfo := (node{}).with(merge(
		object{"id": id, "finish_reason": reason, "weight_version": id},
		each(number, `prompt_tokens completion_tokens cached_tokens reasoning_tokens
			e2e_latency queue_time num_retractions request_received_ts
			request_sent_to_scheduler_ts api_server_dispatch_finish_ts
			prefill_finished_ts prefill_finished_time decode_finished_ts
			request_finished_ts response_sent_to_client_ts inference_time
			prefill_launch_delay prefill_launch_latency prefill_waiting_latency
			decode_throughput spec_verify_ct dp_rank`),
	))
	outputItem := (node{}).with(talk)
	top := object{
		"id": id, "request_id": id, "object": word, "type": word, "model": name, "created": number,
		"created_at": number, "system_fingerprint": id, "service_tier": word, "status": word,
		"truncation": word, "role": word, "choices": choice, "usage": usage, "metrics": metrics,
		"stop_reason": finish, "meta_info": metaInfo, "error": errorBody, "output": outputItem,
		"incomplete_details": (node{}).with(object{"reason": finish}),
		"content":            contentPart,
		"version":            id, "rust_frontend_version": id,
	}
	for k, n := range merge(
		each(number, `temperature top_p max_output_tokens parallel_tool_calls
			presence_penalty frequency_penalty background store top_logprobs`),
		each(blank, `text instructions metadata tools tool_choice reasoning user
			previous_response_id stop_sequence input_messages output_messages summary
			kv_transfer_params prompt_token_ids prompt_text prompt_logprobs`),
	) {
		top[k] = n
	}
	whole := (node{}).with(top)
	return (node{}).with(merge(top, object{
		"type": {str: topString}, "param": blank,
		"code": {str: errorString, scalar: true},
		// FastAPI's own errors: a text, or a list of what did not validate.
		"detail": (node{}).with(object{"type": fault, "loc": blank, "msg": blank, "input": blank, "ctx": blank}),
		// Anthropic's message_start holds a message, the Responses API's events a response.
		"message": whole, "response": whole,
		"delta": (node{}).with(object{
			"type": word, "text": blank, "stop_reason": finish, "stop_sequence": blank,
			"partial_json": blank, "thinking": blank, "signature": blank,
		}),
		"item": outputItem, "part": contentPart, "content_block": contentPart,
		"index": number, "sequence_number": number, "output_index": number, "content_index": number,
		"item_id": blank, "output_ids": blank, "logprobs": blank,
		// Embeddings, scores, models.
		"data": (node{}).with(merge(
			object{"id": id, "object": word, "owned_by": word, "index": number, "created": number, "max_model_len": number},
			each(blank, "embedding data score probs label num_classes root parent permission"),
		)),
		"results": (node{}).with(object{
			"index": number, "relevance_score": blank,
			"document": (node{}).with(each(blank, "text multi_modal")),
		}),
	}))
}()
