package agent

// How many tokens the pipeline takes, what a token costs, and that a run from which
// this is measured is understood without a loss. docs/performance.md has the numbers.
//
// A token event is one token of one request as it is seen in life: in the message that
// the core sends, in the same message when the front-end receives it, and as the write
// of an SSE event.

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// newBenchPipeline makes a pipeline as an agent at level 2 (keep 128) or below (0) does.
func newBenchPipeline(keep int, emit func(*request.Request)) *Pipeline {
	return NewPipeline(request.Options{Random: rand.NewChaCha8([32]byte{1}).Uint64, KeepSteps: keep, Emit: emit}, true)
}

// TestBenchLoad proves the run that the benchmarks play: each of its requests is found,
// complete and with its own counts.
func TestBenchLoad(t *testing.T) {
	l := newBenchLoad(t, 1000, 40, 16)
	want := make(map[string]*chat, len(l.chats))
	for _, c := range l.chats {
		want[c.id] = c
	}
	got := 0
	p := newBenchPipeline(128, func(r *request.Request) {
		got++
		c := want[r.ID]
		if c == nil {
			t.Errorf("request %q: not in the run, or emitted twice", r.ID)
			return
		}
		delete(want, r.ID)
		checkChat(t, l, c, r)
	})
	play := l.player(sideBoth, p.Event)
	play.begin()
	play.steps(0, len(l.steps))
	p.Flush()
	if got != len(l.chats) {
		t.Errorf("the run gave %d requests; want %d", got, len(l.chats))
	}
	s := p.Stats()
	if s.Tracker.Tokens != uint64(l.tokens) || s.Tracker.Incomplete != 0 {
		t.Errorf("Stats().Tracker = %+v; want %d tokens, none incomplete", s.Tracker, l.tokens)
	}
	if want := uint64(2 * len(l.steps)); s.Engine.Outputs.Decoded != want || s.Engine.Repeated+s.Engine.Unknown != 0 || s.Messages.Gaps != 0 {
		t.Errorf("Stats().Engine = %+v, .Messages = %+v; want %d outputs, none repeated, unknown or lost", s.Engine, s.Messages, want)
	}
	if s.HTTP.Exchanges != uint64(len(l.chats)) || s.HTTP.Gaps != 0 || len(s.HTTP.Desyncs) != 0 {
		t.Errorf("Stats().HTTP = %+v; want %d exchanges, no gap", s.HTTP, len(l.chats))
	}
}

// checkChat compares a request with the one of the run that it came from.
func checkChat(t *testing.T, l *benchLoad, c *chat, r *request.Request) {
	t.Helper()
	if len(r.Incomplete) != 0 || r.HTTP == nil || !r.HTTP.Complete || r.FinishReason != "length" || len(r.Sequences) != 1 {
		t.Errorf("request %s: incomplete %v, finish %q, %d sequences; want a complete one that ended by length", c.id, r.Incomplete, r.FinishReason, len(r.Sequences))
		return
	}
	s, u := r.Sequences[0], r.HTTP.Usage
	last := c.start + c.tokens - 1
	if s.EngineID != c.engineID || s.CompletionTokens != c.tokens || s.GeneratedTokens != c.tokens || s.PromptTokens != l.p.promptTokens {
		t.Errorf("request %s: sequence %s, %d of %d tokens, prompt %d; want %s, %d tokens, prompt %d", c.id, s.EngineID,
			s.CompletionTokens, s.GeneratedTokens, s.PromptTokens, c.engineID, c.tokens, l.p.promptTokens)
	}
	if u == nil || u.Completion != c.tokens || u.Prompt != l.p.promptTokens {
		t.Errorf("request %s: usage %+v; want %d and %d tokens", c.id, u, l.p.promptTokens, c.tokens)
	}
	if s.FirstTokenS != l.stamp(c.start) || s.LastTokenS != l.stamp(last) || s.QueuedS == 0 || s.ScheduledS <= s.QueuedS {
		t.Errorf("request %s: queued %v, scheduled %v, tokens from %v to %v; want tokens from %v to %v", c.id,
			s.QueuedS, s.ScheduledS, s.FirstTokenS, s.LastTokenS, l.stamp(c.start), l.stamp(last))
	}
	if s.StepsTotal != c.tokens || len(s.Steps) != c.tokens || s.Steps[0].Batch != l.streams {
		t.Errorf("request %s: %d steps, %d kept; want %d, all kept, each of a batch of %d", c.id, s.StepsTotal, len(s.Steps), c.tokens, l.streams)
	}
	if r.HTTP.FirstToken < l.stepTime(c.start) || r.HTTP.FirstToken >= l.stepTime(c.start)+benchStepNs {
		t.Errorf("request %s: first token written at %d; want during step %d", c.id, r.HTTP.FirstToken, c.start)
	}
}

