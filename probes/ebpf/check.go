package ebpf

// What can be watched on this machine, for whoever asks without a workload:
//
//	ebpf.Check(ctx, options) Report

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Report is what Check found.
type Report struct {
	// Features are all that there are, in a fixed order. Cure(Feature.Err) may know
	// what helps.
	Features []Feature
	// Err is why eBPF capture is not to be used here, one line that wraps
	// ErrUnavailable; nil where it opens and its self-test has seen its own bytes. Lost
	// features that are not essential leave it nil.
	Err error
	// Slow is why HTTP is seen only by programs that every system call of the machine
	// passes, which slows it a little; nil where it is not so.
	Slow error
	// Opening and Testing are how long Open and SelfTest took; 0 where it did not come
	// to them.
	Opening, Testing time.Duration
}

// Check opens a Source for the children of this process, runs its self-test and closes
// it: nothing stays attached. It logs nothing, of o.Root and o.Log it takes no notice.
// It takes a second, nearly all of it for detaching.
func Check(ctx context.Context, o Options) (r Report) {
	o.Root, o.Log = os.Getpid(), slog.New(slog.DiscardHandler)
	o, err := o.withDefaults()
	if err != nil {
		return Report{Features: lostFor(nil, err), Err: fmt.Errorf("open ebpf capture: %w", err)}
	}
	s := newSource(o)
	begun := time.Now()
	if err := s.open(); err != nil {
		r.Err = fmt.Errorf("open ebpf capture: %w", err)
	} else {
		opened := time.Now()
		r.Opening = opened.Sub(begun)
		r.Err = s.SelfTest(ctx)
		r.Testing = time.Since(opened)
	}
	r.Features, r.Slow = lostFor(s.Features(), r.Err), s.slow
	if err := s.Close(); err != nil {
		r.Err = joinLine(r.Err, err)
	}
	return r
}

// joinLine is both errors in one line; the first may be nil.
func joinLine(err, other error) error {
	if err == nil {
		return other
	}
	return fmt.Errorf("%w; %w", err, other)
}

// lostFor completes the features that were come to by those that were not, which err
// is the reason for.
func lostFor(features []Feature, err error) []Feature {
	for _, f := range featureSpecs[len(features):] {
		features = append(features, Feature{Name: f.name, Lost: f.lost, Err: err})
	}
	return features
}
