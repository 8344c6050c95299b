package request

import (
	"cmp"
	"slices"
)

// This file makes Requests out of what has ended.

// finish emits a call and forgets it and what was joined to it.
func (t *Tracker) finish(c *call) {
	delete(t.calls, c.x)
	delete(t.waiting, c)
	t.unname(c)
	x := c.x
	r := &Request{HTTP: x, Model: x.ResponseModel, Stream: x.Stream, Status: x.Status, ErrorType: x.ErrorType,
		Disconnected: x.Disconnected && !x.Complete, ID: x.ResponseID, Start: x.FirstByte, End: x.End}
	if r.Model == "" {
		r.Model = x.Model
	}
	if r.ID == "" && len(c.seqs) > 0 {
		r.ID = c.seqs[0].group.key
	}
	m := newMissing()
	switch {
	case x.RequestGap || x.ResponseGap:
		m.add(HTTPEventsLost)
	case x.End == 0 || !x.Complete && !x.Disconnected && !x.ServerClosed:
		m.add(ResponseEndNotSeen)
	}
	if x.BodyMissing {
		m.add(RequestBodyCut)
	}
	if x.ResponseCut {
		m.add(ResponseBodyCut)
	}
	if len(c.seqs) == 0 {
		switch {
		case x.ResponseID != "" && x.Status < 400:
			m.add(EngineNotCaptured)
		case x.Status == 0, x.Status >= 500, x.Status < 400:
			m.add(EngineNotJoined)
		}
	}
	t.emit(r, c.seqs, m)
}

// finishOrphan emits engine requests whose HTTP side was not seen.
func (t *Tracker) finishOrphan(g *group) {
	delete(t.orphans, g)
	var own []*seq
	for _, s := range g.seqs {
		if s.call == nil {
			own = append(own, s)
		}
	}
	if len(own) == 0 {
		return
	}
	r := &Request{ID: g.key, Start: own[0].AddTime}
	for _, s := range own {
		if s.AddTime != 0 && s.AddTime < r.Start {
			r.Start = s.AddTime
		}
		if s.Params.Stream != nil {
			r.Stream = s.Params.Stream
		}
		r.End = max(r.End, s.lastSeen)
	}
	if r.Start == 0 {
		r.Start = r.End
		for _, s := range own {
			for _, v := range []*view{&s.sent, &s.received} {
				if v.firstS > 0 {
					r.Start = min(r.Start, SecondsToNs(v.firstS))
				}
			}
		}
	}
	m := newMissing()
	m.add(HTTPNotCaptured)
	t.emit(r, own, m)
}

// emit completes r with its sequences, hands it out and forgets them.
func (t *Tracker) emit(r *Request, seqs []*seq, m *missing) {
	r.WallOffset = t.offset
	r.Engine, r.EngineVersion = t.engine, t.version
	n := 0
	if r.HTTP != nil {
		n = r.HTTP.choices()
	}
	for _, s := range seqs {
		n = max(n, s.child+1)
	}
	n = max(n, 1)
	slices.SortFunc(seqs, func(a, b *seq) int {
		return cmp.Or(cmp.Compare(a.prompt, b.prompt), cmp.Compare(a.child, b.child), cmp.Compare(a.order, b.order))
	})
	var lastEnd int64
	for _, s := range seqs {
		s.Index = s.prompt*n + max(s.child, 0)
		s.complete(t.rustFrontEnd, m)
		if r.Lora == "" {
			r.Lora = s.Lora
		}
		if w := s.FinishWord(r); w != "" && (r.FinishReason == "" || s.endedAt >= lastEnd) {
			r.FinishReason, lastEnd = w, s.endedAt
		}
		s.EngineDead = s.engineDead && s.Finish == FinishNone
		if s.EngineDead && r.ErrorType == "" {
			r.ErrorType = ErrorEngineDead
		}
		r.Sequences = append(r.Sequences, &s.Sequence)
		t.forget(s)
	}
	if r.FinishReason == "" && r.HTTP != nil && len(r.HTTP.FinishReasons) > 0 {
		r.FinishReason = engineWord(r.HTTP.FinishReasons[len(r.HTTP.FinishReasons)-1])
	}
	if r.Disconnected && r.ErrorType == "" {
		r.ErrorType = ErrorClientDisconnect
	}
	r.Usage = usage(r, seqs)
	if t.offset == 0 {
		m.add(WallClockUnknown)
	}
	r.Incomplete = m.list
	t.identify(r)
	t.stats.Emitted++
	if len(r.Incomplete) > 0 {
		t.stats.Incomplete++
	}
	t.opts.Emit(r)
}

