package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhereTracesGo covers the decision whether, where and how traces are sent.
func TestWhereTracesGo(t *testing.T) {
	const (
		general   = "OTEL_EXPORTER_OTLP_ENDPOINT="
		forTraces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="
		protocol  = "OTEL_EXPORTER_OTLP_PROTOCOL="
		exporter  = "OTEL_TRACES_EXPORTER="
		insecure  = "OTEL_EXPORTER_OTLP_INSECURE="
	)
	malformed := func(variable, problem string) []string {
		return []string{strings.TrimSuffix(variable, "=") + ": " + problem +
			"; nothing is sent to a collector; write it as http://HOST:PORT or https://HOST:PORT"}
	}
	tests := []struct {
		name      string
		env       []string
		exporters string
		url       string
		protocol  string
		insecure  bool
		named     bool
		warnings  []string
	}{
		{name: "nothing set: nothing is sent", protocol: "grpc"},
		{name: "otlp by name: standard localhost", env: []string{exporter + "otlp"},
			exporters: "otlp", url: "http://localhost:4317", protocol: "grpc", insecure: true},
		{name: "otlp by name over HTTP", env: []string{exporter + "otlp", protocol + "http/protobuf"},
			exporters: "otlp", url: "http://localhost:4318/v1/traces", protocol: "http/protobuf", insecure: true},
		{name: "otlp by name as JSON", env: []string{exporter + "otlp", protocol + "http/json"},
			exporters: "otlp", url: "http://localhost:4318/v1/traces", protocol: "http/protobuf", insecure: true},
		{name: "endpoint alone is enough", env: []string{general + "http://c:4317"},
			exporters: "otlp", url: "http://c:4317", protocol: "grpc", insecure: true, named: true},
		{name: "port 4318 means HTTP", env: []string{general + "http://c:4318"},
			exporters: "otlp", url: "http://c:4318/v1/traces", protocol: "http/protobuf", insecure: true, named: true},
		{name: "port 4318, grpc by name", env: []string{general + "http://c:4318", protocol + "GRPC"},
			exporters: "otlp", url: "http://c:4318", protocol: "grpc", insecure: true, named: true},
		{name: "other port: grpc", env: []string{general + "https://c:8090"},
			exporters: "otlp", url: "https://c:8090", protocol: "grpc", named: true},
		{name: "a path means HTTP", env: []string{general + "https://c/apm/otel"},
			exporters: "otlp", url: "https://c/apm/otel/v1/traces", protocol: "http/protobuf", named: true},
		{name: "a lone slash is no path", env: []string{general + "http://c:9/"},
			exporters: "otlp", url: "http://c:9/", protocol: "grpc", insecure: true, named: true},
		{name: "port 4317 with a path: grpc", env: []string{general + "http://c:4317/v1/traces"},
			exporters: "otlp", url: "http://c:4317/v1/traces", protocol: "grpc", insecure: true, named: true},
		{name: "address for traces is used as it is", env: []string{general + "http://other:4318", forTraces + "http://c:4318/x"},
			exporters: "otlp", url: "http://c:4318/x", protocol: "http/protobuf", insecure: true, named: true},
		{name: "address for traces without a path", env: []string{forTraces + "http://c:4318"},
			exporters: "otlp", url: "http://c:4318/", protocol: "http/protobuf", insecure: true, named: true},
		{name: "base with a slash at its end", env: []string{general + "http://c:4318/base/"},
			exporters: "otlp", url: "http://c:4318/base/v1/traces", protocol: "http/protobuf", insecure: true, named: true},
		{name: "escaped token in a base stays as it is", env: []string{general + "http://c:4318/adapt_a@b%2Fc"},
			exporters: "otlp", url: "http://c:4318/adapt_a@b%2Fc/v1/traces", protocol: "http/protobuf", insecure: true, named: true},
		{name: "console although an endpoint is set", env: []string{general + "http://c:4317", exporter + "console"},
			exporters: "console", url: "http://c:4317", protocol: "grpc", insecure: true, named: true},
		{name: "none although an endpoint is set", env: []string{general + "http://c:4317", exporter + "none"},
			url: "http://c:4317", protocol: "grpc", insecure: true, named: true},
		{name: "both", env: []string{general + "http://c:4317", exporter + "console,otlp"},
			exporters: "console,otlp", url: "http://c:4317", protocol: "grpc", insecure: true, named: true},
		{name: "unknown protocol", env: []string{general + "http://c:4318", protocol + "thrift"},
			exporters: "otlp", url: "http://c:4318/v1/traces", protocol: "http/protobuf", insecure: true, named: true,
			warnings: []string{`OTEL_EXPORTER_OTLP_PROTOCOL="thrift": not one of grpc, http/protobuf, http/json; using http/protobuf from port of OTEL_EXPORTER_OTLP_ENDPOINT`}},

		{name: "no scheme: TLS, said once", env: []string{general + "127.0.0.1:4317"},
			exporters: "otlp", url: "https://127.0.0.1:4317", protocol: "grpc", named: true,
			warnings: []string{"OTEL_EXPORTER_OTLP_ENDPOINT: has no http:// or https:// before it; using TLS (https://127.0.0.1:4317); write http://, or set OTEL_EXPORTER_OTLP_INSECURE=true, for a collector without TLS"}},
		{name: "no scheme, insecure", env: []string{general + "localhost:4317", insecure + "true"},
			exporters: "otlp", url: "http://localhost:4317", protocol: "grpc", insecure: true, named: true},
		{name: "no scheme, not exported", env: []string{general + "localhost:4317", exporter + "console"},
			exporters: "console", url: "https://localhost:4317", protocol: "grpc", named: true},
		{name: "scheme beats insecure", env: []string{general + "https://c:4317", insecure + "true"},
			exporters: "otlp", url: "https://c:4317", protocol: "grpc", named: true},
		{name: "IPv6", env: []string{general + "http://[::1]:4318"},
			exporters: "otlp", url: "http://[::1]:4318/v1/traces", protocol: "http/protobuf", insecure: true, named: true},
		{name: "unix socket", env: []string{general + "unix:///run/otel.sock"},
			exporters: "otlp", url: "unix:///run/otel.sock", protocol: "grpc", insecure: true, named: true},
		{name: "unix socket without slashes", env: []string{general + "unix:/run/otel.sock"},
			exporters: "otlp", url: "unix:///run/otel.sock", protocol: "grpc", insecure: true, named: true},
		{name: "dns name for grpc", env: []string{general + "dns:///c:4317", insecure + "true"},
			exporters: "otlp", url: "dns:///c:4317", protocol: "grpc", insecure: true, named: true},

		{name: "dns name in its short form", env: []string{general + "dns:c:4317"},
			exporters: "otlp", url: "dns:///c:4317", protocol: "grpc", named: true},
		{name: "grpc scheme, as vLLM writes it", env: []string{forTraces + "grpc://c:4317", "OTEL_EXPORTER_OTLP_TRACES_INSECURE=true"},
			exporters: "otlp", url: "http://c:4317", protocol: "grpc", insecure: true, named: true},
		{name: "grpc scheme on the port of HTTP", env: []string{general + "grpc://c:4318", insecure + "true"},
			exporters: "otlp", url: "http://c:4318", protocol: "grpc", insecure: true, named: true},
		{name: "grpc scheme without insecure: TLS, said once", env: []string{general + "grpc://c:4317"},
			exporters: "otlp", url: "https://c:4317", protocol: "grpc", named: true,
			warnings: []string{"OTEL_EXPORTER_OTLP_ENDPOINT: has no http:// or https:// before it; using TLS (https://c:4317); write http://, or set OTEL_EXPORTER_OTLP_INSECURE=true, for a collector without TLS"}},

		{name: "grpc scheme over HTTP", env: []string{general + "grpc://c:4317", protocol + "http/protobuf"}, protocol: "http/protobuf",
			warnings: malformed(general, "its scheme is for grpc, but the protocol is http/protobuf")},
		{name: "unix socket over HTTP", env: []string{general + "unix:///run/s", protocol + "http/protobuf"}, protocol: "http/protobuf",
			warnings: malformed(general, "its scheme is for grpc, but the protocol is http/protobuf")},
		{name: "spaces", env: []string{general + "not a url"}, protocol: "grpc",
			warnings: malformed(general, "has a space or a character that is not printable ASCII")},
		{name: "no host", env: []string{general + "http://:4317"}, protocol: "grpc", warnings: malformed(general, "has no host")},
		{name: "scheme alone", env: []string{general + "http://"}, protocol: "grpc", warnings: malformed(general, "has no host")},
		{name: "one slash", env: []string{general + "http:/c:4317"}, protocol: "grpc", warnings: malformed(general, "is not a URL")},
		{name: "port not a number", env: []string{general + "http://c:port"}, protocol: "grpc", warnings: malformed(general, "is not a URL")},
		{name: "port too high", env: []string{general + "http://c:70000"}, protocol: "grpc",
			warnings: malformed(general, "has a port that is not a number from 1 to 65535")},
		{name: "port empty", env: []string{general + "http://c:"}, protocol: "grpc",
			warnings: malformed(general, "has a port that is not a number from 1 to 65535")},
		{name: "foreign scheme", env: []string{general + "kafka://c:4317"}, protocol: "grpc",
			warnings: malformed(general, "has a scheme that is neither http nor https")},
		{name: "unix without a path", env: []string{general + "unix://"}, protocol: "grpc",
			warnings: malformed(general, "names nothing behind its scheme")},
		{name: "malformed for traces: the general one is not used instead",
			env: []string{general + "http://c:4317", forTraces + "::"}, protocol: "grpc",
			warnings: malformed(forTraces, "is not a URL")},
		{name: "malformed, console stays", env: []string{general + "::", exporter + "otlp,console"}, exporters: "console", protocol: "grpc",
			warnings: malformed(general, "is not a URL")},
		{name: "malformed and not wanted", env: []string{general + "::", exporter + "console"}, exporters: "console", protocol: "grpc",
			warnings: []string{"OTEL_EXPORTER_OTLP_ENDPOINT: is not a URL; it is ignored"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, Input{Getenv: env(tt.env...)})
			got := []any{strings.Join(s.Exporters, ","), s.OTLP.Endpoint.URL(), s.OTLP.Protocol, s.OTLP.Insecure, s.OTLP.Named}
			want := []any{tt.exporters, tt.url, tt.protocol, tt.insecure, tt.named}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Load(%q): exporters, URL, protocol, insecure, named (-want +got):\n%s", tt.env, diff)
			}
			if diff := cmp.Diff(tt.warnings, warningLines(s)); diff != "" {
				t.Errorf("Load(%q) warnings (-want +got):\n%s", tt.env, diff)
			}
		})
	}
}

