package api

import (
	"bytes"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// Places in a response's body or in one event of a stream.
const (
	resID node = firstNode + iota
	resModel
	resObject
	resType
	resText   // output, where it is not empty
	resTokens // output, where the array is not empty
	resUsage
	resPromptDetails
	resCompletionDetails
	resPrompt
	resCompletion
	resCached
	resReasoning
	resChoices
	resChoice
	resIndex
	resFinish
	resDelta        // choices[].delta
	resMessageDelta // delta of an Anthropic event
	resNested       // "response" or "message" of an event: as the root
	resMeta         // SGLang's meta_info
	resMetaFinish
	resError
	resErrorType
)

// maxChoices bounds the choice indexes that are kept: prompts × n. vLLM bounds n
// itself by 16384, but answers that wide are not seen; an index is hostile bytes.
const maxChoices = 4096

// responseBody reads a response's JSON body, or the events of a stream one after the
// other, into its Exchange.
type responseBody struct {
	json scanner
	tail tail
	sse  sse
	// repeat is an event of the stream that said nothing new.
	repeat repeat
	ex     *request.Exchange
	form   form

	// Of the present document:
	typ      [maxType]byte // "type" of the root
	typLen   int
	isError  bool // "object" is "error": the type is the error's (vLLM up to 0.9)
	output   bool // it carries output
	index    int  // of the present choice; −1 where it does not say
	position int  // of the present choice
	finish   string
	inMeta   bool   // inside SGLang's meta_info
	started  bool   // it is a message_start, whose usage comes before anything was made
	told     bool   // it said something that was booked
	text     []byte // its last text, valid only during the call that fed it

	// cutAt is the time of a segment that lacks bytes which may have carried the
	// first output; firstLost says that nothing can tell its time any more.
	cutAt     int64
	firstLost bool
}

// form says how a response's body is read.
type form uint8

const (
	formOpaque form = iota // not at all
	formJSON
	formSSE
)

// maxType is longer than any event type that matters; a longer one is none.
const maxType = 64

func (b *responseBody) reset(ex *request.Exchange) {
	b.tail.reset()
	b.sse.reset()
	b.repeat.reset()
	*b = responseBody{json: b.json, tail: b.tail, sse: b.sse, repeat: b.repeat, ex: ex}
	b.document()
}

// document begins a document.
func (b *responseBody) document() {
	b.json.reset()
	b.typLen, b.isError, b.output, b.index, b.position, b.finish = 0, false, false, -1, -1, ""
	b.inMeta, b.started, b.told, b.text = false, false, false, nil
}

// feed takes a piece of the body that was written at t.
func (b *responseBody) feed(t int64, p []byte) {
	switch b.form {
	case formJSON:
		b.json.feed(b, p)
		b.tail.feed(p)
	case formSSE:
		b.sse.feed(b, t, p)
	}
}

// cut says that n bytes are missing here (−1: an unknown number, behind which a chunk
// begins). gap says that they were lost, so that nothing is known of their time.
func (b *responseBody) cut(t int64, n int, gap bool) {
	b.ex.ResponseCut = true
	switch b.form {
	case formJSON:
		b.json.stop()
		b.tail.cut()
	case formSSE:
		if b.ex.FirstToken == 0 {
			b.firstLost = b.firstLost || gap || (b.cutAt != 0 && b.cutAt != t)
			b.cutAt = t
		}
		b.document()
		b.sse.cut(n < 0)
	}
}

// end is the body's last byte.
func (b *responseBody) end() {
	if b.form == formJSON {
		b.tail.finish(b)
		if b.isError && b.ex.ErrorType == "" {
			b.ex.ErrorType = string(b.typ[:b.typLen])
		}
	}
	b.tail.reset()
}

// event is the end of an event with data; name is its "event:" line, often empty.
func (b *responseBody) event(t int64, name []byte) {
	if !b.json.object {
		return // [DONE]
	}
	b.ex.Events++
	typ := b.typ[:b.typLen]
	if b.typLen == 0 {
		typ = name
	}
	switch b.ex.Endpoint {
	case request.EndpointMessages:
		b.output = string(typ) == "content_block_delta"
	case request.EndpointResponses:
		b.output = bytes.HasSuffix(typ, []byte(".delta"))
	}
	if b.output && b.ex.FirstToken == 0 {
		if b.firstLost = b.firstLost || (b.cutAt != 0 && b.cutAt != t); !b.firstLost {
			b.ex.FirstToken = t
		}
	}
	if b.isError && b.ex.ErrorType == "" {
		b.ex.ErrorType = string(typ)
	}
}

// plain reports whether the event that just ended said nothing, so that another one
// like it will say nothing either.
func (b *responseBody) plain() bool {
	return b.json.object && !b.told && !b.isError && (b.ex.FirstToken != 0 || b.firstLost)
}

func (b *responseBody) child(parent node, key []byte) node {
	switch parent {
	case root, resNested:
		return b.member(parent, key)
	case resUsage, resMeta, resPromptDetails, resCompletionDetails:
		return b.count(parent, key)
	case resChoice:
		switch string(key) {
		case "index":
			return resIndex
		case "finish_reason":
			return resFinish
		case "delta":
			return resDelta
		case "text":
			return resText
		case "token_ids":
			return resTokens
		}
	case resDelta:
		switch string(key) {
		case "content", "reasoning", "reasoning_content", "refusal":
			return resText
		case "tool_calls", "token_ids":
			return resTokens
		}
	case resMessageDelta:
		if string(key) == "stop_reason" {
			return resFinish
		}
	case resMetaFinish:
		if string(key) == "type" {
			return resFinish
		}
	case resError:
		if string(key) == "type" {
			return resErrorType
		}
	}
	return ignored
}

// member names the keys of the document, or of what an event wraps.
func (b *responseBody) member(parent node, key []byte) node {
	switch string(key) {
	case "id":
		return resID
	case "request_id":
		if b.ex.Endpoint == request.EndpointGenerate {
			return resID
		}
	case "model":
		return resModel
	case "usage":
		return resUsage
	case "stop_reason":
		if b.ex.Endpoint == request.EndpointMessages {
			return resFinish
		}
	case "error":
		return resError
	}
	if parent != root {
		return ignored
	}
	switch string(key) {
	case "object":
		return resObject
	case "type":
		return resType
	case "choices":
		return resChoices
	case "delta":
		if b.ex.Endpoint == request.EndpointMessages {
			return resMessageDelta
		}
	case "response", "message":
		return resNested
	case "meta_info":
		return resMeta
	case "index":
		return resIndex
	case "text":
		return resText
	case "output_ids":
		return resTokens
	}
	return ignored
}

func (b *responseBody) element(array node) node {
	if array == resChoices {
		return resChoice
	}
	return ignored
}

func (b *responseBody) enter(n node, array bool) bool {
	switch n {
	case resChoices:
		b.position = -1
		return array
	case resTokens:
		return array // to count them
	case resChoice:
		b.index, b.finish = -1, ""
		b.position++
		return !array
	case resNested:
		// Not for documents: the answer of a chat has its text there.
		b.started = string(b.typ[:b.typLen]) == "message_start" || b.form == formSSE && b.sse.named("message_start")
		return !array && b.form == formSSE
	case resMeta:
		b.inMeta = !array
		return !array
	case root, resMessageDelta, resUsage, resPromptDetails, resCompletionDetails, resDelta, resMetaFinish, resError:
		return !array
	}
	return false
}

func (b *responseBody) leave(n node, elements int) {
	switch n {
	case resTokens:
		b.output = b.output || elements > 0
	case resChoice:
		if b.index < 0 {
			b.index = b.position
		}
		b.finished()
	case resMeta:
		b.inMeta = false
	case root:
		// Only now: SGLang says the index behind the finish reason.
		if b.index < 0 {
			b.index = 0
		}
		b.finished()
	}
}

// finished books the finish reason of what just ended.
func (b *responseBody) finished() {
	if b.finish == "" || b.index >= maxChoices {
		return
	}
	for len(b.ex.FinishReasons) <= b.index {
		b.ex.FinishReasons = append(b.ex.FinishReasons, "")
	}
	b.told = true
	b.ex.FinishReasons[b.index] = b.finish
	b.finish = ""
}

func (b *responseBody) scalar(n node, k kind, v token) {
	switch n {
	case resText:
		if k == kindString {
			b.output, b.text = b.output || len(v.raw) > 0, v.raw
		}
	case resIndex:
		if i, ok := integer64(k, v); ok && i >= 0 {
			b.index = int(min(i, maxChoices))
		}
	case resFinish:
		if k == kindString {
			b.finish = intern(v)
		}
	case resID:
		if b.ex.ResponseID == "" {
			b.ex.ResponseID, b.told = str(k, v), true
		}
	case resModel:
		if b.ex.ResponseModel == "" {
			b.ex.ResponseModel, b.told = str(k, v), true
		}
	case resObject:
		b.isError = k == kindString && string(v.raw) == "error"
	case resType:
		if b.typLen = 0; k == kindString && len(v.raw) <= maxType {
			b.typLen = copy(b.typ[:], v.raw)
		}
	case resErrorType:
		b.told = true
		if b.ex.ErrorType == "" {
			b.ex.ErrorType = str(k, v)
		}
	case resPrompt, resCompletion, resCached, resReasoning:
		b.told = true
		b.counted(n, k, v)
	}
}
