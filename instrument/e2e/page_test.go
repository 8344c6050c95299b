//go:build e2e

package e2e

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// counters are the sums on vLLM's own /metrics page, over all labels.
type counters map[string]float64

func readCounters(t *testing.T, page string) counters {
	t.Helper()
	sums := counters{}
	for line := range strings.Lines(page) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "vllm:")
		if !ok {
			continue
		}
		value := name[strings.LastIndexByte(name, ' ')+1:]
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
		name, _, _ = strings.Cut(name[:len(name)-len(value)-1], "{")
		sums[name] += v
	}
	return sums
}

// checkPage compares what vLLM counted since it started with the sums over our request
// lines and spans.
func checkPage(t *testing.T, page counters, lines []line, r *receiver) {
	t.Helper()
	var prompt, generated, queue, prefill, decode float64
	ended, left := 0, 0
	for _, l := range lines {
		for _, s := range l.Sequences {
			if s.Prompt == nil || s.Completion == nil || s.Metrics == nil {
				t.Errorf("%s: counts or metrics are missing", l.ID)
				continue
			}
			prompt += float64(*s.Prompt)
			generated += float64(*s.Completion)
			if l.Left {
				left++
				continue // vLLM's histograms leave aborted requests out
			}
			ended++
			queue += *s.Metrics.QueueTime / 1000
			prefill += *s.Metrics.TimeToFirstToken / 1000
			decode += *s.Metrics.GenerationTime / 1000
		}
	}
	// exact: the same numbers, summed in another order.
	const exact = 1e-9
	near := func(key string, got, tolerance float64) {
		t.Helper()
		want, ok := page[key]
		if !ok {
			t.Errorf("vllm:%s is not on the page", key)
		} else if math.Abs(got-want) > tolerance {
			t.Errorf("sum over the requests = %v; vllm:%s = %v", got, key, want)
		}
	}
	near("prompt_tokens_total", prompt, 0)
	// Messages that the front-end has received wait in a queue of its own until it looks at
	// them; those of a request that it aborts meanwhile it does not count. Which they are
	// cannot be seen from outside, so of requests whose client left some tokens may be ours
	// alone, never the server's alone.
	const queued = 8
	if more := generated - page["generation_tokens_total"]; more < 0 || more > float64(queued*left) {
		t.Errorf("tokens over the requests = %v, %d of which were left by their client; vllm:generation_tokens_total = %v",
			generated, left, page["generation_tokens_total"])
	}
	near("request_success_total", float64(ended), 0)
	near("request_queue_time_seconds_sum", queue, exact)
	near("request_prefill_time_seconds_sum", prefill, exact)
	near("request_decode_time_seconds_sum", decode, exact)

	var e2e, ttft float64
	sequences := r.all(func(s *span) bool { return s.Name == "llm_request" })
	for _, s := range sequences {
		first, _ := s.number("gen_ai.latency.time_to_first_token")
		ttft += first
		if s.Status == "" {
			whole, _ := s.number("gen_ai.latency.e2e")
			e2e += whole
		}
	}
	tolerance := clockTolerance * float64(len(sequences))
	near("e2e_request_latency_seconds_sum", e2e, tolerance)
	near("time_to_first_token_seconds_sum", ttft, tolerance)
}
