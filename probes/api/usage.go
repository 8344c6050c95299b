package api

// Token counts of responses, in the words of each API.

import "github.com/tokenscope/tokenscope/instrument/request"

// count names the keys of usage objects in every dialect.
func (b *responseBody) count(parent node, key []byte) node {
	switch string(key) {
	case "cached_tokens", "cache_read_input_tokens":
		return resCached
	case "reasoning_tokens":
		return resReasoning
	}
	if parent == resPromptDetails || parent == resCompletionDetails {
		return ignored
	}
	switch string(key) {
	case "prompt_tokens", "input_tokens":
		return resPrompt
	case "completion_tokens", "output_tokens":
		return resCompletion
	case "prompt_tokens_details", "input_tokens_details":
		return resPromptDetails
	case "completion_tokens_details", "output_tokens_details":
		return resCompletionDetails
	}
	if parent == resMeta {
		switch string(key) {
		case "id":
			return resID
		case "finish_reason":
			return resMetaFinish
		}
	}
	return ignored
}

// counted books a number of the usage.
func (b *responseBody) counted(n node, k kind, v token) {
	i, ok := integer64(k, v)
	if !ok || i < 0 {
		return
	}
	if n == resCompletion && b.started {
		return
	}
	if (b.inMeta || b.form == formSSE && b.position >= 0) && !b.alone() {
		// Several sequences: this counts one of them. (SGLang's meta_info; a usage beside
		// choices, with continuous_usage_stats.) The sum comes without choices.
		return
	}
	u := b.ex.Usage
	if u == nil {
		u = &request.Usage{Prompt: -1, Completion: -1, Cached: -1, Reasoning: -1}
		b.ex.Usage = u
	}
	switch n {
	case resPrompt:
		u.Prompt = int(i)
	case resCompletion:
		u.Completion = int(i)
	case resCached:
		u.Cached = int(i)
	case resReasoning:
		u.Reasoning = int(i)
	}
}

// alone reports whether the request is known to make one sequence only.
func (b *responseBody) alone() bool {
	return b.ex.Prompts == 1 && !b.ex.BodyMissing && (b.ex.Params.N == nil || *b.ex.Params.N == 1)
}

// intern returns a finish reason without making a string for the usual ones.
func intern(v token) string {
	switch string(v.raw) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "abort":
		return "abort"
	case "error":
		return "error"
	case "repetition":
		return "repetition"
	case "tool_calls":
		return "tool_calls"
	case "function_call":
		return "function_call"
	case "content_filter":
		return "content_filter"
	case "end_turn":
		return "end_turn"
	case "max_tokens":
		return "max_tokens"
	case "stop_sequence":
		return "stop_sequence"
	case "tool_use":
		return "tool_use"
	}
	return string(v.text())
}
