// Package latency computes how long one sequence of a Request took, phase by phase, for
// spans, request lines and summaries alike.
//
// Front-end times are differences of captured times; engine times are differences of
// the float64 seconds that the engine sent, with the engine's own expression. A latency
// whose operands were not both observed is nil.
package latency

import "github.com/tokenscope/tokenscope/instrument/request"

// maxSeconds bounds what can be a time at all: more does not fit into int64 nanoseconds.
// Stamps come from another process's bytes, and a decoder may have been lied to.
const maxSeconds = 9e9

// Latencies are in seconds; a nil one could not be had.
type Latencies struct {
	// E2E and TimeToFirstToken end where the front-end received the token and begin at
	// the request's arrival.
	E2E, TimeToFirstToken *float64
	// TimeInQueue is the first wait, by the engine's clock.
	TimeInQueue *float64
	// TimeInScheduler is all waits that ended: the first and one per preemption.
	TimeInScheduler *float64
	// Prefill, Decode and Inference are scheduled → first token → last token.
	Prefill, Decode, Inference *float64
}

// Of computes the latencies of a sequence of r.
func Of(r *request.Request, s *request.Sequence) Latencies {
	var l Latencies
	if arrival, ok := Arrival(r, s); ok {
		l.E2E = since(r, arrival, s.LastTokenTime)
		l.TimeToFirstToken = since(r, arrival, s.FirstTokenTime)
	}
	l.TimeInQueue = between(s.QueuedS, s.ScheduledS)
	l.Prefill = between(s.ScheduledS, s.FirstTokenS)
	l.Decode = between(s.FirstTokenS, s.LastTokenS)
	l.Inference = between(s.ScheduledS, s.LastTokenS)
	for _, w := range s.Waits {
		if d := between(w.StartS, w.EndS); d != nil {
			if l.TimeInScheduler == nil {
				l.TimeInScheduler = new(float64)
			}
			*l.TimeInScheduler += *d
		}
	}
	return l
}

// Arrival is when the sequence's request reached the front-end, in Unix nanoseconds: the
// front-end's own stamp where it was seen, else the last byte of the HTTP request.
func Arrival(r *request.Request, s *request.Sequence) (int64, bool) {
	if s.HasArrival && Valid(s.ArrivalS) {
		return request.SecondsToNs(s.ArrivalS), true
	}
	if r.HTTP != nil && r.HTTP.ReadEnd != 0 {
		return r.Wall(r.HTTP.ReadEnd), true
	}
	return 0, false
}

// Valid reports whether an engine's stamp was seen and can be a time.
func Valid(s float64) bool { return s > 0 && s < maxSeconds }

// between is an interval on the engine's clock. One that is negative is no observation
// of a duration, whatever produced it, and is nil too.
func between(from, to float64) *float64 {
	if !Valid(from) || !Valid(to) || to < from {
		return nil
	}
	d := to - from
	return &d
}

func since(r *request.Request, arrival, captured int64) *float64 {
	if captured == 0 {
		return nil
	}
	ns := r.Wall(captured) - arrival
	if ns < 0 {
		return nil
	}
	d := float64(ns) / 1e9
	return &d
}
