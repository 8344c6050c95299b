// Package console prints each trace as an indented tree for people:
//
//	POST /v1/chat/completions  22.0 ms  200  2026-01-02 03:04:05.000  trace 4bf92f35…
//	└─ chat tiny  22.0 ms  17 → 4 tokens, length
//	   └─ llm_request  +1.0 ms  19.5 ms  queue 1.0 ms, first token 7.5 ms
//	      ├─ wait  +2.0 ms  1.0 ms
//	      ├─ prefill  +3.0 ms  5.0 ms
//	      └─ decode  +8.0 ms  12.0 ms
//
// After the name stand the start (from the tree's own) and the duration. It is for
// reading, not for parsing: package spanjson writes spans for programs.
package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/semconv"
)

// maxPending is how many spans wait for their root. A tree of two prompts at level 1 has
// 10; past the limit something has gone wrong, and what is there is printed without it.
const maxPending = 4096

// Exporter is a SpanExporter that prints trees. Children must end before their root, as
// they do where one Request is exported after the other. It is safe for concurrent use.
type Exporter struct {
	mu      sync.Mutex
	w       io.Writer
	pending []sdktrace.ReadOnlySpan
}

// New returns an Exporter that prints to w, one tree in one write.
func New(w io.Writer) *Exporter { return &Exporter{w: w} }

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// ExportSpans keeps spans until the root of their tree has come, a span without parent
// or with a remote one.
func (e *Exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range spans {
		e.pending = append(e.pending, s)
		if root(s) || len(e.pending) >= maxPending {
			if err := e.print(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Shutdown prints what still waits for its root.
func (e *Exporter) Shutdown(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) == 0 {
		return nil
	}
	return e.print()
}

func root(s sdktrace.ReadOnlySpan) bool {
	return !s.Parent().SpanID().IsValid() || s.Parent().IsRemote()
}

// print writes all pending spans as trees; spans whose parent is not among them are
// roots here.
func (e *Exporter) print() error {
	spans := e.pending
	index := make(map[trace.SpanID]int, len(spans))
	for i, s := range spans {
		index[s.SpanContext().SpanID()] = i
	}
	t := tree{spans: spans, children: make([][]int, len(spans))}
	var roots []int
	for i, s := range spans {
		if p, ok := index[s.Parent().SpanID()]; ok && !root(s) && p != i {
			t.children[p] = append(t.children[p], i)
		} else {
			roots = append(roots, i)
		}
	}
	for _, r := range roots {
		t.origin = spans[r].StartTime()
		t.node(r, "", "")
	}
	clear(e.pending)
	e.pending = e.pending[:0]
	if _, err := e.w.Write(t.out.Bytes()); err != nil {
		return fmt.Errorf("print spans: %w", err)
	}
	return nil
}

type tree struct {
	out      bytes.Buffer
	spans    []sdktrace.ReadOnlySpan
	children [][]int
	origin   time.Time
}

// node prints span i behind lead, and its children behind indent.
func (t *tree) node(i int, lead, indent string) {
	s := t.spans[i]
	fmt.Fprintf(&t.out, "%s%s", lead, printable(s.Name()))
	if after := s.StartTime().Sub(t.origin); after > 0 {
		fmt.Fprintf(&t.out, "  +%s", millis(after))
	}
	fmt.Fprintf(&t.out, "  %s", millis(s.EndTime().Sub(s.StartTime())))
	if d := details(s); d != "" {
		fmt.Fprintf(&t.out, "  %s", d)
	}
	if lead == "" {
		fmt.Fprintf(&t.out, "  %s  trace %s", s.StartTime().UTC().Format("2006-01-02 15:04:05.000"), s.SpanContext().TraceID())
	}
	t.out.WriteByte('\n')
	for n, c := range t.children[i] {
		branch, below := "├─ ", "│  "
		if n == len(t.children[i])-1 {
			branch, below = "└─ ", "   "
		}
		t.node(c, indent+branch, indent+below)
	}
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
}

// details are the attributes that a person looks for first.
func details(s sdktrace.ReadOnlySpan) string {
	values := make(map[attribute.Key]attribute.Value, len(s.Attributes()))
	for _, kv := range s.Attributes() {
		values[kv.Key] = kv.Value
	}
	var parts []string
	add := func(format string, k attribute.Key) {
		if v, ok := values[k]; ok {
			parts = append(parts, fmt.Sprintf(format, printable(v.String())))
		}
	}
	add("%s", semconv.HTTPResponseStatusCode)
	if s.Name() != semconv.SpanLLMRequest {
		in, okIn := values[semconv.GenAIUsageInputTokens]
		out, okOut := values[semconv.GenAIUsageOutputTokens]
		if okIn || okOut {
			parts = append(parts, fmt.Sprintf("%s → %s tokens", number(in, okIn), number(out, okOut)))
		}
		if v, ok := values[semconv.GenAIResponseFinishReasons]; ok {
			parts = append(parts, printable(strings.Join(v.AsStringSlice(), " ")))
		}
	}
	for _, l := range []struct {
		word string
		key  attribute.Key
	}{
		{"queue", semconv.GenAILatencyTimeInQueue},
		{"first token", semconv.GenAILatencyTimeToFirstToken},
	} {
		if v, ok := values[l.key]; ok {
			parts = append(parts, l.word+" "+latency(v))
		}
	}
	if v, ok := values[semconv.Preemptions]; ok && v.AsInt64() > 0 {
		parts = append(parts, fmt.Sprintf("%d preempted", v.AsInt64()))
	}
	if v, ok := values[semconv.WaitCause]; ok && v.AsString() != semconv.WaitQueued {
		parts = append(parts, printable(v.AsString()))
	}
	if n := len(s.Events()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d events", n))
	}
	if s.Status().Code == codes.Error {
		word := "error"
		if v, ok := values[semconv.ErrorType]; ok {
			word += " " + printable(v.AsString())
		}
		parts = append(parts, word)
	}
	add("incomplete %s", semconv.Incomplete)
	return strings.Join(parts, ", ")
}

func number(v attribute.Value, ok bool) string {
	if !ok {
		return "?"
	}
	return v.String()
}

// latency prints seconds or, in the ARMS dialect, whole nanoseconds.
func latency(v attribute.Value) string {
	if v.Type() == attribute.INT64 {
		return millis(time.Duration(v.AsInt64()))
	}
	return millis(time.Duration(v.AsFloat64() * 1e9))
}

// printable keeps a client's text from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, s)
}
