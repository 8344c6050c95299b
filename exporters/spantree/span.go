package spantree

import (
	"math"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/semconv"
)

// Span is one span of a tree. Times are Unix nanoseconds.
type Span struct {
	Name string
	Kind trace.SpanKind
	// Parent is the parent's index in the slice that Build returned; −1 for a root.
	// Parents stand before their children, and each subtree is contiguous.
	Parent     int
	Start, End int64
	Attributes []attribute.KeyValue
	Events     []Event
	Status     codes.Code
}

// Event is a span event. Time is Unix nanoseconds.
type Event struct {
	Name       string
	Time       int64
	Attributes []attribute.KeyValue
}

// Options say how much a tree tells. The zero value is level 0.
type Options struct {
	// Level is OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL: from 1 on with wait, prefill and
	// decode spans, at 2 with token events.
	Level int
	// EventLimit is the most token events of one span; negative: no limit.
	EventLimit int
	Dialect    semconv.Dialect
	// Engine is used where a Request does not name its engine: one that was rejected has
	// not reached it.
	Engine string
}

const (
	// maxText bounds names and ids that a client chooses; the longest honest ones, model
	// paths, are well below.
	maxText = 256
	// maxPath bounds url.path, which may have a proxy's prefix before the route.
	maxPath = 1024
)

// attrs collects attributes, leaving out what is not known.
type attrs []attribute.KeyValue

func (a *attrs) text(k attribute.Key, v string)   { a.cut(k, v, maxText) }
func (a *attrs) int(k attribute.Key, v int)       { *a = append(*a, k.Int(v)) }
func (a *attrs) yes(k attribute.Key)              { *a = append(*a, k.Bool(true)) }
func (a *attrs) float(k attribute.Key, v float64) { *a = append(*a, k.Float64(v)) }

func (a *attrs) cut(k attribute.Key, v string, limit int) {
	if v != "" {
		*a = append(*a, k.String(clean(v, limit)))
	}
}

// count adds a number that is −1 where it is unknown.
func (a *attrs) count(k attribute.Key, v int) {
	if v >= 0 {
		a.int(k, v)
	}
}

func (a *attrs) optInt(k attribute.Key, v *int) {
	if v != nil {
		a.int(k, *v)
	}
}

// optFloat adds a parameter; one that is no number at all was not meant to be read.
func (a *attrs) optFloat(k attribute.Key, v *float64) {
	if v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
		a.float(k, *v)
	}
}

func (a *attrs) list(k attribute.Key, v []string) {
	var known []string
	for _, s := range v {
		if s != "" {
			known = append(known, clean(s, maxText))
		}
	}
	if len(known) > 0 {
		*a = append(*a, k.StringSlice(known))
	}
}

// clean makes s valid UTF-8 of at most limit bytes.
func clean(s string, limit int) string {
	if len(s) > limit {
		// Not in the middle of a rune, where s has runes at all.
		end := limit
		for end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	if utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > limit {
		// A replacement is longer than the byte that it replaces; what follows is valid,
		// so that this ends.
		return clean(s, limit)
	}
	return s
}
