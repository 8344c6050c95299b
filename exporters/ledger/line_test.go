package ledger_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tokenscope/tokenscope/exporters/internal/golden"
	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/ledger"
	"github.com/tokenscope/tokenscope/instrument/request"
)

const instance = "6f1d1c0a-3f0e-4d54-9c63-0a8a4a0f6c11"

// speculated is a request with the counters of a recorded run (vLLM 0.32.0, n-gram
// drafts), whose response said what the golden line says.
func speculated() *request.Request {
	r := requesttest.Plain()
	r.Sequences[0].Spec = &request.SpecDecoding{
		NumSpecTokens: 3, NumDraftTokens: 17, Histogram: []int{1, 4, 1, 0},
		PerStepAccepted: []int{1, 1, 2, 1, 0, 1}, PerStepDrafted: []int{3, 3, 2, 3, 3, 3},
	}
	return r
}

// unmeasurable has stamps that are no numbers.
func unmeasurable() *request.Request {
	r := requesttest.Plain()
	r.Sequences[0].LastTokenS = math.Inf(1)
	r.Sequences[0].Spec = &request.SpecDecoding{}
	return r
}

func cases() []requesttest.Case {
	return append(requesttest.Cases(),
		requesttest.Case{Name: "speculated", Request: speculated()},
		requesttest.Case{Name: "unmeasurable", Request: unmeasurable()},
		requesttest.Case{Name: "nothing-known", Request: &request.Request{}},
	)
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ledger.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("request-line.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("request-line.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAppendLineGolden(t *testing.T) {
	var lines []byte
	for _, c := range cases() {
		lines = append(ledger.AppendLine(lines, c.Request, instance), '\n')
	}
	golden.Check(t, "lines.jsonl", lines)
}

func TestAppendLineIsValid(t *testing.T) {
	s := schema(t)
	known := knownKeys(t)
	for _, c := range cases() {
		line := ledger.AppendLine(nil, c.Request, instance)
		if bytes.ContainsAny(line, "\n\r") {
			t.Errorf("%s: AppendLine is more than one line: %s", c.Name, line)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Errorf("%s: AppendLine = %s; not JSON: %v", c.Name, line, err)
			continue
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: AppendLine = %s; against the schema: %v", c.Name, line, err)
		}
		// The schema lets unknown keys pass; a line may not have any.
		for k := range doc.(map[string]any) {
			if !known[k] {
				t.Errorf("%s: AppendLine has key %q, which the schema does not describe", c.Name, k)
			}
		}
	}
}

func knownKeys(t *testing.T) map[string]bool {
	t.Helper()
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(ledger.Schema, &s); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for k := range s.Properties {
		known[k] = true
	}
	return known
}

func TestAppendLineKeepsNumbersExactly(t *testing.T) {
	r := requesttest.Plain()
	want := r.Sequences[0].Metrics()
	var got struct {
		Time    time.Time `json:"time"`
		Metrics struct {
			TTFT       float64 `json:"time_to_first_token_ms"`
			Generation float64 `json:"generation_time_ms"`
			Queue      float64 `json:"queue_time_ms"`
			ITL        float64 `json:"mean_itl_ms"`
			Rate       float64 `json:"tokens_per_second"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(ledger.AppendLine(nil, r, ""), &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  float64
		want *float64
	}{
		{"time_to_first_token_ms", got.Metrics.TTFT, want.TimeToFirstTokenMs},
		{"generation_time_ms", got.Metrics.Generation, want.GenerationTimeMs},
		{"queue_time_ms", got.Metrics.Queue, want.QueueTimeMs},
		{"mean_itl_ms", got.Metrics.ITL, want.MeanITLMs},
		{"tokens_per_second", got.Metrics.Rate, want.TokensPerSecond},
	} {
		if c.got != *c.want {
			t.Errorf("%s = %v; want %v exactly", c.name, c.got, *c.want)
		}
	}
	if got.Time.UnixNano() != r.Wall(r.Start) {
		t.Errorf("time = %d; want %d", got.Time.UnixNano(), r.Wall(r.Start))
	}
}

func TestAppendLineAppends(t *testing.T) {
	got := string(ledger.AppendLine([]byte("before "), requesttest.Plain(), ""))
	if !strings.HasPrefix(got, `before {"v":1,`) || !strings.Contains(got, `"instance":null`) {
		t.Errorf("AppendLine([]byte(%q), …) = %.40s…; want it appended, instance null", "before ", got)
	}
}
