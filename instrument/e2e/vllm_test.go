//go:build e2e

package e2e

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// spanLimit is how long a span may take from the end of its request to the receiver: the
// agent empties its buffer every 50 ms and exports every second.
const spanLimit = 10 * time.Second

// recordLimit is how far a recording that is being written may be behind.
const recordLimit = 15 * time.Second

// plain is what vLLM does without instrument, to compare with.
type plain struct {
	// status is how it ends when it is told to. vLLM 0.32.0 handles SIGTERM and SIGINT alike.
	status  string
	answers []*answer
}

// needPlain runs a plain server, once.
func needPlain(t *testing.T, p parts) plain {
	t.Helper()
	plainOnce.Do(func() {
		s := start(t, p, how{})
		s.ready()
		answers := run(t, s.address)
		s.cmd.Process.Signal(unix.SIGTERM)
		plainRun = plain{status: s.stopped(), answers: answers}
		t.Logf("plain vLLM ends with: %s", plainRun.status)
	})
	if plainRun.status == "" {
		t.Fatal("the plain server failed (see the first test)")
	}
	return plainRun
}

var (
	plainOnce sync.Once
	plainRun  plain
)

// TestWithEngineTracing runs vLLM in a terminal with everything on that says more about a
// request: its per-request metrics and its own tracing.
func TestWithEngineTracing(t *testing.T) {
	p := need(t)
	plain := needPlain(t, p)
	ours, native := newReceiver(t), newReceiver(t)
	collector := startCollector(t, p, ours)
	recording := filepath.Join(workDir, "with-engine-tracing.rec")

	s := start(t, p, how{
		terminal:   true,
		instrument: []string{p.instrument, "--capture", "ebpf", "--record", recording},
		env: append(collector.grpc, "OTEL_SERVICE_NAME=e2e",
			"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=1", "OTEL_BSP_SCHEDULE_DELAY=500"),
		flags: []string{"--enable-per-request-metrics", "--otlp-traces-endpoint", "http://" + native.address},
	})
	s.ready()
	answers := run(t, s.address)
	arrived(t, ours, answers)

	t.Run("trees", func(t *testing.T) { checkTrees(t, ours, answers) })
	t.Run("same answers as plain", func(t *testing.T) { checkTexts(t, plain.answers, answers) })
	t.Run("resource", func(t *testing.T) { checkResource(t, ours) })
	t.Run("vLLM's own spans", func(t *testing.T) {
		want := 0
		for _, a := range answers {
			if a.stopAfter == 0 {
				want += a.sequences
			}
		}
		isRequest := func(s *span) bool { return s.Name == "llm_request" }
		eventually(t, spanLimit, "vLLM's own spans", func() bool { return len(native.all(isRequest)) >= want })
		checkNative(t, ours, native, answers)
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		s.interrupt()
		if got := s.stopped(); got != plain.status {
			t.Errorf("exit status after Ctrl-C: %s; plain vLLM: %s", got, plain.status)
		}
		checkGone(t, s)
	})
	t.Run("warning", func(t *testing.T) { checkOwnTracingTold(t, s, 1) })
	t.Run("recording", func(t *testing.T) {
		out := replay(t, p, "requests", recording)
		lines := readLines(t, out)
		checkLines(t, lines, answers)
		checkMetrics(t, lines, answers)
		if again := replay(t, p, "requests", recording); !bytes.Equal(out, again) {
			t.Errorf("a second replay differs (-first +second):\n%s", cmp.Diff(string(out), string(again)))
		}
		if one, two := replay(t, p, "spans", recording), replay(t, p, "spans", recording); !bytes.Equal(one, two) || len(one) == 0 {
			t.Errorf("two replays into spans differ, or are empty (%d and %d bytes)", len(one), len(two))
		}
	})
}

// TestWithoutFlags runs vLLM as most people do, here from a shell script; what it says of
// itself is on /metrics. In the end first the agent is killed, then the engine.
func TestWithoutFlags(t *testing.T) {
	p := need(t)
	plain := needPlain(t, p)
	ours := newReceiver(t)
	collector := startCollector(t, p, ours)
	recording := filepath.Join(workDir, "without-flags.rec")
	status := filepath.Join(workDir, "without-flags.status")

	s := start(t, p, how{
		instrument: []string{p.instrument, "--capture=ebpf", "--record", recording, "--"},
		statusFile: status,
		env: append(collector.http, "ARMS_APP_NAME=e2e",
			"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=2", "OTEL_BSP_SCHEDULE_DELAY=500"),
	})
	s.ready()
	answers := run(t, s.address)
	page := readCounters(t, get(t, s.address, "/metrics"))
	arrived(t, ours, answers)
	duringWorkload := ours.all(func(*span) bool { return true })

	t.Run("trees", func(t *testing.T) { checkTrees(t, ours, answers) })
	t.Run("same answers as plain", func(t *testing.T) { checkTexts(t, plain.answers, answers) })
	t.Run("resource", func(t *testing.T) { checkResource(t, ours) })
	t.Run("token events", func(t *testing.T) { checkTokenEvents(t, ours) })
	t.Run("metrics page", func(t *testing.T) {
		// The recording is still being written, some seconds behind; what is in flight at its
		// end is incomplete.
		var lines []line
		eventually(t, recordLimit, "all requests are in the recording", func() bool {
			lines = readLines(t, replay(t, p, "requests", recording))
			return whole(lines, answers)
		})
		checkLines(t, lines, answers)
		checkPage(t, page, lines, &receiver{spans: duringWorkload})
	})
	t.Run("agent killed under load", func(t *testing.T) { checkAgentKilled(t, s, ours) })
	t.Run("engine killed under load", func(t *testing.T) { checkEngineKilled(t, s, ours, status) })
	t.Run("warning", func(t *testing.T) { checkOwnTracingTold(t, s, 0) })
}

