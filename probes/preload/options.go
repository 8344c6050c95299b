package preload

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// Options say what to watch. How much is captured says the ring: see RingOptions.
type Options struct {
	// Root is the pid whose children are the workload, itself excluded; it is used to
	// notice processes that are not seen. 0 means this process's parent.
	Root int
	// Poll is the longest time between two looks at the ring; 0: backend.DefaultPoll.
	Poll time.Duration
	// Log gets one line for each thing that is not seen. nil: slog.Default.
	Log *slog.Logger
	// WantReceives says of a process whether the frames that it receives are wanted
	// too. nil: backend.DefaultWantReceives.
	WantReceives func(backend.Process) bool

	// For tests: what a kernel without pidfds would be like.
	withoutPidfd bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Root == 0 {
		o.Root = os.Getppid()
	}
	if o.Poll == 0 {
		o.Poll = backend.DefaultPoll
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.WantReceives == nil {
		o.WantReceives = backend.DefaultWantReceives
	}
	switch {
	case o.Root < 0:
		return o, fmt.Errorf("root pid %d is negative", o.Root)
	case o.Poll < 0:
		return o, fmt.Errorf("poll interval %v is negative", o.Poll)
	}
	return o, nil
}
