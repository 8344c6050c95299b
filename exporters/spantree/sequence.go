package spantree

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
	a.list(semconv.GenAIResponseFinishReasons, []string{s.Finish.String()})
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
		if latency.Valid(t) {
			return b.r.WallS(t)
		}
	}
	return b.wall(b.r.Start)
}

// sequenceEnd is the moment the front-end had the last token; for a request that was
// dropped, the moment of its abort; else the end of what is known.
func (b *builder) sequenceEnd(s *request.Sequence) int64 {
	dropped := s.Aborted && (s.Finish == request.FinishAbort || s.Finish == request.FinishNone)
	switch {
	case dropped && s.AbortTime != 0:
		return b.wall(max(s.AbortTime, s.LastTokenTime))
	case s.Finish == request.FinishNone && b.r.End != 0:
		return b.wall(max(b.r.End, s.LastTokenTime))
	case s.LastTokenTime != 0:
		return b.wall(s.LastTokenTime)
	case latency.Valid(s.LastTokenS):
		return b.r.WallS(s.LastTokenS)
	case s.AbortTime != 0:
		return b.wall(s.AbortTime)
	}
	return b.wall(b.r.End)
}

// sequenceError says why the engine's request failed, "" if it did not. A stop string
// also ends in an abort, which is no failure.
func (b *builder) sequenceError(s *request.Sequence) string {
	switch s.Finish {
	case request.FinishError:
		if b.r.ErrorType == semconv.ErrorTypeEngineDead {
			return semconv.ErrorTypeEngineDead
		}
		return semconv.ErrorTypeEngineError
	case request.FinishNone:
		if b.r.ErrorType == semconv.ErrorTypeEngineDead {
			return semconv.ErrorTypeEngineDead
		}
		if s.Aborted && b.r.Disconnected {
			return semconv.ErrorTypeClientDisconnect
		}
	case request.FinishAbort:
		if b.r.Disconnected {
			return semconv.ErrorTypeClientDisconnect
		}
		return semconv.ErrorTypeAbort
	}
	return ""
}

// counted reports whether StepsTotal is known. Where it is not the Tracker leaves it at
// 0, which it also is for a request that ended before its first token.
func counted(s *request.Sequence) bool { return s.StepsTotal > 0 || s.GeneratedTokens == 0 }

// phases adds wait, prefill and decode spans, in the order in which they began. A wait
// that never ended ends with its request.
func (b *builder) phases(parent int, s *request.Sequence, end int64) {
	var phases []Span
	add := func(name string, from, to int64, a attrs) {
		phases = append(phases, Span{
			Name: name, Kind: trace.SpanKindInternal, Parent: parent, Start: from, End: to, Attributes: a,
		})
	}
	for i, w := range s.Waits {
		if !latency.Valid(w.StartS) {
			continue
		}
		var a attrs
		cause := semconv.WaitPreempted
		if i == 0 && w.StartS == s.QueuedS {
			cause = semconv.WaitQueued
		}
		a.text(semconv.WaitCause, cause)
		if latency.Valid(w.EndS) {
			add(semconv.SpanWait, b.r.WallS(w.StartS), b.r.WallS(w.EndS), a)
			continue
		}
		a.yes(semconv.WaitUnfinished)
		add(semconv.SpanWait, b.r.WallS(w.StartS), end, a)
	}
	if latency.Valid(s.ScheduledS) && latency.Valid(s.FirstTokenS) {
		add(semconv.SpanPrefill, b.r.WallS(s.ScheduledS), b.r.WallS(s.FirstTokenS), nil)
	}
	if latency.Valid(s.FirstTokenS) && latency.Valid(s.LastTokenS) && !s.Pooling {
		add(semconv.SpanDecode, b.r.WallS(s.FirstTokenS), b.r.WallS(s.LastTokenS), nil)
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
