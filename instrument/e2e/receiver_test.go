//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // what the Collector compresses with
)

// A span as it arrived, flattened.
type span struct {
	Name, Kind                string
	TraceID, SpanID, ParentID string // hex; ParentID "" for a root
	Start, End                uint64 // Unix nanoseconds
	Attributes                map[string]any
	Events                    []string // names, in order
	Status                    string   // "", "Ok", "Error"
	Resource                  map[string]any
}

func (s *span) text(key string) string { v, _ := s.Attributes[key].(string); return v }

// number is an int or double attribute; ok is false where it is absent.
func (s *span) number(key string) (v float64, ok bool) {
	switch v := s.Attributes[key].(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}

// receiver is an OTLP gRPC endpoint that keeps all spans.
type receiver struct {
	collectorpb.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*span
}

// newReceiver listens on a free loopback port until the test ends.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{address: l.Addr().String()}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, r)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return r
}

// Export implements the OTLP trace service.
func (r *receiver) Export(_ context.Context, in *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range in.GetResourceSpans() {
		resource := attributes(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				flat := &span{
					Name: s.GetName(), Kind: kinds[int(s.GetKind())],
					TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()),
					ParentID: hex.EncodeToString(s.GetParentSpanId()),
					Start:    s.GetStartTimeUnixNano(), End: s.GetEndTimeUnixNano(),
					Attributes: attributes(s.GetAttributes()), Resource: resource,
					Status: []string{"", "Ok", "Error"}[s.GetStatus().GetCode()],
				}
				for _, e := range s.GetEvents() {
					flat.Events = append(flat.Events, e.GetName())
				}
				r.spans = append(r.spans, flat)
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

var kinds = map[int]string{0: "UNSPECIFIED", 1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}

func attributes(in []*commonpb.KeyValue) map[string]any {
	out := make(map[string]any, len(in))
	for _, kv := range in {
		out[kv.GetKey()] = value(kv.GetValue())
	}
	return out
}

func value(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_ArrayValue:
		var list []any
		for _, item := range v.ArrayValue.GetValues() {
			list = append(list, value(item))
		}
		return list
	}
	return nil
}

// all returns the spans that keep accepts, earliest first.
func (r *receiver) all(keep func(*span) bool) []*span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*span
	for _, s := range r.spans {
		if keep(s) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b *span) int {
		if a.Start != b.Start {
			if a.Start < b.Start {
				return -1
			}
			return 1
		}
		return 0
	})
	return found
}

// trace returns the spans of a trace.
func (r *receiver) trace(id string) []*span {
	return r.all(func(s *span) bool { return s.TraceID == id })
}

// traceOf finds the trace of the request that was answered with that response id.
func (r *receiver) traceOf(responseID string) string {
	for _, s := range r.all(func(s *span) bool { return s.text("gen_ai.response.id") == responseID }) {
		return s.TraceID
	}
	return ""
}

// eventually waits until ok holds, and says so when it does not in time. It is for what
// other processes do; the limit is generous, since it is only reached by a failure.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	t.Errorf("not within %v: %s", limit, what)
	return false
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
