//go:build e2e

package e2e

import (
	"cmp"
	"slices"
	"testing"
)

// Our front-end times and vLLM's own, in seconds. We take the message's arrival; vLLM reads
// the clock a little later, when it handles the message: 0.07 to 0.21 ms on an idle machine.
// In between anything may happen to it: its event loop is busy with another request (the
// first of a kind costs imports), or another process gets the core. So a few may be further
// apart, within what such an interruption takes, but none the other way round.
const (
	clockTolerance = 0.0005
	// closeEnough is the share of all times that must be within clockTolerance.
	closeEnough = 0.9
	// busyLoop is how much later vLLM may read the clock in the other cases.
	busyLoop = 0.050
	// clockDrift is how far the wall clock may move before its offset is taken anew: only
	// by so much may our time be later than vLLM's.
	clockDrift = 0.0001
)

// checkNative compares our llm_request spans with those of vLLM's own tracing. Both name
// the request by the front-end's id, which the two children of n=2 share.
func checkNative(t *testing.T, ours, native *receiver, answers []*answer) {
	t.Helper()
	isRequest := func(s *span) bool { return s.Name == "llm_request" }
	theirs := group(native.all(isRequest))
	mine := group(ours.all(isRequest))

	// vLLM makes no span for a request whose client left.
	for _, a := range answers {
		if a.stopAfter > 0 {
			for id := range mine {
				if len(id) >= len(a.id) && id[:len(a.id)] == a.id {
					delete(mine, id)
				}
			}
		}
	}
	if len(mine) == 0 || len(mine) != len(theirs) {
		t.Errorf("%d requests in our spans, %d in vLLM's", len(mine), len(theirs))
	}
	var late []float64 // vLLM's reading of the clock − ours
	for id, spans := range mine {
		if len(spans) != len(theirs[id]) {
			t.Errorf("%s: %d llm_request spans; vLLM made %d", id, len(spans), len(theirs[id]))
			continue
		}
		for i, s := range spans {
			late = append(late, compareNative(t, id, s, theirs[id][i])...)
		}
	}
	if len(late) == 0 {
		return
	}
	slices.Sort(late)
	t.Logf("vLLM's e2e and TTFT − ours: median %.3f ms, 90th percentile %.3f ms, largest %.3f ms",
		late[len(late)/2]*1000, late[len(late)*9/10]*1000, late[len(late)-1]*1000)
	within := 0
	for _, d := range late {
		if d <= clockTolerance {
			within++
		}
	}
	if worst := late[len(late)-1]; worst > busyLoop {
		t.Errorf("vLLM's time − ours is up to %.3f ms; want at most %v ms", worst*1000, busyLoop*1000)
	}
	if float64(within) < closeEnough*float64(len(late)) {
		t.Errorf("%d of %d times are within %v ms of vLLM's; want at least %.0f%%", within, len(late), clockTolerance*1000, closeEnough*100)
	}
}

// compareNative returns by how much vLLM's front-end times are later than ours, in seconds.
func compareNative(t *testing.T, id string, s, native *span) (late []float64) {
	t.Helper()
	// By the front-end's clock: near.
	for _, key := range []string{"gen_ai.latency.e2e", "gen_ai.latency.time_to_first_token"} {
		got, ok := s.number(key)
		want, known := native.number(key)
		if !ok || !known || want-got < -clockDrift {
			t.Errorf("%s: %s = %v; vLLM says %v, which should be a little later", id, key, s.Attributes[key], native.Attributes[key])
			continue
		}
		late = append(late, want-got)
	}
	// By the engine's clock, and counts: the same.
	for _, key := range []string{"gen_ai.latency.time_in_queue", "gen_ai.latency.time_in_model_prefill",
		"gen_ai.latency.time_in_model_decode", "gen_ai.latency.time_in_model_inference",
		"gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"} {
		got, _ := s.number(key)
		if want, ok := native.number(key); !ok || got != want {
			t.Errorf("%s: %s = %v; vLLM says %v", id, key, s.Attributes[key], native.Attributes[key])
		}
	}
	return late
}

// group sorts llm_request spans by request id, those of one id by their decode time.
func group(spans []*span) map[string][]*span {
	groups := map[string][]*span{}
	for _, s := range spans {
		id := s.text("gen_ai.request.id")
		groups[id] = append(groups[id], s)
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b *span) int {
			x, _ := a.number("gen_ai.latency.time_in_model_decode")
			y, _ := b.number("gen_ai.latency.time_in_model_decode")
			return cmp.Compare(x, y)
		})
	}
	return groups
}
