package otlp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/exporters/console"
	"github.com/tokenscope/tokenscope/instrument/request"
)

// Pipeline exports Requests. Enqueue, SetEngine and Stats are safe for concurrent use.
//
// The TracerProvider is built at the first Request: a resource cannot be changed, and
// what SetEngine says is not known before the engine has started.
type Pipeline struct {
	cfg     Config
	sampler sdktrace.Sampler
	watch   *watch            // nil without an OTLP exporter
	console *console.Exporter // nil without

	queue chan queued
	done  chan struct{}
	// mu guards closed: nothing is sent to the queue after it was closed.
	mu     sync.RWMutex
	closed bool
	// giveUp makes the goroutine drop what is left in the queue.
	giveUp atomic.Bool

	engine atomic.Pointer[Engine]
	// doubted makes the line that the hint is wrong appear once.
	doubted sync.Once

	bytes                                 atomic.Int64
	accepted, dropped, sampled, unsampled atomic.Int64

	// emitter and processors belong to the goroutine until it is done.
	emitter    *emitter
	processors []sdktrace.SpanProcessor
}

type queued struct {
	request *request.Request
	bytes   int64
}

// Stats count what became of Requests and spans since the start.
type Stats struct {
	// Accepted and Dropped are Requests: taken into the queue, and lost to a full one (or
	// to the end of Shutdown's time).
	Accepted, Dropped int64
	// Queued are Requests in the queue now, QueuedBytes their memory.
	Queued, QueuedBytes int64
	// Sampled and Unsampled are spans, by the sampler's decision.
	Sampled, Unsampled int64
	// Exported and Failed are spans that the collector took, and did not.
	Exported, Failed int64
}

// New builds a Pipeline. An exporter that cannot be made is left out and named in the
// error, a sampler that is not known is replaced by the default; the Pipeline is valid
// all the same.
func New(ctx context.Context, cfg Config) (*Pipeline, error) {
	p := &Pipeline{cfg: cfg.withDefaults(), done: make(chan struct{})}
	var errs []error
	var err error
	if p.sampler, err = p.cfg.sampler(); err != nil {
		errs = append(errs, err)
	}
	for _, name := range p.cfg.Exporters {
		switch name {
		case ExporterOTLP:
			client, err := newClient(ctx, &p.cfg.Collector, p.cfg.Log)
			if err != nil {
				errs = append(errs, fmt.Errorf("make OTLP exporter: %w", err))
				continue
			}
			p.watch = newWatch(client, p.cfg.Collector.shownTarget(), p.cfg.Collector.secrets(), p.cfg.Log)
		case ExporterConsole:
			p.console = console.New(p.cfg.Console)
		case ExporterNone:
		default:
			errs = append(errs, fmt.Errorf("unknown exporter %q", name))
		}
	}
	if !p.Enabled() {
		close(p.done)
		return p, errors.Join(errs...)
	}
	p.queue = make(chan queued, p.cfg.QueueRequests)
	go p.run()
	return p, errors.Join(errs...)
}

// Enabled reports whether anything is exported.
func (p *Pipeline) Enabled() bool { return p.watch != nil || p.console != nil }

// SetEngine says what the engine is, for the resource. It has an effect until the first
// Request is exported.
func (p *Pipeline) SetEngine(e Engine) {
	if hint := p.cfg.EngineHint; hint != "" && e.Name != "" && e.Name != hint {
		p.doubted.Do(func() {
			p.cfg.Log.Warn("the engine is not the one that APSARA_APM_MODEL_SERVICE_FRAMEWORK names; what is seen counts",
				"named", hint, "seen", e.Name)
		})
	}
	p.engine.Store(&e)
}

// Enqueue takes r, which nobody changes afterwards, and reports whether there was room.
// It never waits.
func (p *Pipeline) Enqueue(r *request.Request) bool {
	if !p.Enabled() {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		p.dropped.Add(1)
		return false
	}
	// The bytes are taken first and given back where there is no room, so that concurrent
	// callers cannot exceed the bound together.
	q := queued{request: r, bytes: size(r)}
	if p.bytes.Add(q.bytes) <= p.cfg.QueueBytes {
		select {
		case p.queue <- q:
			p.accepted.Add(1)
			return true
		default:
		}
	}
	p.bytes.Add(-q.bytes)
	p.dropped.Add(1)
	return false
}

// Stats returns the counts.
func (p *Pipeline) Stats() Stats {
	s := Stats{
		Accepted: p.accepted.Load(), Dropped: p.dropped.Load(),
		Queued: int64(len(p.queue)), QueuedBytes: p.bytes.Load(),
		Sampled: p.sampled.Load(), Unsampled: p.unsampled.Load(),
	}
	if p.watch != nil {
		s.Exported, s.Failed = p.watch.exported.Load(), p.watch.failed.Load()
	}
	return s
}

