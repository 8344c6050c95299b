package otlp

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
)

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Collector
		want map[string]string
	}{
		{"none", Collector{Named: true}, map[string]string{}},
		{"names in lower case", Collector{Named: true, Headers: map[string]string{"Authorization": "Bearer x"}},
			map[string]string{"authorization": "Bearer x"}},
		{"ARMS keys", Collector{Named: true, ARMSLicenseKey: "k", ARMSWorkspace: "w", ARMSProject: "p"},
			map[string]string{"x-arms-license-key": "k", "x-cms-workspace": "w", "x-arms-project": "p"}},
		{"ARMS keys stay without a named endpoint", Collector{ARMSLicenseKey: "k", ARMSWorkspace: "w", ARMSProject: "p"}, map[string]string{}},
		{"the user's own key wins", Collector{Named: true, Headers: map[string]string{"X-ARMS-License-Key": "mine"}, ARMSLicenseKey: "k", ARMSWorkspace: "w"},
			map[string]string{"x-arms-license-key": "mine", "x-cms-workspace": "w"}},
		{"user and password in the endpoint", Collector{Named: true, Endpoint: "https://u:p@c:4317"},
			map[string]string{"authorization": "Basic dTpw"}},
		{"the user's own authorization wins", Collector{Named: true, Endpoint: "https://u:p@c", Headers: map[string]string{"authorization": "Bearer x"}},
			map[string]string{"authorization": "Bearer x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, err := url.Parse(c.cfg.target())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.cfg.headers(target)); diff != "" {
				t.Errorf("headers() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		name, want, shown string
		cfg               Collector
	}{
		{"gRPC, nothing named", "http://localhost:4317", "http://localhost:4317", Collector{}},
		{"HTTP, nothing named", "http://localhost:4318/v1/traces", "http://localhost:4318", Collector{Protocol: ProtocolHTTP}},
		{"a token in the path", "https://c/adapt_tok@en/api", "https://c", Collector{Protocol: ProtocolHTTP, Endpoint: "https://c/adapt_tok@en/api"}},
		{"a password", "https://u:p@c:4317", "https://c:4317", Collector{Endpoint: "https://u:p@c:4317"}},
		{"a socket", "unix:///run/c.sock", "unix:///run/c.sock", Collector{Endpoint: "unix:///run/c.sock"}},
		{"a relative socket", "unix:c.sock", "unix:c.sock", Collector{Endpoint: "unix:c.sock"}},
		{"a name to resolve, with a query", "dns:///c:4317?k=v", "dns:///c:4317", Collector{Endpoint: "dns:///c:4317?k=v"}},
		{"no URL", "http://%zz", "(not shown)", Collector{Endpoint: "http://%zz"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.cfg.target(); got != c.want {
				t.Errorf("target() = %q; want %q", got, c.want)
			}
			if got := c.cfg.shownTarget(); got != c.shown {
				t.Errorf("shownTarget() = %q; want %q", got, c.shown)
			}
		})
	}
}

func TestBatchOptions(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		in   Batch
		want sdktrace.BatchSpanProcessorOptions
	}{
		{"defaults", Batch{}, sdktrace.BatchSpanProcessorOptions{MaxQueueSize: 2048, MaxExportBatchSize: 512, BatchTimeout: time.Second}},
		{"all given", Batch{time.Minute, day, 100, 7},
			sdktrace.BatchSpanProcessorOptions{MaxQueueSize: 100, MaxExportBatchSize: 7, BatchTimeout: time.Minute, ExportTimeout: day}},
		{"batch beyond the queue", Batch{MaxQueueSize: 3, MaxBatchSize: 4},
			sdktrace.BatchSpanProcessorOptions{MaxQueueSize: 3, MaxExportBatchSize: 3, BatchTimeout: time.Second}},
		{"queue below the default batch", Batch{MaxQueueSize: 3},
			sdktrace.BatchSpanProcessorOptions{MaxQueueSize: 3, MaxExportBatchSize: 3, BatchTimeout: time.Second}},
		{"negative", Batch{-1, 0, -1, -1}, sdktrace.BatchSpanProcessorOptions{MaxQueueSize: 2048, MaxExportBatchSize: 512, BatchTimeout: time.Second}},
	} {
		c.want.BlockOnQueueFull = true
		cfg := (&Config{Batch: c.in}).withDefaults()
		// What the SDK starts from, which a variable may have set to anything.
		got := sdktrace.BatchSpanProcessorOptions{MaxQueueSize: -1, MaxExportBatchSize: -1, BatchTimeout: -1, ExportTimeout: -1}
		for _, o := range cfg.Batch.options() {
			o(&got)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: options() (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCollectorErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		cfg        Collector
	}{
		{"unknown protocol", `unknown OTLP protocol "thrift"`, Collector{Protocol: "thrift"}},
		{"unknown compression", `unknown compression "zstd"`, Collector{Compression: "zstd"}},
		{"no URL", "not a URL", Collector{Endpoint: "http://secret%zz"}},
		{"gRPC's name over HTTP", "neither http nor https", Collector{Protocol: ProtocolHTTP, Endpoint: "dns://secret/c:4318"}},
		{"no host", "no host", Collector{Protocol: ProtocolHTTP, Endpoint: "/secret"}},
		{"no certificate file", "read certificate: open", Collector{Endpoint: "https://c", Certificate: "no-such-file"}},
		{"certificate file of something else", "holds no PEM certificate", Collector{Protocol: ProtocolHTTP, Endpoint: "https://c", Certificate: "config_test.go"}},
		{"endless certificate file", "more than 1048576 bytes", Collector{Endpoint: "https://c", Certificate: "/dev/zero"}},
		{"client key of something else", "read client certificate", Collector{Endpoint: "https://c", ClientCertificate: "config_test.go", ClientKey: "config_test.go"}},
	} {
		p, err := New(context.Background(), Config{Exporters: []string{ExporterOTLP}, Collector: c.cfg})
		if err == nil || !strings.Contains(err.Error(), c.want) || p.Enabled() {
			t.Errorf("%s: New = enabled %v, %v; want disabled, an error with %q", c.name, p.Enabled(), err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: New = %v; want no part of the endpoint", c.name, err)
		}
	}
}

func TestSafe(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"token in a path", `Post "https://h:443/adapt_a@b/api/otlp/traces": EOF`, `Post "https://h:443": EOF`},
		{"password", "dial HTTPS://user:pass@h/p failed", "dial HTTPS://h failed"},
		{"query", "get http://h?key=1 failed", "get http://h failed"},
		{"no address", "connection refused", "connection refused"},
	} {
		if got := safe(c.in); got != c.want {
			t.Errorf("%s: safe(%q) = %q; want %q", c.name, c.in, got, c.want)
		}
	}
	if got := safe(strings.Repeat("模", 1000)); len(got) > maxCause+len("…") {
		t.Errorf("safe(3000 bytes) has %d bytes; want at most %d", len(got), maxCause+len("…"))
	}
}

func TestPartial(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{
		{"traces export: OTLP partial success: too (old) (3 spans rejected)", 3, true},
		{"traces export: OTLP partial success: empty message (0 spans rejected)", 0, true},
		{"traces export: OTLP partial success: a\nb (2 spans rejected)", 2, true},
		{"traces export: rpc error: no\nOTLP partial success: x (2 spans rejected)", 0, false},
		{"traces export: context deadline exceeded", 0, false},
	} {
		if n, ok := partial(errors.New(c.text)); n != c.n || ok != c.ok {
			t.Errorf("partial(%q) = %d, %v; want %d, %v", c.text, n, ok, c.n, c.ok)
		}
	}
}

func TestSetLog(t *testing.T) {
	var l log
	SetLog(slog.New(slog.NewTextHandler(&l, nil)))
	t.Cleanup(func() { SetLog(slog.New(slog.DiscardHandler)) })
	// The SDK complains of both; whoever validated them has spoken already.
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret-without-equals-sign")
	t.Setenv("OTEL_TRACES_SAMPLER", "secret-sampler")
	var r receiver
	for range 2 {
		export(t, Config{Exporters: []string{ExporterOTLP}, Collector: serveGRPC(t, &r)}, requesttest.Plain())
		otel.Handle(errors.New("said twice"))
	}
	if lines := l.lines(); len(lines) != 1 || !strings.Contains(lines[0], "said twice") {
		t.Errorf("log = %q; want one line, for the error", lines)
	}
}
