package latency_test

import (
	"math"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
)

const offset = 1_700_000_000_000_000_000

func whole() (*request.Request, *request.Sequence) {
	s := &request.Sequence{
		ArrivalS: 1_700_000_100.5, HasArrival: true,
		QueuedS: 100.75, ScheduledS: 101, FirstTokenS: 102.5, LastTokenS: 105.5,
		FirstTokenTime: 102_750_000_000, LastTokenTime: 105_750_000_000,
		Waits: []request.Wait{{StartS: 100.75, EndS: 101}, {StartS: 103, EndS: 103.5}, {StartS: 105}},
	}
	return &request.Request{WallOffset: offset, HTTP: &request.Exchange{ReadEnd: 100_250_000_000},
		Sequences: []*request.Sequence{s}}, s
}

func TestOf(t *testing.T) {
	const absent = -1
	type want struct{ e2e, ttft, queue, scheduler, prefill, decode, inference float64 }
	for _, c := range []struct {
		name string
		edit func(*request.Request, *request.Sequence)
		want want
	}{
		{"all observed", func(*request.Request, *request.Sequence) {}, want{5.25, 2.25, .25, .75, 1.5, 3, 4.5}},
		{"arrival behind a cut", func(_ *request.Request, s *request.Sequence) { s.HasArrival = false },
			want{5.5, 2.5, .25, .75, 1.5, 3, 4.5}},
		{"no arrival at all", func(r *request.Request, s *request.Sequence) { s.HasArrival = false; r.HTTP = nil },
			want{absent, absent, .25, .75, 1.5, 3, 4.5}},
		{"arrival is not a time", func(r *request.Request, s *request.Sequence) { s.ArrivalS = math.NaN(); r.HTTP = nil },
			want{absent, absent, .25, .75, 1.5, 3, 4.5}},
		{"receives not captured", func(_ *request.Request, s *request.Sequence) { s.FirstTokenTime, s.LastTokenTime = 0, 0 },
			want{absent, absent, .25, .75, 1.5, 3, 4.5}},
		{"statistics disabled", func(_ *request.Request, s *request.Sequence) { s.QueuedS, s.ScheduledS, s.Waits = 0, 0, nil },
			want{5.25, 2.25, absent, absent, absent, 3, absent}},
		{"never scheduled", func(_ *request.Request, s *request.Sequence) {
			s.ScheduledS, s.FirstTokenS, s.LastTokenS, s.FirstTokenTime, s.LastTokenTime = 0, 0, 0, 0, 0
			s.Waits = []request.Wait{{StartS: 100.75}}
		}, want{absent, absent, absent, absent, absent, absent, absent}},
		{"stamps out of range", func(_ *request.Request, s *request.Sequence) {
			s.ScheduledS, s.LastTokenS = math.Inf(1), math.NaN()
			s.Waits = []request.Wait{{StartS: -1, EndS: 1}, {StartS: 5, EndS: 4}}
		}, want{5.25, 2.25, absent, absent, absent, absent, absent}},
	} {
		r, s := whole()
		c.edit(r, s)
		l := latency.Of(r, s)
		for _, f := range []struct {
			name string
			got  *float64
			want float64
		}{
			{"E2E", l.E2E, c.want.e2e}, {"TimeToFirstToken", l.TimeToFirstToken, c.want.ttft},
			{"TimeInQueue", l.TimeInQueue, c.want.queue}, {"TimeInScheduler", l.TimeInScheduler, c.want.scheduler},
			{"Prefill", l.Prefill, c.want.prefill}, {"Decode", l.Decode, c.want.decode}, {"Inference", l.Inference, c.want.inference},
		} {
			got := float64(absent)
			if f.got != nil {
				got = *f.got
			}
			if got != f.want {
				t.Errorf("%s: Of().%s = %v; want %v (-1: absent)", c.name, f.name, got, f.want)
			}
		}
	}
}
