// Package requesttest has hand-made Requests of every kind for the exporters' tests.
//
// Times are round numbers, so that golden files can be checked by eye: the monotonic
// clock is at 1000 s when a request's first byte is read, and the wall clock is
// 2026-01-02 03:04:05 UTC then.
package requesttest

import "github.com/tokenscope/tokenscope/instrument/request"

const (
	ms    = int64(1e6)
	start = int64(1000e9)
	// wall is 2026-01-02T03:04:05Z in Unix seconds.
	wall       = 1767323045
	wallOffset = wall*int64(1e9) - start
)

// at is a captured time, so many milliseconds after the request's first byte.
func at(after float64) int64 { return start + int64(after*float64(ms)) }

// atS is the same time as an engine's monotonic seconds, wallS as wall-clock seconds.
func atS(after float64) float64   { return 1000 + after/1000 }
func wallS(after float64) float64 { return wall + after/1000 }

func ptr[T any](v T) *T { return &v }

// Sequence is what an engine made of one prompt in 20 ms: queued at 2 ms, scheduled at
// 3 ms, first token at 8 ms, last of 4 tokens at 20 ms.
func Sequence(id string) *request.Sequence {
	s := &request.Sequence{
		EngineID: id, EngineIndex: 0, PID: 4242,
		AddTime: at(1.5), ArrivalS: wallS(1), HasArrival: true,
		Params:       request.Params{N: ptr(1), MaxTokens: ptr(4), Temperature: ptr(0.0), TopP: ptr(1.0)},
		PromptTokens: 17, CachedTokens: 16, CompletionTokens: 4, GeneratedTokens: 4, Preemptions: 0,
		Finish:  request.FinishLength,
		QueuedS: atS(2), ScheduledS: atS(3), FirstTokenS: atS(8), LastTokenS: atS(20),
		Waits:          []request.Wait{{StartS: atS(2), EndS: atS(3)}},
		FirstTokenTime: at(8.5), LastTokenTime: at(20.5),
		StepsTotal: 4,
	}
	for i := range 4 {
		s.Steps = append(s.Steps, request.TokenStep{
			TS: atS(8 + 4*float64(i)), Time: at(8.5 + 4*float64(i)), Tokens: 1, Total: i + 1, Batch: 2, Waiting: 0,
		})
	}
	return s
}

// Plain is an answered chat request, not streamed, child of a sampled caller.
func Plain() *request.Request {
	return &request.Request{
		Record:       [16]byte{0x01, 0x9b, 0x7c, 0x00, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1},
		TraceID:      [16]byte{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},
		ParentSpanID: [8]byte{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7},
		Sampled:      true, Tracestate: "vendor=1",
		HTTP: &request.Exchange{
			PID: 4242, Conn: 7, Port: 8000,
			FirstByte: at(0), ReadEnd: at(0.5),
			Method: "POST", Path: "/v1/chat/completions", Route: "/v1/chat/completions", Endpoint: request.EndpointChat,
			Proto: "1.1", UserAgent: "OpenAI/Python 1.99.1", RequestID: "fixture-1",
			Model: "tiny", Stream: ptr(false), Prompts: 1,
			Params: request.Params{MaxTokens: ptr(4), Temperature: ptr(0.0)},
			Status: 200, FirstResponseByte: at(21), End: at(22),
			ResponseID: "chatcmpl-fixture-1", ResponseModel: "tiny", FinishReasons: []string{"length"},
			Usage:    &request.Usage{Prompt: 17, Completion: 4, Cached: 16, Reasoning: -1},
			Complete: true,
		},
		Sequences: []*request.Sequence{Sequence("chatcmpl-fixture-1-0a1b2c3d")},
		ID:        "chatcmpl-fixture-1", Engine: "vllm-v1", EngineVersion: "0.32.0", Model: "tiny",
		Stream: ptr(false), Status: 200, FinishReason: "length",
		Usage: &request.Usage{Prompt: 17, Completion: 4, Cached: 16, Reasoning: -1},
		Start: at(0), End: at(22), WallOffset: wallOffset,
	}
}

// Streamed is a streamed chat request without a caller's trace, every parameter set.
func Streamed() *request.Request {
	r := Plain()
	r.ParentSpanID, r.Sampled, r.Tracestate = [8]byte{}, false, ""
	r.Stream, r.HTTP.Stream, r.HTTP.SSE = ptr(true), ptr(true), true
	r.HTTP.FirstResponseByte, r.HTTP.FirstToken = at(1.25), at(9)
	r.HTTP.Params = request.Params{N: ptr(1), MaxTokens: ptr(4), Temperature: ptr(0.7), TopP: ptr(0.9), TopK: ptr(20),
		Seed: ptr(int64(42)), FrequencyPenalty: ptr(0.1), PresencePenalty: ptr(0.2)}
	r.Sequences[0].Params = r.HTTP.Params
	r.HTTP.Usage.Reasoning, r.Usage.Reasoning = 3, 3
	return r
}

