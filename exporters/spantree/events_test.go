package spantree

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

func TestTokenEventsWithinLimit(t *testing.T) {
	const steps = 1000
	for _, c := range []struct {
		limit     int
		scheduled bool
		// positions are the steps (from 1) that have an event; nil where only their number
		// is of interest.
		positions []int64
		generated int
	}{
		{limit: 0, positions: []int64{}},
		{limit: 1, positions: []int64{1}, generated: 1},
		{limit: 2, positions: []int64{1, 1000}, generated: 2},
		{limit: 3, scheduled: true, positions: []int64{1, 1000}, generated: 2},
		{limit: 8, scheduled: true, positions: []int64{1, 2, 3, 4, 5, 6, 1000}, generated: 7},
		{limit: 10, scheduled: true, positions: []int64{1, 2, 3, 4, 5, 6, 7, 8, 1000}, generated: 9},
		{limit: 12, scheduled: true, positions: []int64{1, 2, 3, 4, 5, 6, 7, 8, 601, 701, 1000}, generated: 11},
		{limit: 128, scheduled: true, generated: 127},
		{limit: -1, scheduled: true, generated: 1000},
	} {
		span := Build(requesttest.Long(steps), Options{Level: 2, EventLimit: c.limit})[2]
		var positions []int64
		for i, e := range span.Events {
			if i > 0 && e.Time < span.Events[i-1].Time {
				t.Errorf("limit %d: event %d is earlier than the one before", c.limit, i)
			}
			if e.Name == semconv.EventTokenScheduled {
				if i != 0 || !c.scheduled {
					t.Errorf("limit %d: event %d is %s; want it first, and only if %v", c.limit, i, e.Name, c.scheduled)
				}
				continue
			}
			positions = append(positions, value(t, e.Attributes, semconv.TokenPosition))
		}
		if c.limit >= 0 && len(span.Events) > c.limit {
			t.Errorf("limit %d: %d events", c.limit, len(span.Events))
		}
		if len(positions) != c.generated {
			t.Errorf("limit %d: %d gen_ai.token.generated events; want %d", c.limit, len(positions), c.generated)
		}
		if c.positions != nil && !slices.Equal(positions, c.positions) {
			t.Errorf("limit %d: events of steps %v; want %v", c.limit, positions, c.positions)
		}
		if got := value(t, span.Attributes, semconv.TokenEventsTotal); got != steps {
			t.Errorf("limit %d: total = %d; want %d", c.limit, got, steps)
		}
		if got, want := value(t, span.Attributes, semconv.TokenEventsLeftOut), int64(steps-c.generated); got != want {
			t.Errorf("limit %d: left out = %d; want %d", c.limit, got, want)
		}
	}
}

