package vllm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestDecoderRemembersNoMeaning decodes messages, whole and cut, with a decoder that has
// seen others before, and with a new one: what came before must not change what a message
// says.
func TestDecoderRemembersNoMeaning(t *testing.T) {
	var steps []sample
	for _, s := range samples(t) {
		if s.Want["step"] != nil {
			steps = append(steps, s)
		}
	}
	backwards := slices.Clone(steps)
	slices.Reverse(backwards)
	var used recorder
	d := NewDecoder(&used)
	conn := uint64(100)
	for i, s := range slices.Concat(steps, backwards, steps[:1], steps) {
		n := len(s.Parts[s.payload()])
		for _, cut := range []int{n, n, n - 9, n / 2, n} {
			var fresh recorder
			used = recorder{}
			m := s.cutTo(max(cut, 0), 0)
			// On another socket, or it would be taken for a repeated send.
			conn++
			m.Conn = conn
			NewDecoder(&fresh).Message(m)
			d.Message(m)
			if diff := cmp.Diff(fresh.inputs, used.inputs); diff != "" {
				t.Fatalf("%s/%s, %d of %d bytes, as number %d (-new decoder +used one):\n%s", s.Release, s.Name, cut, n, i, diff)
			}
		}
	}
}

// TestPlainFields: the fields of one output are taken for those of the next only where
// they are the same.
func TestPlainFields(t *testing.T) {
	plain := func(id string, edit map[int]any) []any {
		fields := map[int]any{0: id, 1: []any{7}, 13: 0}
		for i, v := range edit {
			fields[i] = v
		}
		return output(18, fields)
	}
	var got recorder
	NewDecoder(&got).Message(recv(capture.SocketPull, step(1.5,
		plain("a", nil),
		plain("b", nil),
		plain("c", map[int]any{5: 1}),
		plain("d", map[int]any{7: []any{map[string]any{"type": 2, "timestamp": 1.25}}}),
		plain("e", map[int]any{11: map[string]any{"num_cached_tokens": 4, "num_prompt_tokens": 5}}),
		plain("f", nil),
		plain("g", map[int]any{13: 3}),
		output(17, map[int]any{0: "h", 1: []any{7, 8}}),
		plain("i", nil),
	)))
	want := []string{
		"a: 1 tokens, finish -1, 0 events, cached -1, prompt -1",
		"b: 1 tokens, finish -1, 0 events, cached -1, prompt -1",
		"c: 1 tokens, finish 1, 0 events, cached -1, prompt -1",
		"d: 1 tokens, finish -1, 1 events, cached -1, prompt -1",
		"e: 1 tokens, finish -1, 0 events, cached 4, prompt 5",
		"f: 1 tokens, finish -1, 0 events, cached -1, prompt -1",
		"g: 1 tokens, finish -1, 0 events, cached -1, prompt -1",
		"h: 2 tokens, finish -1, 0 events, cached -1, prompt -1",
		"i: 1 tokens, finish -1, 0 events, cached -1, prompt -1",
	}
	var have []string
	for _, o := range stepOutputs(&got) {
		o := o.(object)
		have = append(have, fmt.Sprintf("%v: %v tokens, finish %v, %d events, cached %v, prompt %v",
			o["id"], o["tokens"], o["finish"], len(o["events"].([]any)), o["cached"], o["prompt"]))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// TestFixedBytes holds the table of lengths against msgp's own reader.
func TestFixedBytes(t *testing.T) {
	for lead := range 256 {
		n := fixedBytes[lead]
		b := append([]byte{byte(lead)}, bytes.Repeat([]byte{1}, 64)...)
		rest, err := msgp.Skip(b)
		switch {
		case n == 0:
			continue // read by its form
		case err != nil || len(b)-len(rest) != int(n):
			t.Errorf("fixedBytes[%#x] = %d; msgp reads %d bytes, %v", lead, n, len(b)-len(rest), err)
		}
		c := cursor(b[:n-1])
		if err := c.skip(); err != errShort {
			t.Errorf("skip() of %d of %d bytes with lead %#x = %v; want %v", n-1, n, lead, err, errShort)
		}
	}
}

// A hostile message must not make the decoder keep much.
func TestRepeatIsBounded(t *testing.T) {
	d := NewDecoder(new(recorder))
	long := map[string]any{}
	for i := range 2000 {
		long[string(rune('a'+i%26))+string(rune('a'+i/26))] = i
	}
	d.Message(recv(capture.SocketPull, array(0, []any{output(18, map[int]any{0: "a", 1: []any{1}, 2: string(make([]byte, 200))})}, long, 1.5, nil, nil, nil, nil)))
	if d.Stats().Outputs.Decoded != 1 || cap(d.plain.raw) > maxPlain || cap(d.scheduler.raw) > 2*maxSchedulerStats {
		t.Errorf("stats %+v, %d and %d bytes kept; want at most %d and %d", d.Stats().Outputs, cap(d.plain.raw), cap(d.scheduler.raw), maxPlain, 2*maxSchedulerStats)
	}
	var p plainFields
	p.learn(&request.Output{Finish: request.FinishNone, Cached: -1, Prompt: -1}, 18, make([]byte, maxPlain+1))
	if c := cursor(make([]byte, 2*maxPlain)); p.skip(&c, 18) {
		t.Errorf("skip() = true for fields longer than %d; want them decoded", maxPlain)
	}
}
