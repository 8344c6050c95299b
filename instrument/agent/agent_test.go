package agent

import "testing"

func TestRecordingPath(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		n    int
		want string
	}{
		"first agent":       {"run.tsrec", 1, "run.tsrec"},
		"unknown":           {"run.tsrec", 0, "run.tsrec"},
		"second agent":      {"/tmp/run.tsrec", 2, "/tmp/run.2.tsrec"},
		"without an ending": {"run", 3, "run.3"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := recordingPath(c.path, c.n); got != c.want {
				t.Errorf("recordingPath(%q, %d) = %q; want %q", c.path, c.n, got, c.want)
			}
		})
	}
}
