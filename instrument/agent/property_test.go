package agent

// What must hold whatever the network, the scheduler and the ring do: bytes may be
// split anywhere, streams of different connections and sockets may interleave in any
// way, events may be lost or cut. The first two change nothing; the last never makes a
// wrong number, only missing ones that are named.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// propertyRecordings are the ones with the most different requests, old and new.
var propertyRecordings = []string{"vllm-0.32.0", "vllm-0.9.2", "vllm-0.19.1", "vllm-0.32.0-preempt", "vllm-0.33.0-rust"}

// facts are a line without what depends on the order of emission: ids that were drawn.
func facts(t *testing.T, l *line) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(l.raw), &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "record")
	delete(m, "trace_id")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func allFacts(t *testing.T, r *replayed) []string {
	t.Helper()
	var out []string
	for _, l := range r.lines {
		out = append(out, facts(t, l))
	}
	slices.Sort(out)
	return out
}

func equalFacts(t *testing.T, what string, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	if len(want) != len(got) {
		t.Fatalf("%s: %d requests; want %d", what, len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("%s: a request differs\n got %s\nwant %s", what, got[i], want[i])
		}
	}
}

func TestAnySplitGivesTheSameRequests(t *testing.T) {
	for _, name := range propertyRecordings {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			want := allFacts(t, run(t, h, events))
			rnd := rand.New(rand.NewPCG(1, 2))
			for round := range 4 {
				equalFacts(t, fmt.Sprint("round ", round), want, allFacts(t, run(t, h, split(rnd, events))))
			}
		})
	}
}

// split cuts each read and write into random pieces of the same time.
func split(rnd *rand.Rand, events []capture.Event) []capture.Event {
	var out []capture.Event
	for _, e := range events {
		if e.Kind != capture.KindRead && e.Kind != capture.KindWrite {
			out = append(out, e)
			continue
		}
		data := e.Data
		for len(data) > 0 {
			n := min(len(data), 1+rnd.IntN(1+rnd.IntN(200)))
			p := e
			p.Data, p.Len = data[:n], n
			data = data[n:]
			out = append(out, p)
		}
	}
	return renumber(out)
}

type direction struct {
	pid  uint32
	conn uint64
	kind capture.Kind
}

func renumber(events []capture.Event) []capture.Event {
	seq := map[direction]uint64{}
	for i := range events {
		e := &events[i]
		if e.Seq == 0 {
			continue
		}
		k := direction{e.PID, e.Conn, e.Kind}
		seq[k]++
		e.Seq = seq[k]
	}
	return events
}

// Two events that no process put in order may be captured in either order: swap
// neighbours of different connections or processes, many times.
func TestAnyInterleavingGivesTheSameRequests(t *testing.T) {
	for _, name := range propertyRecordings {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			want := allFacts(t, run(t, h, events))
			cores := engineCores(events)
			if len(cores) == 0 {
				t.Fatal("no engine core in the recording: HTTP would never be swapped with frames")
			}
			rnd := rand.New(rand.NewPCG(3, 4))
			for round := range 4 {
				mixed := slices.Clone(events)
				across := 0 // swaps of HTTP with frames
				for range 3 * len(mixed) {
					i := rnd.IntN(len(mixed) - 1)
					a, b := &mixed[i], &mixed[i+1]
					if independent(a, b, cores) {
						if isHTTP(a) != isHTTP(b) {
							across++
						}
						*a, *b = *b, *a
					}
				}
				if across == 0 {
					t.Fatalf("round %d: HTTP was never swapped with frames", round)
				}
				equalFacts(t, fmt.Sprint("round ", round), want, allFacts(t, run(t, h, mixed)))
			}
		})
	}
}

// engineCores are the processes that send outputs: on PUSH sockets.
func engineCores(events []capture.Event) map[uint32]bool {
	cores := map[uint32]bool{}
	for i := range events {
		if e := &events[i]; e.Kind == capture.KindSend && e.Socket == capture.SocketPush {
			cores[e.PID] = true
		}
	}
	return cores
}

func isHTTP(e *capture.Event) bool { return e.Kind >= capture.KindOpen && e.Kind <= capture.KindClose }

// independent reports whether nothing orders two events: other processes' frames, bytes
// of different connections, or bytes of the front-end and frames of an engine core. What
// one thread does is ordered, and a message is received after it was sent.
func independent(a, b *capture.Event, cores map[uint32]bool) bool {
	if a.Kind == capture.KindClock || b.Kind == capture.KindClock || b.Time-a.Time > 2e6 {
		return false
	}
	switch {
	case isHTTP(a) && isHTTP(b):
		return a.Conn != b.Conn
	case !isHTTP(a) && !isHTTP(b):
		return a.PID != b.PID && a.Len != b.Len // not the two ends of one message
	case isHTTP(b):
		a, b = b, a
	}
	// The front-end's one thread orders its messages and its writes; the core is another
	// process, and no frame of its own is on a connection.
	return cores[b.PID] && !cores[a.PID]
}

// Losing events must not make a number wrong.
func TestLostEventsNeverMakeAWrongNumber(t *testing.T) {
	for _, name := range propertyRecordings {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			whole := linesByID(run(t, h, events))
			rnd := rand.New(rand.NewPCG(5, 6))
			missing := 0
			for round := range 40 {
				for _, l := range run(t, h, lose(rnd, events)).lines {
					want := whole[l.id()]
					if l.ID == nil {
						continue
					}
					if want == nil {
						t.Fatalf("round %d: a request that does not exist: %s", round, l.raw)
					}
					if wrong := wrongNumbers(want, l); len(wrong) > 0 {
						t.Fatalf("round %d: %v\n got %s\nwant %s", round, wrong, l.raw, want.raw)
					}
					if len(l.Incomplete) > len(want.Incomplete) {
						missing++
					}
				}
			}
			if missing == 0 {
				t.Error("no loss was noticed")
			}
		})
	}
}

