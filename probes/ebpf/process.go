package ebpf

import (
	"time"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// Process is a process of the workload, as WantReceives is asked about it.
type Process = backend.Process

// DefaultWantReceives is true for processes of vLLM and their children.
func DefaultWantReceives(p Process) bool { return backend.DefaultWantReceives(p) }

// process is what the source remembers of a process.
type process struct {
	Process
	wanted bool
	// expected says that the libzmq which it will probably load is known and probed
	// already; settled, that it has been seen in its maps: nothing is looked for
	// any more.
	expected, settled bool
	since             int64 // CLOCK_MONOTONIC of its exec
	next              int64 // when its maps are looked at again
	looks             int
	// receives are the probes on zmq_msg_recv for this process, by library.
	receives map[*library]*attachment
}

// detach gives up the probes for receiving, beside the goroutine that empties the
// ring: the kernel takes a tenth of a second for each, and others wait meanwhile.
func (s *Source) detach(p *process) {
	for _, a := range p.receives {
		s.aside.Go(func() {
			<-a.done
			s.detaching <- struct{}{}
			defer func() { <-s.detaching }()
			// A probe on a process that is gone is gone as well: no error matters.
			closeAll(a.links)
		})
	}
	p.receives = nil
}

// maxProcesses bounds the agent's table, as the kernel's table is bounded.
const maxProcesses = backend.MaxProcesses

// lookDelay is how long to wait before maps are looked at again. A server imports
// pyzmq seconds to a minute after its start; looking costs the agent about a
// millisecond on a large process.
func lookDelay(looks int, age time.Duration) time.Duration {
	switch {
	case looks < 6:
		return 20 * time.Millisecond << looks // 20 ms … 640 ms
	case age < 3*time.Minute:
		return time.Second
	case age < 15*time.Minute:
		return 10 * time.Second
	default:
		return time.Minute
	}
}