// TestForeignClock: stamps of another machine's clock place nothing; captured times do,
// and lengths stay.
func TestForeignClock(t *testing.T) {
	foreign := func() *request.Request {
		r := requesttest.Plain()
		s := r.Sequences[0]
		s.ForeignClock = true
		shift := func(stamps ...*float64) {
			for _, v := range stamps {
				*v += 1e6
			}
		}
		shift(&s.QueuedS, &s.ScheduledS, &s.FirstTokenS, &s.LastTokenS, &s.Waits[0].StartS, &s.Waits[0].EndS)
		for i := range s.Steps {
			shift(&s.Steps[i].TS)
		}
		return r
	}
	o := Options{Level: 2, EventLimit: 128}
	r := foreign()
	own, spans := Build(requesttest.Plain(), o), Build(r, o)
	if len(spans) != 3 {
		t.Fatalf("Build(foreign clock) = %d spans; want 3, without phases", len(spans))
	}
	for i, s := range spans {
		if s.Start != own[i].Start || s.End != own[i].End {
			t.Errorf("Build(foreign clock): %s is [%d, %d]; want [%d, %d], as with its own clock", s.Name, s.Start, s.End, own[i].Start, own[i].End)
		}
	}
	steps := r.Sequences[0].Steps
	if len(spans[2].Events) != len(steps) {
		t.Fatalf("Build(foreign clock) = %d events; want one of each of %d steps and no other", len(spans[2].Events), len(steps))
	}
	for i, e := range spans[2].Events {
		if want := r.Wall(steps[i].Time); e.Name != semconv.EventTokenGenerated || e.Time != want {
			t.Errorf("Build(foreign clock): event %d is %s at %d; want %s at %d", i, e.Name, e.Time, semconv.EventTokenGenerated, want)
		}
	}
	if !slices.ContainsFunc(spans[2].Attributes, func(kv attribute.KeyValue) bool { return kv.Key == semconv.GenAILatencyTimeInModelDecode }) {
		t.Errorf("Build(foreign clock) has no %s; want it, a length", semconv.GenAILatencyTimeInModelDecode)
	}

	// With nothing captured of the engine's side either, nothing is placed by its stamps.
	r = foreign()
	s := r.Sequences[0]
	s.HasArrival, s.AddTime, s.FirstTokenTime, s.LastTokenTime, r.HTTP.ReadEnd = false, 0, 0, 0, 0
	for i := range s.Steps {
		s.Steps[i].Time = 0
	}
	span := Build(r, o)[2]
	if span.Start != r.Wall(r.Start) || span.End != r.Wall(r.End) || len(span.Events) != 0 {
		t.Errorf("Build(foreign clock, nothing captured): llm_request is [%d, %d] with %d events; want the request's [%d, %d], none",
			span.Start, span.End, len(span.Events), r.Wall(r.Start), r.Wall(r.End))
	}
	if got := value(t, span.Attributes, semconv.TokenEventsLeftOut); got != 4 {
		t.Errorf("Build(foreign clock, nothing captured): left out = %d; want 4", got)
	}
}

// TestStepsCountedAndNotKept: with a limit of 0 the Tracker keeps no step and still counts.
func TestStepsCountedAndNotKept(t *testing.T) {
	r := requesttest.Plain()
	r.Sequences[0].Steps = nil
	span := Build(r, Options{Level: 2, EventLimit: 0})[2]
	if len(span.Events) != 0 {
		t.Errorf("Build(limit 0) = %d events; want none", len(span.Events))
	}
	for _, k := range []attribute.Key{semconv.TokenEventsTotal, semconv.TokenEventsLeftOut} {
		if got := value(t, span.Attributes, k); got != 4 {
			t.Errorf("Build(limit 0) has %s = %d; want 4", k, got)
		}
	}
}

// TestStepsThatWereNotCounted: none is a number, unknown is not.
func TestStepsThatWereNotCounted(t *testing.T) {
	for _, c := range []struct {
		name      string
		generated int
		want      bool
	}{{"messages lost", -1, false}, {"receives alone seen, steps lost", 4, false}, {"ended before its first token", 0, true}} {
		r := requesttest.Plain()
		s := r.Sequences[0]
		s.GeneratedTokens, s.StepsTotal, s.Steps = c.generated, 0, nil
		span := Build(r, Options{Level: 2, EventLimit: 128})[2]
		for _, k := range []attribute.Key{semconv.TokenEventsTotal, semconv.TokenEventsLeftOut} {
			got := slices.ContainsFunc(span.Attributes, func(kv attribute.KeyValue) bool { return kv.Key == k })
			if got != c.want {
				t.Errorf("%s: Build has %s: %v; want %v", c.name, k, got, c.want)
			}
		}
	}
}

func value(t *testing.T, kvs []attribute.KeyValue, k attribute.Key) int64 {
	t.Helper()
	for _, kv := range kvs {
		if kv.Key == k {
			return kv.Value.AsInt64()
		}
	}
	t.Fatalf("attribute %s is missing", k)
	return 0
}

