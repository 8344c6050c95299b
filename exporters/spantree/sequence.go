package spantree

// The llm_request span of one sequence, its latencies, and its phases.

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// sequence is one request inside the engine, and its phases.
func (b *builder) sequence(parent int, s *request.Sequence) {
	r := b.r
	otel, arms := b.o.Dialect.OTel(), b.o.Dialect.ARMS()
	var a attrs
	a.text(semconv.GenAIRequestID, requestID(r.ID, s.EngineID))
	a.text(semconv.EngineRequestID, s.EngineID)
	if otel {
		a.text(semconv.GenAIRequestModel, r.Model)
	}
	if arms {
		a.text(semconv.GenAIRequestModelName, r.Model)
	}
	if n := s.Params.N; n != nil {
		if arms {
			a.int(semconv.GenAIRequestN, *n)
		}
		if otel && *n != 1 {
			a.int(semconv.GenAIRequestChoiceCount, *n)
		}
	}
	a.params(&s.Params)
	a.text(semconv.GenAIResponseID, r.ID)
	if r.HTTP != nil {
		a.text(semconv.GenAIResponseModel, r.HTTP.ResponseModel)
	}
	a.list(semconv.GenAIResponseFinishReasons, []string{s.FinishWord(r)})
	if arms {
		a.count(semconv.GenAIUsagePromptTokens, s.PromptTokens)
		a.count(semconv.GenAIUsageCompletionTokens, s.CompletionTokens)
	}
	if otel {
		a.count(semconv.GenAIUsageInputTokens, s.PromptTokens)
		a.count(semconv.GenAIUsageOutputTokens, s.CompletionTokens)
	}
	a.count(semconv.GenAIUsageCacheReadInputTokens, s.CachedTokens)
	b.latencies(&a, s)

	a.int(semconv.SequenceIndex, s.Index)
	a.count(semconv.EngineIndex, s.EngineIndex)
	a.count(semconv.Preemptions, s.Preemptions)
	a.text(semconv.Lora, s.Lora)
	if s.Aborted {
		a.yes(semconv.Aborted)
	}
	if s.GeneratedTokens != s.CompletionTokens {
		a.count(semconv.GeneratedTokens, s.GeneratedTokens)
	}
	b.common(&a)
	status := codes.Unset
	if cause := b.sequenceError(s); cause != "" {
		status = codes.Error
		a.text(semconv.ErrorType, cause)
	}
	span := Span{
		Name: semconv.SpanLLMRequest, Kind: trace.SpanKindInternal, Parent: parent,
		Start: b.sequenceStart(s), End: b.sequenceEnd(s), Status: status,
	}
	if b.o.Level >= 2 && !s.Pooling {
		var generated int
		span.Events, generated = b.tokenEvents(s)
		if counted(s) {
			a.int(semconv.TokenEventsTotal, s.StepsTotal)
			a.int(semconv.TokenEventsLeftOut, max(s.StepsTotal-generated, 0))
		}
	}
	span.Attributes = a
	i := b.add(span)
	if b.o.Level >= 1 {
		b.phases(i, s, span.End)
	}
}

func (b *builder) latencies(a *attrs, s *request.Sequence) {
	l := latency.Of(b.r, s)
	for _, v := range []struct {
		key     attribute.Key
		seconds *float64
	}{
		{semconv.GenAILatencyE2E, l.E2E},
		{semconv.GenAILatencyTimeToFirstToken, l.TimeToFirstToken},
		{semconv.GenAILatencyTimeInQueue, l.TimeInQueue},
		{semconv.GenAILatencyTimeInScheduler, l.TimeInScheduler},
		{semconv.GenAILatencyTimeInModelPrefill, l.Prefill},
		{semconv.GenAILatencyTimeInModelDecode, l.Decode},
		{semconv.GenAILatencyTimeInModelInference, l.Inference},
	} {
		switch {
		case v.seconds == nil:
		case b.o.Dialect == semconv.DialectARMS && b.engine == semconv.EngineVLLMV1:
			*a = append(*a, v.key.Int64(int64(math.Round(*v.seconds*1e9))))
		default:
			a.float(v.key, *v.seconds)
		}
	}
}

// sequenceStart is the arrival, else the earliest time that is known.
func (b *builder) sequenceStart(s *request.Sequence) int64 {
	if t, ok := latency.Arrival(b.r, s); ok {
		return t
	}
	if s.AddTime != 0 {
		return b.wall(s.AddTime)
	}
	for _, t := range []float64{s.QueuedS, s.ScheduledS, s.FirstTokenS} {
		if ns, ok := b.stamped(s, t); ok {
			return ns
		}
	}
	return b.wall(b.r.Start)
}

