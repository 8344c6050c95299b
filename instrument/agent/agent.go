package agent

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/exporters/summary"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/instrument/supervise"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf"
	"github.com/tokenscope/tokenscope/probes/preload"
	"github.com/tokenscope/tokenscope/probes/redact"
	"github.com/tokenscope/tokenscope/probes/vllm"
)

// Options say what the agent does beside a workload.
type Options struct {
	// Backend says by which way to watch; Ebpf and Preload what is captured there, and how
	// much of it.
	Backend Backend
	Ebpf    ebpf.Options
	Preload preload.Options
	// Start says which of its supervisor's agents this is; see supervise.AgentStart.
	Start int
	// Export says where spans go. Its resource also describes a recording.
	Export otlp.Config
	// Record is the file of a recording, "" for none; Content keeps message content in it.
	Record  string
	Content bool
	// TraceContext says whether requests join their callers' traces.
	TraceContext bool
	// Version is this program's.
	Version string
	Log     *slog.Logger
	// Stderr gets the summary at the end, where nothing else shows anything.
	Stderr io.Writer
}

const (
	// memoryLimit is where the garbage collector begins to work against growth: the
	// agent shares its container's memory with the server.
	memoryLimit = 96 << 20
	// summaryRows is how many requests the summary at the end lists; its totals cover all.
	summaryRows = 100
	// drainLimit bounds the export of what is left after the workload's end. The
	// supervisor has left by then; nobody waits.
	drainLimit = 10 * time.Second
)

// Run watches the workload of the supervisor that started this process, until that
// workload ends.
func Run(ctx context.Context, o Options) error {
	side, err := supervise.OpenAgentSide()
	if err != nil {
		return fmt.Errorf("the agent is started by instrument itself, not by hand: %w", err)
	}
	supervise.IgnoreSignals()
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-side.Done()
		cancel()
	}()
	source, why, err := openSource(ctx, o.Backend, o.backends(), side)
	if err != nil {
		return fail(side, err)
	}
	o.Log.Info(why)
	a, err := newAgent(ctx, o)
	if err != nil {
		return fail(side, errors.Join(err, source.Close()))
	}
	if err := side.Ready(); err != nil {
		// The supervisor is gone or stopped; the workload may still run.
		o.Log.Debug("tell supervisor", "error", err)
	}
	err = a.run(ctx, source)
	// Said before the probes are taken off, which takes the kernel a while: the
	// supervisor waits only for what is still to be sent.
	side.Close()
	return errors.Join(err, source.Close())
}

// fail says that no other agent is to be started, and why.
func fail(side *supervise.AgentSide, err error) error {
	if serr := side.Failed(err.Error()); serr != nil {
		return err
	}
	return nil // said
}

// agent is a pipeline with what stands behind it.
type agent struct {
	o       Options
	pipe    *Pipeline
	export  *otlp.Pipeline
	record  *capture.Writer
	summary *summary.Table
	engine  otlp.Engine
	told    map[string]bool
}

func newAgent(ctx context.Context, o Options) (*agent, error) {
	a := &agent{o: o, told: make(map[string]bool)}
	var err error
	if a.export, err = otlp.New(ctx, o.Export); err != nil {
		o.Log.Error("spans are not exported there", "error", err)
	}
	var seed [32]byte
	if _, err := cryptorand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("seed ids: %w", err)
	}
	opts := request.Options{Emit: a.emit, Random: rand.NewChaCha8(seed).Uint64}
	if o.Export.Tree.Level >= 2 {
		opts.KeepSteps = max(o.Export.Tree.EventLimit, 1) // with a limit of 0 they are still counted
	}
	a.pipe = NewPipeline(opts, o.TraceContext)
	if o.Record != "" {
		a.openRecording()
	}
	if !a.export.Enabled() {
		a.summary = &summary.Table{Limit: summaryRows}
	}
	return a, nil
}

// openRecording begins the recording; without it the rest goes on.
func (a *agent) openRecording() {
	var seed [32]byte
	cryptorand.Read(seed[:]) // never fails: crypto/rand ends the program if it would
	h := capture.Header{Tool: a.o.Version, Seed: hex.EncodeToString(seed[:]), Content: a.o.Content, Resource: attributes(a.o.Export.Resource)}
	var clean func(*capture.Event) *capture.Event
	if !a.o.Content {
		clean = redact.New().Event
	}
	w, err := capture.NewWriter(recordingPath(a.o.Record, a.o.Start), h, clean)
	if err != nil {
		a.o.Log.Error("nothing is recorded", "error", err)
		return
	}
	a.record = w
}

