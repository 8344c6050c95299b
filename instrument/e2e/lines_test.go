//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line is what the tests read of a request line.
type line struct {
	ID         string   `json:"id"`
	TraceID    string   `json:"trace_id"`
	ClientID   string   `json:"client_request_id"`
	Endpoint   string   `json:"endpoint"`
	Status     int      `json:"status"`
	ErrorType  string   `json:"error_type"`
	Left       bool     `json:"disconnected"`
	Finish     string   `json:"finish_reason"`
	Usage      *usage   `json:"usage"`
	Metrics    *metrics `json:"metrics"`
	Incomplete []string `json:"incomplete"`
	Sequences  []struct {
		Index      int      `json:"index"`
		Finish     string   `json:"finish_reason"`
		Prompt     *int     `json:"prompt_tokens"`
		Completion *int     `json:"completion_tokens"`
		Metrics    *metrics `json:"metrics"`
	} `json:"sequences"`
}

// readLines reads what replay printed.
func readLines(t *testing.T, out []byte) []line {
	t.Helper()
	var lines []line
	for raw := range bytes.Lines(out) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Fatalf("read line %.200q: %v", raw, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// lineOf finds the line of an answer by the response's id, else by the caller's trace.
func lineOf(lines []line, a *answer) *line {
	for i, l := range lines {
		if a.id != "" && l.ID == a.id || a.id == "" && a.traceID != "" && l.TraceID == a.traceID {
			return &lines[i]
		}
	}
	return nil
}

// whole reports whether every answer has its line, with nothing missing.
func whole(lines []line, answers []*answer) bool {
	for _, a := range answers {
		if l := lineOf(lines, a); a.method != "GET" && (l == nil || len(l.Incomplete) > 0) {
			return false
		}
	}
	return true
}

// checkLines compares the request lines of a recording with what the client was told.
func checkLines(t *testing.T, lines []line, answers []*answer) {
	t.Helper()
	expected := 0
	for _, a := range answers {
		if a.method == "GET" {
			continue
		}
		expected++
		l := lineOf(lines, a)
		if l == nil {
			t.Errorf("%s: no request line (id %q, trace %q)", a.name, a.id, a.traceID)
			continue
		}
		if len(l.Incomplete) > 0 {
			t.Errorf("%s: incomplete = %v; want nothing missing", a.name, l.Incomplete)
		}
		left := a.stopAfter > 0
		if l.Status != a.status || l.Endpoint != a.path || l.Left != left || len(l.Sequences) != a.sequences || l.ClientID != a.requestID {
			t.Errorf("%s: status %d, endpoint %s, disconnected %v, %d sequences, client id %q; want %d, %s, %v, %d, %q", a.name,
				l.Status, l.Endpoint, l.Left, len(l.Sequences), l.ClientID, a.status, a.path, left, a.sequences, a.requestID)
		}
		if a.usage != nil && (l.Usage == nil || *l.Usage != *a.usage) {
			t.Errorf("%s: usage = %+v; response says %+v", a.name, l.Usage, a.usage)
		}
		if a.usage == nil && a.sequences > 0 && l.Usage == nil {
			t.Errorf("%s: usage = null; want what was counted", a.name)
		}
		if len(a.finish) == 1 && l.Finish != a.finish[0] {
			t.Errorf("%s: finish_reason = %q; response says %q", a.name, l.Finish, a.finish[0])
		}
		if left && l.Finish != "abort" {
			t.Errorf("%s: finish_reason = %q; want abort", a.name, l.Finish)
		}
		if a.status >= 400 && l.ErrorType != a.errType {
			t.Errorf("%s: error_type = %q; response says %q", a.name, l.ErrorType, a.errType)
		}
		for i, s := range l.Sequences {
			if want := wantFinish(a, i); s.Index != i || s.Finish != want {
				t.Errorf("%s: sequence %d has index %d, finish_reason %q; want %d, %q", a.name, i, s.Index, s.Finish, i, want)
			}
			if s.Metrics == nil || s.Metrics.QueueTime == nil || s.Metrics.TimeToFirstToken == nil || s.Metrics.GenerationTime == nil {
				t.Errorf("%s: sequence %d has metrics %+v; want all times", a.name, i, s.Metrics)
			}
		}
	}
	if len(lines) != expected {
		t.Errorf("%d request lines; want %d", len(lines), expected)
	}
}

// wantFinish is why a sequence of an answer ended. What the client was told is the
// engine's word, too, on both of the endpoints that are used here.
func wantFinish(a *answer, index int) string {
	if a.stopAfter > 0 {
		return "abort"
	}
	return a.finish[index] // "" where the engine died
}

// checkMetrics compares the five numbers with vLLM's own, to the last bit.
func checkMetrics(t *testing.T, lines []line, answers []*answer) {
	t.Helper()
	for _, a := range answers {
		// vLLM returns them for an answer of one sequence that is whole or has a usage chunk.
		if due := a.status == 200 && a.sequences == 1 && a.usage != nil; due != (a.metrics != nil) {
			t.Errorf("%s: vLLM returned metrics: %v; want %v", a.name, a.metrics != nil, due)
		}
		if a.metrics == nil {
			continue
		}
		l := lineOf(lines, a)
		if l == nil {
			t.Errorf("%s: no request line", a.name)
			continue
		}
		if diff := cmp.Diff(a.metrics, l.Metrics); diff != "" {
			t.Errorf("%s: metrics (-vLLM +ours):\n%s", a.name, diff)
		}
	}
}
