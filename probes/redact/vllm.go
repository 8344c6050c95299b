package redact

import (
	"bytes"
	"maps"
)

// vLLM's engine messages, as the encoder of vllm/v1/serial_utils.py writes them:
// structs are arrays whose length is the release's number of fields, statistics and
// sampling parameters are maps with names. Field orders are those of
// vllm/v1/engine/__init__.py from 0.8.2 to 0.33.0; the redaction goes by shape and
// keeps only what has the same shape in all of them.

// Numbers of fields beyond which a field is none that we know.
const (
	maxAddFields    = 22 // 0.33.0
	maxOutputFields = 19 // 0.33.0
	maxStepFields   = 9  // 0.33.0
	minAddFields    = 10 // 0.8.2
	minOutputFields = 7  // 0.8.2
)

// minExternalID is the shortest external_req_id: "cmpl-", one byte, "-0". Anything
// shorter could be part of the id by chance.
const minExternalID = 8

var (
	packBlankNode = &packNode{}
	packNumbers   = &packNode{rule: packNumber}
	packLists     = &packNode{rule: packList}
	packIDs       = &packNode{rule: packIdent}
	packWords     = &packNode{rule: packWord}
)

var handshakeWords = wordsOf("HELLO READY")

func packMerge(all ...map[string]*packNode) *packNode {
	out := map[string]*packNode{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return &packNode{keys: out}
}

// samplingNode describes SamplingParams.
var samplingNode = packMerge(
	packKeys(packNumbers, `n presence_penalty frequency_penalty repetition_penalty
		temperature top_p top_k min_p seed max_tokens min_tokens logprobs
		prompt_logprobs ignore_eos output_kind skip_clone detokenize watermarking
		skip_special_tokens spaces_between_special_tokens include_stop_str_in_output
		truncate_prompt_tokens stream_interval skip_reading_prefix_cache flat_logprobs
		thinking_token_budget output_text_buffer_length`),
	packKeys(packBlankNode, `stop stop_token_ids _all_stop_token_ids _eos_token_id bad_words
		_bad_words_token_ids allowed_token_ids logit_bias extra_args
		structured_outputs guided_decoding logits_processors repetition_detection`),
)

// traceNode describes trace_headers.
var traceNode = packMerge(packKeys(&packNode{rule: packTrace}, "traceparent tracestate"))

// outputNode describes the maps of one request's output: its scheduler events, prefill
// and speculation statistics and trace headers.
var outputNode = packMerge(
	traceNode.keys,
	packKeys(packNumbers, `num_prompt_tokens num_computed_tokens num_cached_tokens
		num_local_cached_tokens num_external_cached_tokens num_cache_creation_tokens
		num_spec_tokens num_draft_tokens`),
	packKeys(packLists, "histogram per_step_accepted per_step_drafted"),
)

var eventNode = packMerge(packKeys(packNumbers, "type timestamp"))

// statsNode describes SchedulerStats.
var statsNode = func() *packNode {
	cache := packMerge(
		packKeys(packNumbers, `reset requests queries hits preempted_requests
			preempted_queries preempted_hits`),
		packKeys(packBlankNode, "hits_by_source"),
	)
	return packMerge(
		packKeys(packNumbers, `num_running_reqs num_waiting_reqs num_skipped_waiting_reqs
			step_counter current_wave kv_cache_usage gpu_cache_usage
			encoder_cache_usage num_corrupted_reqs sleep_state sleep_state_only`),
		packKeys(cache, "prefix_cache_stats connector_prefix_cache_stats"),
		packKeys(packMerge(
			packKeys(packNumbers, "num_spec_tokens num_drafts num_draft_tokens num_accepted_tokens"),
			packKeys(packLists, "num_accepted_tokens_per_pos num_draft_tokens_per_pos"),
		), "spec_decoding_stats"),
		packKeys(packMerge(packKeys(packNumbers, "waiting_to_start in_progress completed_waiting")),
			"num_kv_fetch_reqs_by_stage"),
		packKeys(packBlankNode, `iteration_details kv_cache_eviction_events kv_connector_stats
			ec_connector_stats waiting_lora_adapters running_lora_adapters
			cudagraph_stats perf_stats`),
	)
}()

// readyNode describes EngineCoreReadyResponse and the maps of the handshake.
var readyNode = packMerge(
	packKeys(packNumbers, `max_model_len num_gpu_blocks block_size world_size
		data_parallel_size tensor_parallel_size pipeline_parallel_size
		decode_context_parallel_size data_parallel_rank max_num_seqs
		max_num_batched_tokens supports_lora max_loras mamba_block_size
		kv_cache_size_tokens kv_cache_max_concurrency enable_sleep_mode
		supports_draft_weight_updates effective_attention_block_size local headless`),
	packKeys(packIDs, "vllm_version dtype instance_id"),
	packKeys(packWords, "status"),
	packKeys(packBlankNode, `dp_stats_address addresses parallel_config kv_events_config
		weight_transfer_backend`),
)

// add redacts an EngineCoreRequest. Between the request's id and its arrival time, the
// only float64, everything but the sampling parameters' numbers is content or needed
// by nobody; behind it come the adapter, small numbers, trace headers and the id
// without its random suffix.
func (c *pack) add() bool {
	n, ok := c.array()
	if !ok || n < minAddFields {
		return false
	}
	var requestID []byte
	arrival := -1 // index of the arrival time
	sampling := false
	return c.nested(n, func(i int) bool {
		it, ok := c.next()
		if !ok {
			return false
		}
		switch {
		case i == 0:
			requestID = c.string(it)
			return it.kind == packString && c.idItem(it)
		case i >= maxAddFields:
			return c.blankItem(it)
		case arrival >= 0 && i == arrival+1 && it.kind == packArray:
			return c.lora(it) // in all releases right behind the arrival time
		}
		switch it.kind {
		case packBool, packInt:
			return true
		case packFloat:
			if arrival < 0 {
				arrival = i
				return true
			}
		case packString:
			// external_req_id is part of the id or equal to it: keeping it tells nothing
			// that was not told before.
			if arrival >= 0 && it.to-it.from >= minExternalID {
				c.idItem(it)
				if bytes.Contains(requestID, c.string(it)) {
					return true
				}
			}
		case packMap:
			if arrival >= 0 {
				return c.byItem(it, traceNode, nil)
			}
			if !sampling {
				sampling = true
				return c.byItem(it, samplingNode, nil)
			}
		}
		return c.blankItem(it)
	})
}

// lora redacts a LoRARequest: its name and number stay, its path does not.
func (c *pack) lora(it packItem) bool {
	return c.nested(it.n, func(i int) bool {
		switch i {
		case 0:
			return c.id()
		case 1:
			return c.scalar()
		}
		return c.blank()
	})
}

// step redacts EngineCoreOutputs: what one step made for each request, statistics, and
// the time.
func (c *pack) step() bool {
	n, ok := c.array()
	if !ok || n != 4 && n < 7 {
		return false
	}
	shift := 1
	if n == 4 {
		shift = 0 // 0.8.2 has no engine_index
	}
	return c.nested(n, func(i int) bool {
		it, ok := c.next()
		if !ok {
			return false
		}
		if i >= maxStepFields {
			return c.blankItem(it)
		}
		switch i - shift {
		case -1: // engine_index
			return it.kind == packInt
		case 0: // outputs
			return it.kind == packArray && c.nested(it.n, func(int) bool { return c.output() })
		case 1: // scheduler_stats
			return (it.kind == packNil || it.kind == packMap) && c.byItem(it, statsNode, nil)
		case 2: // timestamp
			return it.kind == packFloat || it.kind == packInt || it.kind == packNil
		case 4: // finished_requests
			if it.kind == packArray {
				return c.nested(it.n, func(int) bool { return c.id() })
			}
		case 5, 6: // engine_paused or wave_complete, start_wave
			if it.kind == packInt || it.kind == packBool {
				return true
			}
		case 7: // weight_version
			return c.idItem(it)
		}
		return c.blankItem(it)
	})
}

// output redacts an EngineCoreOutput.
func (c *pack) output() bool {
	n, ok := c.array()
	if !ok || n < minOutputFields {
		return false
	}
	finish := 5
	if n < 10 {
		finish = 4 // before 0.9.2 there is no pooling_output
	}
	return c.nested(n, func(i int) bool {
		it, ok := c.next()
		if !ok {
			return false
		}
		switch {
		case i == 0: // request_id
			return it.kind == packString && c.idItem(it)
		case i == 1: // new_token_ids
			return it.kind == packArray && c.blankItem(it)
		case i == finish && it.kind == packInt:
			return true
		case i < finish+2, i >= maxOutputFields: // finish+1 is the stop string or token
			return c.blankItem(it)
		case i == finish+2 && it.kind == packArray: // events
			return c.nested(it.n, func(int) bool { return c.by(eventNode, nil) })
		case it.kind == packInt, it.kind == packBool: // counts
			return true
		case it.kind == packMap:
			return c.byItem(it, outputNode, nil)
		}
		return c.blankItem(it)
	})
}

// ids redacts the ids of an ABORT.
func (c *pack) ids() bool {
	n, ok := c.array()
	return ok && c.nested(n, func(int) bool { return c.id() })
}

// ready redacts a map of the start: at least one key must be known.
func (c *pack) ready() bool {
	it, ok := c.next()
	known := 0
	return ok && it.kind == packMap && c.byItem(it, readyNode, &known) && known > 0
}
