package agent

// A large run made of one real chat (bench_template_test.go): many streaming requests
// at once, as a full batch shows itself. Each step of the engine is one message with an
// output for every request, sent by the core and received by the front-end, and then a
// write of one SSE event to every client. Where a request ends, the next one begins on
// the same connection, so that the batch stays full from the first step to the last.

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// Shape of a run.
const (
	// benchTokens is a request's length, but for the first and the last one of a
	// connection, which are shorter so that the others end at different steps.
	benchTokens = 128
	// benchStepNs is the time from one step to the next.
	benchStepNs = int64(10e6)
	// benchStart is when a run begins, in monotonic time.
	benchStart = int64(1000e9)
	// benchBase is the first connection's number.
	benchBase = 100
)

// side selects which of a run's events are played.
type side uint8

const (
	sideEngine side = 1 << iota
	sideHTTP
	sideBoth = sideEngine | sideHTTP
)

// chat is one request of a run.
type chat struct {
	id, engineID string
	slot         int // its connection
	start        int // its first step
	tokens       int
	add          []byte
	request      []byte
	role         []byte
	content      [][]byte
	last, usage  []byte
}

// step is one step of the engine.
type step struct {
	frame   []byte
	begin   []*chat // whose first output it has
	running []*chat // in the order of the outputs
}

// benchLoad is a run that is ready to be played.
type benchLoad struct {
	p       *template
	streams int
	chats   []*chat
	steps   []step
	tokens  int
}

// newBenchLoad makes a run of streams requests at once over a number of steps. longest
// is a request's length; if the steps are no more than that, every request has them all.
func newBenchLoad(tb testing.TB, streams, steps, longest int) *benchLoad {
	tb.Helper()
	p := loadTemplate(tb)
	l := &benchLoad{p: p, streams: streams, steps: make([]step, steps), tokens: streams * steps}
	for slot := range streams {
		// A first request of any length from 1 to the longest, spread evenly over the slots.
		n := 1 + slot*longest/streams
		if longest >= steps {
			n = steps
		}
		for at := 0; at < steps; n = longest {
			n = min(n, steps-at)
			c := l.newChat(tb, slot, at, n)
			l.steps[at].begin = append(l.steps[at].begin, c)
			at += n
		}
	}
	stats := setInt(tb, p.stats, "num_running_reqs", streams)
	var running []*chat
	for i := range l.steps {
		st := &l.steps[i]
		// The scheduler's order: who runs stays where it is, who is new comes last.
		running = append(running, st.begin...)
		st.running = running
		st.frame = l.frame(stats, i, running)
		var still []*chat
		for _, c := range running {
			if i+1 < c.start+c.tokens {
				still = append(still, c)
			}
		}
		running = still
	}
	return l
}

func (l *benchLoad) newChat(tb testing.TB, slot, start, tokens int) *chat {
	tb.Helper()
	p, number := l.p, uint64(len(l.chats)+1)
	// Ids look random, as the server's do, and differ from each other: the multiplier is odd.
	id := fmt.Sprintf("chatcmpl-%016x", number*0x9e3779b97f4a7c15)
	c := &chat{id: id, engineID: fmt.Sprintf("%s-%08x", id, uint32(number)*0x85ebca6b), slot: slot, start: start, tokens: tokens}
	add := append([][]byte(nil), p.add...)
	add[addID] = msgp.AppendString(nil, c.engineID)
	add[addExternal] = msgp.AppendString(nil, id)
	add[addArrival] = msgp.AppendFloat64(nil, float64(l.stepTime(start)-2e6+p.clock)/1e9)
	add[addSampling] = setInt(tb, add[addSampling], "max_tokens", tokens)
	c.add = appendArray(nil, add)
	named := func(doc []byte) []byte { return chunk(bytes.ReplaceAll(doc, []byte(templateID), []byte(id))) }
	c.request = p.httpRequest(number, tokens)
	c.role, c.last, c.usage = named(p.role), named(p.contentLast), chunk(p.usageDoc(id, tokens))
	for _, doc := range p.content {
		c.content = append(c.content, named(doc))
	}
	l.chats = append(l.chats, c)
	return c
}

// stepTime is when the core sends a step's message.
func (l *benchLoad) stepTime(i int) int64 { return benchStart + int64(i+1)*benchStepNs }

// stamp is the engine's time of a step: shortly before it is sent.
func (l *benchLoad) stamp(i int) float64 { return float64(l.stepTime(i)-50e3) / 1e9 }

// frame is a step's message of outputs.
func (l *benchLoad) frame(stats []byte, i int, running []*chat) []byte {
	p := l.p
	b := []byte{0x99, 0x00} // nine fields, engine 0
	b = msgp.AppendArrayHeader(b, uint32(len(running)))
	nilField, length := []byte{0xc0}, []byte{1}
	for k, c := range running {
		fields := p.middle[(i+k)%len(p.middle)]
		if i == c.start {
			fields = p.first
		}
		b = msgp.AppendArrayHeader(b, uint32(len(fields)))
		b = msgp.AppendString(b, c.engineID)
		for f, value := range fields[outputID+1:] {
			switch f + outputID + 1 {
			case outputFinish:
				if value = nilField; i+1 == c.start+c.tokens {
					value = length
				}
			case outputEvents:
				if i == c.start {
					value = l.queuedAndScheduled(i)
				}
			}
			b = append(b, value...)
		}
	}
	b = append(b, stats...)
	b = msgp.AppendFloat64(b, l.stamp(i))
	return append(b, p.behind...)
}

