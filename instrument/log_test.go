package instrument

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

func TestLogLines(t *testing.T) {
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"info has no word", func(l *slog.Logger) { l.Info("capture ready") }, "instrument: capture ready\n"},
		{"warning", func(l *slog.Logger) { l.Warn("lost", "events", 3) }, "instrument: warning: lost events=3\n"},
		{"error", func(l *slog.Logger) { l.Error("failed", "err", errors.New("no such file")) }, "instrument: error: failed err=\"no such file\"\n"},
		{"debug", func(l *slog.Logger) { l.Debug("x") }, "instrument: debug: x\n"},
		{"trace", func(l *slog.Logger) { l.Log(context.Background(), settings.LevelTrace, "x") }, "instrument: trace: x\n"},
		{"line feed and escape in the message", func(l *slog.Logger) { l.Info("a\n\x1b[2Jb \xff") }, "instrument: a\\n\\x1b[2Jb \\xff\n"},
		{"line feed in a value", func(l *slog.Logger) { l.Info("a", "k", "x\ny") }, "instrument: a k=\"x\\ny\"\n"},
		{"line feed in a key", func(l *slog.Logger) { l.Info("a", "k\n", 1) }, "instrument: a k\\n=1\n"},
		{"empty value", func(l *slog.Logger) { l.Info("a", "k", "") }, "instrument: a k=\"\"\n"},
		{"attributes of With come first", func(l *slog.Logger) { l.With("pid", 7).Info("a", "k", 1) }, "instrument: a pid=7 k=1\n"},
		{"groups", func(l *slog.Logger) { l.WithGroup("g").With("a", 1).Info("m", slog.Group("h", "b", 2)) }, "instrument: m g.a=1 g.h.b=2\n"},
		{"secret", func(l *slog.Logger) { l.Info("m", "key", settings.Secret("x")) }, "instrument: m key=****\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(NewLogger(&b, settings.LevelTrace))
			if got := b.String(); got != tt.want {
				t.Errorf("log line = %q; want %q", got, tt.want)
			}
		})
	}
}

func TestLogLevelOff(t *testing.T) {
	var b bytes.Buffer
	NewLogger(&b, settings.LevelOff).Error("x")
	if b.Len() > 0 {
		t.Errorf("log at level off = %q; want nothing", b.String())
	}
}

// writes counts calls of Write, which must not overlap and must hold one line each.
type writes struct {
	t *testing.T
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	if s := string(p); strings.Count(s, "\n") != 1 || !strings.HasSuffix(s, "\n") {
		w.t.Errorf("Write(%q): not one line", s)
	}
	return len(p), nil
}

func TestLogWritesWholeLines(t *testing.T) {
	w := &writes{t: t}
	log := NewLogger(w, slog.LevelInfo)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				log.With("a", 1).Info("m", "b", strings.Repeat("x", 50))
			}
		})
	}
	wg.Wait()
	if w.n != 800 {
		t.Errorf("%d writes; want one for each of 800 lines", w.n)
	}
}
