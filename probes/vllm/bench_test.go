package vllm

import (
	"fmt"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// counter is a sink that only counts.
type counter struct{ steps, tokens, gaps int }

func (c *counter) Add(*request.Add) {}
func (c *counter) Step(s *request.Step) {
	c.steps++
	for i := range s.Outputs {
		c.tokens += s.Outputs[i].Tokens
	}
}
func (c *counter) Abort(*request.Abort)                  {}
func (c *counter) Ready(*request.Ready)                  {}
func (c *counter) Dead(*request.Dead)                    {}
func (c *counter) EngineGap(int64, uint32, request.Side) { c.gaps++ }

// fullStep is a step of the newest release with n running requests: one token each, a
// first output and a last one among them.
func fullStep(n int) []byte {
	outputs := make([]any, n)
	for i := range outputs {
		o := output(18, map[int]any{0: fmt.Sprintf("chatcmpl-%016x-%08x", i, i), 1: []any{1000 + i}, 13: 0})
		switch i {
		case 0:
			o[7] = []any{map[string]any{"type": 1, "timestamp": 1.25}, map[string]any{"type": 2, "timestamp": 1.5}}
			o[11] = map[string]any{"num_cached_tokens": 16, "num_prompt_tokens": 500}
		case 1:
			o[5] = 1
		}
		outputs[i] = o
	}
	stats := map[string]any{
		"num_running_reqs": n, "num_waiting_reqs": 3, "num_skipped_waiting_reqs": 0, "kv_cache_usage": 0.5,
		"prefix_cache_stats":  map[string]any{"reset": false, "requests": 1, "queries": 500, "hits": 16},
		"spec_decoding_stats": nil, "kv_cache_eviction_events": []any{},
	}
	return array(0, outputs, stats, 1234.5, nil, nil, nil, nil, "default")
}

func TestStepAllocs(t *testing.T) {
	sink := new(counter)
	d := NewDecoder(sink)
	payload := fullStep(256)
	sent := recv(capture.SocketPull, payload)
	abort := requestMessage(typeAbort, array("a", "b"))
	if n := testing.AllocsPerRun(50, func() { d.Message(sent) }); n != 0 {
		t.Errorf("Message(step of 256) allocates %v times; want 0", n)
	}
	if sink.steps == 0 || sink.tokens != 256*sink.steps || sink.gaps != 0 {
		t.Errorf("Message gave %+v; want 256 tokens a step", sink)
	}
	d.Message(abort)
	if d.Stats().Abort.Decoded != 1 {
		t.Errorf("Stats() = %+v; want one ABORT", d.Stats())
	}
}

func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("outputs=%d", n), func(b *testing.B) {
			d := NewDecoder(new(counter))
			m := recv(capture.SocketPull, fullStep(n))
			b.SetBytes(int64(m.Parts[0].Len))
			b.ReportAllocs()
			for b.Loop() {
				d.Message(m)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/token")
		})
	}
}

// BenchmarkStepSent is the core's side, which also looks for repetitions.
func BenchmarkStepSent(b *testing.B) {
	d := NewDecoder(new(counter))
	m := send(capture.SocketPush, fullStep(256))
	b.SetBytes(int64(m.Parts[0].Len))
	b.ReportAllocs()
	for b.Loop() {
		d.Message(m)
	}
}

func BenchmarkAdd(b *testing.B) {
	prompt := make([]any, 2000)
	for i := range prompt {
		prompt[i] = 100 + 37*i
	}
	payload := array("chatcmpl-1-0123abcd", prompt, nil, map[string]any{"max_tokens": 5, "output_kind": 2}, nil,
		5.5, nil, nil, nil, nil, nil, 0, 0, 0, nil, false, "chatcmpl-1", nil, nil, false, nil, nil)
	d := NewDecoder(new(counter))
	m := requestMessage(typeAdd, payload)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		d.Message(m)
	}
}

var _ stream.Sink = (*Decoder)(nil)