// sequenceEnd is the moment the front-end had the last token; for a request that was
// dropped, the moment of its abort; else the end of what is known. A stop string is in
// the last token, and the abort that follows it no part of the request.
func (b *builder) sequenceEnd(s *request.Sequence) int64 {
	word := s.FinishWord(b.r)
	dropped := s.Aborted && word == request.FinishAbort.String()
	switch {
	case dropped && s.AbortTime != 0:
		return b.wall(max(s.AbortTime, s.LastTokenTime))
	case (dropped || word == "") && s.Finish == request.FinishNone && b.r.End != 0:
		return b.wall(max(b.r.End, s.LastTokenTime))
	case s.LastTokenTime != 0:
		return b.wall(s.LastTokenTime)
	}
	if ns, ok := b.stamped(s, s.LastTokenS); ok {
		return ns
	}
	if s.AbortTime != 0 {
		return b.wall(s.AbortTime)
	}
	return b.wall(b.r.End)
}

// sequenceError says why the engine's request failed, "" if it did not.
//
// The front-end aborts a request for a stop string as it does for a client that left,
// and the engine then says no more of it. A stop string is no failure, and where the
// response's end was not seen the two cannot be told apart.
func (b *builder) sequenceError(s *request.Sequence) string {
	word := s.FinishWord(b.r)
	dropped := word == request.FinishAbort.String()
	unfinished := s.Finish == request.FinishNone && (dropped || word == "")
	switch {
	case s.EngineDead && unfinished:
		return semconv.ErrorTypeEngineDead
	case b.r.ErrorType == semconv.ErrorTypeEngineDead && (unfinished || s.Finish == request.FinishError):
		return semconv.ErrorTypeEngineDead
	case s.Finish == request.FinishError:
		return semconv.ErrorTypeEngineError
	case !dropped:
		return ""
	case b.r.Disconnected:
		return semconv.ErrorTypeClientDisconnect
	case s.Finish == request.FinishNone && !b.answered():
		return ""
	}
	return semconv.ErrorTypeAbort
}

// answered reports whether the response's end was seen.
func (b *builder) answered() bool {
	h := b.r.HTTP
	return h != nil && (h.Complete || h.ServerClosed)
}

// counted reports whether StepsTotal is known. Where it is not the Tracker leaves it at
// 0, which it also is for a request that ended before its first token.
func counted(s *request.Sequence) bool { return s.StepsTotal > 0 || s.GeneratedTokens == 0 }

// phases adds wait, prefill and decode spans, in the order in which they began. A wait
// that never ended ends with its request. Stamps of another machine's clock have no place
// among them.
func (b *builder) phases(parent int, s *request.Sequence, end int64) {
	var phases []Span
	add := func(name string, from, to int64, a attrs) {
		phases = append(phases, Span{
			Name: name, Kind: trace.SpanKindInternal, Parent: parent, Start: from, End: to, Attributes: a,
		})
	}
	for i, w := range s.Waits {
		from, ok := b.stamped(s, w.StartS)
		if !ok {
			continue
		}
		var a attrs
		cause := semconv.WaitPreempted
		if i == 0 && w.StartS == s.QueuedS {
			cause = semconv.WaitQueued
		}
		a.text(semconv.WaitCause, cause)
		if to, ok := b.stamped(s, w.EndS); ok {
			add(semconv.SpanWait, from, to, a)
			continue
		}
		a.yes(semconv.WaitUnfinished)
		add(semconv.SpanWait, from, end, a)
	}
	scheduled, hasScheduled := b.stamped(s, s.ScheduledS)
	first, hasFirst := b.stamped(s, s.FirstTokenS)
	last, hasLast := b.stamped(s, s.LastTokenS)
	if hasScheduled && hasFirst {
		add(semconv.SpanPrefill, scheduled, first, nil)
	}
	if hasFirst && hasLast && !s.Pooling {
		add(semconv.SpanDecode, first, last, nil)
	}
	slices.SortStableFunc(phases, func(x, y Span) int { return cmp.Compare(x.Start, y.Start) })
	for _, p := range phases {
		b.add(p)
	}
}

// requestID is the id that the engine's front-end knows the request by. Inside, newer
// releases of vLLM put "-" and 8 random hex digits behind it, and "N_" before it where
// n > 1. Neither can be told from an id's own text unless the response's id is known,
// with which it begins.
func requestID(responseID, engineID string) string {
	if responseID == "" {
		return engineID
	}
	id := engineID
	if n, rest, ok := strings.Cut(id, "_"); ok && strings.HasPrefix(rest, responseID) && digits(n) {
		id = rest
	}
	own, ok := strings.CutPrefix(id, responseID)
	if !ok {
		return engineID
	}
	if i := strings.LastIndexByte(own, '-'); i >= 0 && len(own)-i == 1+suffixDigits && hexadecimal(own[i+1:]) {
		own = own[:i]
	}
	return responseID + own
}

// suffixDigits is the length of vLLM's random suffix.
// Source: vLLM 0.32.0, vllm/v1/engine/input_processor.py, assign_request_id.
const suffixDigits = 8

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func hexadecimal(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func recordID(record [16]byte) string { return uuid.UUID(record).String() }
