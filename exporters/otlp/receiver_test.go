package otlp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP collector that keeps what it gets, over gRPC or HTTP.
type receiver struct {
	coltrace.UnimplementedTraceServiceServer

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	headers  map[string]string
	path     string
	// refuse makes it answer with an error; reject with a partial success.
	refuse bool
	reject int64
}

func (r *receiver) take(req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		return nil, false
	}
	for _, rs := range req.GetResourceSpans() {
		r.resource = map[string]string{}
		for _, kv := range rs.GetResource().GetAttributes() {
			r.resource[kv.GetKey()] = kv.GetValue().GetStringValue()
		}
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	resp := &coltrace.ExportTraceServiceResponse{}
	if r.reject > 0 {
		resp.PartialSuccess = &coltrace.ExportTracePartialSuccess{RejectedSpans: r.reject, ErrorMessage: "too (old)"}
	}
	return resp, true
}

func (r *receiver) Export(ctx context.Context, req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	r.headers = map[string]string{}
	for k, v := range md {
		r.headers[k] = v[0]
	}
	r.mu.Unlock()
	resp, ok := r.take(req)
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	return resp, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var msg coltrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &msg); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.path, r.headers = req.URL.Path, map[string]string{}
	for k := range req.Header {
		r.headers[http.CanonicalHeaderKey(k)] = req.Header.Get(k)
	}
	r.mu.Unlock()
	resp, ok := r.take(&msg)
	if !ok {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	out, _ := proto.Marshal(resp)
	_, _ = w.Write(out)
}

// got returns the spans received so far, by name in order of arrival.
func (r *receiver) got() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*tracepb.Span(nil), r.spans...)
}

func (r *receiver) set(f func(*receiver)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// serveGRPC starts r and returns its endpoint.
func serveGRPC(t *testing.T, r *receiver) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(s, r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() { s.Stop(); <-served })
	return "http://" + l.Addr().String()
}

// serveHTTP starts r and returns its base address.
func serveHTTP(t *testing.T, r *receiver) string {
	t.Helper()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

// absent returns an endpoint that refuses connections.
func absent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}
