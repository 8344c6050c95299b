package agent

// A redacted recording must be as good as the original: the same lines, without what
// people wrote.

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/redact"
)

func TestRedactedRecordingGivesTheSameLines(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			want := run(t, h, events)

			path := filepath.Join(t.TempDir(), "r.tsrec")
			w, err := capture.NewWriter(path, h, redact.New().Event)
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				w.Write(&events[i])
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rec, err := capture.OpenRecording(path)
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Close()
			var kept []capture.Event
			content := 0
			if err := rec.Run(context.Background(), func(e *capture.Event) {
				c := *e
				c.Data = bytes.Clone(e.Data)
				kept = append(kept, c)
				for _, word := range []string{"quick brown", "Hello world", "lazy dog"} {
					if bytes.Contains(c.Data, []byte(word)) {
						content++
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
			if content > 0 {
				t.Errorf("%d events of the recording still hold prompts", content)
			}
			got := run(t, h, kept)
			if len(got.lines) != len(want.lines) {
				t.Fatalf("%d lines from the redacted recording; want %d", len(got.lines), len(want.lines))
			}
			for i := range want.lines {
				if a, b := want.lines[i].raw, got.lines[i].raw; a != b {
					t.Errorf("line %d differs\n got %s\nwant %s", i, b, a)
				}
			}
			if len(want.lines) > 0 && !strings.Contains(want.lines[0].raw, `"v":1`) {
				t.Error("no lines were compared")
			}
		})
	}
}
