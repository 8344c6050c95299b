package otlp

import (
	"context"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/request"
)

// Replay gives the spans of recorded Requests to an exporter, at once and on the
// caller's goroutine. The same Request gives the same spans, ids included: nothing
// depends on the environment, and every span is sampled, whatever the caller's
// traceparent said then. It is not safe for concurrent use.
type Replay struct {
	emitter *emitter
	sync    *synchronous
}

// NewReplay returns a Replay to exporter. res is the recording's resource; nil is an
// empty one.
func NewReplay(exporter sdktrace.SpanExporter, tree spantree.Options, res *resource.Resource) *Replay {
	if res == nil {
		res = resource.Empty()
	}
	s := &synchronous{next: exporter}
	limits := sdktrace.SpanLimits{
		AttributeValueLengthLimit: sdktrace.DefaultAttributeValueLengthLimit,
		AttributeCountLimit:       sdktrace.DefaultAttributeCountLimit,
		// Links are not used, and events have few attributes.
		AttributePerEventCountLimit: sdktrace.DefaultAttributePerEventCountLimit,
	}
	return &Replay{sync: s, emitter: newEmitter(tree, true, res, limits,
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(s))}
}

// Emit exports the spans of r. It returns the exporter's error, after which there is
// nothing more to be had.
func (p *Replay) Emit(r *request.Request) error {
	p.emitter.emit(r)
	return p.sync.err
}

// Close lets the exporter write what it has kept back.
func (p *Replay) Close(ctx context.Context) error {
	if err := p.sync.next.Shutdown(ctx); err != nil {
		return err
	}
	return p.sync.err
}

// synchronous is a SpanProcessor that hands each span on as it ends. The SDK's own
// warns against its use, which here is the point. It keeps the first error.
type synchronous struct {
	next sdktrace.SpanExporter
	err  error
}

func (*synchronous) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (s *synchronous) OnEnd(span sdktrace.ReadOnlySpan) {
	if s.err == nil {
		s.err = s.next.ExportSpans(context.Background(), []sdktrace.ReadOnlySpan{span})
	}
}

func (s *synchronous) Shutdown(ctx context.Context) error { return s.next.Shutdown(ctx) }

func (*synchronous) ForceFlush(context.Context) error { return nil }
