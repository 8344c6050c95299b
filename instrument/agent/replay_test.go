package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/exporters/ledger"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// Every chat and completions request of every recording is found, and what the client
// was told about it is what we say.
func TestReplayEqualsWhatClientsGot(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			r := run(t, h, events)
			compared, rejected := 0, map[string]int{}
			for _, w := range truths(t, name) {
				if w.Endpoint != "/v1/chat/completions" && w.Endpoint != "/v1/completions" {
					continue
				}
				if w.ID == "" {
					rejected[w.Endpoint]++
					continue
				}
				l := r.byID(w.ID)
				if l == nil {
					t.Errorf("%s: no request line with id %s", w.Name, w.ID)
					continue
				}
				compared++
				compare(t, name, w, l)
			}
			for _, l := range r.lines {
				if l.ID == nil && rejected[l.Endpoint] > 0 {
					rejected[l.Endpoint]--
					if l.Status == nil || *l.Status < 400 || l.ErrorType == nil {
						t.Errorf("rejected request: status %s, error type %s; want both", show(l.Status), show(l.ErrorType))
					}
				}
			}
			for e, n := range rejected {
				if n != 0 && name != "vllm-0.32.0-embed" {
					t.Errorf("%d rejected requests to %s without a line", n, e)
				}
			}
			if compared == 0 && name != "vllm-0.32.0-embed" {
				t.Error("nothing was compared")
			}
			totals(t, name, r)
			understood(t, r, events)
		})
	}
}

func compare(t *testing.T, name string, w truth, l *line) {
	t.Helper()
	if l.Status == nil || *l.Status != w.Status || l.Endpoint != w.Endpoint {
		t.Errorf("%s: status %s of %s; want %d of %s", w.Name, show(l.Status), l.Endpoint, w.Status, w.Endpoint)
	}
	if l.Disconnected != w.Closed {
		t.Errorf("%s: disconnected = %v; want %v", w.Name, l.Disconnected, w.Closed)
	}
	if w.Closed {
		if l.ErrorType == nil || *l.ErrorType != "client_disconnect" {
			t.Errorf("%s: error type = %s; want client_disconnect", w.Name, show(l.ErrorType))
		}
	} else {
		var want string
		if json.Unmarshal(w.FinishReason, &want) == nil && want != "" && (l.FinishReason == nil || *l.FinishReason != want) {
			t.Errorf("%s: finish reason = %s; want %s", w.Name, show(l.FinishReason), want)
		}
	}
	counts := true
	if name != "vllm-0.33.0-rust" || !w.Closed {
		for i, s := range l.Sequences {
			if s.Completion == nil || s.Prompt == nil {
				t.Errorf("%s: sequence %d has no counts", w.Name, i)
				counts = false
			}
		}
	}
	if len(l.Sequences) == 0 {
		t.Errorf("%s: no engine request was joined", w.Name)
	}
	if w.Usage != nil && counts {
		prompt, completion := 0, 0
		for i, s := range l.Sequences {
			if i == 0 || !strings.HasSuffix(w.Name, "n2") && !strings.HasSuffix(w.Name, "n2-stream") {
				prompt += *s.Prompt
			}
			completion += *s.Completion
		}
		if prompt != w.Usage.Prompt || completion != w.Usage.Completion {
			t.Errorf("%s: counted %d prompt and %d completion tokens; the client was told %d and %d", w.Name, prompt, completion, w.Usage.Prompt, w.Usage.Completion)
		}
		if *l.Usage["prompt_tokens"] != w.Usage.Prompt || *l.Usage["completion_tokens"] != w.Usage.Completion {
			t.Errorf("%s: usage = %s; want %+v", w.Name, show(l.Usage), *w.Usage)
		}
	}
	if w.Metrics != nil {
		if l.Metrics == nil {
			t.Errorf("%s: no metrics", w.Name)
		} else if m := l.Metrics; !same(m.TTFT, w.Metrics.TTFT) || !same(m.Gen, w.Metrics.Gen) || !same(m.Queue, w.Metrics.Queue) || !same(m.ITL, w.Metrics.ITL) || !same(m.TPS, w.Metrics.TPS) {
			t.Errorf("%s: metrics = %s; vLLM says %s", w.Name, show(m), show(w.Metrics))
		}
	}
	if strings.Contains(name, "rust") || strings.Contains(name, "nologstats") {
		return // what these cannot tell is marked; TestReplayMarksWhatIsMissing
	}
	if len(l.Incomplete) != 0 {
		t.Errorf("%s: incomplete = %v; want nothing", w.Name, l.Incomplete)
	}
}

