package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// log is a sink that writes down what it gets: a message as its parts joined by "|".
type log struct{ lines []string }

func (l *log) Message(m *Message) {
	var parts []string
	for i := range m.Parts {
		p := &m.Parts[i]
		text := string(p.Data)
		if !p.Complete() {
			text += fmt.Sprintf("(%d of %d, tail %d)", len(p.Data), p.Len, p.Tail)
		}
		parts = append(parts, text)
	}
	line := fmt.Sprintf("%d/%d@%d %s", m.PID, m.Conn, m.Time, strings.Join(parts, "|"))
	if m.Dropped > 0 {
		line += fmt.Sprintf(" +%d", m.Dropped)
	}
	l.lines = append(l.lines, line)
}

func (l *log) Gap(g *Gap) {
	l.lines = append(l.lines, fmt.Sprintf("%d/%d@%d gap", g.PID, g.Conn, g.Time))
}
func (l *log) Exit(pid uint32) { l.lines = append(l.lines, fmt.Sprintf("%d exit", pid)) }

// events builds a sequence of events at times 1, 2, ….
type events struct {
	list []capture.Event
	seq  map[[2]uint64]uint64
}

// part adds a part on socket conn of process 1, counted; text ending in "+" has more
// parts behind it.
func (e *events) part(conn uint64, text string) *events {
	data, more := strings.CutSuffix(text, "+")
	if e.seq == nil {
		e.seq = make(map[[2]uint64]uint64)
	}
	e.seq[[2]uint64{1, conn}]++
	return e.add(capture.Event{
		Kind: capture.KindSend, PID: 1, Conn: conn, Seq: e.seq[[2]uint64{1, conn}], More: more,
		Data: []byte(data), Len: len(data),
	})
}

// uncounted makes the last event one of a backend that does not count.
func (e *events) uncounted() *events {
	e.list[len(e.list)-1].Seq = 0
	return e
}

// lose takes the last event away, as if it had never arrived.
func (e *events) lose() *events {
	e.list = e.list[:len(e.list)-1]
	return e
}

func (e *events) add(ev capture.Event) *events {
	ev.Time = int64(len(e.list) + 1)
	e.list = append(e.list, ev)
	return e
}

func run(l limits, list []capture.Event) (*log, *Assembler) {
	var got log
	a := NewAssembler(&got)
	a.limits = l
	for i := range list {
		// The event is valid only during the call: hand over a copy and ruin it.
		e := list[i]
		e.Data = slices.Clone(e.Data)
		a.Event(&e)
		for j := range e.Data {
			e.Data[j] = '#'
		}
	}
	return &got, a
}

