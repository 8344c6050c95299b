package agent

// Which backend watches the workload.

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tokenscope/tokenscope/instrument/supervise"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf"
	"github.com/tokenscope/tokenscope/probes/preload"
)

// Backend names a way of watching.
type Backend string

// Backends. BackendAuto is eBPF where it proves that it sees, else the preloaded library.
const (
	BackendAuto    Backend = "auto"
	BackendEBPF    Backend = "ebpf"
	BackendPreload Backend = "preload"
)

// backends open what openSource chooses from; tests put others in their place.
type backends struct {
	ebpf    func(context.Context) (capture.Source, error)
	preload func(*os.File) (capture.Source, error)
}

func (o *Options) backends() backends {
	return backends{
		ebpf: o.openEBPF,
		preload: func(ring *os.File) (capture.Source, error) {
			s, err := preload.Open(ring, o.Preload)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// openEBPF opens the eBPF backend and has it prove that it sees.
func (o *Options) openEBPF(ctx context.Context) (capture.Source, error) {
	s, err := ebpf.Open(o.Ebpf)
	if err != nil {
		return nil, err
	}
	if o.Start > 1 {
		return s, nil // an agent before this one has had the answer
	}
	err = s.SelfTest(ctx)
	switch {
	case err == nil:
	case o.Backend == BackendEBPF && !ebpf.Kills(err):
		// Asked for by name it does what it can.
		o.Log.Warn("eBPF does not see all that it should", "error", withCure(err))
	default:
		// Beside: taking probes off takes the kernel a second, and the server waits for us.
		go func() {
			if cerr := s.Close(); cerr != nil {
				o.Log.Debug("close eBPF", "error", cerr)
			}
		}()
		return nil, err
	}
	return s, nil
}

// shimSide is what a supervise.AgentSide knows of the shim.
type shimSide interface {
	Shim() *os.File
	NoShim() error
}

var _ shimSide = (*supervise.AgentSide)(nil)

// openSource opens the one backend that watches, and tells the supervisor if the workload
// needs no shim for it. why is the line about the choice.
func openSource(ctx context.Context, want Backend, b backends, side shimSide) (_ capture.Source, why string, _ error) {
	if want == BackendPreload {
		s, err := b.openPreload(side.Shim())
		if err != nil {
			return nil, "", fmt.Errorf("watch by the preloaded library: %w", err)
		}
		return s, "watching by the preloaded library, as asked for", nil
	}
	s, err := b.ebpf(ctx)
	if err == nil {
		// An error means that the supervisor is gone or stopped; then nobody asks.
		_ = side.NoShim()
		if want == BackendEBPF {
			return s, "watching by eBPF, as asked for", nil
		}
		return s, "watching by eBPF", nil
	}
	err = withCure(err)
	if want == BackendEBPF {
		return nil, "", err
	}
	s, perr := b.openPreload(side.Shim())
	if perr != nil {
		return nil, "", fmt.Errorf("%w; nor by the preloaded library: %w", err, perr)
	}
	return s, fmt.Sprintf("watching by the preloaded library, because eBPF does not work here: %v", err), nil
}

// errNoShim is why a restarted agent cannot watch: the workload began without the library.
var errNoShim = errors.New("the workload runs without it")

func (b *backends) openPreload(ring *os.File) (capture.Source, error) {
	if ring == nil {
		return nil, errNoShim
	}
	return b.preload(ring)
}

// withCure adds what would help, where that is known.
func withCure(err error) error {
	if cure := ebpf.Cure(err); cure != "" {
		return fmt.Errorf("%w; %s", err, cure)
	}
	return err
}