// TestSIGTERM ends a server as a container's runtime does, right after an answer: its
// trace must still arrive.
func TestSIGTERM(t *testing.T) {
	p := need(t)
	plain := needPlain(t, p)
	ours := newReceiver(t)
	// This one is started by vLLM's Python module, behind "--".
	s := start(t, p, how{instrument: []string{p.instrument, "--"}, env: append(startCollector(t, p, ours).grpc, "VLLM_ENTRY=module")})
	s.ready()
	c := &client{address: s.address}
	last := c.do(call{name: "last", path: completionPath, body: completion("The end", 8), traceparent: true, sequences: 1})
	check(t, last)
	s.cmd.Process.Signal(unix.SIGTERM)
	if got := s.stopped(); got != plain.status {
		t.Errorf("exit status after SIGTERM: %s; plain vLLM: %s", got, plain.status)
	}
	checkGone(t, s)
	arrived(t, ours, []*answer{last})
	checkTrees(t, ours, []*answer{last})
}

// checkTexts: with temperature 0 the same requests get the same text, whoever looks on.
func checkTexts(t *testing.T, plain, answers []*answer) {
	t.Helper()
	for i, a := range answers {
		if a.stopAfter > 0 {
			continue // how much arrives before the client leaves is chance
		}
		if diff := cmp.Diff(plain[i].texts, a.texts); diff != "" {
			t.Errorf("%s: text (-plain +under instrument):\n%s", a.name, diff)
		}
		if diff := cmp.Diff(plain[i].usage, a.usage); diff != "" {
			t.Errorf("%s: usage (-plain +under instrument):\n%s", a.name, diff)
		}
	}
}

// checkResource: one service, named as asked, and the engine that it is, in all spans.
func checkResource(t *testing.T, r *receiver) {
	t.Helper()
	instances := map[any]bool{}
	for _, s := range r.all(func(*span) bool { return true }) {
		for key, want := range map[string]string{
			"service.name":              "e2e",
			"tokenscope.engine.name":    "vllm-v1",
			"tokenscope.engine.version": "0.32.0", // examples/vllm-cpu/common.sh
			"tokenscope.engine.model":   "tiny",
		} {
			if got := s.Resource[key]; got != want {
				t.Errorf("resource of %s: %s = %v; want %s", s.Name, key, got, want)
			}
		}
		if t.Failed() {
			return // one is enough
		}
		instances[s.Resource["service.instance.id"]] = true
	}
	if len(instances) != 1 || instances[nil] {
		t.Errorf("service.instance.id = %v; want one", instances)
	}
}

// checkOwnTracingTold: the log says that every request is reported twice so many times.
func checkOwnTracingTold(t *testing.T, s *server, want int) {
	t.Helper()
	const warning = "the server's own tracing is on as well"
	if got := strings.Count(readAll(t, s.log), warning); got != want {
		t.Errorf("%d lines in the log say %q; want %d", got, warning, want)
	}
}

// checkTokenEvents: at level 2 every llm_request has one scheduled event, then one a token
// step up to the limit.
func checkTokenEvents(t *testing.T, r *receiver) {
	t.Helper()
	const limit = 128
	for _, s := range r.all(func(s *span) bool { return s.Name == "llm_request" }) {
		tokens, _ := s.number("gen_ai.usage.completion_tokens")
		if len(s.Events) < 2 || len(s.Events) > limit || float64(len(s.Events)) > tokens+1 {
			t.Errorf("%s: %d events for %v tokens", s.text("gen_ai.request.id"), len(s.Events), tokens)
			continue
		}
		for i, name := range s.Events {
			want := "gen_ai.token.generated"
			if i == 0 {
				want = "gen_ai.token.scheduled"
			}
			if name != want {
				t.Errorf("%s: event %d is %s; want %s", s.text("gen_ai.request.id"), i, name, want)
				break
			}
		}
	}
}

// checkGone: nothing of the workload outlives it.
func checkGone(t *testing.T, s *server) {
	t.Helper()
	eventually(t, 10*time.Second, "all processes of the workload are gone", func() bool { return len(s.workload()) == 0 })
}

// logHasFailure reports a line of the server's log that tells of a failure.
func logHasFailure(log string) string {
	for line := range strings.Lines(log) {
		for _, word := range []string{"Traceback", "ERROR", "Exception"} {
			if strings.Contains(line, word) {
				return line
			}
		}
	}
	return ""
}
