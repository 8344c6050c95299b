package request

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The tracker expects outputs in the order of the step before. Whatever the order is,
// each must reach its own request.
func TestTrackerOutputsInAnyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := newScript(Options{KeepSteps: 4})
	want := map[string]int{}
	var running []string
	at, n := int64(10), 0
	for range 400 {
		at++
		for len(running) < 12 {
			n++
			id := fmt.Sprintf("chatcmpl-%d-0a1b2c3d", n)
			s.add(at, id, nil)
			running = append(running, id)
		}
		if at%3 == 0 { // mostly the order stays, as in life
			rnd.Shuffle(len(running), func(i, j int) { running[i], running[j] = running[j], running[i] })
		}
		var outs []Output
		var still []string
		for _, id := range running {
			if rnd.IntN(10) == 0 {
				still = append(still, id) // it makes nothing in this step
				continue
			}
			finish := FinishNone
			if rnd.IntN(10) == 0 {
				finish = FinishLength
			} else {
				still = append(still, id)
			}
			var events []EngineEvent
			if want[id] == 0 {
				events = []EngineEvent{queued(float64(at) - 0.5), scheduled(float64(at) - 0.25)}
			}
			tokens := 1 + rnd.IntN(3)
			want[id] += tokens
			outs = append(outs, out(id, tokens, finish, events...))
		}
		s.step(at, outs...)
		running = still
	}
	s.Flush()
	if len(s.out) != n {
		t.Fatalf("%d requests came out; want %d", len(s.out), n)
	}
	for _, r := range s.out {
		q := r.Sequences[0]
		if q.CompletionTokens != want[q.EngineID] || q.GeneratedTokens != want[q.EngineID] {
			t.Errorf("%s has %d of %d tokens; want %d", q.EngineID, q.CompletionTokens, q.GeneratedTokens, want[q.EngineID])
		}
	}
}

// Releases before 0.14 take a client's id as it is, so that one may come again, at the
// place in the order where the first one was.
func TestTrackerIDComesAgain(t *testing.T) {
	s := newScript(Options{})
	ids := []string{"chatcmpl-x", "chatcmpl-y", "chatcmpl-z"}
	for _, id := range ids {
		s.add(1, id, func(a *Add) { a.Suffixed, a.External = false, nil })
	}
	s.step(10, out(ids[0], 1, FinishNone, queued(2), scheduled(3)), out(ids[1], 1, FinishLength, queued(2), scheduled(3)), out(ids[2], 1, FinishNone, queued(2), scheduled(3)))
	s.add(11, ids[1], func(a *Add) { a.Suffixed, a.External = false, nil })
	s.step(20, out(ids[0], 1, FinishNone), out(ids[1], 5, FinishLength, queued(12), scheduled(13)), out(ids[2], 1, FinishNone))
	s.step(30, out(ids[0], 1, FinishLength), out(ids[2], 1, FinishLength))
	s.Flush()
	got := map[string][]int{}
	for _, r := range s.out {
		for _, q := range r.Sequences {
			got[q.EngineID] = append(got[q.EngineID], q.CompletionTokens)
		}
	}
	if w := map[string][]int{ids[0]: {3}, ids[1]: {1, 5}, ids[2]: {3}}; fmt.Sprint(got) != fmt.Sprint(w) {
		t.Errorf("tokens by id = %v; want %v", got, w)
	}
}

// A sequence that makes no more tokens must not hold the ones that were behind it, and
// those behind them, in memory.
func TestTrackerForgetsItsOrder(t *testing.T) {
	s := newScript(Options{})
	idle := "chatcmpl-idle-0a1b2c3d"
	s.add(1, idle, nil)
	before := idle
	for n := range 50 {
		at := int64(10 + n)
		id := fmt.Sprintf("chatcmpl-%d-0a1b2c3d", n)
		s.add(at, id, nil)
		finish := FinishLength
		if before == idle {
			finish = FinishNone
		}
		s.step(at, out(before, 1, finish, queued(5), scheduled(6)), out(id, 1, FinishNone, queued(5), scheduled(6)))
		before = id
	}
	s.Tick((10 + 50) * ms)
	s.Tick(60_000 * ms) // all that have ended are emitted; the idle one lives for minutes
	length := 0
	for q := s.seqs[idle]; q != nil; q = q.next {
		length++
	}
	if len(s.out) == 0 || s.seqs[idle] == nil || length > 2 {
		t.Errorf("%d requests came out, and the idle one holds a chain of %d; want at most 2", len(s.out), length)
	}
}
