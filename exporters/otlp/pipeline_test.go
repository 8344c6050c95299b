package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a slog destination whose lines a test reads.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.buf.String())
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

var level1 = spantree.Options{Level: 1, EventLimit: 128}

// export sends requests through a Pipeline of cfg, to its end.
func export(t *testing.T, cfg Config, requests ...*request.Request) Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := New(ctx, cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	for _, r := range requests {
		if !p.Enqueue(r) {
			t.Errorf("Enqueue = false; want true")
		}
	}
	if err := p.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	return p.Stats()
}

// shape writes spans as "parent/name" in order of arrival.
func shape(spans []*tracepb.Span) []string {
	names := map[string]string{}
	for _, s := range spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	var out []string
	for _, s := range spans {
		parent, ok := names[string(s.GetParentSpanId())]
		if !ok {
			parent = hex.EncodeToString(s.GetParentSpanId())
		}
		out = append(out, parent+" > "+s.GetName())
	}
	return out
}

var plainShape = []string{
	"llm_request > wait", "llm_request > prefill", "llm_request > decode",
	"chat tiny > llm_request", "POST /v1/chat/completions > chat tiny",
	"00f067aa0ba902b7 > POST /v1/chat/completions",
}

func TestWholeTreeArrives(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			got := export(t, Config{
				Exporters: []string{ExporterOTLP}, Collector: c.serve(t, &r),
				Tree: level1, Resource: NewResource(ResourceConfig{ServiceName: "svc", Version: "1.2.3"}),
			}, requesttest.Plain())
			want := Stats{Accepted: 1, Sampled: 6, Exported: 6}
			if got != want {
				t.Errorf("Stats = %+v; want %+v", got, want)
			}
			spans := r.got()
			if diff := cmp.Diff(plainShape, shape(spans)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
			for _, s := range spans {
				if id := hex.EncodeToString(s.GetTraceId()); id != "4bf92f3577b34da6a3ce929d0e0e4736" {
					t.Errorf("%s has trace id %s; want the caller's", s.GetName(), id)
				}
				if s.GetTraceState() != "vendor=1" {
					t.Errorf("%s has tracestate %q; want vendor=1", s.GetName(), s.GetTraceState())
				}
			}
			if s := spans[5]; s.GetKind() != tracepb.Span_SPAN_KIND_SERVER || s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano() != 22e6 {
				t.Errorf("root: kind %s, %d ns; want SERVER, 22 ms", s.GetKind(), s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano())
			}
			for k, v := range map[string]string{
				"service.name": "svc", "telemetry.distro.version": "1.2.3", "tokenscope.engine.name": "vllm-v1",
				"tokenscope.engine.version": "0.32.0", "tokenscope.dialect": "both",
			} {
				if r.resource[k] != v {
					t.Errorf("resource %s = %q; want %q", k, r.resource[k], v)
				}
			}
		})
	}
}

