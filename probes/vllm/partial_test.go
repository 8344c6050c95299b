package vllm

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/probes/stream"
)

// cutTo makes the payload one of which only the first n bytes, and tail bytes of the end,
// were captured.
func (s *sample) cutTo(n, tail int) *stream.Message {
	m := s.message()
	p := &m.Parts[s.payload()]
	data := append([]byte(nil), p.Data[:n]...)
	p.Data = append(data, p.Data[len(p.Data)-tail:]...)
	p.Tail = tail
	return m
}

// stride takes every byte of a short message and about 300 places in a long one.
func stride(length int) int { return 1 + length/300 }

// TestCutMessages cuts every sample in many places: what is still said must be what the
// whole message says, and what is behind the cut must be said to be unknown.
func TestCutMessages(t *testing.T) {
	for _, s := range samples(t) {
		kind := "control"
		for k := range s.Want {
			kind = k
		}
		payload := s.Parts[s.payload()]
		for n := 0; n < len(payload); n += stride(len(payload)) {
			var got recorder
			d := NewDecoder(&got)
			d.Message(s.cutTo(n, 0))
			if len(got.inputs) == 0 {
				// Too little to know what it is; or enough to know that it is of no interest.
				continue
			}
			if len(got.inputs) > 1 || got.inputs[0][kind] == nil {
				t.Fatalf("%s/%s cut at %d: got %v; want one %s", s.Release, s.Name, n, got.inputs, kind)
			}
			if problem := contradiction(asJSON(t, got.inputs[0][kind]).(object), s.Want[kind].(object), &got); problem != "" {
				t.Fatalf("%s/%s cut at %d: %s", s.Release, s.Name, n, problem)
			}
			if len(got.gaps) > 0 {
				t.Fatalf("%s/%s cut at %d: a cut message that was handed on is no gap", s.Release, s.Name, n)
			}
		}
	}
}

// contradiction says where the input from a cut message differs from the whole one's in
// more than being unknown.
func contradiction(got, whole object, r *recorder) string {
	outputs, isStep := got["outputs"].([]any)
	if isStep {
		all := whole["outputs"].([]any)
		if len(outputs) > len(all) || !reflect.DeepEqual(outputs, all[:len(outputs)]) {
			return cmp.Diff(all, outputs)
		}
		if r.cuts == 0 && (len(outputs) < len(all) || got["timestamp_s"] == nil) {
			return "not marked as cut"
		}
	}
	if ids, ok := got["ids"].([]any); ok {
		all := whole["ids"].([]any)
		if len(ids) > len(all) || !reflect.DeepEqual(ids, all[:len(ids)]) {
			return cmp.Diff(all, ids)
		}
		delete(got, "ids")
	}
	// What each field says where it is not known; others must be right.
	unknown := object{
		"external": nil, "prompt_tokens": -1.0, "lora": nil, "priority": 0.0, "pooling": false,
		"running": -1.0, "waiting": -1.0, "version": "", "num_blocks": 0.0, "max_model_len": 0.0,
	}
	for key, value := range got {
		if key == "outputs" || reflect.DeepEqual(value, whole[key]) {
			continue
		}
		if key == "params" {
			for name, v := range value.(object) {
				if w := whole[key].(object)[name]; !reflect.DeepEqual(v, w) {
					return cmp.Diff(w, v)
				}
			}
			continue
		}
		if u, ok := unknown[key]; !ok || !reflect.DeepEqual(value, u) {
			return key + ": " + cmp.Diff(whole[key], value)
		}
	}
	return ""
}

// TestSeam: a part that was captured as head and tail is read as far as the head goes,
// even where the two happen to fit together.
func TestSeam(t *testing.T) {
	for _, s := range samples(t) {
		length := len(s.Parts[s.payload()])
		for n := 0; n < length; n += stride(length) {
			for _, tail := range []int{9, length - n - 1} {
				if tail < 0 || n+tail >= length {
					continue
				}
				var head, both recorder
				NewDecoder(&head).Message(s.cutTo(n, 0))
				NewDecoder(&both).Message(s.cutTo(n, tail))
				if !reflect.DeepEqual(head, both) {
					t.Fatalf("%s/%s: %d bytes of head gave %v; with %d bytes of tail %v", s.Release, s.Name, n, head, tail, both)
				}
			}
		}
	}
}

// TestTruncatedMessages: a message that says it is whole but ends early is handed on by
// no kind of decoder, and counted.
func TestTruncatedMessages(t *testing.T) {
	for _, s := range samples(t) {
		for n := range s.Parts[s.payload()] {
			var got recorder
			d := NewDecoder(&got)
			m := s.cutTo(n, 0)
			m.Parts[s.payload()].Len = n
			d.Message(m)
			stats := d.Stats()
			failed := stats.Add.Failed + stats.Outputs.Failed + stats.Abort.Failed
			other := stats.Ready.Failed + stats.Unknown + stats.Handshake + stats.Control
			if len(got.inputs) > 0 || failed+other != 1 {
				t.Fatalf("%s/%s ending at %d: got %v, stats %+v; want nothing, counted once", s.Release, s.Name, n, got.inputs, stats)
			}
			if uint64(len(got.gaps)) != failed {
				t.Fatalf("%s/%s ending at %d: %d gaps for %d failures", s.Release, s.Name, n, len(got.gaps), failed)
			}
			if failed > 0 && d.LastError() == nil {
				t.Fatalf("%s/%s ending at %d: LastError() = nil; want why", s.Release, s.Name, n)
			}
		}
	}
}
