package vllm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestDecoderSamples decodes real messages of every release and compares with what
// vLLM's own library reads in them.
func TestDecoderSamples(t *testing.T) {
	for _, s := range samples(t) {
		for _, known := range []bool{true, false} {
			name := s.Release + "/" + s.Name
			m := s.message()
			if !known {
				name += "/socket type unknown"
				m.Socket = capture.SocketUnknown
			}
			t.Run(name, func(t *testing.T) {
				var got recorder
				d := NewDecoder(&got)
				d.Message(m)
				checkSample(t, &s, d, &got, known)
			})
		}
	}
}

// checkSample compares what one message of a sample gave with what it says.
func checkSample(t *testing.T, s *sample, d *Decoder, got *recorder, socketKnown bool) {
	t.Helper()
	stats := d.Stats()
	if len(got.gaps) != 0 || d.LastError() != nil {
		t.Errorf("Message gave %d gaps and error %v; want none", len(got.gaps), d.LastError())
	}
	if got.cuts != 0 {
		t.Errorf("Message marked a whole message as cut")
	}
	switch {
	case s.Want["control"] != nil:
		if stats.Control != 1 || len(got.inputs) != 0 {
			t.Errorf("Message gave %v, stats %+v; want it counted as control", got.inputs, stats)
		}
	case s.Want["handshake"] != nil:
		if len(got.inputs) != 0 || socketKnown && stats.Handshake != 1 {
			t.Errorf("Message gave %v, stats %+v; want it counted as handshake", got.inputs, stats)
		}
	default:
		if diff := cmp.Diff(asJSON(t, []any{s.Want}), asJSON(t, got.inputs)); diff != "" {
			t.Errorf("Message gave (-want +got):\n%s", diff)
		}
	}
}

// TestAddPositionsAgree holds the table of releases against what is guessed without it.
func TestAddPositionsAgree(t *testing.T) {
	checked := 0
	for _, s := range samples(t) {
		if s.Want["add"] == nil {
			continue
		}
		checked++
		fields, total := fieldsOf(t, s.Parts[s.payload()])
		table, ok := layoutPositions(fields, total)
		if !ok {
			t.Errorf("%s/%s: layoutPositions finds no layout for %d fields", s.Release, s.Name, total)
			continue
		}
		guess := guessPositions(fields)
		// The priority cannot be told from the integers beside it, and a field that is
		// nil says nothing.
		table.priority = -1
		for _, p := range []*int{&table.prompt, &table.sampling, &table.pooling, &table.lora, &table.external} {
			if *p >= 0 && fields[*p].null() {
				*p = -1
			}
		}
		if table != guess {
			t.Errorf("%s/%s: guessPositions = %+v; table says %+v", s.Release, s.Name, guess, table)
		}
	}
	if checked == 0 {
		t.Fatal("no ADD in testdata")
	}
}

// fieldsOf splits an ADD into its fields.
func fieldsOf(t *testing.T, payload []byte) ([]field, int) {
	t.Helper()
	c := cursor(payload)
	total, err := c.array()
	if err != nil {
		t.Fatal(err)
	}
	var fields []field
	for range total {
		kind := c.kind()
		raw, err := c.take()
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, field{kind: kind, raw: raw})
	}
	return fields, total
}