// recordingPath is where the nth agent of a workload records: one that was started again
// must not overwrite what the one before it has kept.
func recordingPath(path string, n int) string {
	if n <= 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
}

func attributes(res *resource.Resource) map[string]string {
	m := make(map[string]string)
	for _, kv := range res.Attributes() {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// run takes events until the workload ends, then gives out what is left.
func (a *agent) run(ctx context.Context, source capture.Source) error {
	err := source.Run(ctx, a.event)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.pipe.Flush()
	if a.record != nil {
		if rerr := a.record.Close(); rerr != nil {
			a.tellRecording(rerr)
		}
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if xerr := a.export.Shutdown(drain); xerr != nil {
		a.o.Log.Warn("not all spans could be sent", "error", xerr)
	}
	if a.summary != nil {
		a.summarise()
	}
	a.report()
	return err
}

func (a *agent) event(e *capture.Event) {
	if a.record != nil {
		a.record.Write(e)
	}
	switch e.Kind {
	case capture.KindExec:
		a.exec(e)
	case capture.KindLost:
		a.once("lost "+string(e.Cause), func() {
			a.o.Log.Warn("events were lost; requests that were in flight say so", "cause", e.Cause, "count", e.Len)
		})
	case capture.KindTick:
		if a.record != nil {
			if err := a.record.Err(); err != nil {
				a.tellRecording(err)
			}
		}
	}
	a.pipe.Event(e)
	if kind, version := a.pipe.Engine(); kind != a.engine.Name || version != a.engine.Version {
		a.engine.Name, a.engine.Version = kind, version
		a.export.SetEngine(a.engine)
	}
}

func (a *agent) tellRecording(err error) {
	a.once("recording", func() { a.o.Log.Error("the recording ends here; everything else goes on", "error", err) })
}

// ownTracing are the flags that switch on a server's own tracing.
var ownTracing = [][]byte{[]byte("--otlp-traces-endpoint"), []byte("--oltp-traces-endpoint")}

// exec looks at a command line of the workload.
func (a *agent) exec(e *capture.Event) {
	if model := vllm.ServedModel(e.Data); model != "" && a.engine.Model == "" {
		a.engine.Model = model
		a.export.SetEngine(a.engine)
	}
	for arg := range bytes.SplitSeq(e.Data, []byte{0}) {
		for _, flag := range ownTracing {
			if bytes.HasPrefix(arg, flag) && a.export.Enabled() {
				a.once("own tracing", func() {
					a.o.Log.Warn("the server's own tracing is on as well: each request will be reported twice", "flag", string(flag))
				})
			}
		}
	}
}

// emit takes a finished Request.
func (a *agent) emit(r *request.Request) {
	if a.export.Enabled() {
		a.export.Enqueue(r)
	}
	if a.summary != nil {
		a.summary.Add(r)
	}
}

func (a *agent) once(key string, tell func()) {
	if !a.told[key] {
		a.told[key] = true
		tell()
	}
}

// summarise shows at the end what nothing else has shown.
func (a *agent) summarise() {
	if a.pipe.Stats().Tracker.Emitted == 0 {
		a.o.Log.Info("no requests were seen")
		return
	}
	a.o.Log.Info("no exporter is set (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER); what was seen:")
	if _, err := a.summary.WriteTo(a.o.Stderr); err != nil {
		a.o.Log.Debug("print summary", "error", err)
	}
}

// report says at the end what was lost, if anything was.
func (a *agent) report() {
	s, x := a.pipe.Stats(), a.export.Stats()
	a.o.Log.Debug("agent ends", "events", s.Events, "requests", s.Tracker.Emitted, "incomplete", s.Tracker.Incomplete,
		"tokens", s.Tracker.Tokens, "spans", x.Exported)
	for cause, n := range s.Lost {
		a.o.Log.Warn("events lost in all", "cause", cause, "count", n)
	}
	if x.Dropped > 0 || x.Failed > 0 {
		a.o.Log.Warn("not everything was exported", "requests_dropped", x.Dropped, "spans_failed", x.Failed)
	}
	if n := s.Tracker.RefusedExchanges + s.Tracker.RefusedSequences + s.HTTP.Refused; n > 0 {
		a.o.Log.Warn("too many requests at once: some were not followed", "count", n)
	}
}