// TwoChoices is a completion with n=2: two engine requests.
func TwoChoices() *request.Request {
	r := Plain()
	r.HTTP.Endpoint, r.HTTP.Path, r.HTTP.Route = request.EndpointCompletions, "/v1/completions", "/v1/completions"
	r.ID, r.HTTP.ResponseID = "cmpl-5c1e", "cmpl-5c1e"
	r.HTTP.Params.N, r.HTTP.FinishReasons = ptr(2), []string{"length", "stop"}
	a, b := Sequence("0_cmpl-5c1e-0-0a1b2c3d"), Sequence("1_cmpl-5c1e-0-0a1b2c3d")
	b.Index, b.Finish, b.CompletionTokens, b.GeneratedTokens = 1, request.FinishStop, 3, 3
	b.LastTokenS, b.LastTokenTime, b.Steps, b.StepsTotal = atS(16), at(16.5), b.Steps[:3], 3
	r.Sequences = []*request.Sequence{a, b}
	r.Usage = &request.Usage{Prompt: 17, Completion: 7, Cached: 16, Reasoning: -1}
	r.HTTP.Usage = r.Usage
	return r
}

// Preempted is Plain, preempted from 10 ms to 14 ms.
func Preempted() *request.Request {
	r := Plain()
	s := r.Sequences[0]
	s.Preemptions = 1
	s.Waits = append(s.Waits, request.Wait{StartS: atS(10), EndS: atS(14)})
	return r
}

// StopString ended at a stop string: the front-end aborted the engine's request, which
// had already made one token more and did not say how it ended.
func StopString() *request.Request {
	r := Plain()
	s := r.Sequences[0]
	s.Aborted, s.AbortTime, s.Finish, s.GeneratedTokens = true, at(20.75), request.FinishNone, 5
	r.FinishReason, r.HTTP.FinishReasons = "stop", []string{"stop"}
	return r
}

// Disconnected is a stream whose client left at 14 ms; the abort followed at 25 ms, to
// which the engine does not answer.
func Disconnected() *request.Request {
	r := Streamed()
	r.HTTP.End, r.HTTP.Complete, r.HTTP.Disconnected, r.HTTP.FinishReasons, r.HTTP.Usage = at(14), false, true, nil, nil
	r.Disconnected, r.ErrorType, r.FinishReason = true, "client_disconnect", "abort"
	s := r.Sequences[0]
	s.Aborted, s.AbortTime, s.Finish = true, at(25), request.FinishNone
	r.End = at(25)
	return r
}

// WaitingAborted was aborted while it was still queued: no token, a wait without end.
func WaitingAborted() *request.Request {
	r := Disconnected()
	s := r.Sequences[0]
	s.ScheduledS, s.FirstTokenS, s.LastTokenS, s.FirstTokenTime, s.LastTokenTime = 0, 0, 0, 0, 0
	s.Waits, s.Steps, s.StepsTotal = []request.Wait{{StartS: atS(2)}}, nil, 0
	s.CompletionTokens, s.GeneratedTokens, s.CachedTokens = 0, 0, -1
	r.HTTP.FirstToken, r.Usage = 0, &request.Usage{Prompt: 17, Completion: 0, Cached: -1, Reasoning: -1}
	return r
}

// Rejected is a 404: a model that the server does not have.
func Rejected() *request.Request {
	r := Plain()
	r.HTTP.Status, r.Status, r.HTTP.ErrorType, r.ErrorType = 404, 404, "NotFoundError", "NotFoundError"
	r.HTTP.Model, r.Model, r.HTTP.ResponseID, r.HTTP.ResponseModel = "no-such-model", "no-such-model", "", ""
	r.HTTP.FinishReasons, r.HTTP.Usage, r.Usage, r.Sequences, r.ID, r.FinishReason = nil, nil, nil, nil, "", ""
	r.HTTP.FirstResponseByte, r.HTTP.End, r.End = at(1), at(1.25), at(1.25)
	return r
}

// EngineDead failed with 500 because the engine died while it decoded.
func EngineDead() *request.Request {
	r := Plain()
	r.HTTP.Status, r.Status, r.HTTP.ErrorType, r.ErrorType = 500, 500, "InternalServerError", "engine_dead"
	r.HTTP.ResponseID, r.HTTP.ResponseModel, r.HTTP.FinishReasons, r.HTTP.Usage = "", "", nil, nil
	r.FinishReason = ""
	r.Sequences[0].Finish = request.FinishNone
	return r
}

