package otlp

// Requests into the SDK: one span of a tree after the other, through a TracerProvider.

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// emitter turns Requests into spans of a TracerProvider. It is not safe for concurrent
// use.
type emitter struct {
	tracer trace.Tracer
	tree   spantree.Options
	seeded bool
}

func newEmitter(tree spantree.Options, seeded bool, res *resource.Resource, limits sdktrace.SpanLimits, opts ...sdktrace.TracerProviderOption) *emitter {
	// The tree has chosen its events; the SDK's own limit would drop the oldest.
	limits.EventCountLimit = tree.EventLimit
	unmute := mute()
	tp := sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
		sdktrace.WithResource(res),
		sdktrace.WithIDGenerator(idGenerator{}),
		sdktrace.WithRawSpanLimits(limits),
	}, opts...)...)
	unmute()
	version, _ := res.Set().Value(semconv.TelemetryDistroVersion)
	return &emitter{
		tracer: tp.Tracer(semconv.ScopeName, trace.WithInstrumentationVersion(version.AsString())),
		tree:   tree, seeded: seeded,
	}
}

// emit starts and ends the spans of r; children end before their parents, roots last. It
// returns how many were sampled and how many not.
func (e *emitter) emit(r *request.Request) (sampled, unsampled int) {
	ctx := withIDs(context.Background(), r, e.seeded)
	if parent := remote(r); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	spans := spantree.Build(r, e.tree)
	contexts := make([]context.Context, len(spans))
	started := make([]trace.Span, len(spans))
	// open is the path from a root to the span started last: where the next is not a child
	// of its end, that end has all its children and ends.
	open := make([]int, 0, 4)
	end := func() {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		started[i].End(trace.WithTimestamp(time.Unix(0, spans[i].End)))
	}
	for i := range spans {
		s := &spans[i]
		for len(open) > 0 && open[len(open)-1] != s.Parent {
			end()
		}
		in := ctx
		if s.Parent >= 0 {
			in = contexts[s.Parent]
		}
		contexts[i], started[i] = e.tracer.Start(in, s.Name,
			trace.WithSpanKind(s.Kind),
			trace.WithTimestamp(time.Unix(0, s.Start)),
			trace.WithAttributes(s.Attributes...))
		open = append(open, i)
		if !started[i].IsRecording() {
			unsampled++
			continue
		}
		sampled++
		for _, ev := range s.Events {
			started[i].AddEvent(ev.Name, trace.WithTimestamp(time.Unix(0, ev.Time)), trace.WithAttributes(ev.Attributes...))
		}
		if s.Status != codes.Unset {
			started[i].SetStatus(s.Status, "")
		}
	}
	for len(open) > 0 {
		end()
	}
	return sampled, unsampled
}

// remote is the caller's span context; it is not valid without a traceparent.
func remote(r *request.Request) trace.SpanContext {
	var flags trace.TraceFlags
	if r.Sampled {
		flags = trace.FlagsSampled
	}
	// A tracestate that cannot be read is dropped and the traceparent kept, as W3C has it.
	state, _ := trace.ParseTraceState(r.Tracestate)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: r.TraceID, SpanID: r.ParentSpanID, TraceFlags: flags, TraceState: state, Remote: true,
	})
}
