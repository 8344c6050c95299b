package agent

// What the replay tests share: the recordings of real servers, read into memory with
// the responses' own metrics blanked, and what the clients got.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/ledger"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

const recordings = "../../probes/capture/testdata/recordings"

// names lists the recordings.
func names(t testing.TB) []string {
	t.Helper()
	found, err := capture.Find(recordings)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range found {
		found[i] = filepath.Base(p)
	}
	return found
}

// truth is what a client got for one request.
type truth struct {
	Name         string          `json:"name"`
	Endpoint     string          `json:"endpoint"`
	Status       int             `json:"status"`
	ID           string          `json:"id"`
	FinishReason json.RawMessage `json:"finish_reason"`
	Usage        *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Metrics *metrics `json:"metrics"`
	Closed  bool     `json:"closed_by_client"`
}

// metrics is vLLM's own object, in responses and in request lines.
type metrics struct {
	TTFT  *float64        `json:"time_to_first_token_ms"`
	Gen   *float64        `json:"generation_time_ms"`
	Queue *float64        `json:"queue_time_ms"`
	ITL   *float64        `json:"mean_itl_ms"`
	TPS   *float64        `json:"tokens_per_second"`
	Spec  json.RawMessage `json:"speculative_decoding"`
}

func truths(t *testing.T, name string) (list []truth) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recordings, name, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// prom sums a counter over its labels; ok is false where the page has none.
func prom(t *testing.T, name, metric string) (sum float64, ok bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recordings, name, "metrics.prom"))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(l, metric); found && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(strings.TrimSpace(l[strings.LastIndexByte(l, ' '):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum, ok = sum+v, true
		}
	}
	return sum, ok
}

var ownMetrics = regexp.MustCompile(`"metrics":\{[^{}]*(\{[^{}]*\})?[^{}]*\}`)

// load reads a recording, numbers its events as a live source does, and blanks the
// responses' metrics, so that nothing can be copied from them.
func load(t testing.TB, name string) (capture.Header, []capture.Event) {
	t.Helper()
	rec, err := capture.OpenRecording(filepath.Join(recordings, name))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	type stream struct {
		pid  uint32
		conn uint64
		kind capture.Kind
	}
	seq := map[stream]uint64{}
	var events []capture.Event
	err = rec.Run(context.Background(), func(e *capture.Event) {
		c := *e
		c.Data = bytes.Clone(e.Data)
		if c.Kind == capture.KindWrite {
			c.Data = ownMetrics.ReplaceAllFunc(c.Data, func(m []byte) []byte {
				return append([]byte(`"metrics":{"blanked":"`), append(bytes.Repeat([]byte{'x'}, len(m)-len(`"metrics":{"blanked":""}`)), `"}`...)...)
			})
		}
		switch c.Kind {
		case capture.KindSend, capture.KindRecv, capture.KindRead, capture.KindWrite, capture.KindOpen, capture.KindClose:
			k := stream{c.PID, c.Conn, c.Kind}
			seq[k]++
			c.Seq = seq[k]
		}
		events = append(events, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec.Header, events
}

// line is a request line as a reader sees it.
type line struct {
	Record       string              `json:"record"`
	ID           *string             `json:"id"`
	TraceID      string              `json:"trace_id"`
	Endpoint     string              `json:"endpoint"`
	Status       *int                `json:"status"`
	ErrorType    *string             `json:"error_type"`
	Disconnected bool                `json:"disconnected"`
	FinishReason *string             `json:"finish_reason"`
	Usage        map[string]*int     `json:"usage"`
	Metrics      *metrics            `json:"metrics"`
	HTTP         map[string]*float64 `json:"http"`
	Sequences    []struct {
		EngineID    *string  `json:"engine_request_id"`
		Finish      *string  `json:"finish_reason"`
		Prompt      *int     `json:"prompt_tokens"`
		Completion  *int     `json:"completion_tokens"`
		Generated   *int     `json:"generated_tokens"`
		Cached      *int     `json:"cached_tokens"`
		Preemptions *int     `json:"preemptions"`
		E2E         *float64 `json:"e2e_ms"`
		Metrics     *metrics `json:"metrics"`
	} `json:"sequences"`
	Incomplete []string `json:"incomplete"`

	raw string
}

func (l *line) id() string {
	if l.ID == nil {
		return ""
	}
	return *l.ID
}

// replayed is what a pipeline made of events.
type replayed struct {
	requests []*request.Request
	lines    []*line
	stats    PipelineStats
}

func (r *replayed) byID(id string) *line {
	for _, l := range r.lines {
		if l.id() == id {
			return l
		}
	}
	return nil
}

// linesByID are the lines of requests whose response named an id.
func linesByID(r *replayed) map[string]*line {
	m := map[string]*line{}
	for _, l := range r.lines {
		if l.ID != nil {
			m[l.id()] = l
		}
	}
	return m
}

// run sends events through a new pipeline.
func run(t testing.TB, h capture.Header, events []capture.Event) *replayed {
	t.Helper()
	out := &replayed{}
	seed, err := h.SeedBytes()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPipeline(request.Options{Random: rand.NewChaCha8(seed).Uint64, EngineVersion: h.EngineVersion, KeepSteps: 128,
		Emit: func(r *request.Request) { out.requests = append(out.requests, r) }}, true)
	for i := range events {
		e := events[i]
		p.Event(&e)
	}
	p.Flush()
	for _, r := range out.requests {
		b := ledger.AppendLine(nil, r, "test")
		l := &line{raw: string(b)}
		if err := json.Unmarshal(b, l); err != nil {
			t.Fatalf("request line %s: %v", b, err)
		}
		out.lines = append(out.lines, l)
	}
	out.stats = p.Stats()
	return out
}

func same(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}
