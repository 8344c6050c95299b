package otlp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// ids makes the ids of one Request's spans. The generator finds it in the context: the
// SDK has no other way to be told a trace id.
type ids struct {
	trace  trace.TraceID
	record [16]byte
	// seeded makes span ids from record and a count, so that a replay gives the same ids
	// each time. Live ids are random.
	seeded bool
	count  uint64
}

type idsKey struct{}

func withIDs(ctx context.Context, r *request.Request, seeded bool) context.Context {
	return context.WithValue(ctx, idsKey{}, &ids{trace: r.TraceID, record: r.Record, seeded: seeded})
}

// idGenerator is the provider's. The emitter uses it from one goroutine.
type idGenerator struct{}

var _ sdktrace.IDGenerator = idGenerator{}

// NewIDs returns the Request's trace id and a new span id.
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	i, _ := ctx.Value(idsKey{}).(*ids)
	if i == nil {
		i = &ids{}
	}
	tid := i.trace
	for !tid.IsValid() {
		binary.BigEndian.PutUint64(tid[:8], i.next())
		binary.BigEndian.PutUint64(tid[8:], i.next())
	}
	return tid, g.NewSpanID(ctx, tid)
}

// NewSpanID returns a new span id.
func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) (sid trace.SpanID) {
	i, _ := ctx.Value(idsKey{}).(*ids)
	if i == nil {
		i = &ids{}
	}
	for !sid.IsValid() {
		binary.BigEndian.PutUint64(sid[:], i.next())
	}
	return sid
}

func (i *ids) next() uint64 {
	if !i.seeded {
		return rand.Uint64()
	}
	i.count++
	var seed [24]byte
	copy(seed[:], i.record[:])
	binary.BigEndian.PutUint64(seed[16:], i.count)
	sum := sha256.Sum256(seed[:])
	return binary.BigEndian.Uint64(sum[:8])
}
