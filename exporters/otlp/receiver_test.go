package otlp

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
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
	// compression is the body's: "", "identity" or "gzip". json says that it was JSON, body
	// is what it held.
	compression string
	json        bool
	body        []byte
	// refuse makes it answer with an error; reject with a partial success.
	refuse bool
	reject int64
	// busy is how many exports it is yet to answer with "later".
	busy int
}

// later reports whether an export is to be answered with "later".
func (r *receiver) later() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	return r.busy >= 0
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
	if r.later() {
		return nil, status.Error(codes.Unavailable, "later")
	}
	resp, ok := r.take(req)
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	return resp, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	in, compression := io.Reader(req.Body), req.Header.Get("Content-Encoding")
	if compression == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in = z
	}
	body, _ := io.ReadAll(in)
	var msg coltrace.ExportTraceServiceRequest
	json := req.Header.Get("Content-Type") == "application/json"
	if !json {
		if err := proto.Unmarshal(body, &msg); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	r.mu.Lock()
	r.path, r.headers = req.RequestURI, map[string]string{}
	r.compression, r.json, r.body = compression, json, body
	for k := range req.Header {
		r.headers[strings.ToLower(k)] = req.Header.Get(k)
	}
	r.mu.Unlock()
	if r.later() {
		w.Header().Set("Retry-After", "0")
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	resp, ok := r.take(&msg)
	if !ok {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	out, _ := proto.Marshal(resp)
	_, _ = w.Write(out)
}

// HandleRPC implements stats.Handler, for what gRPC hides from Export.
func (r *receiver) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		r.set(func(r *receiver) { r.compression = h.Compression })
	}
}

// TagRPC, TagConn and HandleConn implement stats.Handler.
func (*receiver) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*receiver) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*receiver) HandleConn(context.Context, stats.ConnStats)                       {}

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

// collector is where and how to send to an endpoint without TLS.
func collector(protocol, endpoint string) Collector {
	return Collector{Protocol: protocol, Endpoint: endpoint, Named: true, Insecure: true}
}

// serveGRPC starts r and returns how to send to it.
func serveGRPC(t *testing.T, r *receiver) Collector {
	t.Helper()
	l := listen(t)
	serveGRPCOn(t, r, l)
	return collector(ProtocolGRPC, "http://"+l.Addr().String())
}

func serveGRPCOn(t *testing.T, r *receiver, l net.Listener, opts ...grpc.ServerOption) {
	t.Helper()
	s := grpc.NewServer(append(opts, grpc.StatsHandler(r))...)
	coltrace.RegisterTraceServiceServer(s, r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() { s.Stop(); <-served })
}

// serveHTTP starts r and returns how to send to it.
func serveHTTP(t *testing.T, r *receiver) Collector {
	t.Helper()
	l := listen(t)
	serveHTTPOn(t, r, l)
	return collector(ProtocolHTTP, "http://"+l.Addr().String()+"/v1/traces")
}

func serveHTTPOn(t *testing.T, h http.Handler, l net.Listener) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// protocols are the two ways, for tests that run over both.
var protocols = []struct {
	name    string
	serve   func(*testing.T, *receiver) Collector
	serveOn func(*testing.T, *receiver, net.Listener)
}{
	{ProtocolGRPC, serveGRPC, func(t *testing.T, r *receiver, l net.Listener) { serveGRPCOn(t, r, l) }},
	{ProtocolHTTP, serveHTTP, func(t *testing.T, r *receiver, l net.Listener) { serveHTTPOn(t, r, l) }},
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// absent returns a base address that refuses connections until open is called, which
// returns its listener: a socket that is bound refuses until it listens, and nobody else
// can take its port meanwhile.
func absent(t *testing.T) (address string, open func() net.Listener) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "absent")
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port), func() net.Listener {
		t.Helper()
		if err := unix.Listen(fd, 16); err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}
