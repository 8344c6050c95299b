package backend

// How much is captured: the same by every way of watching.

import (
	"fmt"
	"math/bits"
	"time"
)

// Limits and defaults of what is captured.
const (
	// DefaultFrameBytes holds a step's outputs for 4,000 running requests.
	DefaultFrameBytes = 256 << 10
	// MaxFrameBytes bounds a frame's place in the ring.
	MaxFrameBytes = 4 << 20
	// DefaultHeadBytes and DefaultTailBytes hold of an HTTP request with a long prompt
	// its head, and what stands before and behind the prompt.
	DefaultHeadBytes = 16 << 10
	DefaultTailBytes = 4 << 10
	// MaxCaptureBytes bounds head and tail together: a piece must leave room for
	// others in the ring.
	MaxCaptureBytes = 64 << 10
	// DefaultRingBytes holds two seconds of a busy server at the default limits.
	DefaultRingBytes = 8 << 20
	// MaxRingBytes is far more than an agent that keeps up needs.
	MaxRingBytes = 1 << 30
	// DefaultPoll is short enough that a reader of the output notices no delay and
	// long enough that an idle agent costs nothing.
	DefaultPoll = 50 * time.Millisecond
)

// Limits are how much is captured. The zero value stands for the defaults.
type Limits struct {
	// HeadBytes and TailBytes are how much is captured of a piece of HTTP that is
	// longer than both together, and of a frame longer than FrameBytes.
	HeadBytes, TailBytes int
	// FrameBytes is up to which length a ZeroMQ frame is captured whole.
	FrameBytes int
	// RingBytes is the size of the ring; WithDefaults makes it a power of two.
	RingBytes int
}

// WithDefaults returns l with every field set and the ring of at least minRing bytes, or
// an error that names the field that makes no sense.
func (l Limits) WithDefaults(minRing int) (Limits, error) {
	if l.HeadBytes == 0 && l.TailBytes == 0 {
		l.HeadBytes, l.TailBytes = DefaultHeadBytes, DefaultTailBytes
	}
	if l.FrameBytes == 0 {
		l.FrameBytes = DefaultFrameBytes
	}
	if l.RingBytes == 0 {
		l.RingBytes = DefaultRingBytes
	}
	switch {
	case l.HeadBytes < 1 || l.TailBytes < 1 || l.HeadBytes > MaxCaptureBytes || l.TailBytes > MaxCaptureBytes-l.HeadBytes:
		return l, fmt.Errorf("head %d and tail %d bytes: each must be at least 1, both together at most %d", l.HeadBytes, l.TailBytes, MaxCaptureBytes)
	case l.FrameBytes < 0 || l.FrameBytes > MaxFrameBytes:
		return l, fmt.Errorf("frame size %d is not between 0 and %d", l.FrameBytes, MaxFrameBytes)
	case l.RingBytes < 0 || l.RingBytes > MaxRingBytes:
		return l, fmt.Errorf("ring size %d is not between 0 and %d", l.RingBytes, MaxRingBytes)
	}
	l.RingBytes = 1 << bits.Len(uint(max(l.RingBytes, minRing)-1))
	return l, nil
}