// totals holds sums over all requests against the engine's own counters.
func totals(t *testing.T, name string, r *replayed) {
	t.Helper()
	completion, prompt, preemptions := 0, 0, 0
	for _, l := range r.lines {
		for _, s := range l.Sequences {
			if s.Completion != nil {
				completion += *s.Completion
			}
			if s.Prompt != nil && s.Generated != nil && *s.Generated > 0 {
				prompt += *s.Prompt
			}
			if s.Preemptions != nil {
				preemptions += *s.Preemptions
			}
		}
	}
	if strings.Contains(name, "embed") || strings.Contains(name, "rust") {
		return // no tokens; no receives to tell which tokens the front-end counted
	}
	for metric, got := range map[string]int{
		"vllm:generation_tokens_total": completion, "vllm:prompt_tokens_total": prompt, "vllm:num_preemptions_total": preemptions,
	} {
		if want, ok := prom(t, name, metric); ok && float64(got) != want {
			t.Errorf("%s: the lines add up to %d; the server's page says %v", metric, got, want)
		}
	}
}

// understood holds that every message between front-end and core was decoded.
func understood(t *testing.T, r *replayed, events []capture.Event) {
	t.Helper()
	e := r.stats.Engine
	if e.Add.Failed+e.Outputs.Failed+e.Abort.Failed > 0 || e.Add.Decoded == 0 || e.Outputs.Decoded == 0 {
		t.Errorf("decoder: %+v; want ADD and outputs messages without a failure", e)
	}
	// The only messages that are neither between front-end and core nor a greeting: a byte
	// 0 by which a process that stops wakes its own reader of a shared-memory queue, one a
	// reader and twice where it stops twice. None has the form of an ADD or of outputs.
	// Source: vLLM 0.32.0, vllm/distributed/device_communicators/shm_broadcast.py, SpinCondition.
	const stops = 4
	var pair uint64
	for i := range events {
		if ev := &events[i]; ev.Kind == capture.KindSend && ev.Socket == capture.SocketPair && string(ev.Data) == "\x00" {
			pair++
		}
	}
	if e.Unknown != pair || pair > stops {
		t.Errorf("%d unknown messages, of which %d are a byte on a PAIR socket; want all of them, and at most %d", e.Unknown, pair, stops)
	}
}

func TestReplayMarksWhatIsMissing(t *testing.T) {
	for name, want := range map[string]string{"vllm-0.33.0-rust": "receive:not_captured", "vllm-0.32.0-nologstats": "queue_time:stats_disabled"} {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			n := 0
			for _, l := range run(t, h, events).lines {
				if len(l.Sequences) == 0 {
					continue
				}
				n++
				if !slices.Contains(l.Incomplete, want) {
					t.Errorf("%s: incomplete = %v; want %s", l.id(), l.Incomplete, want)
				}
				if m := l.Sequences[0].Metrics; strings.Contains(name, "nologstats") && (m.Queue != nil || m.TTFT != nil || m.Gen == nil) {
					t.Errorf("%s: metrics = %s; want only what needs no scheduler event", l.id(), show(m))
				}
			}
			if n == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

func TestReplayLinesFollowTheSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ledger.Schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("line.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("line.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		h, events := load(t, name)
		for _, l := range run(t, h, events).lines {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(l.raw))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(v); err != nil {
				t.Errorf("%s: %s: %v", name, l.raw, err)
			}
		}
	}
}

// vLLM's own spans of the same run: e2e and time to first token within half a
// millisecond (it stamps a little after the message's arrival), the rest exact; and
// both stand in the caller's trace, below the same span, where there was a caller.
func TestReplayAgreesWithTheServersOwnSpans(t *testing.T) {
	const name = "vllm-0.32.0-otel"
	own := ownSpans(t, name)
	h, events := load(t, name)
	r := run(t, h, events)
	roots := serverSpans(t, filepath.Join(recordings, name))
	compared, called := 0, 0
	for _, q := range r.requests {
		if q.ID == "" {
			continue
		}
		i := slices.IndexFunc(own, func(s ownSpan) bool { return strings.HasPrefix(s.requestID(), q.ID) })
		if i < 0 {
			if !q.Disconnected {
				t.Errorf("%s: vLLM made no span; want one of each request whose client stayed", q.ID)
			}
			continue
		}
		compared++
		s := own[i]
		compareOwn(t, s, latency.Of(q, q.Sequences[0]))
		root, ok := roots[q.ID]
		switch {
		case !ok:
			t.Errorf("%s: no SERVER span", q.ID)
		case s.Parent == nil && root.Parent != nil:
			t.Errorf("%s: SERVER span below %s; vLLM's has no parent", q.ID, *root.Parent)
		case s.Parent != nil:
			called++
			if root.TraceID != s.TraceID || root.Parent == nil || *root.Parent != *s.Parent {
				t.Errorf("%s: SERVER span in trace %s below %s; vLLM's llm_request is in %s below %s",
					q.ID, root.TraceID, show(root.Parent), s.TraceID, *s.Parent)
			}
		}
	}
	if compared != len(own) || compared != 9 || called != 1 {
		t.Errorf("%d of vLLM's %d spans were found, %d with a caller; want 9 of 9, 1", compared, len(own), called)
	}
}

