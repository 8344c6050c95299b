package vllm

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// requestMessage is a message from the front-end.
func requestMessage(typ byte, payload []byte) *stream.Message {
	return &stream.Message{
		Time: 1, PID: 7, Conn: 9, Socket: capture.SocketRouter, Kind: capture.KindSend,
		Parts: []stream.Part{
			{Data: []byte{0, 0}, Len: 2}, {Data: []byte{typ}, Len: 1}, {Data: payload, Len: len(payload)},
		},
	}
}

// array is the msgpack of an array whose elements are values.
func array(values ...any) []byte {
	b := msgp.AppendArrayHeader(nil, uint32(len(values)))
	for _, v := range values {
		b = appendValue(b, v)
	}
	return b
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case raw:
		return append(b, v...)
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, element := range v {
			b = appendValue(b, element)
		}
		return b
	}
	b, err := msgp.AppendIntf(b, v)
	if err != nil {
		panic(err)
	}
	return b
}

// raw is msgpack that is put in as it is.
type raw []byte

const internalID, externalID = "0_cmpl-7f-0-0123abcd", "cmpl-7f-0"

// addOf makes an ADD of a layout, with something in every field.
func addOf(l *addLayout) []byte {
	values := make([]any, l.fields)
	// What is not of interest: what vLLM has there mostly.
	for i := range values {
		values[i] = nil
	}
	if l.pooling >= 0 && l.arrival == l.pooling+2 || l.pooling < 0 {
		values[l.arrival-1] = 2 // eos_token_id
	}
	values[0] = internalID
	values[l.prompt] = []any{5, 1000, 70000}
	values[l.sampling] = map[string]any{
		"n": 1, "max_tokens": 32, "temperature": 0, "top_p": 0.5, "top_k": 40, "seed": 11,
		"frequency_penalty": 1.5, "presence_penalty": -1, "output_kind": 1, "stop": []any{"x"},
		"future_key": map[string]any{"a": []any{1, 2.5}},
	}
	values[l.arrival] = 1796052862.0077903
	values[l.lora] = []any{"sql", 3, "/adapters/sql"}
	if l.priority >= 0 {
		for i := int(l.lora) + 1; i < int(l.priority); i++ {
			values[i] = 9 // ranks and waves: integers beside the priority
		}
		values[l.priority] = -4
	}
	if l.external >= 0 {
		values[l.external] = externalID
		for i := int(l.external) + 1; i < l.fields; i++ {
			values[i] = false
		}
	}
	return array(values...)
}

func wantAdd(l *addLayout) object {
	o := object{
		"side": "front-end", "id": internalID, "external": nil, "suffixed": l.external >= 0,
		"prompt_tokens": 3, "lora": "sql", "priority": 0, "pooling": false, "arrival_s": 1796052862.0077903,
		"params": object{
			"n": 1, "max_tokens": 32, "temperature": 0, "top_p": 0.5, "top_k": 40, "seed": 11,
			"frequency_penalty": 1.5, "presence_penalty": -1, "stream": true,
		},
	}
	if l.priority >= 0 {
		o["priority"] = -4
	}
	if l.external >= 0 {
		o["external"] = externalID
	}
	return o
}

func TestAddLayouts(t *testing.T) {
	for i := range addLayouts {
		l := &addLayouts[i]
		t.Run(l.releases, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			d.Message(requestMessage(typeAdd, addOf(l)))
			if diff := cmp.Diff(asJSON(t, []any{object{"add": wantAdd(l)}}), asJSON(t, got.inputs)); diff != "" {
				t.Errorf("Message(ADD of %d fields) gave (-want +got):\n%s", l.fields, diff)
			}
		})
	}
}

// A release to come: fields are added at the end, and all but the priority, which is one
// of several integers, is still found.
func TestAddUnknownLength(t *testing.T) {
	newest := &addLayouts[len(addLayouts)-1]
	for _, more := range []int{1, 2, maxAddFields} {
		payload := addOf(newest)
		fields, total := fieldsOf(t, payload)
		values := make([]any, 0, total+more)
		for _, f := range fields {
			values = append(values, raw(f.raw))
		}
		for i := range more {
			values = append(values, map[string]any{"future": i})
		}
		want := wantAdd(newest)
		want["priority"] = 0

		var got recorder
		NewDecoder(&got).Message(requestMessage(typeAdd, array(values...)))
		if diff := cmp.Diff(asJSON(t, []any{object{"add": want}}), asJSON(t, got.inputs)); diff != "" {
			t.Errorf("Message(ADD of %d fields) gave (-want +got):\n%s", total+more, diff)
		}
	}
}

