package otlp

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
)

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name string
		env  string
		cfg  Config
		want map[string]string
	}{
		{"none", "", Config{EndpointNamed: true}, nil},
		{"the environment's are the SDK's business", "a=1", Config{EndpointNamed: true}, nil},
		{"ARMS keys", "", Config{EndpointNamed: true, ARMSLicenseKey: "k", ARMSWorkspace: "w"},
			map[string]string{"x-arms-license-key": "k", "x-cms-workspace": "w"}},
		{"ARMS keys stay without a named endpoint", "", Config{ARMSLicenseKey: "k", ARMSWorkspace: "w"}, nil},
		{"ARMS keys beside the environment's", "Authorization=Bearer%20x, b = 2,bad,=3,c=%zz", Config{EndpointNamed: true, ARMSLicenseKey: "k"},
			map[string]string{"authorization": "Bearer x", "b": "2", "x-arms-license-key": "k"}},
		{"the user's own key wins", "X-ARMS-License-Key=mine", Config{EndpointNamed: true, ARMSLicenseKey: "k", ARMSWorkspace: "w"},
			map[string]string{"x-arms-license-key": "mine", "x-cms-workspace": "w"}},
		{"given headers replace the environment's", "a=1", Config{EndpointNamed: true, Headers: map[string]string{"B": "2"}},
			map[string]string{"b": "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleanEnv(t)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", c.env)
			if diff := cmp.Diff(c.want, c.cfg.headers()); diff != "" {
				t.Errorf("headers() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		name, env, want, shown string
		cfg                    Config
	}{
		{"gRPC, nothing named", "", "http://localhost:4317", "http://localhost:4317", Config{}},
		{"HTTP, nothing named", "", "http://localhost:4318/v1/traces", "http://localhost:4318", Config{Protocol: ProtocolHTTP}},
		{"from the environment", "http://c:4317", "", "http://c:4317", Config{EndpointNamed: true}},
		{"vLLM's scheme from the environment", "grpc://c:4317", "c:4317", "c:4317", Config{EndpointNamed: true}},
		{"vLLM's scheme", "", "c:4317", "c:4317", Config{EndpointNamed: true, Endpoint: "grpc://c:4317"}},
		{"a token in the path", "", "https://c/adapt_tok@en/api", "https://c", Config{EndpointNamed: true, Protocol: ProtocolHTTP, Endpoint: "https://c/adapt_tok@en/api"}},
		{"a password", "", "https://u:p@c:4317", "https://c:4317", Config{EndpointNamed: true, Endpoint: "https://u:p@c:4317"}},
		{"no scheme, a token", "", "c:4317/tok", "(not shown)", Config{EndpointNamed: true, Endpoint: "c:4317/tok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleanEnv(t)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.env)
			if got := c.cfg.target(); got != c.want {
				t.Errorf("target() = %q; want %q", got, c.want)
			}
			if got := c.cfg.shownTarget(); got != c.shown {
				t.Errorf("shownTarget() = %q; want %q", got, c.shown)
			}
		})
	}
}

// TestEndpointFromEnvironment is the way in which the agent runs: the SDK reads the
// variables, ARMS' keys come from us.
func TestEndpointFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, protocol, header, path string
		serve                        func(*testing.T, *receiver) string
	}{
		{"gRPC", ProtocolGRPC, "x-arms-license-key", "", serveGRPC},
		{"HTTP", ProtocolHTTP, "X-Arms-License-Key", "/base/v1/traces", serveHTTP},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleanEnv(t)
			var r receiver
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.serve(t, &r)+"/base")
			if s := export(t, Config{
				Exporters: []string{ExporterOTLP}, Protocol: c.protocol, EndpointNamed: true, ARMSLicenseKey: "key",
			}, requesttest.Plain()); s.Exported != 3 {
				t.Errorf("Stats = %+v; want 3 spans exported", s)
			}
			if r.headers[c.header] != "key" || r.path != c.path {
				t.Errorf("header %s = %q, path %q; want key, %q", c.header, r.headers[c.header], r.path, c.path)
			}
		})
	}
}

func TestUnknownProtocol(t *testing.T) {
	p, err := New(context.Background(), Config{Exporters: []string{ExporterOTLP}, Protocol: "http/json"})
	if err == nil || !strings.Contains(err.Error(), "http/json") || p.Enabled() {
		t.Errorf("New(http/json) = enabled %v, %v; want disabled, an error that names it", p.Enabled(), err)
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
	cleanEnv(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret-without-equals-sign")
	for range 2 {
		export(t, Config{Exporters: []string{ExporterOTLP}, Endpoint: absent(t), EndpointNamed: true})
		otel.Handle(errors.New("said twice"))
	}
	lines := l.lines()
	if len(lines) != 2 || !strings.Contains(lines[1], "said twice") {
		t.Errorf("log = %q; want one line for the header and one for the error", lines)
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "secret") {
		t.Errorf("log = %q; want no part of a header", text)
	}
}
