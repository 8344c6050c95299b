package spantree_test

import (
	"testing"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/semconv"
)

// A client that asks for thousands of choices gets a trace that backends can take.
func TestWideRequest(t *testing.T) {
	r := requesttest.Plain()
	for len(r.Sequences) < 16384 {
		r.Sequences = append(r.Sequences, requesttest.Sequence("wide"))
	}
	spans := spantree.Build(r, spantree.Options{Level: 1})
	sequences, left := 0, int64(0)
	for _, s := range spans {
		if s.Name == semconv.SpanLLMRequest {
			sequences++
		}
		for _, a := range s.Attributes {
			if a.Key == semconv.SequencesLeftOut {
				left = a.Value.AsInt64()
			}
		}
	}
	if sequences != 256 || left != 16384-256 || len(spans) > 256*4+2 {
		t.Errorf("%d spans, %d of them llm_request, %d said to be left out; want 256 and the rest said", len(spans), sequences, left)
	}
}
