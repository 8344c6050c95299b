package request

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Processes of the scripted server.
const (
	front = 100
	core  = 200
)

const ms = int64(1e6)

// script drives a Tracker with inputs as a real server would give them. Times are in
// milliseconds; an engine's stamp is the same time in seconds.
type script struct {
	*Tracker
	out []*Request
}

func newScript(o Options) *script {
	s := &script{}
	rnd := rand.New(rand.NewPCG(1, 1))
	o.Random = rnd.Uint64
	o.Emit = func(r *Request) { s.out = append(s.out, r) }
	s.Tracker = NewTracker(o)
	s.Clock(0, 1e18)
	return s
}

func (s *script) http(at int64, edit func(*Exchange)) *Exchange {
	x := &Exchange{PID: front, Conn: 1, FirstByte: at * ms, ReadEnd: at * ms, Method: "POST", Path: "/v1/chat/completions",
		Route: "/v1/chat/completions", Endpoint: EndpointChat, Model: "tiny", Prompts: 1}
	if edit != nil {
		edit(x)
	}
	s.ExchangeBegan(x)
	s.ExchangeRead(x)
	return x
}

func (s *script) answer(at int64, x *Exchange, id string) {
	x.ResponseID, x.Status, x.FirstResponseByte = id, 200, at*ms
	s.ExchangeNamed(x)
	x.Complete, x.End = true, at*ms
	s.ExchangeEnded(x)
}

func (s *script) leave(at int64, x *Exchange) {
	x.Disconnected, x.End = true, at*ms
	s.ExchangeEnded(x)
}

// add is seen at both sides, as a real request is.
func (s *script) add(at int64, id string, edit func(*Add)) {
	for _, side := range []Side{FrontEnd, Core} {
		a := &Add{Time: at * ms, PID: map[Side]uint32{FrontEnd: front, Core: core}[side], Side: side, Engine: "vllm-v1", ID: []byte(id),
			External: []byte(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(id, "0_"), "1_"), "-0a1b2c3d")), Suffixed: true,
			ArrivalS: 1e9 + float64(at)/1e3, HasArrival: true, PromptTokens: 10}
		if edit != nil {
			edit(a)
		}
		s.Add(a)
	}
}

func out(id string, tokens int, finish FinishReason, events ...EngineEvent) Output {
	return Output{ID: []byte(id), Tokens: tokens, Finish: finish, Events: events, Cached: -1, Prompt: -1, Suffixed: true}
}

func queued(at float64) EngineEvent    { return EngineEvent{EventQueued, at / 1e3} }
func scheduled(at float64) EngineEvent { return EngineEvent{EventScheduled, at / 1e3} }
func preempted(at float64) EngineEvent { return EngineEvent{EventPreempted, at / 1e3} }

func (s *script) sent(at int64, outs ...Output)     { s.side(Core, core, at, at, outs) }
func (s *script) received(at int64, outs ...Output) { s.side(FrontEnd, front, at, at, outs) }
func (s *script) step(at int64, outs ...Output)     { s.sent(at, outs...); s.received(at, outs...) }

func (s *script) side(side Side, pid uint32, at, stamp int64, outs []Output) {
	s.Step(&Step{Time: at * ms, PID: pid, Side: side, TimestampS: float64(stamp) / 1e3, HasTimestamp: true, Outputs: outs, Running: -1, Waiting: -1})
}

func (s *script) abort(at int64, ids ...string) {
	var b [][]byte
	for _, id := range ids {
		b = append(b, []byte(id))
	}
	s.Abort(&Abort{Time: at * ms, PID: front, Side: FrontEnd, IDs: b})
	s.Abort(&Abort{Time: at * ms, PID: core, Side: Core, IDs: b})
}

// only returns the one Request that must have come out.
func (s *script) only(t *testing.T) *Request {
	t.Helper()
	if len(s.out) != 1 {
		t.Fatalf("%d requests came out; want 1: %s", len(s.out), describe(s.out))
	}
	return s.out[0]
}

