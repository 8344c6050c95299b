package redact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

var update = flag.Bool("update", false, "write golden files anew")

// recorded reads a recording of the form that testdata/README.md describes.
func recorded(t *testing.T, path string) []*capture.Event {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ops := map[string]capture.Kind{
		"send": capture.KindSend, "recv": capture.KindRecv, "open": capture.KindOpen,
		"read": capture.KindRead, "write": capture.KindWrite, "close": capture.KindClose,
	}
	conns := map[string]uint64{}
	var events []*capture.Event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Time           int64 `json:"t_ns"`
			PID            uint32
			Op, Sock, Conn string
			More           bool
			By             string
			Len            int
			Data           []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		key := l.Sock + l.Conn
		if conns[key] == 0 {
			conns[key] = uint64(len(conns) + 1)
		}
		events = append(events, &capture.Event{
			Kind: ops[l.Op], Time: l.Time, PID: l.PID, Conn: conns[key], More: l.More,
			Peer: l.By == "client", Len: l.Len, Data: l.Data,
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

func TestRealServer(t *testing.T) {
	dir := filepath.Join("testdata", "vllm-0.32.0")
	var got bytes.Buffer
	r := New()
	for _, e := range recorded(t, filepath.Join(dir, "events.jsonl")) {
		before := bytes.Clone(e.Data)
		out := r.Event(e)
		if !bytes.Equal(before, e.Data) {
			t.Fatalf("Event changed the original, %q", before)
		}
		if diff := cmp.Diff(withoutData(e), withoutData(out)); diff != "" || len(out.Data) != len(e.Data) {
			t.Fatalf("Event changed more than bytes: %s", diff)
		}
		fmt.Fprintf(&got, "%d %d %+q\n", out.Kind, out.Conn, out.Data)
	}
	if r.Lost() != 0 {
		t.Errorf("Lost() = %d; want 0: these are whole", r.Lost())
	}
	golden := filepath.Join(dir, "redacted.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("redacted recording differs (-want +got):\n%s", diff)
	}
	for _, text := range []string{"quick", "brown", "fox", "Hello world", "127.0.0.1", "ipc:///tmp", "does not exist"} {
		if strings.Contains(got.String(), text) {
			t.Errorf("redacted recording has %q", text)
		}
	}
	for _, text := range []string{
		"chatcmpl-fixture-1-", `\"id\":\"chatcmpl-fixture-1\"`, "X-Request-Id: fixture-1", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		`\"usage\":{\"prompt_tokens\":18,\"total_tokens\":30,\"completion_tokens\":12}`, `\"finish_reason\":\"length\"`, `\"type\":\"NotFoundError\"`,
		`\"model\":\"tiny\"`, "data: [DONE]", "event: response.completed", `\xa60.32.0`,
	} {
		if !strings.Contains(got.String(), text) {
			t.Errorf("redacted recording has no %q", text)
		}
	}
}

func withoutData(e *capture.Event) capture.Event {
	c := *e
	c.Data = nil
	return c
}

// Damage of every kind, to a real recording, never brings content back.
func TestRealServerDamaged(t *testing.T) {
	events := recorded(t, filepath.Join("testdata", "vllm-0.32.0", "events.jsonl"))
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 40 {
		r := New()
		seqs := map[string]uint64{}
		for _, e := range events {
			for _, part := range damage(rnd, e, round%4) {
				if part == nil {
					seqs[fmt.Sprint(e.Conn, e.Kind)]++ // lost, but counted
					continue
				}
				key := fmt.Sprint(e.Conn, e.Kind)
				seqs[key]++
				part.Seq = seqs[key]
				out := r.Event(part)
				if len(out.Data) != len(part.Data) || out.Tail != part.Tail || out.Len != part.Len {
					t.Fatalf("Event(%q) has %d bytes of %d, tail %d; want as before", part.Data, len(out.Data), out.Len, out.Tail)
				}
				for _, text := range []string{"quick", "brown", "Hello", "127.0.0.1", "ipc:///tmp", "does not"} {
					if bytes.Contains(out.Data, []byte(text)) {
						t.Fatalf("Event(%q) = %q; has %q", part.Data, out.Data, text)
					}
				}
			}
		}
	}
}

// damage splits, cuts or loses an event's bytes; nil is a lost event. Parts of ZeroMQ
// messages are not split: they come whole or cut.
func damage(rnd *rand.Rand, e *capture.Event, how int) []*capture.Event {
	stream := e.Kind == capture.KindRead || e.Kind == capture.KindWrite
	if len(e.Data) < 3 || rnd.IntN(3) == 0 {
		return []*capture.Event{clone(e, e.Data, e.Len, 0)}
	}
	at := 1 + rnd.IntN(len(e.Data)-1)
	split := []*capture.Event{clone(e, e.Data[:at], at, 0), clone(e, e.Data[at:], e.Len-at, 0)}
	switch {
	case how == 0 && stream:
		return split
	case how == 1 && stream && rnd.IntN(4) == 0:
		split[rnd.IntN(2)] = nil
		return split
	case how <= 2 && rnd.IntN(8) == 0:
		end := at + rnd.IntN(len(e.Data)-at)
		return []*capture.Event{clone(e, append(bytes.Clone(e.Data[:at]), e.Data[end:]...), e.Len, len(e.Data)-end)}
	case how == 3 && rnd.IntN(8) == 0:
		return []*capture.Event{nil}
	}
	return []*capture.Event{clone(e, e.Data, e.Len, 0)}
}

func clone(e *capture.Event, data []byte, length, tail int) *capture.Event {
	c := *e
	c.Data, c.Len, c.Tail = data, length, tail
	return &c
}