func TestAddOddities(t *testing.T) {
	// add is one of the newest release, with some fields changed.
	add := func(change map[int]any) []byte {
		values := []any{
			"chatcmpl-1-0123abcd", []any{1, 2}, nil, map[string]any{"max_tokens": 5, "output_kind": 2}, nil, 5.5, nil,
			nil, nil, nil, nil, 0, 0, 0, nil, false, "chatcmpl-1", nil, nil, false, nil, nil,
		}
		for i, v := range change {
			values[i] = v
		}
		return array(values...)
	}
	cases := []struct {
		name    string
		payload []byte
		key     string
		want    any
	}{
		{"prompt is embeddings", add(map[int]any{1: nil, 9: []any{"float32", []any{4, 8}, 1}}), "prompt_tokens", -1},
		{"empty prompt", add(map[int]any{1: []any{}}), "prompt_tokens", 0},
		{"no limit on tokens", add(map[int]any{3: map[string]any{"max_tokens": nil}}), "params", object{"n": 1, "temperature": 1, "top_p": 1}},
		{"all defaults", add(map[int]any{3: map[string]any{}}), "params", object{"n": 1, "max_tokens": 16, "temperature": 1, "top_p": 1}},
		{"parameter of another type", add(map[int]any{3: map[string]any{"n": "two", "seed": 1.5, "output_kind": nil}}), "params", object{"max_tokens": 16, "temperature": 1, "top_p": 1}},
		{"seed of 64 bits", add(map[int]any{3: map[string]any{"seed": uint64(1) << 63}}), "params", object{"n": 1, "max_tokens": 16, "temperature": 1, "top_p": 1}},
		{"pooling", add(map[int]any{3: nil, 4: []any{nil, "embed"}}), "pooling", true},
		{"pooling has no sampling parameters", add(map[int]any{3: nil, 4: []any{nil, "embed"}}), "params", object{}},
		{"trace headers", add(map[int]any{14: map[string]any{"traceparent": "00-1-2-01"}}), "external", "chatcmpl-1"},
		{"cache salt is no external id", add(map[int]any{7: "c"}), "external", "chatcmpl-1"},
		{"priority too large", add(map[int]any{13: int64(1) << 40}), "priority", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got recorder
			d := NewDecoder(&got)
			d.Message(requestMessage(typeAdd, c.payload))
			if len(got.inputs) != 1 || d.LastError() != nil {
				t.Fatalf("Message gave %v, error %v; want one ADD", got.inputs, d.LastError())
			}
			value := asJSON(t, got.inputs[0]["add"]).(object)[c.key]
			if diff := cmp.Diff(asJSON(t, c.want), value); diff != "" {
				t.Errorf("Message: %s (-want +got):\n%s", c.key, diff)
			}
		})
	}
}

// An ADD with a prompt so long that the cut is inside it: the id and the prompt's length
// are known.
func TestAddCutInPrompt(t *testing.T) {
	values := []any{"chatcmpl-1-0123abcd", make([]int, 5000), nil, map[string]any{}, nil, 5.5}
	for len(values) < 22 {
		values = append(values, nil)
	}
	payload := array(values...)
	m := requestMessage(typeAdd, payload)
	m.Parts[2].Data = payload[:1000]
	var got recorder
	d := NewDecoder(&got)
	d.Message(m)
	want := object{
		"side": "front-end", "id": "chatcmpl-1-0123abcd", "external": nil, "suffixed": true,
		"prompt_tokens": 5000, "params": object{}, "lora": nil, "priority": 0, "pooling": false,
	}
	if diff := cmp.Diff(asJSON(t, []any{object{"add": want}}), asJSON(t, got.inputs)); diff != "" {
		t.Errorf("Message gave (-want +got):\n%s", diff)
	}
	if c := d.Stats().Add; c != (Counts{Decoded: 1, Cut: 1}) || got.cuts != 1 {
		t.Errorf("Stats().Add = %+v, %d marked; want one cut", c, got.cuts)
	}
}

func TestWithoutIndex(t *testing.T) {
	for in, want := range map[string]string{
		"0_cmpl-1": "cmpl-1", "12_cmpl-1": "cmpl-1", "cmpl-1": "cmpl-1", "_x": "_x", "0x_1": "0x_1", "7": "7", "": "",
	} {
		if got := string(withoutIndex([]byte(in))); got != want {
			t.Errorf("withoutIndex(%q) = %q; want %q", in, got, want)
		}
	}
}

func ExampleSyntaxError() {
	d := NewDecoder(new(recorder))
	d.Message(requestMessage(typeAdd, array("id", nil, nil, nil, nil, nil, nil, raw{0xc1})))
	fmt.Println(d.LastError())
	// Output: decode vllm ADD: byte 10 of 11: unexpected form
}