func TestChooseSteps(t *testing.T) {
	// Steps a second apart, but for a gap of 5 s before the tenth and 3 s before the 12th.
	var steps []request.TokenStep
	ts := 1.0
	for i := range 14 {
		switch i {
		case 9:
			ts += 5
		case 11:
			ts += 3
		default:
			ts++
		}
		steps = append(steps, request.TokenStep{TS: ts, Time: int64(ts * 1e9)})
	}
	for _, c := range []struct {
		name  string
		steps []request.TokenStep
		limit int
		want  []int
	}{
		{"no steps", nil, 8, nil},
		{"limit 0", steps, 0, nil},
		{"negative limit", steps, -1, nil},
		{"limit 1: the first", steps, 1, []int{0}},
		{"limit 2: first and last", steps, 2, []int{0, 13}},
		{"limit 9: eight and the last", steps, 9, []int{0, 1, 2, 3, 4, 5, 6, 7, 13}},
		{"then the largest gap", steps, 10, []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 13}},
		{"then the next, in time order", steps, 11, []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13}},
		{"of equal gaps the earlier", steps, 12, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13}},
		{"all fit", steps[:3], 3, []int{0, 1, 2}},
	} {
		if got := chooseSteps(c.steps, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%s: chooseSteps(%d steps, %d) = %v; want %v", c.name, len(c.steps), c.limit, got, c.want)
		}
	}
	for i := range steps {
		steps[i].TS = 0
	}
	if got, want := chooseSteps(steps, 10), []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 13}; !slices.Equal(got, want) {
		t.Errorf("captured times only: chooseSteps = %v; want %v", got, want)
	}
}

func TestRequestID(t *testing.T) {
	for _, c := range []struct{ name, response, engine, want string }{
		{"chat with suffix", "chatcmpl-b9c1838d3a763b30", "chatcmpl-b9c1838d3a763b30-0a1b2c3d", "chatcmpl-b9c1838d3a763b30"},
		{"chat without suffix", "chatcmpl-b9c1838d3a763b30", "chatcmpl-b9c1838d3a763b30", "chatcmpl-b9c1838d3a763b30"},
		{"prompt index with suffix", "cmpl-8b6c", "cmpl-8b6c-1-0a1b2c3d", "cmpl-8b6c-1"},
		{"prompt index without suffix", "cmpl-8b6c", "cmpl-8b6c-1", "cmpl-8b6c-1"},
		{"child of n > 1", "cmpl-8b6c", "1_cmpl-8b6c-0-0a1b2c3d", "cmpl-8b6c-0"},
		{"client's id ends like a suffix", "chatcmpl-run-deadbeef", "chatcmpl-run-deadbeef", "chatcmpl-run-deadbeef"},
		{"responses API", "resp_77aa", "resp_77aa_0-0a1b2c3d", "resp_77aa_0"},
		{"response not seen", "", "chatcmpl-b9c1-0a1b2c3d", "chatcmpl-b9c1-0a1b2c3d"},
		{"ids do not match", "msg_1", "chatcmpl-b9c1-0a1b2c3d", "chatcmpl-b9c1-0a1b2c3d"},
		{"engine side unknown", "cmpl-8b6c", "", ""},
	} {
		if got := requestID(c.response, c.engine); got != c.want {
			t.Errorf("%s: requestID(%q, %q) = %q; want %q", c.name, c.response, c.engine, got, c.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("tiny", 256)
	f.Add("\xff\xff\xff", 4)
	f.Add("模型模型", 7)
	f.Add("\x80\x80\x80\x80\x80\x80", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + (limit&0x7fffffff)%2000
		got := clean(s, limit)
		if len(got) > limit {
			t.Errorf("clean(%q, %d) has %d bytes", s, limit, len(got))
		}
		if got != string([]rune(got)) {
			t.Errorf("clean(%q, %d) = %q; not valid UTF-8", s, limit, got)
		}
	})
}
