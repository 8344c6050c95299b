// Package agent builds the line from captured events to Requests and what is made of
// them, and runs it: beside a workload (Run), or over recordings (Replay). It is the
// only package that knows all parts.
package agent

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/api"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
	"github.com/tokenscope/tokenscope/probes/vllm"
)

// Pipeline is the line from events to Requests. It is not safe for concurrent use.
type Pipeline struct {
	tracker  *request.Tracker
	http     *api.Server
	messages *stream.Assembler
	engine   *vllm.Decoder
	lost     map[capture.Cause]uint64
	events   uint64
	last     int64 // time of the last event
}

// PipelineStats are the counts of every part since the pipeline was made.
type PipelineStats struct {
	Events   uint64
	Lost     map[capture.Cause]uint64
	HTTP     api.Stats
	Messages stream.Stats
	Engine   vllm.Stats
	Tracker  request.Stats
}

// NewPipeline builds a Pipeline. o.Extract is set here: callers' spans come by the
// headers of W3C Trace Context if traceContext is true, else not at all.
func NewPipeline(o request.Options, traceContext bool) *Pipeline {
	if traceContext {
		o.Extract = extract
	}
	p := &Pipeline{lost: make(map[capture.Cause]uint64)}
	emit := o.Emit
	o.Emit = func(r *request.Request) {
		p.explain(r)
		emit(r)
	}
	p.tracker = request.NewTracker(o)
	p.http = api.NewServer(p.tracker)
	p.engine = vllm.NewDecoder(p.tracker)
	p.messages = stream.NewAssembler(p.engine)
	return p
}

// explain says of a request without its engine side whether that side was there and
// not understood: another engine, or a release that is too old or too new.
func (p *Pipeline) explain(r *request.Request) {
	i := slices.Index(r.Incomplete, request.EngineNotCaptured)
	if i < 0 {
		return
	}
	if s := p.engine.Stats(); s.Unknown > 0 && s.Add.Decoded == 0 && s.Outputs.Decoded == 0 {
		r.Incomplete[i] = request.EngineNotDecoded
	}
}

// Event takes the next event. It keeps nothing of it.
func (p *Pipeline) Event(e *capture.Event) {
	p.events++
	p.last = max(p.last, e.Time)
	switch e.Kind {
	case capture.KindSend, capture.KindRecv:
		p.messages.Event(e)
		return
	case capture.KindClock:
		p.tracker.Clock(e.Time, e.Offset)
	case capture.KindTick:
		p.tracker.Tick(e.Time)
	case capture.KindExit:
		p.messages.Event(e)
		p.http.Handle(e)
		p.tracker.Exit(e.Time, e.PID)
		return
	case capture.KindLost:
		p.lost[e.Cause] += uint64(e.Len)
		p.tracker.Lost(e.Time)
		p.messages.Event(e)
	case capture.KindAttach:
		p.messages.Event(e)
	}
	p.http.Handle(e)
}

// Flush ends what is still open.
func (p *Pipeline) Flush() {
	p.http.Flush(p.last)
	p.tracker.Flush()
}

// Engine is the engine's kind and version as far as they are known.
func (p *Pipeline) Engine() (kind, version string) { return p.tracker.Engine() }

// Stats returns the counts.
func (p *Pipeline) Stats() PipelineStats {
	lost := make(map[capture.Cause]uint64, len(p.lost))
	for c, n := range p.lost {
		lost[c] = n
	}
	return PipelineStats{Events: p.events, Lost: lost, HTTP: p.http.Stats(), Messages: p.messages.Stats(),
		Engine: p.engine.Stats(), Tracker: p.tracker.Stats()}
}

// extract reads the caller's span from a request's headers.
func extract(x *request.Exchange) (request.Remote, bool) {
	if x.Traceparent == "" {
		return request.Remote{}, false
	}
	carrier := propagation.MapCarrier{"traceparent": x.Traceparent, "tracestate": x.Tracestate}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if !sc.IsValid() {
		return request.Remote{}, false
	}
	return request.Remote{TraceID: sc.TraceID(), SpanID: sc.SpanID(), Sampled: sc.IsSampled(), Tracestate: sc.TraceState().String()}, true
}