func describe(rs []*Request) string {
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "%s", r.ID)
		for _, q := range r.Sequences {
			fmt.Fprintf(&b, " [%d %s %d/%d %s]", q.Index, q.EngineID, q.CompletionTokens, q.GeneratedTokens, q.FinishWord(r))
		}
		fmt.Fprintf(&b, " %s %v; ", r.FinishReason, r.Incomplete)
	}
	return b.String()
}

const id = "chatcmpl-a-0a1b2c3d"

func TestTrackerPlainRequest(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.add(5, id, nil)
	s.step(10, out(id, 1, FinishNone, queued(6), scheduled(7)))
	s.step(12, out(id, 1, FinishNone))
	s.step(15, out(id, 1, FinishLength))
	if len(s.out) != 0 {
		t.Fatalf("a request came out before its response ended: %s", describe(s.out))
	}
	s.answer(16, x, "chatcmpl-a")
	r := s.only(t)
	q := r.Sequences[0]
	if got, want := describe(s.out), "chatcmpl-a [0 "+id+" 3/3 length] length []; "; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	if *r.Usage != (Usage{10, 3, -1, -1}) {
		t.Errorf("usage = %+v; want 10 prompt, 3 completion", *r.Usage)
	}
	if q.QueuedS != .006 || q.ScheduledS != .007 || q.FirstTokenS != .010 || q.LastTokenS != .015 || q.LastTokenTime != 15*ms {
		t.Errorf("timeline = %+v", q)
	}
	m := q.Metrics()
	first, last := 0.010, 0.015
	if want := (last - first) / 2 * 1000; *m.MeanITLMs != want {
		t.Errorf("mean ITL = %v; want %v", *m.MeanITLMs, want)
	}
	if st := s.Stats(); st.OpenExchanges != 0 || st.OpenSequences != 0 || st.Tokens != 3 {
		t.Errorf("stats = %+v; want nothing open, 3 tokens", st)
	}
}

func TestTrackerSequencesInIndexOrder(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint Endpoint
		n        *int
		prompts  int
		ids      []string
		response string
		want     []int
	}{
		"n = 2":                  {EndpointChat, ptr(2), 1, []string{"1_" + id, "0_" + id}, "chatcmpl-a", []int{1, 0}},
		"two prompts":            {EndpointCompletions, nil, 2, []string{"cmpl-a-1-0a1b2c3d", "cmpl-a-0-0a1b2c3e"}, "cmpl-a", []int{1, 0}},
		"two prompts with n = 2": {EndpointCompletions, ptr(2), 2, []string{"1_cmpl-a-1-0a1b2c3d", "0_cmpl-a-0-0a1b2c3d", "0_cmpl-a-1-0a1b2c3d", "1_cmpl-a-0-0a1b2c3d"}, "cmpl-a", []int{3, 0, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(Options{})
			x := s.http(1, func(x *Exchange) { x.Endpoint, x.Params.N, x.Prompts = c.endpoint, c.n, c.prompts })
			for _, id := range c.ids {
				s.add(2, id, func(a *Add) { a.External = nil })
			}
			for i, id := range c.ids {
				s.step(int64(3+i), out(id, 1, FinishLength, queued(2), scheduled(2.5)))
			}
			s.answer(20, x, c.response)
			r := s.only(t)
			if len(r.Sequences) != len(c.ids) {
				t.Fatalf("%d sequences; want %d", len(r.Sequences), len(c.ids))
			}
			for i, id := range c.ids {
				if got := r.Sequences[c.want[i]]; got.EngineID != id || got.Index != c.want[i] {
					t.Errorf("sequence %d = %d %s; want %s", c.want[i], got.Index, got.EngineID, id)
				}
			}
			if r.Usage.Prompt != 10*c.prompts || r.Usage.Completion != len(c.ids) {
				t.Errorf("usage = %+v; want each prompt once and %d tokens", *r.Usage, len(c.ids))
			}
		})
	}
}

