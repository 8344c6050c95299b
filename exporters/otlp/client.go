package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"

	"github.com/tokenscope/tokenscope/semconv"
)

// The targets where no endpoint is named.
// Source: OpenTelemetry specification, protocol/exporter.md.
const (
	defaultGRPC = "http://localhost:4317"
	defaultHTTP = "http://localhost:4318/v1/traces"
)

// identity is gRPC's name for no compression.
const identity = "identity"

// newClient makes the OTLP exporter. It does not connect. It gives the SDK every option
// that a variable could set otherwise, so that the environment has no say: the SDK
// applies options after variables.
func newClient(ctx context.Context, c *Collector, log *slog.Logger) (sdktrace.SpanExporter, error) {
	switch c.Compression {
	case "", CompressionNone, CompressionGzip:
	default:
		return nil, fmt.Errorf("unknown compression %q", c.Compression)
	}
	target, err := url.Parse(c.target())
	if err != nil {
		// Without the URL, which may hold a secret.
		return nil, errors.New("the endpoint is not a URL")
	}
	defer mute()()
	switch c.Protocol {
	case "", ProtocolGRPC:
		return c.newGRPC(ctx, target, log)
	case ProtocolHTTP:
		return c.newHTTP(ctx, target, log)
	}
	return nil, fmt.Errorf("unknown OTLP protocol %q", c.Protocol)
}

func (c *Collector) newGRPC(ctx context.Context, target *url.URL, log *slog.Logger) (sdktrace.SpanExporter, error) {
	encoding := identity
	if c.Compression == CompressionGzip {
		encoding = gzip.Name
	}
	opts := []otlptracegrpc.Option{
		otlptracegrpc.WithHeaders(c.headers(target)),
		otlptracegrpc.WithTimeout(c.Timeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), // watch retries
		otlptracegrpc.WithDialOption(
			// The SDK's option has no word for "none", and a variable may say gzip.
			grpc.WithDefaultCallOptions(grpc.UseCompressor(encoding)),
			// gRPC's own pauses between connections grow to 2 minutes: a collector that was
			// away would not be seen for as long after its return.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: pauseGrowth, Jitter: 0.2, MaxDelay: maxPause},
				MinConnectTimeout: 20 * time.Second, // gRPC's default
			}),
		),
	}
	switch target.Scheme {
	case "http", "https":
		opts = append(opts, otlptracegrpc.WithEndpoint(target.Host))
	default:
		// A name for gRPC's resolvers, which the SDK must not take for a URL.
		opts = append(opts, otlptracegrpc.WithEndpoint(target.String()))
	}
	// Credentials count before the absence of TLS in the SDK: a variable with a
	// certificate would bring it back.
	if c.Insecure || c.Endpoint == "" {
		c.warnOfFiles(log)
		opts = append(opts, otlptracegrpc.WithTLSCredentials(nil), otlptracegrpc.WithInsecure())
	} else {
		cfg, err := c.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(cfg)))
	}
	e, err := otlptracegrpc.New(ctx, opts...)
	if err != nil {
		return nil, errors.New(c.secrets().cause(err.Error(), "the SDK refuses it")) // it repeats the target
	}
	return e, nil
}

func (c *Collector) newHTTP(ctx context.Context, target *url.URL, log *slog.Logger) (sdktrace.SpanExporter, error) {
	switch {
	case target.Host == "":
		return nil, errors.New("the endpoint has no host")
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, errors.New("the endpoint has a scheme that is neither http nor https")
	}
	var cfg *tls.Config
	if target.Scheme == "http" {
		c.warnOfFiles(log)
	} else {
		var err error
		if cfg, err = c.tls(); err != nil {
			return nil, err
		}
	}
	headers := c.headers(target)
	exact := *target
	exact.User = nil
	transport := newTransport(&exact, cfg)
	compression, encoding := otlptracehttp.NoCompression, otlptracehttp.EncodingProtobuf
	if c.Compression == CompressionGzip {
		compression = otlptracehttp.GzipCompression
	}
	if c.JSON {
		encoding = otlptracehttp.EncodingJSON
	}
	e, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(exact.String()),
		otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithTimeout(c.Timeout),
		otlptracehttp.WithCompression(compression),
		otlptracehttp.WithEncoding(encoding),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // watch retries
		otlptracehttp.WithTLSClientConfig(nil),               // the client has it
		otlptracehttp.WithHTTPClient(transport.client(c.Timeout)),
	)
	if err != nil {
		return nil, errors.New(c.secrets().cause(err.Error(), "the SDK refuses it"))
	}
	return &httpExporter{SpanExporter: e, transport: transport}, nil
}

// target is the endpoint, or the standard one where none was named.
func (c *Collector) target() string {
	switch {
	case c.Endpoint != "":
		return c.Endpoint
	case c.Protocol == ProtocolHTTP:
		return defaultHTTP
	}
	return defaultGRPC
}

// shownTarget is the target as it may be logged.
func (c *Collector) shownTarget() string {
	u, err := url.Parse(c.target())
	switch {
	case err != nil:
		return "(not shown)"
	case u.Scheme == "http" || u.Scheme == "https":
		return u.Scheme + "://" + u.Host
	}
	// A socket or a host, by names that hold no secret but in what is left out here.
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// headers are those of each export, names in lower case as gRPC needs them. They are
// never nil: that would leave the SDK those of the environment.
func (c *Collector) headers(target *url.URL) map[string]string {
	merged := make(map[string]string, len(c.Headers)+4)
	for k, v := range c.Headers {
		merged[strings.ToLower(k)] = v
	}
	add := func(k, v string) {
		if _, ok := merged[k]; !ok && v != "" && c.Named {
			merged[k] = v
		}
	}
	add(semconv.HeaderARMSLicenseKey, c.ARMSLicenseKey)
	add(semconv.HeaderCMSWorkspace, c.ARMSWorkspace)
	add(semconv.HeaderARMSProject, c.ARMSProject)
	if u := target.User; u != nil {
		password, _ := u.Password()
		add("authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	return merged
}

// maxPEM bounds what is read of a PEM file: the system's own bundle of authorities,
// the largest honest one, has a quarter of it.
const maxPEM = 1 << 20

// tls reads the files that TLS needs.
func (c *Collector) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Certificate != "" {
		pem, err := readPEM(c.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate: %s holds no PEM certificate", c.Certificate)
		}
	}
	if c.ClientCertificate == "" || c.ClientKey == "" {
		return cfg, nil
	}
	cert, err := readPEM(c.ClientCertificate)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	key, err := readPEM(c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("read client key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

func readPEM(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(data) > maxPEM {
		err = fmt.Errorf("%s: more than %d bytes", name, maxPEM)
	}
	return data, err
}

// warnOfFiles says that files for TLS were named in vain.
func (c *Collector) warnOfFiles(log *slog.Logger) {
	if c.Certificate != "" || c.ClientCertificate != "" || c.ClientKey != "" {
		log.Warn("certificates have no effect: spans go without TLS", "collector", c.shownTarget())
	}
}
