package otlp

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tokenscope/tokenscope/semconv"
)

// The targets where no endpoint is named.
// Source: OpenTelemetry specification, protocol/exporter.md.
const (
	defaultGRPC = "http://localhost:4317"
	defaultHTTP = "http://localhost:4318/v1/traces"
)

// schemeGRPC is no scheme of the specification, but one that vLLM's own documentation
// uses for its traces endpoint.
const schemeGRPC = "grpc://"

// newClient makes the OTLP exporter. It does not connect.
func newClient(ctx context.Context, c *Config) (sdktrace.SpanExporter, error) {
	switch c.Protocol {
	case "", ProtocolGRPC:
		var opts []otlptracegrpc.Option
		if h := c.headers(); h != nil {
			opts = append(opts, otlptracegrpc.WithHeaders(h))
		}
		switch endpoint := c.target(); {
		case endpoint == "":
		case strings.Contains(endpoint, "://"):
			opts = append(opts, otlptracegrpc.WithEndpointURL(endpoint))
		default:
			// Without a scheme OTEL_EXPORTER_OTLP_[TRACES_]INSECURE decides, in the SDK.
			opts = append(opts, otlptracegrpc.WithEndpoint(endpoint))
		}
		return otlptracegrpc.New(ctx, opts...)
	case ProtocolHTTP:
		var opts []otlptracehttp.Option
		if h := c.headers(); h != nil {
			opts = append(opts, otlptracehttp.WithHeaders(h))
		}
		if endpoint := c.target(); endpoint != "" {
			opts = append(opts, otlptracehttp.WithEndpointURL(endpoint))
		}
		return otlptracehttp.New(ctx, opts...)
	}
	return nil, fmt.Errorf("unknown OTLP protocol %q", c.Protocol)
}

// target is the endpoint to be set, "" where the SDK takes it from the environment.
func (c *Config) target() string {
	grpc := c.Protocol == "" || c.Protocol == ProtocolGRPC
	switch {
	case c.Endpoint != "" && grpc:
		return strings.TrimPrefix(c.Endpoint, schemeGRPC)
	case c.Endpoint != "":
		return c.Endpoint
	case c.EndpointNamed:
		// The SDK would hand an unknown scheme to gRPC, which takes it for a host's name.
		if e := fromEnv("ENDPOINT"); grpc && strings.HasPrefix(e, schemeGRPC) {
			return strings.TrimPrefix(e, schemeGRPC)
		}
		return ""
	case grpc:
		return defaultGRPC
	}
	return defaultHTTP
}

// shownTarget is the target as it may be logged.
func (c *Config) shownTarget() string {
	t := c.target()
	if t == "" {
		t = fromEnv("ENDPOINT")
	}
	if u, err := url.Parse(t); err == nil && u.Scheme != "" && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	if i := strings.IndexAny(t, "/?@"); i >= 0 {
		return "(not shown)"
	}
	return t
}

// fromEnv is an exporter setting from the environment: the one for traces, else the one
// for all signals.
func fromEnv(name string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

// headers are those to be set, nil where the SDK's own reading of the environment is
// all that is needed.
func (c *Config) headers() map[string]string {
	arms := map[string]string{}
	if c.EndpointNamed {
		if c.ARMSLicenseKey != "" {
			arms[semconv.HeaderARMSLicenseKey] = c.ARMSLicenseKey
		}
		if c.ARMSWorkspace != "" {
			arms[semconv.HeaderCMSWorkspace] = c.ARMSWorkspace
		}
	}
	if c.Headers == nil && len(arms) == 0 {
		return nil
	}
	own := c.Headers
	if own == nil {
		own = envHeaders()
	}
	merged := make(map[string]string, len(own)+len(arms))
	for k, v := range own {
		merged[strings.ToLower(k)] = v
	}
	for k, v := range arms {
		if _, ok := merged[k]; !ok {
			merged[k] = v
		}
	}
	return merged
}

// envHeaders reads the headers as the SDK does: those for all signals, or those for
// traces in their place, in the form of W3C baggage, key=value, percent-encoded.
func envHeaders() map[string]string {
	h := map[string]string{}
	for pair := range strings.SplitSeq(fromEnv("HEADERS"), ",") {
		k, v, ok := strings.Cut(pair, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" {
			continue
		}
		if v, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
			h[k] = v
		}
	}
	return h
}