// A stop string is found by the front-end, which tells the engine to drop the request;
// what the engine had under way by then does not count.
func TestTrackerStopString(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.add(2, id, nil)
	s.step(10, out(id, 2, FinishNone, queued(3), scheduled(4)))
	s.sent(12, out(id, 1, FinishNone))
	s.abort(11, id)
	s.received(12, out(id, 1, FinishNone))
	s.answer(13, x, "chatcmpl-a")
	if len(s.out) != 0 {
		t.Fatalf("the request came out at once; late outputs must be waited for")
	}
	s.sent(20, out(id, 1, FinishNone))
	s.Tick(1000 * ms)
	if got, want := describe(s.out), "chatcmpl-a [0 "+id+" 2/4 stop] stop []; "; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	if q := s.out[0].Sequences[0]; q.LastTokenS != .010 {
		t.Errorf("last token at %v; want the last that the front-end counted", q.LastTokenS)
	}
	s.step(1001, out(id, 1, FinishNone))
	s.Flush()
	s.only(t)
}

func TestTrackerClientDisconnects(t *testing.T) {
	t.Run("and the engine is told", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, nil)
		s.add(2, id, nil)
		s.step(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
		x.ResponseID, x.Status = "chatcmpl-a", 200
		s.ExchangeNamed(x)
		s.leave(12, x)
		s.abort(13, id)
		s.sent(14, out(id, 1, FinishNone))
		s.Tick(1000 * ms)
		r := s.only(t)
		if got, want := describe(s.out), "chatcmpl-a [0 "+id+" 1/2 abort] abort []; "; got != want {
			t.Errorf("got %s; want %s", got, want)
		}
		if !r.Disconnected || r.ErrorType != ErrorClientDisconnect {
			t.Errorf("disconnected %v, error type %q; want a client's disconnect", r.Disconnected, r.ErrorType)
		}
	})
	t.Run("and the engine runs on to its length", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, nil)
		s.add(2, id, nil)
		s.step(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
		x.ResponseID = "chatcmpl-a"
		s.ExchangeNamed(x)
		s.leave(12, x)
		for i := int64(0); i < 100; i++ {
			s.step(1000+i*1000, out(id, 1, FinishNone))
		}
		s.step(101000, out(id, 1, FinishLength))
		if got, want := describe(s.out), "chatcmpl-a [0 "+id+" 102/102 length] length []; "; got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	})
	t.Run("before the response has an id: the only request that fits", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, nil)
		s.add(2, id, nil)
		s.leave(12, x)
		s.abort(13, id)
		s.Tick(1000 * ms)
		if r := s.only(t); r.ID != "chatcmpl-a" || len(r.Sequences) != 1 {
			t.Errorf("got %s; want the request joined", describe(s.out))
		}
	})
	t.Run("before the response has an id: two could be meant", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, nil)
		y := s.http(1, nil)
		s.add(2, id, nil)
		s.add(2, "chatcmpl-b-0a1b2c3d", nil)
		s.leave(12, x)
		if r := s.only(t); len(r.Sequences) != 0 || !slices.Contains(r.Incomplete, EngineNotJoined) {
			t.Errorf("got %s; want no join", describe(s.out))
		}
		s.step(15, out("chatcmpl-b-0a1b2c3d", 1, FinishLength, queued(3), scheduled(4)))
		s.answer(16, y, "chatcmpl-b")
		if r := s.out[1]; r.ID != "chatcmpl-b" || len(r.Sequences) != 1 {
			t.Errorf("got %s; want the other one joined", describe(s.out))
		}
	})
	t.Run("before the response has an id: its X-Request-Id tells", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, func(x *Exchange) { x.RequestID = "b" })
		s.http(1, nil)
		s.add(2, id, nil)
		s.add(2, "chatcmpl-b-0a1b2c3d", nil)
		s.leave(12, x)
		s.abort(13, "chatcmpl-b-0a1b2c3d")
		s.Tick(1000 * ms)
		if r := s.only(t); r.ID != "chatcmpl-b" || len(r.Sequences) != 1 || r.Sequences[0].EngineID != "chatcmpl-b-0a1b2c3d" {
			t.Errorf("got %s; want chatcmpl-b", describe(s.out))
		}
	})
}