// TestEngineHint: what the user says holds until something is seen, and no longer.
func TestEngineHint(t *testing.T) {
	unknown := requesttest.Plain()
	unknown.Engine = ""
	for _, c := range []struct {
		name    string
		hint    string
		seen    []string // by SetEngine
		request *request.Request
		want    string
		lines   int
	}{
		{"nothing said, nothing seen", "", nil, unknown, "", 0},
		{"said, nothing seen", "sglang", nil, unknown, "sglang", 0},
		{"said, only the version seen", "sglang", []string{""}, unknown, "sglang", 0},
		{"said and seen", "vllm-v1", []string{"vllm-v1"}, unknown, "vllm-v1", 0},
		{"something else seen, more than once", "sglang", []string{"vllm-v1", "vllm-v1"}, unknown, "vllm-v1", 1},
		{"something else seen in a request", "sglang", nil, requesttest.Plain(), "vllm-v1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			var said log
			p, err := New(t.Context(), Config{
				Exporters: []string{ExporterOTLP}, Collector: serveHTTP(t, &r), Resource: NewResource(ResourceConfig{}), EngineHint: c.hint, Log: said.logger(),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range c.seen {
				p.SetEngine(Engine{Name: name, Version: "1"})
			}
			p.Enqueue(c.request)
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if got := r.resource["tokenscope.engine.name"]; got != c.want {
				t.Errorf("tokenscope.engine.name = %q; want %q", got, c.want)
			}
			if lines := said.lines(); len(lines) != c.lines {
				t.Errorf("log = %q; want %d lines", lines, c.lines)
			}
		})
	}
}

func TestSampling(t *testing.T) {
	unsampled := requesttest.Plain()
	unsampled.Sampled = false
	for _, c := range []struct {
		name, sampler string
		arg           float64
		request       *request.Request
		want          int
	}{
		{"default, caller sampled", "", 0, requesttest.Plain(), 6},
		{"default, caller did not sample", "", 0, unsampled, 0},
		{"default, no caller", "", 0, requesttest.Streamed(), 6},
		{"parentbased_always_on, no caller", "parentbased_always_on", 0, requesttest.Streamed(), 6},
		{"always_off, caller sampled", "always_off", 0, requesttest.Plain(), 0},
		{"always_on, caller did not sample", "always_on", 0, unsampled, 6},
		{"parentbased_always_off, no caller", "parentbased_always_off", 0, requesttest.Streamed(), 0},
		{"parentbased_always_off, caller sampled", "parentbased_always_off", 0, requesttest.Plain(), 6},
		{"traceidratio 0, caller sampled", "traceidratio", 0, requesttest.Plain(), 0},
		{"traceidratio 1, caller did not sample", "traceidratio", 1, unsampled, 6},
		{"parentbased_traceidratio 0, caller sampled", "parentbased_traceidratio", 0, requesttest.Plain(), 6},
		{"parentbased_traceidratio 0, no caller", "parentbased_traceidratio", 0, requesttest.Streamed(), 0},
		{"parentbased_traceidratio 1, no caller", "parentbased_traceidratio", 1, requesttest.Streamed(), 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: serveGRPC(t, &r), Tree: level1, Sampler: c.sampler, SamplerArg: c.arg}, c.request)
			if n := len(r.got()); n != c.want {
				t.Errorf("%d spans arrived; want %d", n, c.want)
			}
			if s.Sampled != int64(c.want) || s.Unsampled != int64(6-c.want) {
				t.Errorf("Stats = %+v; want %d sampled, %d not", s, c.want, 6-c.want)
			}
		})
	}
}

func TestEngineRequestsWithoutHTTPShareATrace(t *testing.T) {
	var r receiver
	export(t, Config{Exporters: []string{ExporterOTLP}, Collector: serveGRPC(t, &r)}, requesttest.EngineOnly())
	spans := r.got()
	if len(spans) != 2 {
		t.Fatalf("%d spans arrived; want 2", len(spans))
	}
	for _, s := range spans {
		if len(s.GetParentSpanId()) != 0 || hex.EncodeToString(s.GetTraceId()) != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("%s: parent %x, trace %x; want a root of the Request's trace", s.GetName(), s.GetParentSpanId(), s.GetTraceId())
		}
	}
}

func TestHostileTextArrives(t *testing.T) {
	var r receiver
	if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: serveGRPC(t, &r)}, requesttest.Hostile()); s.Exported != 3 {
		t.Errorf("Stats = %+v; want 3 spans exported", s)
	}
}

func TestCollectorStateIsLoggedOncePerChange(t *testing.T) {
	var r receiver
	var l log
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := New(ctx, Config{Exporters: []string{ExporterOTLP}, Collector: serveGRPC(t, &r), Batch: Batch{ScheduleDelay: 5 * time.Millisecond}, Log: l.logger()})
	if err != nil {
		t.Fatal(err)
	}
	// send exports a Request of three spans and waits until they are accounted for.
	total := int64(0)
	send := func() {
		p.Enqueue(requesttest.Plain())
		total += 3
		for s := p.Stats(); s.Exported+s.Failed < total; s = p.Stats() {
			if ctx.Err() != nil {
				t.Fatalf("Stats = %+v; want %d spans accounted for", s, total)
			}
			time.Sleep(time.Millisecond)
		}
	}
	send()
	r.set(func(r *receiver) { r.refuse = true })
	send()
	send()
	r.set(func(r *receiver) { r.refuse = false })
	send()
	send()
	r.set(func(r *receiver) { r.reject = 1 })
	send()
	if err := p.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	lines := l.lines()
	if len(lines) != 3 || !strings.Contains(lines[0], "PermissionDenied") ||
		!strings.Contains(lines[1], "spans_lost=6") || !strings.Contains(lines[2], "partial success") {
		t.Errorf("log = %q; want refused, again with 6 lost, partly rejected", lines)
	}
	// How the three spans of the last Request fall into batches is open, and so is how many
	// batches reject one.
	if s := p.Stats(); s.Failed < 7 || s.Failed > 9 || s.Exported+s.Failed != 18 {
		t.Errorf("Stats = %+v; want 7 to 9 of 18 spans failed", s)
	}
}