// Error types that the response does not give.
const (
	ErrorClientDisconnect = "client_disconnect"
	ErrorEngineDead       = "engine_dead"
)

func (t *Tracker) identify(r *Request) {
	r.Record = t.newRecord(r.Wall(r.Start))
	if r.HTTP != nil && t.opts.Extract != nil {
		if rem, ok := t.opts.Extract(r.HTTP); ok {
			r.TraceID, r.ParentSpanID, r.Sampled, r.Tracestate = rem.TraceID, rem.SpanID, rem.Sampled, rem.Tracestate
			return
		}
	}
	r.TraceID = t.newTraceID()
}

func (t *Tracker) forget(s *seq) {
	t.gone.add(s.EngineID)
	s.leave()
	if t.seqs[s.EngineID] == s {
		delete(t.seqs, s.EngineID)
	}
	g := s.group
	if i := slices.Index(g.seqs, s); i >= 0 {
		g.seqs = slices.Delete(g.seqs, i, i+1)
		if s.call == nil {
			g.unclaimed--
		}
	}
	if len(g.seqs) == 0 {
		delete(t.orphans, g)
		if t.groups[g.key] == g {
			delete(t.groups, g.key)
		}
	}
}

// complete decides what of a sequence is known, and says what is not. What the
// front-end received is the truth if all of it was seen; else what the engine sent, if
// all of that was seen; else nothing is counted. rust says which front-end it came from
// where its own message does not.
func (s *seq) complete(rust bool, m *missing) {
	if !s.settled() {
		m.add(EngineEndNotSeen)
	}
	if !s.HasArrival {
		m.add(ArrivalNotCaptured)
	}
	if s.sent.foreign || s.received.foreign {
		s.ForeignClock = true
		m.add(EngineClockForeign)
	}
	if !s.added {
		s.RustFrontEnd = rust
	}
	s.CompletionTokens, s.GeneratedTokens, s.Preemptions = -1, -1, -1
	s.atStart(&s.received)
	s.atStart(&s.sent)
	if s.outputs() && !s.sent.events && !s.received.events {
		m.add(QueueTimeStatsDisabled)
	}
	switch {
	case !s.added && s.QueuedS == 0:
		// Capture began after its first output, perhaps.
		m.add(StartNotCaptured)
		if s.received.whole(s) {
			s.LastTokenS, s.LastTokenTime = s.received.lastS, s.received.last
		}
		return
	case s.received.whole(s):
		s.from(&s.received)
		s.CompletionTokens = s.received.tokens
		s.FirstTokenTime, s.LastTokenTime = s.received.first, s.received.last
		s.generated(m)
	case s.sent.whole(s):
		s.from(&s.sent)
		s.GeneratedTokens = s.sent.tokens
		s.withoutReceives(m)
	case !s.outputs() && !s.lossNear && !s.sent.gap && !s.received.gap && !s.sent.cut && !s.received.cut:
		s.CompletionTokens, s.GeneratedTokens = 0, 0 // it ended before its first output
	case s.sent.cut || s.received.cut:
		m.add(TokensFrameCut)
		return
	default:
		m.add(TokensEventsLost)
		return
	}
	if side := s.view(s.stepsFrom); side.whole(s) {
		s.StepsTotal = s.steps.total
		until := s.LastTokenS
		if until == 0 {
			until = side.lastS
		}
		s.Steps = s.steps.steps(until)
	}
}

// outputs reports whether any output was seen on either side.
func (s *seq) outputs() bool { return s.sent.seen || s.received.seen }

// atStart takes what a sequence's first output says; it is right wherever it was seen.
func (s *seq) atStart(v *view) {
	if v.scheduledS != 0 {
		s.QueuedS, s.ScheduledS = v.queuedS, v.scheduledS
	}
	if s.PromptTokens < 0 {
		s.PromptTokens = v.prompt
	}
	if s.CachedTokens < 0 {
		s.CachedTokens = v.cached
	}
	if v.spec != nil {
		s.Spec = v.spec
	}
}

