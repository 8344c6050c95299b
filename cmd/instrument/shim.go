package main

// The preload backend's half that belongs to the supervisor: the ring, and the library
// that the workload is to carry.

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/tokenscope/tokenscope/instrument/settings"
	"github.com/tokenscope/tokenscope/instrument/supervise"
	"github.com/tokenscope/tokenscope/probes/preload"
)

// shim is what supervise.Options.Shim asks for.
type shim struct{ ring *preload.Ring }

// newShim makes the ring, if the settings may need one. Where it cannot be made there is
// an error only for a user who has asked for it.
func newShim(s *settings.Settings) (*shim, error) {
	if s.Capture != settings.CaptureAuto && s.Capture != settings.CapturePreload {
		return nil, nil
	}
	ring, err := preload.Create(preload.RingOptions{
		HeadBytes: s.HeadBytes, TailBytes: s.TailBytes, FrameBytes: s.FrameBytes, RingBytes: s.RingBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("the preloaded library cannot be used: %w", err)
	}
	return &shim{ring}, nil
}

func (s *shim) File() *os.File { return s.ring.File() }

func (s *shim) Inject(env []string) ([]string, error) {
	if err := s.ring.Reserve(); err != nil {
		return nil, err
	}
	library, err := preload.Unpack(nil)
	if err != nil {
		return nil, err
	}
	return s.ring.Inject(env, library.Path)
}

func (s *shim) Abandon() { s.ring.Deactivate() }

// close takes the ring's file away, where it has a name. Before it nothing may end this
// process that lets it choose.
func (s *shim) close(log *slog.Logger) {
	if err := s.ring.Close(); err != nil {
		log.Debug("close ring", "error", err)
	}
}

var _ supervise.Shim = (*shim)(nil)
