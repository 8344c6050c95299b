package vllm

import (
	"bytes"

	"github.com/tokenscope/tokenscope/instrument/request"
)

// Most of what an engine sends was there before. The fields behind an output's tokens
// are the same for all outputs but a request's first and last, and a step's statistics
// come at least twice: as the core sends them and as the front-end receives them.
//
// A msgpack value tells by itself where it ends, so that bytes which begin with all the
// bytes of an earlier value begin with that value. Comparing is therefore as exact as
// decoding again, and a fraction of the work.

const (
	// maxPlain bounds the fields that are remembered: those that say nothing are a byte
	// each, mostly.
	maxPlain = 64
	// maxSchedulerStats bounds the statistics that are remembered; they have 550 bytes in
	// vLLM 0.32.
	maxSchedulerStats = 4 << 10
)

// plainFields are the fields behind an output's tokens that said nothing.
type plainFields struct {
	fields int // of the output
	raw    []byte
}

// skip passes over such fields of an output of n fields, and reports whether c is at them.
func (p *plainFields) skip(c *cursor, n int) bool {
	if n != p.fields || !bytes.HasPrefix(*c, p.raw) {
		return false
	}
	*c = (*c)[len(p.raw):]
	return true
}

// learn remembers the fields of o, which has n, if they say nothing.
func (p *plainFields) learn(o *request.Output, n int, raw []byte) {
	if o.Finish == request.FinishNone && o.Events == nil && o.Cached < 0 && o.Prompt < 0 && !o.Pooling && o.Spec == nil && len(raw) <= maxPlain {
		p.fields, p.raw = n, append(p.raw[:0], raw...)
	}
}

// schedulerStats are the last statistics and what they said.
type schedulerStats struct {
	raw              []byte // empty: none are known
	running, waiting int
}

// skip passes over the same statistics, and reports whether c is at them.
func (s *schedulerStats) skip(c *cursor) bool {
	if len(s.raw) == 0 || !bytes.HasPrefix(*c, s.raw) {
		return false
	}
	*c = (*c)[len(s.raw):]
	return true
}

func (s *schedulerStats) learn(raw []byte, running, waiting int) {
	if len(raw) <= maxSchedulerStats {
		s.raw, s.running, s.waiting = append(s.raw[:0], raw...), running, waiting
	}
}
