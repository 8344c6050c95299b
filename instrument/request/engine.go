package request

// The engine's side: what the Tracker makes of requests handed over, steps, aborts and
// deaths, sequence by sequence.

import (
	"maps"
	"slices"
)

// seq is a Sequence in the making.
type seq struct {
	Sequence
	order  uint64
	group  *group
	call   *call
	child  int
	prompt int
	core   uint32 // the engine's process, 0 unknown

	// added: the request's own message was seen; addedFirst: before any output of it.
	added, addedFirst bool
	sent, received    view
	steps             stepKeeper
	// stepsFrom is the side whose outputs steps holds.
	stepsFrom Side
	// lossNear: events were lost while it ran.
	lossNear   bool
	engineDead bool
	endedAt    int64 // when the engine's end, or the abort, was seen
	lastSeen   int64

	// next is the sequence whose output came behind this one's the last time.
	next *seq
	// forgotten: the Tracker does not know it by its id any more.
	forgotten bool
}

// group is the engine requests in flight whose ids lead to one response id. Mostly one
// call takes them all; clients that send an X-Request-Id twice share a group.
type group struct {
	key      string
	seqs     []*seq
	lastSeen int64
	// unclaimed counts the seqs that no call has taken.
	unclaimed int
}

// Add implements EngineSink.
func (t *Tracker) Add(a *Add) {
	t.advance(a.Time)
	s := t.seqs[string(a.ID)]
	if s == nil {
		if s = t.newSeq(a.ID, a.External, a.Suffixed); s == nil {
			return
		}
	} else if s.settled() && s.added && a.Side == FrontEnd {
		// The same id again: releases before 0.14 take a client's id as it is.
		delete(t.seqs, s.EngineID)
		s.leave()
		if s = t.newSeq(a.ID, a.External, a.Suffixed); s == nil {
			return
		}
	}
	s.lastSeen = a.Time
	s.group.lastSeen = a.Time
	if a.Side == FrontEnd {
		s.PID = a.PID
		s.AddTime = a.Time
	} else {
		s.core = a.PID
		if s.AddTime == 0 {
			s.AddTime = a.Time
		}
	}
	if !s.added || !a.Cut {
		s.addedFirst = s.addedFirst || !s.outputs()
		s.added = true
		s.PromptTokens = a.PromptTokens
		s.Params = a.Params
		s.Pooling = s.Pooling || a.Pooling
		// Only the Rust front-end leaves output_kind out.
		s.RustFrontEnd = a.Engine == "vllm-v1" && !a.Cut && !a.Pooling && a.Params.Stream == nil
		t.rustFrontEnd = s.RustFrontEnd
		if a.HasArrival {
			s.ArrivalS, s.HasArrival = a.ArrivalS, true
		}
		if a.Lora != nil {
			s.Lora = string(a.Lora)
		}
	}
	if a.Engine != "" {
		t.engine = a.Engine
	}
}

func (t *Tracker) newSeq(id, external []byte, suffixed bool) *seq {
	if len(id) == 0 || len(id) > maxID || len(t.seqs) >= t.opts.MaxOpen && !t.makeRoom() {
		t.stats.RefusedSequences++
		return nil
	}
	s := &seq{order: t.nextOrder()}
	s.EngineID = string(id)
	s.EngineIndex, s.PromptTokens, s.CachedTokens = -1, -1, -1
	s.Finish = FinishNone
	s.sent, s.received = newView(), newView()
	s.steps.limit = t.opts.KeepSteps
	var key string
	key, s.child, s.prompt = groupKey(s.EngineID, string(external), suffixed)
	g := t.groups[key]
	if g == nil {
		g = &group{key: key}
		t.groups[key] = g
	}
	delete(t.orphans, g)
	s.group = g
	g.seqs = append(g.seqs, s)
	g.unclaimed++
	t.seqs[s.EngineID] = s
	t.gone.remove(s.EngineID)
	t.claimByName(s)
	return s
}

func (t *Tracker) nextOrder() uint64 { t.order++; return t.order }

// Step implements EngineSink.
func (t *Tracker) Step(st *Step) {
	t.advance(st.Time)
	if st.Side == Core && len(t.cores) < maxCores {
		t.cores[st.PID] = struct{}{}
	}
	before := &t.front
	for i := range st.Outputs {
		o := &st.Outputs[i]
		s := t.behind(before, o.ID)
		if s == nil {
			if t.gone.has(o.ID) {
				continue // it was emitted; this was under way
			}
			if s = t.newSeq(o.ID, nil, o.Suffixed); s == nil {
				continue
			}
		}
		s.lastSeen = st.Time
		s.group.lastSeen = st.Time
		if st.Side == Core {
			s.core = st.PID
		} else if s.PID == 0 {
			s.PID = st.PID
		}
		was := s.settled()
		t.output(s, st, o)
		if s.settled() && (!was || st.Side == FrontEnd && o.Finish != FinishNone) {
			t.settledNow(s)
		}
		if !s.forgotten {
			before = s
		}
	}
	if st.Cut {
		t.cutStep(st)
	}
}

// behind finds the sequence of an output that follows before's. Steps have mostly the
// same requests in the same order, so that the one which came there the last time is
// tried first: comparing an id costs less than looking it up.
func (t *Tracker) behind(before *seq, id []byte) *seq {
	if s := before.next; s != nil && !s.forgotten && s.EngineID == string(id) {
		return s
	}
	before.next = t.seqs[string(id)]
	return before.next
}

