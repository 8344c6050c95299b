//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantTree is the span tree of an answered call, one span a line, children indented.
func wantTree(a *answer) string {
	var b strings.Builder
	// The errors of the SERVER span, of the operation and of the engine's requests.
	server, entry, engine := "", "", ""
	switch {
	case a.stopAfter > 0:
		server, entry, engine = "client_disconnect", "client_disconnect", "client_disconnect"
	case a.engineDies:
		// A stream has begun with 200 by then: for HTTP it is a success.
		entry, engine = a.errType, "engine_dead"
		if a.status >= 500 {
			server = strconv.Itoa(a.status)
		}
	case a.status >= 400:
		entry = a.errType
	}
	failed := func(errType string) string {
		if errType == "" {
			return ""
		}
		return " Error " + errType
	}
	fmt.Fprintf(&b, "SERVER POST %s%s\n", a.path, failed(server))
	operation, model := "chat", "tiny"
	if a.path == completionPath {
		operation = "text_completion"
	}
	if a.status == 404 {
		model = "_other" // the engine does not serve it
	}
	fmt.Fprintf(&b, "  INTERNAL %s %s%s\n", operation, model, failed(entry))
	for range a.sequences {
		fmt.Fprintf(&b, "    INTERNAL llm_request%s\n", failed(engine))
		for _, phase := range []string{"wait", "prefill", "decode"} {
			fmt.Fprintf(&b, "      INTERNAL %s\n", phase)
		}
	}
	return b.String()
}

// renderTree writes the spans of one trace in the form of wantTree.
func renderTree(spans []*span, remote string) string {
	var b strings.Builder
	var walk func(parent, indent string)
	seen := 0
	walk = func(parent, indent string) {
		var children []*span
		for _, s := range spans {
			if s.ParentID == parent {
				children = append(children, s)
			}
		}
		slices.SortStableFunc(children, func(x, y *span) int { return phaseOrder(x) - phaseOrder(y) })
		for _, s := range children {
			seen++
			b.WriteString(indent + s.Kind + " " + s.Name)
			if s.Status != "" {
				b.WriteString(" " + s.Status)
				if e := s.text("error.type"); e != "" {
					b.WriteString(" " + e)
				}
			}
			b.WriteByte('\n')
			walk(s.SpanID, indent+"  ")
		}
	}
	walk(remote, "")
	if seen != len(spans) {
		fmt.Fprintf(&b, "and %d spans without a parent in the trace\n", len(spans)-seen)
	}
	return b.String()
}

// phaseOrder sorts siblings: sequences by index, phases as they follow each other (equal
// start times are possible).
func phaseOrder(s *span) int {
	if i := slices.Index([]string{"wait", "prefill", "decode"}, s.Name); i >= 0 {
		return i
	}
	n, _ := s.number("tokenscope.sequence.index")
	return int(n)
}

// checkTrees compares the tree of every answer, whole, and what its spans say.
func checkTrees(t *testing.T, r *receiver, answers []*answer) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			if a.method == "GET" {
				if got := r.trace(a.traceID); len(got) > 0 {
					t.Errorf("%d spans; want none for a route that is no API", len(got))
				}
				return
			}
			spans := r.trace(traceID(r, a))
			if diff := cmp.Diff(wantTree(a), renderTree(spans, a.spanID)); diff != "" {
				t.Fatalf("tree of trace %s (-want +got):\n%s", traceID(r, a), diff)
			}
			checkTimes(t, spans)
			for _, s := range spans {
				if missing := s.Attributes["tokenscope.incomplete"]; missing != nil {
					t.Errorf("%s is incomplete: %v", s.Name, missing)
				}
			}
			server, entry := only(t, spans, "POST "+a.path), spans[slices.IndexFunc(spans, isEntry)]
			equal(t, server, "http.request.method", "POST")
			equal(t, server, "http.route", a.path)
			equal(t, server, "http.response.status_code", int64(a.status))
			checkEntry(t, entry, a)
			checkSequences(t, spans, a)
		})
	}
}

// traceID is the trace of an answer: the caller's own, or the one that names its id.
func traceID(r *receiver, a *answer) string {
	if a.traceID != "" {
		return a.traceID
	}
	return r.traceOf(a.id)
}

func isEntry(s *span) bool { return s.Attributes["gen_ai.operation.name"] != nil }

