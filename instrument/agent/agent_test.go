package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// source delivers events of a recording to an agent, as a live one does.
type source struct{ events []capture.Event }

func (s *source) Run(_ context.Context, sink func(*capture.Event)) error {
	for i := range s.events {
		sink(&s.events[i])
	}
	return nil
}

func (s *source) Close() error { return nil }

// observe runs an agent over events and returns what it prints.
func observe(t *testing.T, o Options, events []capture.Event) (stderr, log string) {
	t.Helper()
	var out, logged bytes.Buffer
	o.Stderr, o.Log = &out, slog.New(slog.NewTextHandler(&logged, nil))
	o.Export.Console, o.Export.Log = &out, o.Log
	a, err := newAgent(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.run(t.Context(), &source{events}); err != nil {
		t.Fatal(err)
	}
	return out.String(), logged.String()
}

func TestAgentShowsASummaryWhereNothingElseShowsAnything(t *testing.T) {
	_, events := load(t, "vllm-0.32.0")
	file := filepath.Join(t.TempDir(), "r.tsrec")
	out, log := observe(t, Options{Record: file}, events)
	if !strings.Contains(out, "30 requests") || !strings.Contains(log, "no exporter is set") {
		t.Errorf("printed %.300s, logged %.300s; want a summary and why", out, log)
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
		t.Errorf("recording: %v, %v; want one", info, err)
	}
	out, _ = observe(t, Options{Export: otlp.Config{Exporters: []string{otlp.ExporterConsole}}}, events)
	if strings.Contains(out, "30 requests") || !strings.Contains(out, "llm_request") {
		t.Errorf("printed %.300s; want trees and no summary", out)
	}
	if _, log = observe(t, Options{}, nil); !strings.Contains(log, "no requests were seen") {
		t.Errorf("logged %q; want that nothing was seen", log)
	}
}

func TestAgentSaysWhatItMeets(t *testing.T) {
	exec := func(args ...string) capture.Event {
		data := []byte(strings.Join(args, "\x00") + "\x00")
		return capture.Event{Kind: capture.KindExec, Time: 1, PID: 7, Len: len(data), Data: data}
	}
	lost := capture.Event{Kind: capture.KindLost, Time: 2, Len: 5, Cause: capture.LostRingFull}
	console := Options{Export: otlp.Config{Exporters: []string{otlp.ExporterConsole}}}
	for name, c := range map[string]struct {
		events []capture.Event
		want   string
		times  int
	}{
		"the server's own tracing, once": {[]capture.Event{exec("vllm", "serve", "m", "--otlp-traces-endpoint", "x"), exec("vllm", "--otlp-traces-endpoint=x")}, "reported twice", 1},
		"no tracing of its own":          {[]capture.Event{exec("vllm", "serve", "m")}, "reported twice", 0},
		"losses":                         {[]capture.Event{lost, lost}, "count=10", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, log := observe(t, console, c.events); strings.Count(log, c.want) != c.times {
				t.Errorf("log has %q %d times; want %d:\n%s", c.want, strings.Count(log, c.want), c.times, log)
			}
		})
	}
}

// A process that sent outputs and ends takes its requests with it.
func TestPipelineEngineExit(t *testing.T) {
	h, events := load(t, "vllm-0.32.0")
	var core uint32
	cut := len(events)
	for i, e := range events {
		if e.Kind == capture.KindSend && e.Socket == capture.SocketPush && core == 0 {
			core = e.PID
		}
		if bytes.Contains(e.Data, []byte("disconnect")) && e.Kind == capture.KindRead {
			cut = i + 40 // some of the stream's tokens are out
			break
		}
	}
	cutEvents := append(events[:cut:cut], capture.Event{Kind: capture.KindExit, Time: events[cut].Time, PID: core})
	dead := 0
	for _, l := range run(t, h, cutEvents).lines {
		if l.ErrorType != nil && *l.ErrorType == "engine_dead" {
			dead++
		}
	}
	if dead != 1 {
		t.Errorf("%d requests say engine_dead; want the one that was running", dead)
	}
}

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
