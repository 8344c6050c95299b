//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// recovery is how soon after the agent's death a new one must be there, and a request
	// traced again.
	recovery = 5 * time.Second
	// streams are open at the moment of the kill, beside the one that outlives it.
	streams = 6
)

// checkAgentKilled kills the agent with SIGKILL while streams are open: the server and its
// clients must not notice, tracing must be back soon, and what the new agent has seen a
// part of must not be told with wrong numbers.
func checkAgentKilled(t *testing.T, s *server, r *receiver) {
	logBefore := readAll(t, s.log)
	before := s.workload()
	agent := s.agent(0)
	if agent == 0 {
		t.Fatal("no agent process found")
	}
	k := call{name: "stream", path: completionPath, body: completion(sentence, 200, streamUsage), sequences: 1}
	c := &client{address: s.address}
	reference := c.do(k)
	check(t, reference)

	var wg sync.WaitGroup
	begun := make(chan struct{}, 1+streams)
	first := func(n int) {
		if n == 1 {
			begun <- struct{}{}
		}
	}
	// One stream begins before the agent's death and ends long after it.
	var long *answer
	var longEnded time.Time
	wg.Go(func() {
		long = c.fresh().do(call{name: "long stream", path: completionPath, body: completion(sentence, endless, streamUsage),
			sequences: 1, onEvent: first})
		longEnded = time.Now()
	})
	// The others repeat until the tracing is back, so that the kill and the restart both
	// fall into running requests.
	back := make(chan struct{})
	answers := make([][]*answer, streams)
	for i := range streams {
		wg.Go(func() {
			for k := k; ; k.onEvent = nil {
				if answers[i] == nil {
					k.onEvent = first
				}
				answers[i] = append(answers[i], c.fresh().do(k))
				select {
				case <-back:
					return
				default:
				}
			}
		})
	}
	for range 1 + streams {
		<-begun
	}
	killed := time.Now()
	if err := unix.Kill(agent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if eventually(t, recovery, "a new agent", func() bool { return s.agent(agent) != 0 }) {
		t.Logf("a new agent was there %v after the agent was killed", time.Since(killed).Round(10*time.Millisecond))
	}
	// Requests are sent until the trace of one of them is whole; when that one was sent is
	// when the tracing was back.
	var probes []*answer
	var sent []time.Time
	traced := -1
	eventually(t, recovery+spanLimit, "a whole trace after the agent was killed", func() bool {
		at := time.Now()
		probe := c.fresh().do(call{name: "probe", path: completionPath, body: completion("Hello", 2), traceparent: true, sequences: 1})
		check(t, probe)
		probes, sent = append(probes, probe), append(sent, at)
		traced = slices.IndexFunc(probes, func(p *answer) bool { return renderTree(r.trace(p.traceID), p.spanID) == wantTree(p) })
		return traced >= 0
	})
	close(back)
	wg.Wait()
	if traced >= 0 {
		took := sent[traced].Sub(killed).Round(10 * time.Millisecond)
		t.Logf("the first request with a whole trace was sent %v after the agent was killed", took)
		if took > recovery {
			t.Errorf("tracing was back after %v; want %v", took, recovery)
		}
	}

	var all []*answer
	for _, list := range answers {
		all = append(all, list...)
	}
	for i, a := range all {
		if a.err != nil || a.status != 200 || a.texts[0] != reference.texts[0] || *a.usage != *reference.usage {
			t.Errorf("stream %d: status %d, error %v, %d characters, usage %+v; want 200 and the text that one alone got",
				i, a.status, a.err, len(a.texts[0]), a.usage)
		}
	}
	if long.err != nil || long.status != 200 || long.usage == nil || long.usage.Completion != endless {
		t.Errorf("long stream: status %d, error %v, usage %+v; want 200 and %d tokens", long.status, long.err, long.usage, endless)
	}
	if after := s.workload(); len(after) != len(before) {
		t.Errorf("the workload has processes %v; before the kill %v", after, before)
	}
	if line := logHasFailure(readAll(t, s.log)[len(logBefore):]); line != "" {
		t.Errorf("the server's log tells of a failure: %s", line)
	}
	checkHonest(t, r, all)
	switch {
	case traced < 0: // said already
	case longEnded.Before(sent[traced]):
		t.Error("the long stream ended before the tracing was back: nothing is shown by it")
	default:
		checkSeenInPart(t, r, long)
	}
}

// spansOf are the spans that name an answer's id.
func spansOf(r *receiver, a *answer) []*span {
	return r.all(func(s *span) bool {
		return s.text("gen_ai.response.id") == a.id || strings.HasPrefix(s.text("gen_ai.request.id"), a.id)
	})
}

// usageKeys are the counts on operation and llm_request spans.
var usageKeys = map[string]func(*usage) int{
	"gen_ai.usage.input_tokens":      func(u *usage) int { return u.Prompt },
	"gen_ai.usage.prompt_tokens":     func(u *usage) int { return u.Prompt },
	"gen_ai.usage.output_tokens":     func(u *usage) int { return u.Completion },
	"gen_ai.usage.completion_tokens": func(u *usage) int { return u.Completion },
}

// checkHonest: spans of requests that ran while the agent was killed, where there are any,
// have the client's numbers, or say that something is missing.
func checkHonest(t *testing.T, r *receiver, answers []*answer) {
	t.Helper()
	none, whole, part := 0, 0, 0
	for _, a := range answers {
		spans := spansOf(r, a)
		incomplete := false
		for _, s := range spans {
			incomplete = incomplete || s.Attributes["tokenscope.incomplete"] != nil
			for key, of := range usageKeys {
				if got, ok := s.number(key); ok && got != float64(of(a.usage)) {
					t.Errorf("%s of %s, %s = %v; the client was told %d (incomplete: %v)",
						key, a.id, s.Name, got, of(a.usage), s.Attributes["tokenscope.incomplete"])
				}
			}
		}
		switch {
		case len(spans) == 0:
			none++ // it ended while no agent was there, or what was known of it died with the agent
		case incomplete:
			part++
		default:
			whole++
			if got := renderTree(r.trace(spans[0].TraceID), ""); got != wantTree(a) {
				t.Errorf("%s says that nothing is missing; its tree:\n%swant:\n%s", a.id, got, wantTree(a))
			}
			for _, s := range spans {
				if _, ok := s.number("gen_ai.usage.output_tokens"); !ok {
					t.Errorf("%s: %s says that nothing is missing and has no count", a.id, s.Name)
				}
			}
		}
	}
	t.Logf("%d streams around the kill: %d traced whole, %d in part, %d not at all", len(answers), whole, part, none)
}

// checkSeenInPart: a request whose start only the killed agent saw has an llm_request that
// says so, and no count.
func checkSeenInPart(t *testing.T, r *receiver, a *answer) {
	t.Helper()
	sequence := func() *span {
		for _, s := range spansOf(r, a) {
			if s.Name == "llm_request" {
				return s
			}
		}
		return nil
	}
	if !eventually(t, spanLimit, "a span of the long stream", func() bool { return sequence() != nil }) {
		return
	}
	s := sequence()
	missing, _ := s.Attributes["tokenscope.incomplete"].([]any)
	if len(missing) == 0 {
		t.Errorf("the long stream is not marked incomplete: %v", s.Attributes)
	}
	for _, key := range []string{"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "tokenscope.generated_tokens"} {
		if got := s.Attributes[key]; got != nil {
			t.Errorf("the long stream has %s = %v; want none, as its start was not seen", key, got)
		}
	}
	t.Logf("the long stream is incomplete: %v", missing)
	checkHonest(t, r, []*answer{a})
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