func TestAssembler(t *testing.T) {
	cases := []struct {
		name   string
		events *events
		want   []string
	}{
		{"one part", new(events).part(5, "a"), []string{"1/5@1 a"}},
		{"three parts", new(events).part(5, "id+").part(5, "t+").part(5, "body"), []string{"1/5@3 id|t|body"}},
		{
			"two sockets interleaved",
			new(events).part(5, "a+").part(6, "x+").part(5, "b").part(6, "y"),
			[]string{"1/5@3 a|b", "1/6@4 x|y"},
		},
		{"empty parts", new(events).part(5, "+").part(5, ""), []string{"1/5@2 |"}},
		{
			"not counted", new(events).part(5, "a+").uncounted().part(5, "b").uncounted().part(5, "c").uncounted(),
			[]string{"1/5@2 a|b", "1/5@3 c"},
		},
		{
			"first part lost: the rest is no message",
			new(events).part(5, "a").part(5, "id+").lose().part(5, "t+").part(5, "body").part(5, "b"),
			[]string{"1/5@1 a", "1/5@2 gap", "1/5@4 b"},
		},
		{
			"middle part lost",
			new(events).part(5, "id+").part(5, "t+").lose().part(5, "body").part(5, "b"),
			[]string{"1/5@2 gap", "1/5@3 b"},
		},
		{
			"last part lost: the next message cannot be told from it",
			new(events).part(5, "id+").part(5, "body").lose().part(5, "a").part(5, "b"),
			[]string{"1/5@2 gap", "1/5@3 b"},
		},
		{
			"whole message lost",
			new(events).part(5, "a").part(5, "b").lose().part(5, "c").part(5, "d"),
			[]string{"1/5@1 a", "1/5@2 gap", "1/5@3 d"},
		},
		{
			"lost again while skipping",
			new(events).part(5, "a").lose().part(5, "b+").part(5, "c").lose().part(5, "d+").part(5, "e").part(5, "f"),
			[]string{"1/5@1 gap", "1/5@2 gap", "1/5@4 f"},
		},
		{
			"socket first seen late",
			new(events).part(5, "a+").lose().part(5, "b").part(5, "c"),
			[]string{"1/5@1 gap", "1/5@2 c"},
		},
		{
			"loss on one socket leaves the other alone",
			new(events).part(5, "a+").part(6, "x").lose().part(6, "y").part(5, "b"),
			[]string{"1/6@2 gap", "1/5@3 a|b"},
		},
		{
			"count starts anew between messages",
			new(events).part(5, "a").part(5, "b").add(capture.Event{Kind: capture.KindSend, PID: 1, Conn: 5, Seq: 1, Data: []byte("c"), Len: 1}),
			[]string{"1/5@1 a", "1/5@2 b", "1/5@3 c"},
		},
		{
			"count starts anew inside a message",
			new(events).part(5, "a").part(5, "b+").add(capture.Event{Kind: capture.KindSend, PID: 1, Conn: 5, Seq: 1, Data: []byte("c"), Len: 1}),
			[]string{"1/5@1 a", "1/5@3 gap", "1/5@3 c"},
		},
		{
			"sends and receives of one socket are apart",
			new(events).part(5, "a+").add(capture.Event{Kind: capture.KindRecv, PID: 1, Conn: 5, Seq: 1, Data: []byte("r"), Len: 1}).part(5, "b"),
			[]string{"1/5@2 r", "1/5@3 a|b"},
		},
		{
			"processes with the same socket number are apart",
			new(events).part(5, "a+").add(capture.Event{Kind: capture.KindSend, PID: 2, Conn: 5, Seq: 1, Data: []byte("z"), Len: 1}).part(5, "b"),
			[]string{"2/5@2 z", "1/5@3 a|b"},
		},
		{
			"exit frees what was open",
			new(events).part(5, "a+").add(capture.Event{Kind: capture.KindExit, PID: 1}).part(5, "b"),
			[]string{"1 exit", "1/5@3 gap"},
		},
		{
			"loss without a socket",
			new(events).part(5, "a").uncounted().part(6, "x+").add(capture.Event{Kind: capture.KindLost, Len: 1}).
				part(5, "b").uncounted().part(5, "c").uncounted().part(6, "y"),
			[]string{"1/5@1 a", "1/5@3 gap", "1/5@5 c", "1/6@6 x|y"},
		},
		{
			"a cut part keeps its true length",
			new(events).part(5, "a+").add(capture.Event{Kind: capture.KindSend, PID: 1, Conn: 5, Seq: 2, Data: []byte("headtail"), Len: 100, Tail: 4}),
			[]string{"1/5@2 a|headtail(8 of 100, tail 4)"},
		},
		{
			"other events do nothing",
			new(events).part(5, "a+").add(capture.Event{Kind: capture.KindWrite, PID: 1, Conn: 5, Data: []byte("x"), Len: 1}).
				add(capture.Event{Kind: capture.KindTick}).part(5, "b"),
			[]string{"1/5@4 a|b"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _ := run(defaultLimits, c.events.list)
			if diff := cmp.Diff(c.want, got.lines); diff != "" {
				t.Errorf("Event(…) gave (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssemblerLimits(t *testing.T) {
	cases := []struct {
		name   string
		limits limits
		events *events
		want   []string
		stats  Stats
	}{
		{
			"parts over the limit", limits{maxParts: 2, maxBytes: 100, maxOpen: 9, maxSockets: 9},
			new(events).part(5, "a+").part(5, "b+").part(5, "c+").part(5, "d").part(5, "e"),
			[]string{"1/5@4 a|b +2", "1/5@5 e"},
			Stats{Messages: 2, DroppedParts: 2},
		},
		{
			"bytes over the limit", limits{maxParts: 9, maxBytes: 3, maxOpen: 9, maxSockets: 9},
			new(events).part(5, "ab+").part(5, "cd+").part(5, "e+").part(5, "last"),
			[]string{"1/5@4 ab|(0 of 2, tail 0)|e|last"},
			Stats{Messages: 1, TrimmedParts: 1},
		},
		{
			"too many open", limits{maxParts: 9, maxBytes: 99, maxOpen: 1, maxSockets: 9},
			new(events).part(5, "a+").part(6, "x+").part(6, "y").part(5, "b").part(5, "c"),
			[]string{"1/5@2 gap", "1/6@3 x|y", "1/5@5 c"},
			Stats{Messages: 2, Gaps: 1, SkippedParts: 2, StolenMessages: 1},
		},
		{
			"too many sockets: the one not used longest goes", limits{maxParts: 9, maxBytes: 99, maxOpen: 9, maxSockets: 2},
			new(events).part(5, "a").part(6, "x").part(5, "b").part(7, "p").part(5, "c"),
			[]string{"1/5@1 a", "1/6@2 x", "1/5@3 b", "1/7@4 p", "1/5@5 c"},
			Stats{Messages: 5, EvictedSockets: 1},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, a := run(c.limits, c.events.list)
			if diff := cmp.Diff(c.want, got.lines); diff != "" {
				t.Errorf("Event(…) gave (-want +got):\n%s", diff)
			}
			if a.Stats() != c.stats {
				t.Errorf("Stats() = %+v; want %+v", a.Stats(), c.stats)
			}
		})
	}
}

// conversation is random messages on several sockets, each message's text saying what
// it is, and their parts in one random order that keeps each socket's own.
func conversation(r *rand.Rand) (list []capture.Event, whole map[string]bool) {
	const sockets, messages = 4, 12
	whole = make(map[string]bool)
	queues := make([][]capture.Event, sockets)
	for conn := range queues {
		for m := range messages {
			var texts []string
			n := 1 + r.IntN(4)
			for p := range n {
				text := fmt.Sprintf("s%dm%dp%d", conn, m, p)
				texts = append(texts, text)
				queues[conn] = append(queues[conn], capture.Event{
					Kind: capture.KindSend, PID: 1, Conn: uint64(conn), Seq: uint64(len(queues[conn]) + 1),
					More: p < n-1, Data: []byte(text), Len: len(text),
				})
			}
			whole[strings.Join(texts, "|")] = true
		}
	}
	for {
		var ready []int
		for i, q := range queues {
			if len(q) > 0 {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return list, whole
		}
		i := ready[r.IntN(len(ready))]
		list = append(list, queues[i][0])
		queues[i] = queues[i][1:]
	}
}

// bodies are the messages' texts, without where and when.
func (l *log) bodies() (messages []string, gaps int) {
	for _, line := range l.lines {
		_, text, _ := strings.Cut(line, " ")
		if text == "gap" {
			gaps++
		} else {
			messages = append(messages, text)
		}
	}
	return messages, gaps
}

// Any interleaving of sockets gives the same messages.
func TestAssemblerInterleaving(t *testing.T) {
	for seed := range uint64(50) {
		list, whole := conversation(rand.New(rand.NewPCG(seed, 0)))
		got, _ := run(defaultLimits, list)
		messages, gaps := got.bodies()
		if gaps != 0 || len(messages) != len(whole) {
			t.Fatalf("seed %d: Event(…) gave %d messages and %d gaps; want %d and 0", seed, len(messages), gaps, len(whole))
		}
		for _, m := range messages {
			if !whole[m] {
				t.Fatalf("seed %d: Event(…) gave message %q, which was not sent", seed, m)
			}
		}
	}
}

// Lost events never make a message that was not sent, and are always told unless they
// are a socket's last.
func TestAssemblerLoss(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		list, whole := conversation(r)
		var kept []capture.Event
		for _, e := range list {
			if r.IntN(10) > 0 {
				kept = append(kept, e)
			}
		}
		lost := make(map[uint64]bool)
		seen := make(map[uint64]uint64)
		for _, e := range kept {
			if e.Seq != seen[e.Conn]+1 {
				lost[e.Conn] = true
			}
			seen[e.Conn] = e.Seq
		}
		got, _ := run(defaultLimits, kept)
		messages, gaps := got.bodies()
		if (gaps > 0) != (len(lost) > 0) {
			t.Fatalf("seed %d: Event(…) told %d gaps; events were lost on %d sockets", seed, gaps, len(lost))
		}
		for _, m := range messages {
			if !whole[m] {
				t.Fatalf("seed %d: Event(…) gave message %q, which was not sent", seed, m)
			}
		}
	}
}

// discard is a sink that only counts.
type discard struct{ messages, parts int }

func (d *discard) Message(m *Message) { d.messages++; d.parts += len(m.Parts) }
func (d *discard) Gap(*Gap)           {}
func (d *discard) Exit(uint32)        {}

// steady hands an assembler a message of one part and one of three, over and over.
func steady() (*discard, func()) {
	sink := new(discard)
	a := NewAssembler(sink)
	body := make([]byte, 16<<10)
	var seq uint64
	e := capture.Event{Kind: capture.KindSend, PID: 1, TID: 1, Comm: "python"}
	send := func(conn uint64, data []byte, more bool) {
		e.Conn, e.Data, e.Len, e.More, e.Seq = conn, data, len(data), more, 0
		if conn == 1 {
			seq++
			e.Seq = seq
		}
		a.Event(&e)
	}
	return sink, func() {
		send(1, body, false)
		send(2, body[:2], true)
		send(2, body[:1], true)
		send(2, body, false)
	}
}

func TestAssemblerAllocs(t *testing.T) {
	sink, step := steady()
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("Event(…) allocates %v times a step; want 0", n)
	}
	if sink.parts != 2*sink.messages {
		t.Errorf("Event(…) gave %d parts in %d messages; want two a message", sink.parts, sink.messages)
	}
}

func BenchmarkAssembler(b *testing.B) {
	_, step := steady()
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