func only(t *testing.T, spans []*span, name string) *span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *span) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %q", name)
	}
	return spans[i]
}

// checkTimes: every span ends after it began and lies inside its parent.
func checkTimes(t *testing.T, spans []*span) {
	t.Helper()
	for _, s := range spans {
		if s.End < s.Start {
			t.Errorf("%s ends %d ns before it begins", s.Name, s.Start-s.End)
		}
		for _, p := range spans {
			if p.SpanID == s.ParentID && (s.Start < p.Start || s.End > p.End) {
				t.Errorf("%s [%d, %d] is not inside %s [%d, %d]", s.Name, s.Start, s.End, p.Name, p.Start, p.End)
			}
		}
	}
}

// checkEntry compares the entry span with what the client was told.
func checkEntry(t *testing.T, s *span, a *answer) {
	t.Helper()
	if a.id != "" {
		equal(t, s, "gen_ai.response.id", a.id)
		equal(t, s, "gen_ai.provider.name", "vllm")
		equal(t, s, "gen_ai.request.model", "tiny")
	}
	if a.usage != nil {
		equal(t, s, "gen_ai.usage.input_tokens", int64(a.usage.Prompt))
		equal(t, s, "gen_ai.usage.output_tokens", int64(a.usage.Completion))
	}
	if len(a.finish) > 0 {
		want := make([]any, len(a.finish))
		for i, reason := range a.finish {
			want[i] = reason
		}
		if diff := cmp.Diff(want, s.Attributes["gen_ai.response.finish_reasons"]); diff != "" {
			t.Errorf("gen_ai.response.finish_reasons (-response +span):\n%s", diff)
		}
	}
}

// checkSequences: the llm_request spans have their latencies, and their counts add up to
// what the client was told.
func checkSequences(t *testing.T, spans []*span, a *answer) {
	t.Helper()
	completion := 0.0
	for _, s := range spans {
		if s.Name != "llm_request" {
			continue
		}
		for _, key := range []string{"e2e", "time_to_first_token", "time_in_queue", "time_in_scheduler",
			"time_in_model_prefill", "time_in_model_decode", "time_in_model_inference"} {
			if v, ok := s.number("gen_ai.latency." + key); !ok || v < 0 {
				t.Errorf("gen_ai.latency.%s = %v; want a time", key, s.Attributes["gen_ai.latency."+key])
			}
		}
		if id := s.text("gen_ai.request.id"); !strings.HasPrefix(id, a.id) {
			t.Errorf("gen_ai.request.id = %q; want it to begin with %q", id, a.id)
		}
		n, _ := s.number("gen_ai.usage.completion_tokens")
		completion += n
		index, _ := s.number("tokenscope.sequence.index")
		var want any // absent where the engine died
		if reason := wantFinish(a, int(index)); reason != "" {
			want = []any{reason}
		}
		if diff := cmp.Diff(want, s.Attributes["gen_ai.response.finish_reasons"]); diff != "" {
			t.Errorf("gen_ai.response.finish_reasons of sequence %v (-want +got):\n%s", index, diff)
		}
	}
	switch {
	case a.usage != nil && completion != float64(a.usage.Completion):
		t.Errorf("completion tokens of all llm_request = %v; response says %d", completion, a.usage.Completion)
	case a.stopAfter > 0 && completion < 1:
		t.Errorf("completion tokens of a client that left after %d events = %v", a.stopAfter, completion)
	case a.engineDies && completion < float64(max(a.events-1, 1)):
		// The last event is the error.
		t.Errorf("completion tokens = %v; the client got %d events with tokens", completion, a.events-1)
	}
}

func equal(t *testing.T, s *span, key string, want any) {
	t.Helper()
	if got := s.Attributes[key]; got != want {
		t.Errorf("%s of %q = %v; want %v", key, s.Name, got, want)
	}
}

// arrived waits until the traces of all answers are there, and fails the test for those
// that are not.
func arrived(t *testing.T, r *receiver, answers []*answer) {
	t.Helper()
	missing := func() (names []string) {
		for _, a := range answers {
			if a.method != "GET" && len(r.trace(traceID(r, a))) == 0 {
				names = append(names, a.name)
			}
		}
		return names
	}
	if !eventually(t, spanLimit, "the traces of all answers", func() bool { return len(missing()) == 0 }) {
		t.Errorf("no trace of: %s", strings.Join(missing(), "; "))
	}
}
