package console_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/console"
	"github.com/tokenscope/tokenscope/exporters/internal/golden"
	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/semconv"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func print(t *testing.T, o spantree.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	p := otlp.NewReplay(console.New(&out), o, nil)
	for _, c := range requesttest.Cases() {
		if err := p.Emit(c.Request); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTreesGolden(t *testing.T) {
	golden.Check(t, "level-1.txt", print(t, spantree.Options{Level: 1}))
	golden.Check(t, "level-2-arms.txt", print(t, spantree.Options{Level: 2, EventLimit: 128, Dialect: semconv.DialectARMS}))
}

// TestOrphansArePrintedAtTheEnd: a tree whose root never came is not lost.
func TestOrphansArePrintedAtTheEnd(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	p := otlp.NewReplay(memory, spantree.Options{Level: 1}, nil)
	if err := p.Emit(requesttest.Plain()); err != nil {
		t.Fatal(err)
	}
	spans := memory.GetSpans().Snapshots()
	var out bytes.Buffer
	e := console.New(&out)
	if err := e.ExportSpans(context.Background(), spans[:len(spans)-2]); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 0 {
		t.Errorf("printed before the root came: %s", out.Bytes())
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "orphans.txt", out.Bytes())
}
