package vllm

import (
	"reflect"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/stream"
)

// total is how many messages the counters account for.
func (s Stats) total() uint64 {
	n := s.Control + s.Handshake + s.Repeated + s.Unknown + s.Ready.Decoded + s.Ready.Failed + s.Dead.Decoded
	for _, c := range []Counts{s.Add, s.Outputs, s.Abort} {
		n += c.Decoded + c.Failed
	}
	return n
}

// decodeOnce decodes one message and checks what holds for any: it is counted once, and
// gives one input, or none and a gap if it failed.
func decodeOnce(t *testing.T, m *stream.Message) (*recorder, Stats) {
	t.Helper()
	got := new(recorder)
	d := NewDecoder(got)
	d.Message(m)
	stats := d.Stats()
	failed := stats.Add.Failed + stats.Outputs.Failed + stats.Abort.Failed
	if stats.total() != 1 || len(got.inputs) > 1 || uint64(len(got.gaps)) != failed || failed > 0 && len(got.inputs) > 0 {
		t.Fatalf("Message gave %d inputs and %d gaps, stats %+v", len(got.inputs), len(got.gaps), stats)
	}
	return got, stats
}

// pieces is the message with its last part cut to a head and a tail.
func pieces(m *stream.Message, head, tail int) *stream.Message {
	c := *m
	c.Parts = append([]stream.Part(nil), m.Parts...)
	p := &c.Parts[len(c.Parts)-1]
	n := p.Len
	head = min(head, n)
	tail = min(tail, n-head)
	p.Data = append(append([]byte(nil), p.Data[:head]...), p.Data[n-tail:n]...)
	p.Tail = tail
	return &c
}

func FuzzOutputs(f *testing.F) {
	for _, s := range samples(f) {
		if s.Want["step"] != nil || s.Socket == "PUSH" {
			f.Add(s.Parts[s.payload()], uint16(len(s.Parts[0])/2), uint16(9))
		}
	}
	f.Add([]byte(deadMessage), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, payload []byte, head, tail uint16) {
		m := recv(capture.SocketPull, payload)
		whole, _ := decodeOnce(t, m)
		cut, _ := decodeOnce(t, pieces(m, int(head), int(tail)))
		outputs := stepOutputs(whole)
		tokens := 0
		for _, o := range outputs {
			tokens += o.(object)["tokens"].(int)
		}
		if len(outputs) > len(payload) || tokens > len(payload) {
			t.Fatalf("Message gave %d outputs with %d tokens from %d bytes", len(outputs), tokens, len(payload))
		}
		before := stepOutputs(cut)
		if len(outputs) > 0 && (len(before) > len(outputs) || !reflect.DeepEqual(before, outputs[:len(before)])) {
			t.Fatalf("cut message gave outputs %v; the whole one %v", before, outputs)
		}
	})
}

func stepOutputs(r *recorder) []any {
	for _, in := range r.inputs {
		if s, ok := in["step"].(object); ok {
			return s["outputs"].([]any)
		}
	}
	return []any{}
}

func FuzzAdd(f *testing.F) {
	for _, s := range samples(f) {
		if s.Want["add"] != nil {
			payload := s.Parts[s.payload()]
			f.Add(payload, uint16(len(payload)/2), uint16(9))
		}
	}
	for i := range addLayouts {
		f.Add(addOf(&addLayouts[i]), uint16(60), uint16(0))
	}
	f.Fuzz(func(t *testing.T, payload []byte, head, tail uint16) {
		m := requestMessage(typeAdd, payload)
		whole, stats := decodeOnce(t, m)
		cut, _ := decodeOnce(t, pieces(m, int(head), int(tail)))
		if stats.Add.Decoded == 0 {
			return
		}
		add := whole.inputs[0]["add"].(object)
		if n := add["prompt_tokens"].(int); n > len(payload) || n < -1 {
			t.Fatalf("Message gave a prompt of %d tokens from %d bytes", n, len(payload))
		}
		if len(cut.inputs) == 1 && cut.inputs[0]["add"].(object)["id"] != add["id"] {
			t.Fatalf("cut message gave id %q; the whole one %q", cut.inputs[0]["add"].(object)["id"], add["id"])
		}
	})
}

// FuzzMessage tries any parts on any socket.
func FuzzMessage(f *testing.F) {
	for _, s := range samples(f) {
		parts := append(append([][]byte(nil), s.Parts...), nil, nil, nil)[:3]
		f.Add(len(s.Parts) > 2, byte(socketTypes[s.Socket]), byte(min(len(s.Parts), 3)), parts[0], parts[1], parts[2])
	}
	f.Fuzz(func(t *testing.T, sends bool, socket, n byte, a, b, c []byte) {
		m := send(capture.SocketType(int8(socket%13)-1), [][]byte{a, b, c}[:n%4]...)
		if !sends {
			m.Kind = capture.KindRecv
		}
		decodeOnce(t, m)
	})
}