// from takes the timeline of a whole view.
func (s *seq) from(v *view) {
	s.QueuedS, s.ScheduledS, s.Waits = v.queuedS, v.scheduledS, v.waits
	s.CachedTokens = v.cached
	if v.events {
		s.Preemptions = v.preemptions
		if v.preemptedS != 0 {
			s.Waits = append(s.Waits, Wait{StartS: v.preemptedS})
		}
	}
	if !v.firstUnstamped {
		s.FirstTokenS = v.firstS
	}
	if !v.lastUnstamped {
		s.LastTokenS = v.lastS
	}
}

// generated counts what the engine made of a sequence whose receives are known.
func (s *seq) generated(m *missing) {
	if s.received.firstUnstamped || s.received.lastUnstamped {
		m.add(TokensFrameCut)
	}
	switch {
	case s.sent.whole(s):
		s.GeneratedTokens = s.sent.tokens
	case !s.Aborted:
		s.GeneratedTokens = s.received.tokens
	case s.core == 0:
		m.add(SendNotCaptured)
	default:
		m.add(TokensEventsLost)
	}
}

// withoutReceives completes a sequence whose messages were seen at the engine only, or
// with losses at the front-end.
func (s *seq) withoutReceives(m *missing) {
	v := &s.received
	s.CompletionTokens = s.sent.tokens
	switch {
	case v.seen:
		m.add(TokensEventsLost)
		if v.firstS == s.sent.firstS {
			s.FirstTokenTime = v.first
		}
		if v.lastS == s.sent.lastS {
			s.LastTokenTime = v.last
		}
	case s.sent.tokens > 0:
		m.add(ReceiveNotCaptured)
	}
	if s.sent.firstUnstamped || s.sent.lastUnstamped {
		m.add(TokensFrameCut)
	}
	if s.Aborted && s.sent.tokens > 0 {
		// Which of the last outputs the front-end still counted is not known.
		m.add(TokensEndUnknown)
		s.CompletionTokens, s.LastTokenS, s.LastTokenTime = -1, 0, 0
	}
}

// FinishWord is why a sequence of r ended, in the engine's words; "" if it did not.
func (s *Sequence) FinishWord(r *Request) string {
	if s.Finish != FinishNone && !s.Aborted {
		return s.Finish.String()
	}
	if !s.Aborted {
		return ""
	}
	// The front-end told the engine to drop it: a stop string, or the client has left.
	if x := r.HTTP; x != nil {
		if s.Index >= 0 && s.Index < len(x.FinishReasons) && x.FinishReasons[s.Index] != "" {
			return engineWord(x.FinishReasons[s.Index])
		}
		if x.Complete && x.Status < 400 {
			return FinishStop.String()
		}
	}
	if s.Finish != FinishNone && s.Finish != FinishAbort {
		return s.Finish.String()
	}
	return FinishAbort.String()
}

// engineWord turns an API's finish reason into the engine's.
func engineWord(api string) string {
	switch api {
	case "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use", "completed":
		return "stop"
	case "max_tokens", "incomplete", "max_output_tokens":
		return "length"
	}
	return api
}

// usage is what the client was told, completed by what was counted.
func usage(r *Request, seqs []*seq) *Usage {
	u := Usage{Prompt: -1, Completion: -1, Cached: -1, Reasoning: -1}
	if r.HTTP != nil && r.HTTP.Usage != nil {
		u = *r.HTTP.Usage
	}
	if len(seqs) > 0 {
		prompt, completion, cached := 0, 0, 0
		lastPrompt := -1
		for _, s := range seqs {
			if s.prompt != lastPrompt {
				lastPrompt = s.prompt
				prompt = plus(prompt, s.PromptTokens)
			}
			completion = plus(completion, s.CompletionTokens)
			cached = plus(cached, s.CachedTokens)
		}
		if u.Prompt < 0 {
			u.Prompt = prompt
		}
		if u.Completion < 0 {
			u.Completion = completion
		}
		if u.Cached < 0 {
			u.Cached = cached
		}
	}
	if u.Prompt < 0 && u.Completion < 0 && u.Cached < 0 && u.Reasoning < 0 {
		return nil
	}
	return &u
}

// plus adds counts; what is unknown (−1) makes the sum unknown.
func plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// missing collects reasons, each once, in the order in which they were found.
type missing struct{ list []string }

func newMissing() *missing { return &missing{} }

func (m *missing) add(reason string) {
	if !slices.Contains(m.list, reason) {
		m.list = append(m.list, reason)
	}
}
