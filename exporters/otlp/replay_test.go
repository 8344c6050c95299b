package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/internal/golden"
	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/spanjson"
	"github.com/tokenscope/tokenscope/exporters/spantree"
)

func replayed(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	p := NewReplay(spanjson.New(&out), spantree.Options{Level: 2, EventLimit: 4}, nil)
	unsampled := requesttest.TwoChoices()
	unsampled.Sampled = false
	for _, r := range append(requesttest.Cases(), requesttest.Case{Request: unsampled}) {
		if err := p.Emit(r.Request); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReplayGolden(t *testing.T) {
	got := replayed(t)
	golden.Check(t, "replay.jsonl", got)
	for line := range bytes.Lines(got) {
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestReplayIsDeterministicWhateverTheEnvironment(t *testing.T) {
	first := replayed(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	t.Setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "1")
	t.Setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
	t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "a=b")
	if second := replayed(t); !bytes.Equal(first, second) {
		t.Errorf("second replay differs from the first")
	}
}

func TestReplayReportsAWriteError(t *testing.T) {
	p := NewReplay(spanjson.New(broken{}), spantree.Options{}, nil)
	if err := p.Emit(requesttest.Plain()); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("Emit to a full disk = %v; want its error", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestSpanIDsAreUniqueInALiveTrace(t *testing.T) {
	r := requesttest.Plain()
	seen := map[string]bool{}
	for range 2 {
		ctx := withIDs(context.Background(), r, false)
		for range 100 {
			id := idGenerator{}.NewSpanID(ctx, r.TraceID).String()
			if seen[id] {
				t.Fatalf("span id %s twice", id)
			}
			seen[id] = true
		}
	}
	if tid, sid := (idGenerator{}).NewIDs(context.Background()); !tid.IsValid() || !sid.IsValid() {
		t.Errorf("NewIDs without a Request = %s, %s; want valid ids", tid, sid)
	}
}