// lose drops bursts of events, as a full ring does, and tells the loss with the next
// event that fits.
func lose(rnd *rand.Rand, events []capture.Event) []capture.Event {
	var out []capture.Event
	for i := 0; i < len(events); i++ {
		if rnd.IntN(60) == 0 && i > 0 {
			n := 1 + rnd.IntN(1+rnd.IntN(12))
			lost := 0
			for ; n > 0 && i < len(events) && events[i].Kind != capture.KindClock; n-- {
				i++
				lost++
			}
			if lost > 0 {
				at := events[min(i, len(events)-1)].Time
				out = append(out, capture.Event{Kind: capture.KindLost, Time: at, Len: lost, Cause: capture.LostRingFull})
			}
			if i >= len(events) {
				break
			}
		}
		out = append(out, events[i])
	}
	return out
}

func TestCutEventsNeverMakeAWrongNumber(t *testing.T) {
	for _, name := range propertyRecordings {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			whole := linesByID(run(t, h, events))
			for _, limit := range []struct{ head, tail int }{{64, 16}, {256, 64}, {700, 100}, {2000, 0}} {
				for _, l := range run(t, h, cutTo(events, limit.head, limit.tail)).lines {
					if want := whole[l.id()]; want != nil {
						if wrong := wrongNumbers(want, l); len(wrong) > 0 {
							t.Fatalf("%+v: %v\n got %s\nwant %s", limit, wrong, l.raw, want.raw)
						}
					}
				}
			}
		})
	}
}

// cutTo keeps the head and the tail of each event's bytes, as the probes do.
func cutTo(events []capture.Event, head, tail int) []capture.Event {
	var out []capture.Event
	for _, e := range events {
		if len(e.Data) > head+tail {
			d := slices.Concat(e.Data[:head], e.Data[len(e.Data)-tail:])
			e.Data, e.Tail = d, tail
		}
		out = append(out, e)
	}
	return out
}

// wrongNumbers lists the numbers of got that are neither those of want nor missing.
func wrongNumbers(want, got *line) (wrong []string) {
	f := func(what string, a, b *float64) {
		if b != nil && !same(a, b) {
			wrong = append(wrong, fmt.Sprintf("%s = %v; want %s", what, *b, show(a)))
		}
	}
	n := func(what string, a, b *int) {
		if b != nil && (a == nil || *a != *b) {
			wrong = append(wrong, fmt.Sprintf("%s = %v; want %s", what, *b, show(a)))
		}
	}
	for k, v := range got.Usage {
		n("usage."+k, want.Usage[k], v)
	}
	for k, v := range got.HTTP {
		f("http."+k, want.HTTP[k], v)
	}
	n("status", want.Status, got.Status)
	if len(got.Sequences) > len(want.Sequences) {
		return append(wrong, "more sequences than there were")
	}
	compareMetrics := func(what string, a, b *metrics) {
		if b == nil {
			return
		}
		if a == nil {
			a = &metrics{}
		}
		f(what+".ttft", a.TTFT, b.TTFT)
		f(what+".generation", a.Gen, b.Gen)
		f(what+".queue", a.Queue, b.Queue)
		f(what+".itl", a.ITL, b.ITL)
		f(what+".tps", a.TPS, b.TPS)
	}
	if len(want.Sequences) == len(got.Sequences) {
		compareMetrics("metrics", want.Metrics, got.Metrics)
	}
	for _, g := range got.Sequences {
		for _, w := range want.Sequences {
			if w.EngineID == nil || g.EngineID == nil || *w.EngineID != *g.EngineID {
				continue
			}
			n("prompt", w.Prompt, g.Prompt)
			n("completion", w.Completion, g.Completion)
			n("generated", w.Generated, g.Generated)
			n("cached", w.Cached, g.Cached)
			n("preemptions", w.Preemptions, g.Preemptions)
			if !slices.Contains(got.Incomplete, request.ArrivalNotCaptured) {
				f("e2e", w.E2E, g.E2E) // else from the last byte of the HTTP request on
			}
			compareMetrics("sequence", w.Metrics, g.Metrics)
		}
	}
	return wrong
}

// Whatever bytes the workload makes, the pipeline must not fail, and it must go on.
func FuzzPipeline(f *testing.F) {
	_, events := load(f, "vllm-0.32.0")
	f.Add(uint64(1), []byte{0x81, 0x00, 0xff})
	f.Add(uint64(7), []byte("HTTP/1.1 200 OK\r\n\r\n"))
	h := capture.Header{Seed: strings.Repeat("00", 32)}
	f.Fuzz(func(t *testing.T, seed uint64, junk []byte) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		hostile := slices.Clone(events[:400])
		for range 1 + rnd.IntN(20) {
			e := &hostile[rnd.IntN(len(hostile))]
			switch rnd.IntN(4) {
			case 0:
				e.Data, e.Len, e.Tail = junk, len(junk), 0
			case 1:
				e.Data = bytes.Clone(e.Data)
				for i := range e.Data {
					if rnd.IntN(16) == 0 {
						e.Data[i] = byte(rnd.Uint32())
					}
				}
			case 2:
				e.Len = rnd.IntN(1<<20) + len(e.Data)
				e.Tail = rnd.IntN(len(e.Data) + 1)
			case 3:
				e.Kind = capture.Kind(rnd.IntN(16))
				e.PID, e.Conn = rnd.Uint32N(3), rnd.Uint64N(4)
			}
		}
		run(t, h, hostile)
	})
}