// leave marks a sequence that the Tracker does not know any more. It holds no other then,
// so that what points at it keeps one in memory and not a chain of them.
func (s *seq) leave() { s.forgotten, s.next = true, nil }

// output takes what a step gave a sequence, on the side where it was seen.
func (t *Tracker) output(s *seq, st *Step, o *Output) {
	s.EngineIndex = st.EngineIndex
	s.Pooling = s.Pooling || o.Pooling
	if st.Side == Core || s.core == 0 {
		s.stepsFrom = st.Side
		t.stats.Tokens += uint64(o.Tokens)
		if s.steps.limit > 0 && o.Tokens > 0 && st.HasTimestamp {
			s.steps.add(TokenStep{TS: st.TimestampS, Time: st.Time, Tokens: o.Tokens, Total: s.view(st.Side).tokens + o.Tokens,
				Batch: len(st.Outputs), Waiting: st.Waiting})
		}
	}
	if st.Side == Core || !s.Aborted {
		s.view(st.Side).take(st, o)
	}
	if o.Finish != FinishNone && s.Finish == FinishNone {
		s.Finish = o.Finish
		if s.endedAt == 0 {
			s.endedAt = st.Time
		}
	}
}

func (s *seq) view(side Side) *view {
	if side == Core {
		return &s.sent
	}
	return &s.received
}

// cutStep marks the requests whose outputs may lie behind a message's cut: all that
// are running on that engine and were not in its first part.
func (t *Tracker) cutStep(st *Step) {
	in := make(map[string]bool, len(st.Outputs))
	for i := range st.Outputs {
		in[string(st.Outputs[i].ID)] = true
	}
	for id, s := range t.seqs {
		if in[id] || s.view(st.Side).finish != FinishNone || !t.onSide(s, st.PID, st.Side) {
			continue
		}
		s.view(st.Side).cut = true
	}
}

// onSide reports whether a sequence may have had messages at process pid on side.
func (t *Tracker) onSide(s *seq, pid uint32, side Side) bool {
	own := s.PID
	if side == Core {
		own = s.core
	}
	return pid == 0 || own == 0 || own == pid
}

// Abort implements EngineSink.
func (t *Tracker) Abort(a *Abort) {
	t.advance(a.Time)
	for _, id := range a.IDs {
		s := t.seqs[string(id)]
		if s == nil {
			continue
		}
		s.lastSeen = a.Time
		if a.Side == Core {
			s.core = a.PID
		}
		if s.Aborted {
			continue
		}
		was := s.settled()
		s.Aborted, s.AbortTime = true, a.Time
		if s.endedAt == 0 {
			s.endedAt = a.Time
		}
		if !was {
			t.settledNow(s)
		}
	}
}

// Ready implements EngineSink.
func (t *Tracker) Ready(r *Ready) {
	t.advance(r.Time)
	if r.Engine != "" {
		t.engine = r.Engine
	}
	if r.Version != "" {
		t.version = r.Version
	}
}

// Dead implements EngineSink: what was in flight on that engine will not end there.
func (t *Tracker) Dead(d *Dead) {
	t.advance(d.Time)
	for _, s := range sortOrdered(slices.Collect(maps.Values(t.seqs))) {
		if !s.settled() && t.onSide(s, d.PID, d.Side) {
			s.engineDead = true
			s.endedAt = d.Time
			t.settledNow(s)
		}
	}
}

// EngineGap implements EngineSink.
func (t *Tracker) EngineGap(time int64, pid uint32, side Side) {
	t.advance(time)
	for _, s := range t.seqs {
		// What was lost after its last message was others'.
		if v := s.view(side); v.finish == FinishNone && t.onSide(s, pid, side) {
			v.gap = true
		}
	}
}

// Lost says that events were lost somewhere, by time. Where sequence numbers show whose
// they were EngineGap says so as well; but the last ones on a socket leave no jump.
func (t *Tracker) Lost(time int64) {
	t.advance(time)
	for _, s := range t.seqs {
		s.lossNear = true
	}
}

// Exit says that a process has ended; an engine's takes its requests with it.
func (t *Tracker) Exit(time int64, pid uint32) {
	t.advance(time)
	if _, ok := t.cores[pid]; ok {
		delete(t.cores, pid)
		t.Dead(&Dead{Time: time, PID: pid, Side: Core})
	}
}

// settled reports whether nothing more is needed from the engine: it has ended the
// request, was told to drop it, or has died.
func (s *seq) settled() bool { return s.Finish != FinishNone || s.Aborted || s.engineDead }

// quiet reports whether what was under way when it ended has had its time to arrive.
func (s *seq) quiet(now int64) bool {
	switch {
	case s.Aborted:
		return now-s.AbortTime >= lingerAfterAbort
	case s.engineDead, !s.received.seen, s.received.finish != FinishNone:
		return true
	}
	return now-s.endedAt >= lingerAfterAbort
}

// settledNow ends the call that waits for s, or starts the wait for one.
func (t *Tracker) settledNow(s *seq) {
	if c := s.call; c != nil {
		if _, waits := t.waiting[c]; waits && t.over(c) {
			t.finish(c)
		}
		return
	}
	t.orphans[s.group] = struct{}{}
}
