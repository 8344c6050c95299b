package redact

import "bytes"

// vLLM's request types: the frame before the payload (vllm/v1/engine/__init__.py,
// EngineCoreRequestType). In 0.8.2 a UTILITY has type 2; both are blanked.
const (
	typeAdd   = 0
	typeAbort = 1
	typeLast  = 5
)

// sentinels are frames that are whole messages: a greeting and an engine's last word.
var sentinels = [][]byte{[]byte("ENGINE_CORE_DEAD"), []byte("READY"), []byte("HELLO")}

// maxIdentity is the longest socket identity that stays; vLLM's is the engine's rank in
// two bytes.
const maxIdentity = 2

type partState uint8

const (
	partFirst   partState = iota // of a message
	partSecond                   // behind an identity
	partPayload                  // behind a request's type
	partRest                     // tensors
	partLost                     // up to a part that ends its message
)

// zmqSide is one direction of a ZeroMQ socket.
type zmqSide struct {
	state partState
	last  uint64 // Seq of the last event
	kind  byte   // the request's type
}

// lose makes everything unknown up to the end of a message.
func (z *zmqSide) lose() { z.state = partLost }

// part overwrites one part: head, and tail where bytes between them were not captured.
func (z *zmqSide) part(head, tail []byte, cut, more bool) {
	state := z.state
	z.state = partRest
	switch {
	case state == partLost:
		z.state = partLost
		fill(head, 0)
	case state == partRest:
		fill(head, 0)
	case state == partPayload && !(more && !cut && len(head) == 1):
		z.payload(head, cut)
	case cut:
		z.message(head, true)
	case more && len(head) == maxIdentity:
		// An identity; again where a send that could not proceed was tried again.
		z.state = partSecond
	case more && len(head) == 1 && head[0] <= typeLast:
		z.state, z.kind = partPayload, head[0]
	case more && len(head) == 0:
		z.state = state // a delimiter
	default:
		z.message(head, false)
	}
	// Nothing can be read from the end of msgpack.
	fill(tail, 0)
	if !more {
		z.state = partFirst
	}
}

// payload redacts what follows a request's type.
func (z *zmqSide) payload(p []byte, cut bool) {
	switch z.kind {
	case typeAdd:
		redactPack(p, cut, (*pack).add)
	case typeAbort:
		redactPack(p, cut, (*pack).ids)
	default:
		redactPack(p, cut, (*pack).blank)
	}
}

// message redacts a part that has no type before it.
func (z *zmqSide) message(p []byte, cut bool) {
	for _, s := range sentinels {
		if bytes.Equal(p, s) {
			return
		}
	}
	if len(p) == 0 {
		return
	}
	if b := p[0]; b&0xf0 == 0x80 || b == 0xde || b == 0xdf {
		redactPack(p, cut, (*pack).ready)
		return
	}
	redactPack(p, cut, (*pack).step)
}

// redactPack overwrites a msgpack message. What is not understood to its end, or to
// the cut, goes as a whole.
func redactPack(p []byte, cut bool, by func(*pack) bool) {
	c := pack{p: p}
	if by(&c) && c.i == len(p) && !cut || c.short && cut {
		return
	}
	fill(p, 0)
}
