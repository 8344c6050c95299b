package vllm

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// sample is a line of testdata/*/messages.jsonl.
type sample struct {
	Release string         `json:"-"`
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`
	Socket  string         `json:"socket"`
	Parts   [][]byte       `json:"parts"`
	Want    map[string]any `json:"want"`
}

var socketTypes = map[string]capture.SocketType{
	"ROUTER": capture.SocketRouter, "DEALER": capture.SocketDealer,
	"PUSH": capture.SocketPush, "PULL": capture.SocketPull, "PAIR": capture.SocketPair,
}

// samples loads all of testdata.
func samples(tb testing.TB) []sample {
	tb.Helper()
	files, err := filepath.Glob("testdata/*/messages.jsonl")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no samples in testdata: %v", err)
	}
	var all []sample
	for _, file := range files {
		release := filepath.Base(filepath.Dir(file))
		all = append(all, readSamples(tb, file, release)...)
	}
	return all
}

func readSamples(tb testing.TB, file, release string) []sample {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var all []sample
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s := sample{Release: release}
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return all
}

// message is the sample as package stream hands it over.
func (s *sample) message() *stream.Message {
	m := &stream.Message{Time: 1, PID: 7, Conn: 9, Socket: socketTypes[s.Socket], Kind: capture.KindSend}
	if s.Kind == "recv" {
		m.Kind = capture.KindRecv
	}
	for _, data := range s.Parts {
		m.Parts = append(m.Parts, stream.Part{Data: data, Len: len(data)})
	}
	return m
}

// payload is the index of the part that is decoded.
func (s *sample) payload() int {
	i := 0
	for i < len(s.Parts)-1 && len(s.Parts[i]) <= identityBytes {
		i++
	}
	return i
}

// object is a JSON object.
type object = map[string]any

// recorder is a sink that keeps what it gets, as testdata writes it.
type recorder struct {
	inputs []object
	gaps   []request.Side
	cuts   int
}

func (r *recorder) keep(kind string, value any) { r.inputs = append(r.inputs, object{kind: value}) }

func side(s request.Side) string {
	if s == request.FrontEnd {
		return "front-end"
	}
	return "core"
}

func stringOrNil(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}

func set[T any](o object, key string, v *T) {
	if v != nil {
		o[key] = *v
	}
}

func (r *recorder) Add(a *request.Add) {
	params := object{}
	set(params, "n", a.Params.N)
	set(params, "max_tokens", a.Params.MaxTokens)
	set(params, "temperature", a.Params.Temperature)
	set(params, "top_p", a.Params.TopP)
	set(params, "top_k", a.Params.TopK)
	set(params, "seed", a.Params.Seed)
	set(params, "frequency_penalty", a.Params.FrequencyPenalty)
	set(params, "presence_penalty", a.Params.PresencePenalty)
	set(params, "stream", a.Params.Stream)
	o := object{
		"side": side(a.Side), "id": string(a.ID), "external": stringOrNil(a.External), "suffixed": a.Suffixed,
		"prompt_tokens": a.PromptTokens, "params": params, "lora": stringOrNil(a.Lora),
		"priority": a.Priority, "pooling": a.Pooling,
	}
	if a.HasArrival {
		o["arrival_s"] = a.ArrivalS
	}
	r.cut(a.Cut)
	r.keep("add", o)
}

func (r *recorder) Step(s *request.Step) {
	outputs := []any{}
	for _, out := range s.Outputs {
		events := []any{}
		for _, e := range out.Events {
			events = append(events, []any{e.Type, e.TS})
		}
		var spec any
		if out.Spec != nil {
			spec = object{
				"num_spec_tokens": out.Spec.NumSpecTokens, "num_draft_tokens": out.Spec.NumDraftTokens,
				"histogram": out.Spec.Histogram, "per_step_accepted": out.Spec.PerStepAccepted,
				"per_step_drafted": out.Spec.PerStepDrafted,
			}
		}
		outputs = append(outputs, object{
			"id": string(out.ID), "tokens": out.Tokens, "finish": int(out.Finish), "events": events,
			"cached": out.Cached, "prompt": out.Prompt, "suffixed": out.Suffixed, "pooling": out.Pooling,
			"spec": spec,
		})
	}
	o := object{
		"side": side(s.Side), "engine_index": s.EngineIndex, "running": s.Running, "waiting": s.Waiting,
		"outputs": outputs,
	}
	if s.HasTimestamp {
		o["timestamp_s"] = s.TimestampS
	}
	r.cut(s.Cut)
	r.keep("step", o)
}

func (r *recorder) Abort(a *request.Abort) {
	ids := []any{}
	for _, id := range a.IDs {
		ids = append(ids, string(id))
	}
	r.cut(a.Cut)
	r.keep("abort", object{"side": side(a.Side), "ids": ids})
}

func (r *recorder) Ready(v *request.Ready) {
	r.keep("ready", object{
		"side": side(v.Side), "version": v.Version, "num_blocks": v.NumBlocks, "max_model_len": v.MaxModelLen,
	})
}

func (r *recorder) Dead(v *request.Dead) { r.keep("dead", object{"side": side(v.Side)}) }

func (r *recorder) EngineGap(_ int64, _ uint32, s request.Side) { r.gaps = append(r.gaps, s) }

func (r *recorder) cut(cut bool) {
	if cut {
		r.cuts++
	}
}

// asJSON turns any value into what encoding/json reads, so that it compares with want.
func asJSON(tb testing.TB, v any) any {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		tb.Fatal(err)
	}
	return out
}
