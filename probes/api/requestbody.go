package api

import (
	"math"
	"strconv"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// Places in a request's body.
const (
	reqModel node = firstNode + iota
	reqStream
	reqID
	reqPrompts // strings, arrays of strings, of token ids, or of such arrays
	reqPrompt  // one of them
	reqSampling
	reqN
	reqMaxTokens
	reqMaxCompletionTokens
	reqMaxOutputTokens
	reqTemperature
	reqTopP
	reqTopK
	reqSeed
	reqFrequencyPenalty
	reqPresencePenalty
)

// requestBody reads a request's JSON body into its Exchange. Keys that occur twice
// count as the last one, as Python's parsers have it.
type requestBody struct {
	json scanner
	tail tail
	ex   *request.Exchange
	// opaque: the body's encoding is not read.
	opaque bool
	// asked: the body has the key "stream", whatever its value.
	asked bool
	// ids says that the prompts' array holds token ids: it is one prompt.
	ids bool
	// The limit on tokens has three names; which counts depends on the endpoint.
	maxTokens, maxCompletionTokens, maxOutputTokens *int
}

func (b *requestBody) reset(ex *request.Exchange) {
	b.json.reset()
	b.tail.reset()
	*b = requestBody{json: b.json, tail: b.tail, ex: ex}
	if b.single() {
		ex.Prompts = 1
	}
}

// single reports whether the endpoint takes one prompt, whatever the body holds.
func (b *requestBody) single() bool {
	switch b.ex.Endpoint {
	case request.EndpointChat, request.EndpointMessages, request.EndpointResponses:
		return true
	}
	return false
}

func (b *requestBody) feed(p []byte) {
	if b.opaque {
		return
	}
	b.json.feed(b, p)
	b.tail.feed(p)
}

// cut says that bytes are missing here.
func (b *requestBody) cut() {
	b.ex.BodyMissing = true
	if s := &b.json; s.at == inString && !s.key && s.cur == reqPrompts && !b.single() {
		b.ex.Prompts = 1 // a string, however long
	}
	b.json.stop()
	b.tail.cut()
}

// end is the body's last byte.
func (b *requestBody) end() {
	if !b.opaque {
		b.tail.finish(b)
	}
	b.tail.reset()
	if b.json.whole && b.json.object && !b.asked && streams(b.ex.Endpoint) {
		b.ex.Stream = new(bool) // a body that leaves it out asks for one answer
	}
}

// streams reports whether an endpoint can answer with a stream, so that not to ask for
// one says something.
func streams(e request.Endpoint) bool {
	switch e {
	case request.EndpointChat, request.EndpointCompletions, request.EndpointResponses, request.EndpointMessages:
		return true
	}
	return false
}

func (b *requestBody) child(parent node, key []byte) node {
	if parent == root {
		switch string(key) {
		case "model":
			return reqModel
		case "stream":
			b.asked = true
			return reqStream
		case "request_id", "rid":
			return reqID
		case "sampling_params":
			return reqSampling
		case "prompt", "input", "text", "texts", "input_ids", "token_ids":
			return b.prompts(key)
		}
	} else if parent != reqSampling {
		return ignored
	}
	switch string(key) {
	case "n":
		return reqN
	case "max_tokens", "max_new_tokens":
		return reqMaxTokens
	case "max_completion_tokens":
		return reqMaxCompletionTokens
	case "max_output_tokens":
		return reqMaxOutputTokens
	case "temperature":
		return reqTemperature
	case "top_p":
		return reqTopP
	case "top_k":
		return reqTopK
	case "seed":
		return reqSeed
	case "frequency_penalty":
		return reqFrequencyPenalty
	case "presence_penalty":
		return reqPresencePenalty
	}
	return ignored
}

// prompts says whether a key holds the prompts at this endpoint.
func (b *requestBody) prompts(key []byte) node {
	names := ""
	switch b.ex.Endpoint {
	case request.EndpointCompletions:
		names = "prompt"
	case request.EndpointEmbeddings:
		if names = "input"; b.ex.Route == "/v2/embed" {
			names = "texts"
		}
	case request.EndpointPooling, request.EndpointClassify:
		names = "input"
	case request.EndpointGenerate:
		// vLLM: token_ids. SGLang: text or input_ids.
		if k := string(key); k == "token_ids" || k == "text" || k == "input_ids" {
			return reqPrompts
		}
	}
	if string(key) == names {
		return reqPrompts
	}
	return ignored
}

func (b *requestBody) element(array node) node {
	if array == reqPrompts {
		return reqPrompt
	}
	return ignored
}

func (b *requestBody) enter(n node, array bool) bool {
	switch n {
	case root, reqSampling:
		return !array
	case reqPrompts:
		b.ids = false
		return array
	}
	return false
}

func (b *requestBody) leave(n node, elements int) {
	if n != reqPrompts {
		return
	}
	if b.ex.Prompts = elements; b.ids {
		b.ex.Prompts = 1
	}
}

func (b *requestBody) scalar(n node, k kind, v token) {
	p := &b.ex.Params
	switch n {
	case reqPrompt:
		if k == kindOther && !b.ids {
			b.ids = true
			b.ex.Prompts = 1
		}
	case reqPrompts:
		switch {
		case k == kindString:
			b.ex.Prompts = 1
		case b.ex.Endpoint != request.EndpointGenerate:
			b.ex.Prompts = 0 // null, or wrong; SGLang's other name for them may hold some
		}
	case reqModel:
		b.ex.Model = str(k, v)
	case reqID:
		b.ex.BodyID = str(k, v)
	case reqStream:
		b.ex.Stream = boolean(k, v)
	case reqN:
		p.N = integer(k, v)
	case reqMaxTokens:
		b.maxTokens = integer(k, v)
		b.limit()
	case reqMaxCompletionTokens:
		b.maxCompletionTokens = integer(k, v)
		b.limit()
	case reqMaxOutputTokens:
		b.maxOutputTokens = integer(k, v)
		b.limit()
	case reqTemperature:
		p.Temperature = number(k, v)
	case reqTopP:
		p.TopP = number(k, v)
	case reqTopK:
		p.TopK = integer(k, v)
	case reqSeed:
		if i, ok := integer64(k, v); ok {
			p.Seed = &i
		} else {
			p.Seed = nil
		}
	case reqFrequencyPenalty:
		p.FrequencyPenalty = number(k, v)
	case reqPresencePenalty:
		p.PresencePenalty = number(k, v)
	}
}

// limit chooses the limit on tokens: chat prefers max_completion_tokens to its older
// name, and responses knows max_output_tokens alone.
func (b *requestBody) limit() {
	switch {
	case b.ex.Endpoint == request.EndpointResponses:
		b.ex.Params.MaxTokens = b.maxOutputTokens
	case b.ex.Endpoint == request.EndpointChat && b.maxCompletionTokens != nil:
		b.ex.Params.MaxTokens = b.maxCompletionTokens
	default:
		b.ex.Params.MaxTokens = b.maxTokens
	}
}

func str(k kind, v token) string {
	if k != kindString {
		return ""
	}
	return string(v.text())
}

func boolean(k kind, v token) *bool {
	if k == kindOther {
		switch string(v.raw) {
		case "true":
			return new(true)
		case "false":
			return new(false)
		}
	}
	return nil
}

func number(k kind, v token) *float64 {
	if k != kindOther {
		return nil
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func integer(k kind, v token) *int {
	i, ok := integer64(k, v)
	if !ok {
		return nil
	}
	return new(int(i))
}

// integer64 reads an integer, also one that is written as 8.0 or 1e3.
func integer64(k kind, v token) (int64, bool) {
	if k != kindOther || v.long {
		return 0, false
	}
	if i, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
		return i, true
	}
	// Beyond 2^53 a float64 is no exact integer.
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
