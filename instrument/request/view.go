package request

// view is what one side showed of a sequence: the engine's sends, or what the
// front-end received before it ended the request. Both carry the same outputs; each
// is kept by itself, because either may have gaps, and because what was under way
// when the front-end ended a request was sent but not received.
type view struct {
	seen bool
	// gap: messages were lost on this side. cut: one was not captured whole, and the
	// sequence's output may have been behind the cut.
	gap, cut bool
	finish   FinishReason

	tokens int
	// firstS and lastS are the stamps of the first and last output with tokens, first
	// and last the times at which they were seen. A stamp can lie behind a cut.
	firstS, lastS                 float64
	first, last                   int64
	firstUnstamped, lastUnstamped bool

	events              bool // the engine sends scheduler events
	queuedS, scheduledS float64
	preemptedS          float64 // 0 while it is not preempted
	preemptions         int
	waits               []Wait

	cached, prompt int
	spec           *SpecDecoding
	// foreign: the stamps are not of the clock by which messages are captured.
	foreign bool
}

// A message is stamped before it is sent and received. On one machine it is captured
// moments later, or minutes on a front-end that hangs; clocks of two machines, which
// count from their start, or of two time namespaces differ by any amount.
const (
	maxEarlyS = 1
	maxLateS  = 600
)

func newView() view { return view{finish: FinishNone, cached: -1, prompt: -1} }

// take adds an output.
func (v *view) take(st *Step, o *Output) {
	v.seen = true
	if st.HasTimestamp {
		if late := float64(st.Time)/1e9 - st.TimestampS; late < -maxEarlyS || late > maxLateS {
			v.foreign = true
		}
	}
	for _, e := range o.Events {
		v.event(e)
	}
	if o.Tokens > 0 {
		if v.tokens == 0 {
			v.firstS, v.first, v.firstUnstamped = st.TimestampS, st.Time, !st.HasTimestamp
		}
		v.lastS, v.last, v.lastUnstamped = st.TimestampS, st.Time, !st.HasTimestamp
		v.tokens += o.Tokens
	}
	if o.Finish != FinishNone {
		v.finish = o.Finish
	}
	if o.Cached >= 0 && v.cached < 0 {
		v.cached = o.Cached
	}
	if o.Prompt >= 0 && v.prompt < 0 {
		v.prompt = o.Prompt
	}
	if o.Spec != nil {
		spec := *o.Spec
		v.spec = &spec
	}
}

// event takes a scheduler event: the queue time runs from the last QUEUED before the
// first SCHEDULED, and each preemption opens a wait that the next SCHEDULED closes.
func (v *view) event(e EngineEvent) {
	v.events = true
	switch e.Type {
	case EventQueued:
		if v.scheduledS == 0 {
			v.queuedS = e.TS
		}
	case EventScheduled:
		switch {
		case v.scheduledS == 0 && v.queuedS != 0:
			v.scheduledS = e.TS
			v.waits = append(v.waits, Wait{StartS: v.queuedS, EndS: e.TS})
		case v.preemptedS != 0:
			v.waits = append(v.waits, Wait{StartS: v.preemptedS, EndS: e.TS})
		}
		v.preemptedS = 0
	case EventPreempted:
		v.preemptions++
		v.preemptedS = e.TS
	}
}

// whole reports whether all of the sequence's outputs were seen on this side: nothing
// was lost or cut before the end that s came to.
func (v *view) whole(s *seq) bool {
	if !v.seen || v.gap || v.cut {
		return false
	}
	if !s.addedFirst && v.queuedS == 0 {
		// A gap before its first output here was noticed when nothing was known of it.
		return false
	}
	if v.queuedS == 0 && (s.sent.queuedS != 0 || s.received.queuedS != 0) {
		// The first output was seen on the other side alone: capture began later on this one.
		return false
	}
	// A finish that came in order is the last message of all. An abort is not: outputs
	// before it may be missing without a jump, if anything was lost at the time.
	return v.finish != FinishNone || (s.Aborted || s.engineDead || !s.settled()) && !s.lossNear
}
