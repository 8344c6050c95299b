package ebpf

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// Limits and defaults of Options; package backend says why they are what they are.
const (
	DefaultFrameBytes = backend.DefaultFrameBytes
	MaxFrameBytes     = backend.MaxFrameBytes
	DefaultHeadBytes  = backend.DefaultHeadBytes
	DefaultTailBytes  = backend.DefaultTailBytes
	MaxCaptureBytes   = backend.MaxCaptureBytes
	DefaultRingBytes  = backend.DefaultRingBytes
	DefaultPoll       = backend.DefaultPoll
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
	// The kernel wants a power of two of whole pages for its ring.
	limits, err := backend.Limits{HeadBytes: o.HeadBytes, TailBytes: o.TailBytes, FrameBytes: o.FrameBytes, RingBytes: o.RingBytes}.WithDefaults(os.Getpagesize())
	if err != nil {
		return o, err
	}
	o.HeadBytes, o.TailBytes, o.FrameBytes, o.RingBytes = limits.HeadBytes, limits.TailBytes, limits.FrameBytes, limits.RingBytes
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
	case o.Poll < 0:
		return o, fmt.Errorf("poll interval %v is negative", o.Poll)
	}
	return o, nil
}
