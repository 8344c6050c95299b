//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// nobody is the user that testdata/unprivileged.sh becomes.
const nobody = 65534

// unprivilegedParts returns the parts where that user can read them, and a folder of its own.
func unprivilegedParts(t *testing.T, p parts) (_ parts, home string) {
	t.Helper()
	dir := filepath.Join(workDir, "nobody")
	for _, d := range []string{dir, filepath.Join(dir, "vllm-cpu"), filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(workDir, 0o755); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(filepath.Dir(p.serve), "*"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/unprivileged.sh")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{p.instrument: "instrument", script: "unprivileged.sh"} {
		copyFile(t, from, filepath.Join(dir, to))
	}
	for _, from := range scripts {
		if fi, err := os.Stat(from); err == nil && fi.Mode().IsRegular() {
			copyFile(t, from, filepath.Join(dir, "vllm-cpu", filepath.Base(from)))
		}
	}
	home = filepath.Join(dir, "home")
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p.instrument, p.serve = filepath.Join(dir, "instrument"), filepath.Join(dir, "vllm-cpu", "serve.sh")
	return p, home
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutPrivileges runs instrument and vLLM where most people run it: as a user without
// any capability, in a shell script. What is seen must be what eBPF sees, and a killed agent
// or engine must change as little.
func TestWithoutPrivileges(t *testing.T) {
	p := need(t)
	plain := needPlain(t, p)
	ours := newReceiver(t)
	collector := startCollector(t, p, ours)
	mine, home := unprivilegedParts(t, p)
	recording, status := filepath.Join(home, "recording.rec"), filepath.Join(home, "status")
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}

	s := start(t, mine, how{
		instrument: []string{filepath.Join(filepath.Dir(home), "unprivileged.sh"), mine.instrument, "--record", recording, "--"},
		statusFile: status,
		env: append(collector.grpc, "HOME="+home, "TOKENSCOPE_CACHE="+cache, "OTEL_SERVICE_NAME=e2e",
			"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=2", "OTEL_BSP_SCHEDULE_DELAY=500"),
		flags: []string{"--enable-per-request-metrics"},
	})
	s.ready()
	answers := run(t, s.address)
	page := readCounters(t, get(t, s.address, "/metrics"))
	arrived(t, ours, answers)
	duringWorkload := ours.all(func(*span) bool { return true })

	t.Run("who runs it", func(t *testing.T) { checkUnprivileged(t, s) })
	t.Run("which backend", func(t *testing.T) {
		if line := lineWith(readAll(t, s.log), "watching by"); !strings.Contains(line, "preloaded library") || !strings.Contains(line, "CAP_BPF") {
			t.Errorf("the log says %q; want that the preloaded library watches, and what eBPF lacks", line)
		}
	})
	t.Run("trees", func(t *testing.T) { checkTrees(t, ours, answers) })
	t.Run("same answers as plain", func(t *testing.T) { checkTexts(t, plain.answers, answers) })
	t.Run("resource", func(t *testing.T) { checkResource(t, ours) })
	t.Run("token events", func(t *testing.T) { checkTokenEvents(t, ours) })
	t.Run("recording and metrics page", func(t *testing.T) {
		var lines []line
		eventually(t, recordLimit, "all requests are in the recording", func() bool {
			lines = readLines(t, replay(t, p, "requests", recording))
			return whole(lines, answers)
		})
		checkLines(t, lines, answers)
		checkMetrics(t, lines, answers)
		checkPage(t, page, lines, &receiver{spans: duringWorkload})
	})
	t.Run("helpers", func(t *testing.T) { checkInjected(t, s) })
	t.Run("agent killed under load", func(t *testing.T) { checkAgentKilled(t, s, ours) })
	t.Run("engine killed under load", func(t *testing.T) { checkEngineKilled(t, s, ours, status) })
}

// checkUnprivileged: neither instrument nor the agent nor the server can do anything that an
// ordinary user cannot.
func checkUnprivileged(t *testing.T, s *server) {
	t.Helper()
	for _, pid := range append(s.workload(), s.cmd.Process.Pid, s.agent(0)) {
		status := readAll(t, fmt.Sprintf("/proc/%d/status", pid))
		for _, want := range []string{
			"Uid:\t65534\t65534\t65534\t65534", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
			"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
		} {
			if !strings.Contains(status, want+"\n") {
				t.Errorf("process %d: no %q in its status", pid, want)
			}
		}
	}
}

// checkInjected: the server's Pythons carry the library; the agent, which is not the
// workload, does not.
func checkInjected(t *testing.T, s *server) {
	t.Helper()
	carries := func(pid int) bool {
		return strings.Contains(readAll(t, fmt.Sprintf("/proc/%d/maps", pid)), "tokenscope")
	}
	pythons := 0
	for _, p := range processes(func(p process) bool { return p.group == s.cmd.Process.Pid && p.pid != s.cmd.Process.Pid }) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
		if err != nil || !strings.Contains(filepath.Base(exe), "python") {
			continue
		}
		pythons++
		if !carries(p.pid) {
			t.Errorf("process %d %v does not carry the library", p.pid, p.argv)
		}
	}
	if pythons < 2 {
		t.Errorf("%d processes of Python found; want the API server and the engine core at least", pythons)
	}
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// TestBackendsAgree has the same requests to one server watched by both backends at once,
// one instrument inside the other, and compares all that they tell.
func TestBackendsAgree(t *testing.T) {
	p := need(t)
	plain := needPlain(t, p)
	recordings := map[string]string{"ebpf": filepath.Join(workDir, "both-ebpf.rec"), "preload": filepath.Join(workDir, "both-preload.rec")}
	s := start(t, p, how{
		instrument: []string{p.instrument, "--capture", "ebpf", "--record", recordings["ebpf"], "--",
			p.instrument, "--capture", "preload", "--record", recordings["preload"], "--"},
		flags: []string{"--enable-per-request-metrics"},
	})
	s.ready()
	answers := run(t, s.address)
	s.cmd.Process.Signal(unix.SIGTERM)
	if got := s.stopped(); got != plain.status {
		t.Errorf("exit status after SIGTERM: %s; plain vLLM: %s", got, plain.status)
	}
	checkTexts(t, plain.answers, answers)

	told := map[string]map[string]map[string]any{}
	trees := map[string][]string{}
	for backend, recording := range recordings {
		out := replay(t, p, "requests", recording)
		lines := readLines(t, out)
		checkLines(t, lines, answers)
		checkMetrics(t, lines, answers)
		told[backend] = rawLines(t, out)
		trees[backend] = treesOf(t, replay(t, p, "spans", recording))
	}
	var apart []float64
	for id, ebpf := range told["ebpf"] {
		preload := told["preload"][id]
		if preload == nil {
			t.Errorf("%s: told by eBPF only", id)
			continue
		}
		for _, key := range ownKeys {
			delete(ebpf, key)
			delete(preload, key)
		}
		if !slices.ContainsFunc(answers, func(a *answer) bool { return a.traceID != "" && a.traceID == ebpf["trace_id"] }) {
			delete(ebpf, "trace_id") // made up, the caller had none
			delete(preload, "trace_id")
		}
		apart = append(apart, takeTimes(t, ebpf, preload)...)
		if diff := cmp.Diff(ebpf, preload); diff != "" {
			t.Errorf("%s (-eBPF +preload):\n%s", id, diff)
		}
	}
	if len(told["ebpf"]) < len(answers)/2 || len(apart) == 0 {
		t.Fatalf("%d lines and %d times compared of %d answers", len(told["ebpf"]), len(apart), len(answers))
	}
	if diff := cmp.Diff(trees["ebpf"], trees["preload"]); diff != "" {
		t.Errorf("trees (-eBPF +preload):\n%s", diff)
	}
	slices.Sort(apart)
	median, largest := apart[len(apart)/2], apart[len(apart)-1]
	t.Logf("%d times at the sockets: apart by %.3f ms in the median, %.3f ms at most", len(apart), median, largest)
	if median > 0.5 {
		t.Errorf("the backends' times are apart by %.3f ms in the median; want 0.5 ms at most", median)
	}
}

// ownKeys are what each recording names by itself.
var ownKeys = []string{"record", "instance", "time"}

// takeTimes takes the times at the sockets out of two lines, and returns how far they are
// apart, in ms: each backend looks at its own clock. All that the engine says stays.
func takeTimes(t *testing.T, a, b map[string]any) []float64 {
	t.Helper()
	var apart []float64
	x, _ := a["http"].(map[string]any)
	y, _ := b["http"].(map[string]any)
	for key, v := range x {
		n, ok := v.(float64)
		m, ok2 := y[key].(float64)
		if ok != ok2 {
			t.Errorf("http.%s = %v by eBPF, %v by preload", key, v, y[key])
		} else if ok {
			apart = append(apart, math.Abs(n-m))
		}
	}
	delete(a, "http")
	delete(b, "http")
	for i, v := range sequences(a) {
		if w := sequences(b); i < len(w) {
			n, ok := v["e2e_ms"].(float64)
			m, ok2 := w[i]["e2e_ms"].(float64)
			if ok && ok2 {
				apart = append(apart, math.Abs(n-m))
				delete(v, "e2e_ms")
				delete(w[i], "e2e_ms")
			}
		}
	}
	return apart
}

func sequences(line map[string]any) (all []map[string]any) {
	list, _ := line["sequences"].([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// rawLines reads request lines by the response's id, else by the caller's trace.
func rawLines(t *testing.T, out []byte) map[string]map[string]any {
	t.Helper()
	byID := map[string]map[string]any{}
	for raw := range strings.Lines(string(out)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatalf("read line %.200q: %v", raw, err)
		}
		id, _ := m["id"].(string)
		if id == "" {
			id, _ = m["trace_id"].(string)
		}
		byID[id] = m
	}
	return byID
}

// clockKeys are the attributes that come from the backend's own clock, whose times
// takeTimes compares, and the key of the line.
var clockKeys = []string{"gen_ai.latency.e2e", "gen_ai.latency.time_to_first_token", "tokenscope.http.time_to_first_token", "tokenscope.record"}

// treesOf writes the spans of a replay as trees, with all attributes but ids and times of
// their own, sorted.
func treesOf(t *testing.T, out []byte) (trees []string) {
	t.Helper()
	type replayed struct {
		Name, Kind string
		Parent     *string `json:"parent_span_id"`
		ID         string  `json:"span_id"`
		Attributes map[string]any
		Status     map[string]any
	}
	children := map[string][]*replayed{}
	ids := map[string]bool{}
	var spans []*replayed
	for raw := range strings.Lines(string(out)) {
		s := &replayed{}
		if err := json.Unmarshal([]byte(raw), s); err != nil {
			t.Fatalf("read span %.200q: %v", raw, err)
		}
		spans = append(spans, s)
		ids[s.ID] = true
	}
	var roots []*replayed
	for _, s := range spans {
		// A parent that is the caller's is none here.
		if s.Parent != nil && ids[*s.Parent] {
			children[*s.Parent] = append(children[*s.Parent], s)
		} else {
			roots = append(roots, s)
		}
	}
	var write func(s *replayed, indent string) string
	write = func(s *replayed, indent string) string {
		for _, key := range clockKeys {
			delete(s.Attributes, key)
		}
		attributes, err := json.Marshal(s.Attributes) // sorts the keys
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s%s %s %v %s\n", indent, s.Kind, s.Name, s.Status, attributes)
		var below []string
		for _, c := range children[s.ID] {
			below = append(below, write(c, indent+"  "))
		}
		slices.Sort(below)
		return text + strings.Join(below, "")
	}
	for _, s := range roots {
		trees = append(trees, write(s, ""))
	}
	slices.Sort(trees)
	return trees
}
