package otlp

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"strconv"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// transport is the HTTP exporter's. The SDK rebuilds the endpoint from host and
// unescaped path, which loses the query and escapes such as %2F; transport posts to the
// endpoint as it was given. It also notes what the collector answered.
type transport struct {
	base *http.Transport
	url  *url.URL
}

func newTransport(target *url.URL, cfg *tls.Config) *transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = cfg
	return &transport{base: base, url: target}
}

// client makes the client. It follows no redirect: headers hold keys for the named
// endpoint and for no other.
func (t *transport) client(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: t,
		Timeout:   timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	exact := req.WithContext(req.Context())
	exact.URL = t.url
	resp, err := t.base.RoundTrip(exact)
	if a, ok := req.Context().Value(answerKey{}).(*answer); ok && err == nil {
		a.status, a.retryAfter = resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"))
	}
	return resp, err
}

// answer is what a collector said over HTTP to one attempt. The SDK keeps it to itself;
// transport leaves it in the attempt's context.
type answer struct {
	// status is 0 where there was no answer.
	status     int
	retryAfter time.Duration
}

type answerKey struct{}

func withAnswer(ctx context.Context, a *answer) context.Context {
	return context.WithValue(ctx, answerKey{}, a)
}

// maxRetryAfter bounds what a collector may ask for; an export's own limit is shorter.
const maxRetryAfter = time.Hour

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if date, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(date), 0), maxRetryAfter)
	}
	return 0
}

// httpExporter closes the connections as well.
type httpExporter struct {
	sdktrace.SpanExporter
	transport *transport
}

// Shutdown implements sdktrace.SpanExporter.
func (e *httpExporter) Shutdown(ctx context.Context) error {
	err := e.SpanExporter.Shutdown(ctx)
	e.transport.base.CloseIdleConnections()
	return err
}
