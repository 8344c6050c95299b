package ebpf

import (
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"time"

	"github.com/cilium/ebpf"
)

// Limits and defaults of Options.
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
	// DefaultPoll is short enough that a reader of the output notices no delay and
	// long enough that an idle agent costs nothing.
	DefaultPoll = 50 * time.Millisecond
)

// Options say what to watch and how much of it to keep. The zero value watches
// the children of this process's parent, with the defaults above.
type Options struct {
	// Root is the pid whose children are the workload, itself excluded: this
	// process or one of its ancestors. 0 means this process's parent; then an
	// agent whose parent has just died would watch the children of whoever
	// inherited it, so a caller that knows the pid should say it.
	Root int
	// HeadBytes and TailBytes are how much is captured of a piece of HTTP that is
	// longer than both together, and of a frame longer than FrameBytes.
	HeadBytes, TailBytes int
	// FrameBytes is up to which length a ZeroMQ frame is captured whole: what lies
	// behind a cut in an engine's message cannot be read.
	FrameBytes int
	// RingBytes is the size of the kernel's ring, rounded up to a power of two.
	RingBytes int
	// Poll is the longest time between two looks at the ring.
	Poll time.Duration
	// Log gets one line for each feature that is lost, and for what is attached at
	// level debug. nil: slog.Default.
	Log *slog.Logger
	// WantReceives says of a process whether the frames that it receives are
	// wanted too. nil: DefaultWantReceives.
	WantReceives func(Process) bool

	// For tests: what a kernel without tracefs, or one that refuses a program,
	// would be like.
	withoutTracefs bool
	edit           func(*ebpf.CollectionSpec)
	perfEvents     bool // as on kernels without uprobe_multi
}

// withDefaults returns o with every field set, or an error that names the field
// that makes no sense.
func (o Options) withDefaults() (Options, error) {
	if o.HeadBytes == 0 && o.TailBytes == 0 {
		o.HeadBytes, o.TailBytes = DefaultHeadBytes, DefaultTailBytes
	}
	if o.FrameBytes == 0 {
		o.FrameBytes = DefaultFrameBytes
	}
	if o.RingBytes == 0 {
		o.RingBytes = DefaultRingBytes
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.WantReceives == nil {
		o.WantReceives = DefaultWantReceives
	}
	switch {
	case o.Root < 0:
		return o, fmt.Errorf("root pid %d is negative", o.Root)
	case o.HeadBytes < 1 || o.TailBytes < 1 || o.HeadBytes+o.TailBytes > MaxCaptureBytes:
		return o, fmt.Errorf("head %d and tail %d bytes: each must be at least 1, both together at most %d", o.HeadBytes, o.TailBytes, MaxCaptureBytes)
	case o.FrameBytes < 0 || o.FrameBytes > MaxFrameBytes:
		return o, fmt.Errorf("frame size %d is not between 0 and %d", o.FrameBytes, MaxFrameBytes)
	case o.Poll < 0:
		return o, fmt.Errorf("poll interval %v is negative", o.Poll)
	case o.RingBytes < 0 || o.RingBytes > 1<<30:
		return o, fmt.Errorf("ring size %d is out of range", o.RingBytes)
	}
	// The kernel wants a power of two of whole pages.
	o.RingBytes = max(o.RingBytes, os.Getpagesize())
	o.RingBytes = 1 << bits.Len(uint(o.RingBytes-1))
	return o, nil
}