func (p *Pipeline) run() {
	defer close(p.done)
	for q := range p.queue {
		p.bytes.Add(-q.bytes)
		if p.giveUp.Load() {
			p.dropped.Add(1)
			continue
		}
		if p.emitter == nil {
			p.start(q.request)
		}
		sampled, unsampled := p.emitter.emit(q.request)
		p.sampled.Add(int64(sampled))
		p.unsampled.Add(int64(unsampled))
	}
}

// start builds the provider when the first Request has come. What SetEngine did not say
// the Request may.
func (p *Pipeline) start(r *request.Request) {
	engine := Engine{}
	if e := p.engine.Load(); e != nil {
		engine = *e
	}
	if engine.Name == "" {
		engine.Name = r.Engine
	}
	if engine.Name == "" {
		engine.Name = p.cfg.EngineHint
	}
	if engine.Version == "" {
		engine.Version = r.EngineVersion
	}
	tree := p.cfg.Tree
	if tree.Engine == "" {
		tree.Engine = engine.Name
	}
	opts := []sdktrace.TracerProviderOption{sdktrace.WithSampler(p.sampler)}
	add := func(sp sdktrace.SpanProcessor) {
		p.processors = append(p.processors, sp)
		opts = append(opts, sdktrace.WithSpanProcessor(sp))
	}
	if p.watch != nil {
		add(sdktrace.NewBatchSpanProcessor(p.watch, p.cfg.Batch.options()...))
	}
	if p.console != nil {
		add(&synchronous{next: p.console})
	}
	p.emitter = newEmitter(tree, false, WithEngine(p.cfg.Resource, engine), sdktrace.NewSpanLimits(), opts...)
}

// Shutdown takes no more Requests, exports what is queued, each batch at once or never,
// and closes the connection. It returns before ctx's deadline: what could not be exported by then counts as failed or
// dropped, and the error says so.
func (p *Pipeline) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	if !again && p.queue != nil {
		close(p.queue)
	}
	p.mu.Unlock()
	if again || !p.Enabled() {
		return nil
	}
	if p.watch != nil {
		p.watch.hurry()
	}
	drain, cancel := drainContext(ctx)
	defer cancel()
	stop := context.AfterFunc(drain, p.abandon)
	defer stop()

	// In this order: the goroutine fills the processors, and they the exporters. It is done
	// soon after the drain's end, when exports fail at once, unless the console's reader
	// has stopped reading: hence ctx.
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("drain requests: %w", ctx.Err())
	}
	for _, sp := range p.processors {
		// An error here is the drain's end, or one that the exporter has logged.
		_ = sp.Shutdown(drain)
	}
	if p.watch != nil && p.emitter != nil {
		// The batch processor does not wait past the drain's end, but its goroutine lives
		// until the exporter is closed.
		select {
		case <-p.watch.closed:
		case <-ctx.Done():
			return fmt.Errorf("close exporter: %w", ctx.Err())
		}
	} else if p.watch != nil {
		_ = p.watch.Shutdown(drain)
	}
	if drain.Err() != nil {
		s := p.Stats()
		return fmt.Errorf("drain spans: %d spans and %d requests were not exported in time", s.Failed, s.Dropped)
	}
	return nil
}

// abandon ends the drain: exports fail at once, and what is queued is dropped.
func (p *Pipeline) abandon() {
	p.giveUp.Store(true)
	if p.watch != nil {
		p.watch.abort()
	}
}

// closeTime is kept back of Shutdown's time, or a fifth of it where that is less, for
// failing what is left and closing.
const closeTime = 500 * time.Millisecond

// drainContext ends a little before ctx, so that closing what does not answer fits in.
func drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(left/5, closeTime)))
}

// size estimates the memory that r holds, from above: the structs, the strings and the
// steps, which outweigh all else.
func size(r *request.Request) int64 {
	const (
		perRequest  = 1024
		perSequence = 512
		perStep     = 56
		perWait     = 16
		perReason   = 16 // words are shared
		perCount    = 8
	)
	n := perRequest + len(r.ID) + len(r.Model) + len(r.Lora) + len(r.Tracestate)
	if h := r.HTTP; h != nil {
		n += len(h.Path) + len(h.UserAgent) + len(h.Host) + len(h.Traceparent) + len(h.Tracestate) +
			len(h.RequestID) + len(h.Model) + len(h.BodyID) + len(h.ResponseID) + len(h.ResponseModel) +
			cap(h.FinishReasons)*perReason
	}
	for _, s := range r.Sequences {
		n += perSequence + len(s.EngineID) + cap(s.Steps)*perStep + cap(s.Waits)*perWait
		if s.Spec != nil {
			n += (cap(s.Spec.Histogram) + cap(s.Spec.PerStepAccepted) + cap(s.Spec.PerStepDrafted)) * perCount
		}
	}
	return int64(n)
}
