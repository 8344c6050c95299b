package settings

// ARMS' variables: they lead to an endpoint that was named, and nowhere else.

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARMSEndpoint(t *testing.T) {
	const (
		arms = "ARMS_ENDPOINT="
		otel = "OTEL_EXPORTER_OTLP_ENDPOINT="
		base = "https://proj-x.cn-hangzhou.log.aliyuncs.com/apm/trace/opentelemetry"
	)
	tests := []struct {
		name     string
		env      []string
		url      string
		protocol string
		source   string
		warnings int
	}{
		{name: "base address over HTTP", env: []string{arms + base}, url: base + "/v1/traces", protocol: "http/protobuf", source: "ARMS_ENDPOINT"},
		{name: "base address with a slash at its end", env: []string{arms + base + "/"}, url: base + "/v1/traces", protocol: "http/protobuf", source: "ARMS_ENDPOINT"},
		{name: "complete address of traces", env: []string{arms + base + "/v1/traces"}, url: base + "/v1/traces", protocol: "http/protobuf", source: "ARMS_ENDPOINT"},
		{name: "complete address with a token", env: []string{arms + "http://t/adapt_u@k/api/otlp/traces"},
			url: "http://t/adapt_u@k/api/otlp/traces", protocol: "http/protobuf", source: "ARMS_ENDPOINT"},
		{name: "host and port: gRPC", env: []string{arms + "http://t:8090"}, url: "http://t:8090", protocol: "grpc", source: "ARMS_ENDPOINT"},
		{name: "host and port without a scheme: TLS, said once", env: []string{arms + "t:8090"}, url: "https://t:8090", protocol: "grpc", source: "ARMS_ENDPOINT", warnings: 1},
		{name: "protocol by name", env: []string{arms + "http://t:8090", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
			url: "http://t:8090/v1/traces", protocol: "http/protobuf", source: "ARMS_ENDPOINT"},
		{name: "OpenTelemetry's variable beats it", env: []string{arms + base, otel + "http://c:4317"}, url: "http://c:4317", protocol: "grpc", source: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{name: "the one for traces beats it", env: []string{arms + base, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/x"},
			url: "http://c:4318/x", protocol: "http/protobuf", source: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{name: "it does not replace one that cannot be read", env: []string{arms + base, otel + "::"}, protocol: "grpc", source: "OTEL_EXPORTER_OTLP_ENDPOINT", warnings: 1},
		{name: "it cannot be read itself", env: []string{arms + "::", "ARMS_LICENSE_KEY=k"}, protocol: "grpc", source: "ARMS_ENDPOINT", warnings: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, Input{Getenv: env(tt.env...)})
			got := []any{s.OTLP.Endpoint.URL(), s.OTLP.Protocol, s.OTLP.Named, s.Source(NameOTLPEndpoint), len(s.Warnings)}
			want := []any{tt.url, tt.protocol, tt.url != "", tt.source, tt.warnings}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Load(%q): address, protocol, named, source, warnings (-want +got):\n%s\n%q", tt.env, diff, warningLines(s))
			}
		})
	}
}

// TestARMSWithoutEndpoint: nothing is sent, and one line says so, unless what was set does
// not ask for more.
func TestARMSWithoutEndpoint(t *testing.T) {
	const line = ": no endpoint is set, and none is derived from a region; nothing is sent to ARMS; set ARMS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT"
	tests := []struct {
		name     string
		env      string
		endpoint string
		warnings []string
	}{
		{name: "a name alone", env: "ARMS_APP_NAME=a"},
		{name: "a region alone", env: "ARMS_REGION_ID=cn-hangzhou", warnings: []string{"ARMS_REGION_ID" + line}},
		{name: "a region of the resource", env: "OTEL_RESOURCE_ATTRIBUTES=cloud.region=cn-hangzhou"},
		{name: "a workspace", env: "ARMS_WORKSPACE=w", warnings: []string{"ARMS_WORKSPACE" + line}},
		{name: "a project", env: "ARMS_PROJECT=w", warnings: []string{"ARMS_PROJECT" + line}},
		{name: "public", env: "ARMS_IS_PUBLIC=True", warnings: []string{"ARMS_IS_PUBLIC" + line}},
		{name: "all of it: one line", env: "ARMS_APP_NAME=a ARMS_REGION_ID=r ARMS_LICENSE_KEY=k ARMS_WORKSPACE=w ARMS_PROJECT=p ARMS_IS_PUBLIC=True",
			warnings: []string{"ARMS_LICENSE_KEY" + line}},
		{name: "console by name", env: "ARMS_LICENSE_KEY=k OTEL_TRACES_EXPORTER=console"},
		{name: "none by name", env: "ARMS_LICENSE_KEY=k OTEL_TRACES_EXPORTER=none"},
		{name: "otlp by name: localhost, without the key", env: "ARMS_LICENSE_KEY=k OTEL_TRACES_EXPORTER=otlp", endpoint: "http://localhost:4317",
			warnings: []string{strings.Replace("ARMS_LICENSE_KEY"+line, "to ARMS", "to ARMS, only to localhost", 1)}},
		{name: "SDK disabled", env: "ARMS_LICENSE_KEY=k OTEL_SDK_DISABLED=true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, Input{Getenv: env(strings.Fields(tt.env)...)})
			if got := s.OTLP.Endpoint.URL(); got != tt.endpoint || s.OTLP.Named {
				t.Errorf("Load(%s): endpoint %q, named %v; want %q, which nobody named", tt.env, got, s.OTLP.Named, tt.endpoint)
			}
			if diff := cmp.Diff(tt.warnings, warningLines(s)); diff != "" {
				t.Errorf("Load(%s): warnings (-want +got):\n%s", tt.env, diff)
			}
		})
	}
}