// queuedAndScheduled is the scheduler's events of a request whose first step is i.
func (l *benchLoad) queuedAndScheduled(i int) []byte {
	b := msgp.AppendArrayHeader(nil, 2)
	for typ, before := range []float64{1.5e-3, 1e-3} {
		b = msgp.AppendMapHeader(b, 2)
		b = msgp.AppendString(b, "type")
		b = msgp.AppendInt(b, typ+1)
		b = msgp.AppendString(b, "timestamp")
		b = msgp.AppendFloat64(b, l.stamp(i)-before)
	}
	return b
}

// player plays a run's steps into a sink. Its state is what a backend counts.
type player struct {
	l    *benchLoad
	side side
	sink func(*capture.Event)
	e    capture.Event
	seq  struct{ coreOut, feIn, feOut, coreIn uint64 }
	// read and written count each connection's events.
	read, written []uint64
}

func (l *benchLoad) player(s side, sink func(*capture.Event)) *player {
	return &player{l: l, side: s, sink: sink, read: make([]uint64, l.streams), written: make([]uint64, l.streams)}
}

// begin plays what comes before the first step: the clock, the engine's ready message
// and the connections.
func (p *player) begin() {
	p.emit(capture.Event{Kind: capture.KindClock, Time: benchStart, Offset: p.l.p.clock})
	if p.side&sideEngine != 0 {
		ready := p.l.p.ready
		// The identity comes first, then the map.
		p.zmq(capture.KindRecv, capture.SocketRouter, ready.PID, ready.Conn, 1, benchStart, true, p.l.p.identity)
		p.zmq(capture.KindRecv, capture.SocketRouter, ready.PID, ready.Conn, 2, benchStart, false, ready.Data)
	}
	if p.side&sideHTTP == 0 {
		return
	}
	for slot := range p.l.streams {
		p.emit(capture.Event{Kind: capture.KindOpen, Time: benchStart, PID: p.l.p.frontEnd, Conn: benchBase + uint64(slot), Seq: 1, Port: 8000})
	}
}

// steps plays the steps from (inclusive) to to (exclusive).
func (p *player) steps(from, to int) {
	for i := from; i < to; i++ {
		p.step(i)
	}
}

func (p *player) step(i int) {
	t, st := &p.l.steps[i], p.l.stepTime(i)
	m := p.l.p
	// New requests reach the server a little before their first step.
	for k, c := range t.begin {
		at := st - 3e6 + int64(k)*1e3
		p.http(capture.KindRead, c, at, c.request)
		if p.side&sideEngine == 0 {
			continue
		}
		p.seq.feOut += 3
		p.zmq(capture.KindSend, capture.SocketRouter, m.frontEnd, m.feOut, p.seq.feOut-2, at+100, true, m.identity)
		p.zmq(capture.KindSend, capture.SocketRouter, m.frontEnd, m.feOut, p.seq.feOut-1, at+200, true, []byte{0})
		p.zmq(capture.KindSend, capture.SocketRouter, m.frontEnd, m.feOut, p.seq.feOut, at+300, false, c.add)
		p.seq.coreIn += 2
		p.zmq(capture.KindRecv, capture.SocketDealer, m.core, m.coreIn, p.seq.coreIn-1, at+400, true, []byte{0})
		p.zmq(capture.KindRecv, capture.SocketDealer, m.core, m.coreIn, p.seq.coreIn, at+500, false, c.add)
	}
	if p.side&sideEngine != 0 {
		p.seq.coreOut++
		p.zmq(capture.KindSend, capture.SocketPush, m.core, m.coreOut, p.seq.coreOut, st, false, t.frame)
		p.seq.feIn++
		p.zmq(capture.KindRecv, capture.SocketPull, m.frontEnd, m.feIn, p.seq.feIn, st+100e3, false, t.frame)
	}
	if p.side&sideHTTP == 0 {
		return
	}
	for k, c := range t.running {
		at := st + 200e3 + int64(k)*1e3
		if i == c.start {
			p.http(capture.KindWrite, c, at, m.response)
			p.http(capture.KindWrite, c, at, c.role)
		}
		if i+1 < c.start+c.tokens {
			p.http(capture.KindWrite, c, at, c.content[(i+k)%len(c.content)])
			continue
		}
		p.http(capture.KindWrite, c, at, c.last)
		p.http(capture.KindWrite, c, at+100, c.usage)
		p.http(capture.KindWrite, c, at+200, m.done)
		p.http(capture.KindWrite, c, at+300, m.lastChunk)
	}
}

func (p *player) zmq(kind capture.Kind, typ capture.SocketType, pid uint32, conn, seq uint64, at int64, more bool, data []byte) {
	p.emit(capture.Event{Kind: kind, Time: at, PID: pid, TID: pid, Conn: conn, Seq: seq, Socket: typ, More: more, Len: len(data), Data: data})
}

func (p *player) http(kind capture.Kind, c *chat, at int64, data []byte) {
	if p.side&sideHTTP == 0 {
		return
	}
	n := &p.written[c.slot]
	if kind == capture.KindRead {
		n = &p.read[c.slot]
	}
	*n++
	p.emit(capture.Event{Kind: kind, Time: at, PID: p.l.p.frontEnd, Conn: benchBase + uint64(c.slot), Seq: *n, Len: len(data), Data: data})
}

// emit hands out one event, which is used again as a backend does.
func (p *player) emit(e capture.Event) {
	p.e = e
	p.sink(&p.e)
}