// TestEndpointShown: an address is shown as it is used, its path with the slash before it.
func TestEndpointShown(t *testing.T) {
	for _, env1 := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/base",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318",
		"OTEL_TRACES_EXPORTER=otlp",
	} {
		for _, env2 := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "X="} {
			e := load(t, Input{Getenv: env(env1, env2)}).OTLP.Endpoint
			if e.String() != e.URL() {
				t.Errorf("Load(%s, %s): the endpoint is shown as %s; want %s", env1, env2, e, e.URL())
			}
			if p := e.url.Path; p != "" && p[0] != '/' {
				t.Errorf("Load(%s, %s): the endpoint's path is %q; want it to begin with a slash", env1, env2, p)
			}
		}
	}
}

// TestJSON: how bodies are encoded is apart from the transport, and both are shown as
// they were asked for.
func TestJSON(t *testing.T) {
	s := load(t, Input{Getenv: env("OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json")})
	if e := s.Entry(NameOTLPProtocol); !s.OTLP.JSON || s.OTLP.Protocol != ProtocolHTTPProtobuf || e.Text != ProtocolHTTPJSON {
		t.Errorf("http/json: JSON %t, protocol %s, shown as %s; want true, http/protobuf, http/json", s.OTLP.JSON, s.OTLP.Protocol, e.Text)
	}
	if s := load(t, Input{Getenv: env("OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")}); s.OTLP.JSON {
		t.Errorf("http/protobuf: JSON is true; want false")
	}
}

func TestDerivedSources(t *testing.T) {
	tests := []struct {
		name, endpoint, exporter, protocol string
	}{
		{"port 4318", "http://c:4318", "OTEL_EXPORTER_OTLP_ENDPOINT", "port of OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"port 4317", "http://c:4317", "OTEL_EXPORTER_OTLP_ENDPOINT", "port of OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"path", "http://c/x", "OTEL_EXPORTER_OTLP_ENDPOINT", "path of OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"scheme", "grpc://c:1", "OTEL_EXPORTER_OTLP_ENDPOINT", "scheme of OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"neither", "http://c:80", "OTEL_EXPORTER_OTLP_ENDPOINT", "default"},
		{"unset", "", "default", "default"},
	}
	for _, tt := range tests {
		s := load(t, Input{Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT=" + tt.endpoint)})
		if got := s.Source(NameTracesExporter); got != tt.exporter {
			t.Errorf("%s: Source(%s) = %q; want %q", tt.name, NameTracesExporter, got, tt.exporter)
		}
		if got := s.Source(NameOTLPProtocol); got != tt.protocol {
			t.Errorf("%s: Source(%s) = %q; want %q", tt.name, NameOTLPProtocol, got, tt.protocol)
		}
	}
}
