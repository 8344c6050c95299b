package spantree

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// headSteps is how many of the first steps always have an event, limit permitting: the
// ramp-up after the first token is where streams differ most.
const headSteps = 8

// tokenEvents are the token events of a sequence, in time order, and how many of them
// are gen_ai.token.generated.
//
// The limit counts both kinds. One event is spent on gen_ai.token.scheduled where at
// least the first and the last token have theirs, or where it costs no other.
func (b *builder) tokenEvents(s *request.Sequence) (events []Event, generated int) {
	limit := b.o.EventLimit
	if limit < 0 {
		limit = len(s.Steps) + 1
	}
	if at, ok := b.stamped(s, s.ScheduledS); ok && (limit >= 3 || limit > len(s.Steps)) {
		limit--
		events = append(events, Event{Name: semconv.EventTokenScheduled, Time: at})
	}
	for _, i := range chooseSteps(s.Steps, limit) {
		if e, ok := b.generated(s, &s.Steps[i]); ok {
			events = append(events, e)
			generated++
		}
	}
	return events, generated
}

// generated is the event of one step, at the engine's stamp, else when the front-end
// received it; none where neither is known.
func (b *builder) generated(s *request.Sequence, t *request.TokenStep) (e Event, ok bool) {
	e.Name = semconv.EventTokenGenerated
	if e.Time, ok = b.stamped(s, t.TS); !ok {
		if t.Time == 0 {
			return Event{}, false
		}
		e.Time = b.wall(t.Time)
	}
	a := make(attrs, 0, 4)
	a.count(semconv.GenAIIterationBatchSize, t.Batch)
	a.count(semconv.GenAIIterationWaitingRequests, t.Waiting)
	a.count(semconv.TokenCount, t.Tokens)
	a.count(semconv.TokenPosition, t.Total)
	e.Attributes = []attribute.KeyValue(a)
	return e, true
}

// chooseSteps picks at most limit steps and returns their indices in order: the first
// headSteps, the last, then those with the largest gap to the step before (of equal
// gaps, the earlier). With a limit of 1 it is the first.
func chooseSteps(steps []request.TokenStep, limit int) []int {
	n := len(steps)
	if limit <= 0 || n == 0 {
		return nil
	}
	chosen := make([]int, 0, min(limit, n))
	if n <= limit {
		for i := range steps {
			chosen = append(chosen, i)
		}
		return chosen
	}
	if limit == 1 {
		return append(chosen, 0)
	}
	head := min(headSteps, limit-1)
	for i := range head {
		chosen = append(chosen, i)
	}
	chosen = append(chosen, n-1)

	rest := make([]int, 0, n-1-head)
	for i := head; i < n-1; i++ {
		rest = append(rest, i)
	}
	slices.SortStableFunc(rest, func(x, y int) int {
		return cmp.Compare(gap(steps, y), gap(steps, x))
	})
	chosen = append(chosen, rest[:limit-len(chosen)]...)
	slices.Sort(chosen)
	return chosen
}

// gap is the time between step i > 0 and the one before. Where the Tracker dropped the
// one before it is the time since the last that it kept: too long, which can only bring
// a step in, not hide one. Seconds by the engine's stamps, else by captured times.
func gap(steps []request.TokenStep, i int) float64 {
	from, to := &steps[i-1], &steps[i]
	if latency.Valid(from.TS) && latency.Valid(to.TS) {
		return to.TS - from.TS
	}
	return float64(to.Time-from.Time) / 1e9
}
