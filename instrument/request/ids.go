package request

import "strings"

// groupKey turns an engine's request id into the id of the response that it belongs
// to, and into the sequence's place among the response's choices.
//
// The rules, measured on vLLM 0.8.2 to 0.33.0:
//   - n > 1: each child has its index and "_" before the parent's id;
//   - from 0.14 on "-" and eight hex digits follow, and the message says the id
//     without them (external; for children the parent's); older releases have neither;
//   - completions, embeddings, scores and pooling add "-" and the prompt's index, for
//     one prompt too; responses add "_" and the turn's.
//
// child is −1 for a request that is no child; prompt is 0 where the id has no index.
func groupKey(id, external string, suffixed bool) (key string, child, prompt int) {
	child = -1
	key = id
	if i := digits(key); i > 0 && i < len(key) && key[i] == '_' {
		child = atoi(key[:i])
		key = key[i+1:]
	}
	switch {
	case external != "":
		key = external
	case suffixed && len(key) > 9 && key[len(key)-9] == '-' && isHex(key[len(key)-8:]):
		key = key[:len(key)-9]
	}
	sep := byte(0)
	switch {
	case strings.HasPrefix(key, "cmpl-"), strings.HasPrefix(key, "embd-"),
		strings.HasPrefix(key, "score-"), strings.HasPrefix(key, "rerank-"),
		strings.HasPrefix(key, "pooling-"), strings.HasPrefix(key, "pool-"),
		strings.HasPrefix(key, "classify-"):
		sep = '-'
	case strings.HasPrefix(key, "resp_"):
		sep = '_'
	}
	if sep != 0 {
		i := strings.LastIndexByte(key, sep)
		if i > strings.IndexByte(key, sep) && i+1 < len(key) && digits(key[i+1:]) == len(key)-i-1 {
			prompt = atoi(key[i+1:])
			key = key[:i]
		}
	}
	return key, child, prompt
}

// digits counts the decimal digits that s begins with, at most seven: longer runs are
// no index.
func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i > 7 {
		return 0
	}
	return i
}

// atoi reads a run of at most seven digits.
func atoi(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// idPrefix is what an endpoint puts before the base id; "" where that is not known.
func idPrefix(e Endpoint) string {
	switch e {
	case EndpointChat, EndpointMessages:
		return "chatcmpl-"
	case EndpointCompletions:
		return "cmpl-"
	case EndpointResponses:
		return "resp_"
	case EndpointEmbeddings:
		return "embd-"
	case EndpointScore, EndpointRerank:
		return "score-"
	case EndpointPooling:
		return "pooling-"
	case EndpointClassify:
		return "classify-"
	case EndpointGenerate:
		return "generate-tokens-"
	}
	return ""
}

// expectedKey is the response id that a request's own id leads to: the X-Request-Id
// header before "request_id" in the body, as vLLM takes them; "" without either.
func expectedKey(x *Exchange) string {
	base := x.RequestID
	if base == "" {
		base = x.BodyID
	}
	p := idPrefix(x.Endpoint)
	if base == "" || p == "" {
		return ""
	}
	if x.Endpoint == EndpointResponses {
		return base // the body's request_id is the whole id
	}
	return p + base
}
