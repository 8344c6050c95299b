package spanjson_test

import (
	"encoding/json"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/exporters/spanjson"
)

func TestAppendSpan(t *testing.T) {
	ids := func(last byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: last}})
	}
	for _, c := range []struct {
		name string
		stub tracetest.SpanStub
		want string
	}{
		{"root without anything", tracetest.SpanStub{
			Name: "POST", SpanKind: trace.SpanKindServer, SpanContext: ids(2),
			StartTime: time.Unix(1, 2), EndTime: time.Unix(3, 4),
		}, `{"name":"POST","kind":"SPAN_KIND_SERVER","trace_id":"00000000000000000000000000000001","span_id":"0000000000000002",` +
			`"parent_span_id":null,"start_unix_ns":1000000002,"end_unix_ns":3000000004,"attributes":{},"events":[],"status":{}}`},
		{"child with everything", tracetest.SpanStub{
			Name: "a\"b", SpanKind: trace.SpanKindInternal, SpanContext: ids(3), Parent: ids(2),
			StartTime: time.Unix(1, 0), EndTime: time.Unix(1, 0),
			Attributes: []attribute.KeyValue{
				attribute.Int("i", -1), attribute.Float64("f", 0.5), attribute.Bool("b", true), attribute.String("s", "x\n"),
				attribute.StringSlice("l", []string{"a", "b"}), attribute.IntSlice("o", []int{1, 2}),
			},
			Events: []sdktrace.Event{
				{Name: "e", Time: time.Unix(1, 1)},
				{Name: "f", Time: time.Unix(1, 2), Attributes: []attribute.KeyValue{attribute.Int("n", 1)}},
			},
			Status: sdktrace.Status{Code: codes.Error, Description: "no"},
		}, `{"name":"a\"b","kind":"SPAN_KIND_INTERNAL","trace_id":"00000000000000000000000000000001","span_id":"0000000000000003",` +
			`"parent_span_id":"0000000000000002","start_unix_ns":1000000000,"end_unix_ns":1000000000,` +
			`"attributes":{"i":-1,"f":0.5,"b":true,"s":"x\n","l":["a","b"],"o":"[1,2]"},` +
			`"events":[{"name":"e","time_unix_ns":1000000001,"attributes":{}},{"name":"f","time_unix_ns":1000000002,"attributes":{"n":1}}],` +
			`"status":{"code":"STATUS_CODE_ERROR","message":"no"}}`},
	} {
		got := spanjson.AppendSpan(nil, c.stub.Snapshot())
		if string(got) != c.want {
			t.Errorf("%s: AppendSpan =\n%s\nwant\n%s", c.name, got, c.want)
		}
		if !json.Valid(got) {
			t.Errorf("%s: AppendSpan = %s; not JSON", c.name, got)
		}
	}
}