// TestTokenAllocs: while requests only run, nothing is allocated. Before counting begins
// each has had more steps than are ever kept.
func TestTokenAllocs(t *testing.T) {
	const (
		streams = 64
		warm    = 200
		counted = 50
		runs    = 4
	)
	steps := warm + counted*(runs+1) + 1 // AllocsPerRun plays once more, and the last step ends the requests
	l := newBenchLoad(t, streams, steps, steps)
	for _, keep := range []int{0, 128} {
		t.Run(fmt.Sprintf("keep=%d", keep), func(t *testing.T) {
			requests := 0
			p := newBenchPipeline(keep, func(*request.Request) { requests++ })
			play := l.player(sideBoth, p.Event)
			play.begin()
			play.steps(0, warm)
			at := warm
			allocs := testing.AllocsPerRun(runs, func() {
				play.steps(at, at+counted)
				at += counted
			})
			if allocs != 0 {
				t.Errorf("%d tokens of %d streams allocate %v times; want 0", counted*streams, streams, allocs)
			}
			play.steps(at, steps)
			p.Flush()
			if requests != streams || p.Stats().Tracker.Incomplete != 0 {
				t.Errorf("the run gave %d requests, %d of them incomplete; want %d whole ones", requests, p.Stats().Tracker.Incomplete, streams)
			}
		})
	}
}

// sides are what the benchmarks play.
var sides = []struct {
	name string
	side side
}{{"both", sideBoth}, {"engine", sideEngine}, {"http", sideHTTP}}

// BenchmarkPipeline plays a whole run, starts and ends of requests included, with a
// growing number of requests at once: a token's cost must not grow with it.
func BenchmarkPipeline(b *testing.B) {
	for _, streams := range []int{1, 10, 100, 1000} {
		l := newBenchLoad(b, streams, max(512, 64_000/streams), benchTokens)
		for _, s := range sides {
			if s.side != sideBoth && streams != 1000 {
				continue
			}
			for _, keep := range []int{0, 128} {
				b.Run(fmt.Sprintf("streams=%d/side=%s/keep=%d", streams, s.name, keep), func(b *testing.B) {
					benchmarkLoad(b, l, s.side, keep)
				})
			}
		}
	}
}

func benchmarkLoad(b *testing.B, l *benchLoad, s side, keep int) {
	requests := 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu := cpuTime(b)
	for b.Loop() {
		p := newBenchPipeline(keep, func(*request.Request) { requests++ })
		play := l.player(s, p.Event)
		play.begin()
		play.steps(0, len(l.steps))
		p.Flush()
	}
	cpu = cpuTime(b) - cpu
	runtime.ReadMemStats(&after)
	if want := b.N * len(l.chats); requests != want {
		b.Fatalf("%d requests; want %d", requests, want)
	}
	tokens := float64(b.N) * float64(l.tokens)
	b.ReportMetric(tokens/cpu.Seconds(), "token_events/cpu-s")
	b.ReportMetric(float64(cpu.Nanoseconds())/tokens, "cpu-ns/token")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/tokens, "allocs/token")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/tokens, "B/token")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what the process has used of all cores, the garbage collector included: it
// says what a core can take, also on a machine that is busy with something else.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("read CPU time: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHeap reports what the pipeline holds while 1,000 requests run, each with as
// many steps as are ever kept.
func BenchmarkHeap(b *testing.B) {
	for _, keep := range []int{0, 128} {
		b.Run(fmt.Sprintf("streams=1000/keep=%d", keep), func(b *testing.B) {
			l := newBenchLoad(b, 1000, 2*benchTokens, 2*benchTokens)
			var held, inUse uint64
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				p := newBenchPipeline(keep, func(*request.Request) {})
				play := l.player(sideBoth, p.Event)
				play.begin()
				play.steps(0, len(l.steps)-1)
				runtime.GC()
				runtime.ReadMemStats(&after)
				held, inUse = after.HeapAlloc-before.HeapAlloc, after.HeapInuse-before.HeapInuse
				runtime.KeepAlive(p)
			}
			b.ReportMetric(float64(held)/(1<<20), "MiB_held")
			b.ReportMetric(float64(inUse)/(1<<20), "MiB_in_use")
			b.ReportMetric(0, "ns/op")
		})
	}
}
