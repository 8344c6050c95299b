package ebpf

// Where the time of Open goes, for the log.

import (
	"context"
	"log/slog"
	"time"
)

// stopwatch notes how long the steps of Open take and logs them at level debug,
// as one line: where a start is slow, it says whether the kernel's verifier, its
// locks or the reading of its types is to blame. A nil stopwatch does nothing.
type stopwatch struct {
	out   *slog.Logger
	begun time.Time
	last  time.Time
	laps  []any // slog.Attr
}

// newStopwatch is nil where nobody would see its line.
func newStopwatch(log *slog.Logger) *stopwatch {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	now := time.Now()
	return &stopwatch{out: log, begun: now, last: now}
}

// lap ends a step.
func (w *stopwatch) lap(step string) {
	if w == nil {
		return
	}
	now := time.Now()
	w.laps = append(w.laps, slog.Duration(step, now.Sub(w.last)))
	w.last = now
}

func (w *stopwatch) log() {
	if w == nil {
		return
	}
	w.out.Debug("opened", "took", w.last.Sub(w.begun), slog.Group("steps", w.laps...))
}
