// Package spanjson writes spans as JSON, one object a line: what `instrument replay
// --output spans` prints.
//
// An object has name, kind (as OTLP names it, SPAN_KIND_SERVER), trace_id, span_id,
// parent_span_id (null for a root), start_unix_ns, end_unix_ns, attributes (an object),
// events (name, time_unix_ns, attributes) and status ({} unless it is set). Keys come in
// this order, attributes in the order in which they were set, so that the same span
// gives the same bytes.
package spanjson

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/exporters/internal/jsontext"
)

// Exporter is a SpanExporter that writes to an io.Writer, synchronously. It is safe for
// concurrent use.
type Exporter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// New returns an Exporter that writes to w.
func New(w io.Writer) *Exporter { return &Exporter{w: w} }

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// ExportSpans writes spans in their order, in one write.
func (e *Exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = e.buf[:0]
	for _, s := range spans {
		e.buf = append(AppendSpan(e.buf, s), '\n')
	}
	if _, err := e.w.Write(e.buf); err != nil {
		return fmt.Errorf("write spans: %w", err)
	}
	return nil
}

// Shutdown does nothing: nothing is kept back, and the writer is the caller's.
func (e *Exporter) Shutdown(context.Context) error { return nil }

// AppendSpan appends the object of s, without a newline.
func AppendSpan(dst []byte, s sdktrace.ReadOnlySpan) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, s.Name())
	dst = append(dst, `,"kind":"SPAN_KIND_`...)
	dst = append(dst, strings.ToUpper(s.SpanKind().String())...)
	dst = append(dst, `","trace_id":"`...)
	dst = append(dst, s.SpanContext().TraceID().String()...)
	dst = append(dst, `","span_id":"`...)
	dst = append(dst, s.SpanContext().SpanID().String()...)
	dst = append(dst, `","parent_span_id":`...)
	if p := s.Parent().SpanID(); p.IsValid() {
		dst = jsontext.AppendString(dst, p.String())
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"start_unix_ns":`...)
	dst = strconv.AppendInt(dst, s.StartTime().UnixNano(), 10)
	dst = append(dst, `,"end_unix_ns":`...)
	dst = strconv.AppendInt(dst, s.EndTime().UnixNano(), 10)
	dst = append(dst, `,"attributes":`...)
	dst = appendAttributes(dst, s.Attributes())
	dst = append(dst, `,"events":[`...)
	for i, e := range s.Events() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = jsontext.AppendString(dst, e.Name)
		dst = append(dst, `,"time_unix_ns":`...)
		dst = strconv.AppendInt(dst, e.Time.UnixNano(), 10)
		dst = append(dst, `,"attributes":`...)
		dst = appendAttributes(dst, e.Attributes)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"status":{`...)
	if st := s.Status(); st.Code != codes.Unset {
		dst = append(dst, `"code":"STATUS_CODE_`...)
		dst = append(dst, strings.ToUpper(st.Code.String())...)
		dst = append(dst, '"')
		if st.Description != "" {
			dst = append(dst, `,"message":`...)
			dst = jsontext.AppendString(dst, st.Description)
		}
	}
	return append(dst, "}}"...)
}

func appendAttributes(dst []byte, kvs []attribute.KeyValue) []byte {
	dst = append(dst, '{')
	for i, kv := range kvs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, string(kv.Key))
		dst = append(dst, ':')
		dst = appendValue(dst, kv.Value)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return strconv.AppendBool(dst, v.AsBool())
	case attribute.INT64:
		return strconv.AppendInt(dst, v.AsInt64(), 10)
	case attribute.FLOAT64:
		return jsontext.AppendFloat(dst, v.AsFloat64())
	case attribute.STRINGSLICE:
		dst = append(dst, '[')
		for i, s := range v.AsStringSlice() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, s)
		}
		return append(dst, ']')
	}
	// A string; the trees have no other type, and as text none is lost.
	return jsontext.AppendString(dst, v.String())
}