func TestQueueFull(t *testing.T) {
	one := size(requesttest.Plain())
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"requests", Config{QueueRequests: 2}},
		{"bytes", Config{QueueBytes: 2 * one}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A reader that does not read holds the goroutine, and with it the queue.
			hold := &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
			cfg := c.cfg
			cfg.Exporters, cfg.Console = []string{ExporterConsole}, hold
			p, err := New(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			p.Enqueue(requesttest.Plain())
			<-hold.entered
			for i, want := range []bool{true, true, false, false} {
				if got := p.Enqueue(requesttest.Plain()); got != want {
					t.Errorf("Enqueue %d = %v; want %v", i, got, want)
				}
			}
			if s := p.Stats(); s.Accepted != 3 || s.Dropped != 2 || s.Queued != 2 || s.QueuedBytes != 2*one {
				t.Errorf("Stats = %+v; want 3 accepted, 2 dropped, 2 queued of %d bytes each", s, one)
			}
			close(hold.open)
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if p.Enqueue(requesttest.Plain()) {
				t.Error("Enqueue after Shutdown = true; want false")
			}
			if s := p.Stats(); s.Accepted != 3 || s.Dropped != 3 || s.QueuedBytes != 0 {
				t.Errorf("Stats = %+v; want 3 accepted, 3 dropped, none queued", s)
			}
		})
	}
}

// gate is a writer that blocks until it is opened.
type gate struct{ entered, open chan struct{} }

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	return len(p), nil
}

func TestNothingToExport(t *testing.T) {
	for _, exporters := range [][]string{nil, {ExporterNone}} {
		p, err := New(context.Background(), Config{Exporters: exporters})
		if err != nil {
			t.Fatal(err)
		}
		if p.Enabled() || p.Enqueue(requesttest.Plain()) {
			t.Errorf("exporters %v: Enabled or Enqueue = true; want false", exporters)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}
}

func TestUnknownExporterIsNamed(t *testing.T) {
	var out bytes.Buffer
	p, err := New(context.Background(), Config{Exporters: []string{"zipkin", ExporterConsole}, Console: &out})
	if err == nil || !strings.Contains(err.Error(), "zipkin") {
		t.Errorf("New(zipkin) error = %v; want one that names it", err)
	}
	p.Enqueue(requesttest.Plain())
	if err := p.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if !strings.HasPrefix(out.String(), "POST /v1/chat/completions") {
		t.Errorf("console = %q; want the tree all the same", out.String())
	}
}

func TestUnknownSamplerIsNamed(t *testing.T) {
	p, err := New(context.Background(), Config{Exporters: []string{ExporterConsole}, Console: io.Discard, Sampler: "jaeger_remote"})
	if err == nil || !strings.Contains(err.Error(), "jaeger_remote") {
		t.Errorf("New(jaeger_remote) error = %v; want one that names it", err)
	}
	p.Enqueue(requesttest.Plain())
	if err := p.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if s := p.Stats(); s.Sampled != 3 {
		t.Errorf("Stats = %+v; want 3 spans sampled all the same", s)
	}
}

func TestShutdownWithoutRequests(t *testing.T) {
	address, _ := absent(t)
	if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: collector(ProtocolGRPC, address)}); s != (Stats{}) {
		t.Errorf("Stats = %+v; want zero", s)
	}
}