// ownSpan is a span that a server made itself, or that replay printed.
type ownSpan struct {
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Parent     *string        `json:"parent_span_id"`
	Attributes map[string]any `json:"attributes"`
}

func (s *ownSpan) requestID() string {
	id, _ := s.Attributes["gen_ai.request.id"].(string)
	return id
}

// ownSpans are the llm_request spans that a recording's server made itself.
func ownSpans(t *testing.T, name string) []ownSpan {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recordings, name, "spans.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spans []ownSpan
	if err := json.Unmarshal(b, &spans); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(spans, func(s ownSpan) bool { return s.Name != "llm_request" })
}

// serverSpans are the SERVER spans of a replay, by the response's id, which is on the
// span below each.
func serverSpans(t *testing.T, path string) map[string]ownSpan {
	t.Helper()
	var out bytes.Buffer
	err := Replay(context.Background(), ReplayOptions{Output: OutputSpans, Paths: []string{path}, Stdout: &out,
		Log: slog.New(slog.DiscardHandler), TraceContext: true})
	if err != nil {
		t.Fatal(err)
	}
	byID, roots := map[string]ownSpan{}, map[string]ownSpan{}
	var entries []ownSpan
	for raw := range bytes.Lines(out.Bytes()) {
		var s ownSpan
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		byID[s.SpanID] = s
		if s.Attributes["gen_ai.operation.name"] != nil {
			entries = append(entries, s)
		}
	}
	for _, s := range entries {
		id, _ := s.Attributes["gen_ai.response.id"].(string)
		if id == "" || s.Parent == nil {
			continue
		}
		if parent := byID[*s.Parent]; parent.Kind == "SPAN_KIND_SERVER" {
			roots[id] = parent
		}
	}
	return roots
}

// compareOwn compares a sequence's latencies with those on the server's own span of it.
func compareOwn(t *testing.T, s ownSpan, l latency.Latencies) {
	t.Helper()
	for key, c := range map[string]struct {
		got       *float64
		tolerance float64
	}{
		"gen_ai.latency.e2e":                     {l.E2E, 0.0005},
		"gen_ai.latency.time_to_first_token":     {l.TimeToFirstToken, 0.0005},
		"gen_ai.latency.time_in_queue":           {l.TimeInQueue, 0},
		"gen_ai.latency.time_in_model_prefill":   {l.Prefill, 0},
		"gen_ai.latency.time_in_model_decode":    {l.Decode, 0},
		"gen_ai.latency.time_in_model_inference": {l.Inference, 0},
	} {
		want, ok := s.Attributes[key].(float64)
		if !ok || c.got == nil || math.Abs(*c.got-want) > c.tolerance {
			t.Errorf("%s %s = %s; vLLM says %v", s.requestID(), key, show(c.got), s.Attributes[key])
		}
	}
}

// The same recording gives the same bytes, in every form.
func TestReplayIsDeterministic(t *testing.T) {
	for _, output := range []string{OutputRequests, OutputSpans, OutputSummary, OutputTrees} {
		t.Run(output, func(t *testing.T) {
			once := func() string {
				var b bytes.Buffer
				err := Replay(context.Background(), ReplayOptions{Output: output, Paths: []string{recordings}, Stdout: &b,
					Log: slog.New(slog.DiscardHandler), Tree: spantree.Options{Level: 2, EventLimit: 16}, TraceContext: true})
				if err != nil {
					t.Fatal(err)
				}
				return b.String()
			}
			a, b := once(), once()
			if a != b {
				t.Error("two replays differ")
			}
			if len(a) < 1000 {
				t.Errorf("replay printed %d bytes", len(a))
			}
		})
	}
}

func TestReplayErrors(t *testing.T) {
	for name, c := range map[string]struct {
		path, output, want string
	}{
		"no such file":         {filepath.Join(t.TempDir(), "none"), OutputSummary, "no such file"},
		"a folder without any": {t.TempDir(), OutputSummary, "none in"},
		"no recording":         {"replay_test.go", OutputSummary, "not a gzip file"},
		"unknown output":       {filepath.Join(recordings, "vllm-0.32.0"), "csv", "csv"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Replay(context.Background(), ReplayOptions{Output: c.output, Paths: []string{c.path}, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Replay(%s) = %v; want an error with %q", c.path, err, c.want)
			}
		})
	}
}