// Two clients that send the same X-Request-Id at the same time.
func TestTrackerRepeatedRequestID(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, func(x *Exchange) { x.RequestID = "a" })
	y := s.http(2, func(x *Exchange) { x.RequestID, x.Conn = "a", 2 })
	first, second := "chatcmpl-a-00000001", "chatcmpl-a-00000002"
	for _, id := range []string{first, second} {
		s.add(3, id, func(a *Add) { a.External = []byte("chatcmpl-a") })
	}
	s.step(10, out(first, 1, FinishLength, queued(4), scheduled(5)), out(second, 2, FinishLength, queued(4), scheduled(5)))
	s.answer(11, y, "chatcmpl-a")
	s.answer(12, x, "chatcmpl-a")
	if got, want := describe(s.out), "chatcmpl-a [0 "+second+" 2/2 length] length []; chatcmpl-a [0 "+first+" 1/1 length] length []; "; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestTrackerPreemption(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.add(2, id, nil)
	s.step(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
	s.step(30, out(id, 1, FinishNone, preempted(15), scheduled(25)))
	s.step(50, out(id, 1, FinishStop, preempted(35), scheduled(45)))
	s.answer(51, x, "chatcmpl-a")
	q := s.only(t).Sequences[0]
	want := []Wait{{.003, .004}, {.015, .025}, {.035, .045}}
	if !slices.Equal(q.Waits, want) || q.Preemptions != 2 || q.ScheduledS != .004 {
		t.Errorf("waits %v, %d preemptions, scheduled %v; want %v, 2, .004", q.Waits, q.Preemptions, q.ScheduledS, want)
	}
}

// Streaming sessions are queued again: the queue time runs from the last QUEUED before
// the first SCHEDULED, and nothing later changes it.
func TestTrackerQueuedSeveralTimes(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.add(2, id, nil)
	s.step(10, out(id, 1, FinishNone, queued(3), queued(5), scheduled(6)))
	s.step(20, out(id, 1, FinishLength, queued(15), scheduled(16)))
	s.answer(21, x, "chatcmpl-a")
	if q := s.only(t).Sequences[0]; q.QueuedS != .005 || q.ScheduledS != .006 {
		t.Errorf("queued %v, scheduled %v; want .005, .006", q.QueuedS, q.ScheduledS)
	}
}

// The engine runs on another machine, whose clock counts from another start.
func TestTrackerForeignClock(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.add(2, id, nil)
	const other = 100_000_000
	s.side(FrontEnd, front, 10, 10+other, []Output{out(id, 1, FinishNone, queued(3+other), scheduled(4+other))})
	s.side(FrontEnd, front, 12, 12+other, []Output{out(id, 1, FinishLength)})
	s.answer(13, x, "chatcmpl-a")
	r := s.only(t)
	q := r.Sequences[0]
	if !q.ForeignClock || !slices.Contains(r.Incomplete, EngineClockForeign) || q.LastTokenTime != 12*ms || q.Metrics().GenerationTimeMs == nil {
		t.Errorf("got %s %+v; want a foreign clock named, and the lengths kept", describe(s.out), q)
	}
}

func TestTrackerLostMessages(t *testing.T) {
	run := func(during func(s *script)) *Request {
		s := newScript(Options{})
		x := s.http(1, nil)
		s.add(2, id, nil)
		s.step(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
		during(s)
		s.step(30, out(id, 1, FinishLength))
		s.answer(31, x, "chatcmpl-a")
		return s.only(t)
	}
	t.Run("at the front-end: the engine's side tells the counts", func(t *testing.T) {
		r := run(func(s *script) {
			s.sent(20, out(id, 1, FinishNone))
			s.EngineGap(20*ms, front, FrontEnd)
		})
		q := r.Sequences[0]
		if q.CompletionTokens != 3 || q.FirstTokenTime != 10*ms || q.LastTokenTime != 30*ms || !slices.Contains(r.Incomplete, TokensEventsLost) {
			t.Errorf("got %s %+v; want 3 tokens, both times, and the loss named", describe([]*Request{r}), q)
		}
	})
	t.Run("at the engine: the front-end's side tells the counts", func(t *testing.T) {
		r := run(func(s *script) {
			s.EngineGap(20*ms, core, Core)
			s.received(20, out(id, 1, FinishNone))
		})
		if q := r.Sequences[0]; q.CompletionTokens != 3 || len(r.Incomplete) != 0 {
			t.Errorf("got %s; want 3 tokens and nothing missing", describe([]*Request{r}))
		}
	})
	t.Run("at both: no number is made up", func(t *testing.T) {
		r := run(func(s *script) {
			s.EngineGap(20*ms, core, Core)
			s.EngineGap(20*ms, front, FrontEnd)
		})
		q, m := r.Sequences[0], r.Sequences[0].Metrics()
		if q.CompletionTokens != -1 || q.GeneratedTokens != -1 || r.Usage.Completion != -1 || m.GenerationTimeMs != nil || m.MeanITLMs != nil || m.TokensPerSecond != nil {
			t.Errorf("got %s, %+v; want no counts", describe([]*Request{r}), m)
		}
		if m.QueueTimeMs == nil || !slices.Contains(r.Incomplete, TokensEventsLost) {
			t.Errorf("queue time %v, incomplete %v; want the queue time, which was seen, and the loss named", m.QueueTimeMs, r.Incomplete)
		}
	})
	t.Run("of another process: nothing is missing", func(t *testing.T) {
		r := run(func(s *script) {
			s.EngineGap(20*ms, core+1, Core)
			s.EngineGap(20*ms, front+1, FrontEnd)
		})
		if len(r.Incomplete) != 0 || r.Sequences[0].CompletionTokens != 2 {
			t.Errorf("got %s; want a complete request", describe([]*Request{r}))
		}
	})
	t.Run("cut message: what runs behind the cut is not counted", func(t *testing.T) {
		r := run(func(s *script) {
			s.Step(&Step{Time: 20 * ms, PID: core, Side: Core, Cut: true, Running: -1, Waiting: -1})
			s.Step(&Step{Time: 20 * ms, PID: front, Side: FrontEnd, Cut: true, Running: -1, Waiting: -1})
		})
		if q := r.Sequences[0]; q.CompletionTokens != -1 || !slices.Contains(r.Incomplete, TokensFrameCut) {
			t.Errorf("got %s; want no counts", describe([]*Request{r}))
		}
	})
}

func TestTrackerCaptureBeginsInTheMiddle(t *testing.T) {
	s := newScript(Options{})
	s.step(10, out(id, 1, FinishNone))
	s.step(11, out(id, 1, FinishLength))
	s.Tick(5000 * ms)
	if len(s.out) != 0 {
		t.Fatalf("came out before a response had time to name it")
	}
	s.Tick(20000 * ms)
	r := s.only(t)
	q := r.Sequences[0]
	if q.CompletionTokens != -1 || q.PromptTokens != -1 || r.Usage != nil || r.HTTP != nil || r.FinishReason != "length" {
		t.Errorf("got %s usage %v; want null counts and the finish reason", describe(s.out), r.Usage)
	}
	for _, want := range []string{StartNotCaptured, HTTPNotCaptured} {
		if !slices.Contains(r.Incomplete, want) {
			t.Errorf("incomplete = %v; want %s", r.Incomplete, want)
		}
	}
}

func TestTrackerOnlyTheEngineWasCaptured(t *testing.T) {
	s := newScript(Options{})
	x := s.http(1, nil)
	s.Add(&Add{Time: 2 * ms, PID: core, Side: Core, ID: []byte(id), Suffixed: true, PromptTokens: 4, ArrivalS: 1e9, HasArrival: true})
	s.sent(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
	s.sent(12, out(id, 1, FinishLength))
	s.answer(13, x, "chatcmpl-a")
	r := s.only(t)
	q := r.Sequences[0]
	if q.CompletionTokens != 2 || q.LastTokenS != .012 || q.LastTokenTime != 0 || !slices.Equal(r.Incomplete, []string{ReceiveNotCaptured}) {
		t.Errorf("got %s %+v; want counts, and no time of receipt", describe(s.out), q)
	}
}

func TestTrackerRejectedAndFailed(t *testing.T) {
	t.Run("rejected: another request in flight is not taken for its own", func(t *testing.T) {
		s := newScript(Options{})
		s.http(1, nil)
		s.add(2, id, nil)
		x := s.http(3, func(x *Exchange) { x.Conn = 2 })
		x.Status, x.ErrorType, x.Complete, x.End = 400, "BadRequestError", true, 5*ms
		s.ExchangeEnded(x)
		r := s.only(t)
		if len(r.Sequences) != 0 || r.Status != 400 || r.ErrorType != "BadRequestError" || len(r.Incomplete) != 0 || r.Usage != nil {
			t.Errorf("got %s %+v; want a complete rejected request", describe(s.out), r)
		}
	})
	t.Run("the engine dies", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, nil)
		s.add(2, id, nil)
		s.step(10, out(id, 1, FinishNone, queued(3), scheduled(4)))
		s.Exit(11*ms, core)
		x.Status, x.Complete, x.End = 500, true, 12*ms
		s.ExchangeEnded(x)
		r := s.only(t)
		if r.ErrorType != ErrorEngineDead || len(r.Sequences) != 1 || r.FinishReason != "" {
			t.Errorf("got %s, error type %q; want the engine's death", describe(s.out), r.ErrorType)
		}
	})
	t.Run("the engine was not captured", func(t *testing.T) {
		s := newScript(Options{})
		x := s.http(1, func(x *Exchange) { x.Usage = &Usage{5, 6, -1, -1} })
		s.answer(5, x, "chatcmpl-a")
		r := s.only(t)
		if !slices.Equal(r.Incomplete, []string{EngineNotCaptured}) || r.Usage.Completion != 6 {
			t.Errorf("got %s, usage %v; want what the client was told", describe(s.out), r.Usage)
		}
	})
}

func TestTrackerFlushEndsWhatIsOpen(t *testing.T) {
	s := newScript(Options{})
	s.http(1, nil)
	s.add(2, id, nil)
	s.add(2, "chatcmpl-b-0a1b2c3d", nil)
	s.Flush()
	if len(s.out) != 3 {
		t.Fatalf("%d requests; want the call and both engine requests: %s", len(s.out), describe(s.out))
	}
	if !slices.Contains(s.out[0].Incomplete, ResponseEndNotSeen) || !slices.Contains(s.out[1].Incomplete, EngineEndNotSeen) {
		t.Errorf("got %s; want ends marked as not seen", describe(s.out))
	}
	if st := s.Stats(); st.OpenSequences != 0 || st.OpenExchanges != 0 {
		t.Errorf("stats = %+v; want nothing open", st)
	}
}

func TestTrackerBoundsItsMemory(t *testing.T) {
	s := newScript(Options{MaxOpen: 4})
	for i := range 10 {
		s.add(int64(i), fmt.Sprintf("chatcmpl-%d-0a1b2c3d", i), nil)
		s.http(int64(i), nil)
	}
	s.add(11, "chatcmpl-"+strings.Repeat("x", 5000), nil)
	st := s.Stats()
	if st.OpenSequences != 4 || st.OpenExchanges != 4 || st.RefusedExchanges != 6 || st.RefusedSequences == 0 {
		t.Errorf("stats = %+v; want 4 open of each and the rest counted", st)
	}
	s.Tick(2 * maxIdle)
	if st := s.Stats(); st.OpenSequences != 0 {
		t.Errorf("stats = %+v; want idle engine requests given up", st)
	}
}

func TestTrackerStepsWithoutAllocation(t *testing.T) {
	s := newScript(Options{KeepSteps: 128})
	s.http(1, nil)
	s.add(2, id, nil)
	outs := []Output{out(id, 1, FinishNone)}
	st := Step{PID: core, Side: Core, HasTimestamp: true, Outputs: outs}
	at := int64(10)
	step := func() {
		at++
		st.Side, st.PID, st.Time, st.TimestampS = Core, core, at*1000, float64(at)
		s.Step(&st)
		st.Side, st.PID = FrontEnd, front
		s.Step(&st)
	}
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("a step allocates %v times; want 0", n)
	}
}