// HTTPOnly is Plain without its engine side.
func HTTPOnly() *request.Request {
	r := Plain()
	r.Sequences, r.Engine, r.EngineVersion = nil, "", ""
	r.Incomplete = []string{"engine:not_captured"}
	return r
}

// EngineOnly is TwoChoices without its HTTP side.
func EngineOnly() *request.Request {
	r := TwoChoices()
	r.HTTP, r.Status, r.Stream, r.ParentSpanID, r.Sampled, r.Tracestate = nil, 0, nil, [8]byte{}, false, ""
	r.Start, r.End = at(1.5), at(20.5)
	r.Incomplete = []string{"http:not_captured"}
	return r
}

// Incomplete is Plain with statistics disabled and no receives captured.
func Incomplete() *request.Request {
	r := Plain()
	s := r.Sequences[0]
	s.QueuedS, s.ScheduledS, s.Waits, s.FirstTokenTime, s.LastTokenTime = 0, 0, nil, 0, 0
	s.Preemptions, s.CachedTokens, s.EngineIndex = -1, -1, -1
	s.HasArrival, s.ArrivalS = false, 0
	for i := range s.Steps {
		s.Steps[i].Time, s.Steps[i].Batch, s.Steps[i].Waiting = 0, -1, -1
	}
	r.Incomplete = []string{"queue_time:stats_disabled", "tokens:events_lost"}
	return r
}

// Embedding is an embeddings request: no tokens, one output.
func Embedding() *request.Request {
	r := Plain()
	r.HTTP.Endpoint, r.HTTP.Path, r.HTTP.Route = request.EndpointEmbeddings, "/v1/embeddings", "/v1/embeddings"
	r.ID, r.HTTP.ResponseID, r.HTTP.FinishReasons = "embd-77aa", "embd-77aa", nil
	r.HTTP.Params, r.Stream, r.HTTP.Stream = request.Params{}, nil, nil
	s := Sequence("embd-77aa-0-0a1b2c3d")
	s.Params, s.Pooling, s.Steps, s.StepsTotal, s.Finish = request.Params{}, true, nil, 0, request.FinishStop
	s.CompletionTokens, s.GeneratedTokens = 0, 0
	s.LastTokenS, s.LastTokenTime = s.FirstTokenS, s.FirstTokenTime
	r.Sequences, r.FinishReason = []*request.Sequence{s}, "stop"
	r.Usage = &request.Usage{Prompt: 17, Completion: 0, Cached: -1, Reasoning: -1}
	r.HTTP.Usage = r.Usage
	return r
}

// Hostile has bytes that are no UTF-8 and strings that are far too long.
func Hostile() *request.Request {
	r := Plain()
	long := make([]byte, 5000)
	for i := range long {
		long[i] = "\xe6\xa8\xa1"[i%3]
	}
	r.Model, r.HTTP.Model, r.HTTP.UserAgent = "m\xff\xfe", "m\xff\xfe", string(long)
	r.HTTP.Path = "/" + string(long) + "/v1/chat/completions"
	r.HTTP.Method = "BREW"
	r.Sequences[0].Lora = "a\x00b\xff"
	return r
}

// Long is Plain at n steps of one token; the gaps between steps 500, 600 and 700 and the
// steps before them are the largest.
func Long(n int) *request.Request {
	r := Plain()
	s := r.Sequences[0]
	s.Steps, s.StepsTotal, s.CompletionTokens, s.GeneratedTokens = nil, n, n, n
	after := 8.0
	for i := range n {
		if i > 0 {
			after += 0.01
		}
		switch i {
		case 500, 600, 700:
			after += float64(i) / 1000
		}
		s.Steps = append(s.Steps, request.TokenStep{TS: atS(after), Time: at(after + 0.25), Tokens: 1, Total: i + 1, Batch: 8, Waiting: 1})
	}
	last := s.Steps[n-1]
	s.LastTokenS, s.LastTokenTime = last.TS, last.Time
	r.End = last.Time + ms
	r.HTTP.End = r.End
	return r
}

// Case is a Request and what it is an example of.
type Case struct {
	Name    string
	Request *request.Request
}

// Cases are all of the above but Long, each new.
func Cases() []Case {
	return []Case{
		{"plain", Plain()}, {"streamed", Streamed()}, {"two-choices", TwoChoices()}, {"preempted", Preempted()},
		{"stop-string", StopString()}, {"disconnected", Disconnected()}, {"waiting-aborted", WaitingAborted()},
		{"rejected", Rejected()}, {"engine-dead", EngineDead()}, {"http-only", HTTPOnly()}, {"engine-only", EngineOnly()},
		{"incomplete", Incomplete()}, {"embedding", Embedding()}, {"hostile", Hostile()},
	}
}
