package stream

import (
	"slices"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// limits bound an Assembler's memory: at most maxOpen × maxBytes for messages, and some
// hundred bytes for each of maxSockets.
type limits struct {
	// maxParts of a message are kept. Engines put what matters into the first three;
	// the others are tensors.
	maxParts int
	// maxBytes of a message's parts are kept: several times what is captured of a part.
	maxBytes int
	// maxOpen messages are assembled at a time. A message is open for microseconds and
	// a thread has one open, so that more than this are leftovers of lost processes.
	maxOpen int
	// maxSockets are remembered: a server with 64 ranks has some hundred.
	maxSockets int
}

var defaultLimits = limits{maxParts: 64, maxBytes: 128 << 10, maxOpen: 64, maxSockets: 4096}

// keptBytes is the largest buffer that is kept for the next message: the small parts of
// an ordinary message fit, and a burst of large ones does not stay in memory.
const keptBytes = 32 << 10

// Assembler makes messages from events. It is not safe for concurrent use.
type Assembler struct {
	sink    Sink
	limits  limits
	sockets socketTable
	// open are the sockets in the middle of a message; free, assemblies to use again.
	open  []*socket
	free  []*assembly
	stats Stats
	// msg, parts and gap are handed to the sink, and used again.
	msg   Message
	parts []Part
	gap   Gap
}

// NewAssembler returns an Assembler that calls sink.
func NewAssembler(sink Sink) *Assembler {
	return &Assembler{
		sink:    sink,
		limits:  defaultLimits,
		sockets: socketTable{byKey: make(map[socketKey]*socket)},
	}
}

// Stats returns the counters; it is to be called on the goroutine that calls Event.
func (a *Assembler) Stats() Stats { return a.stats }

// Event takes the next event. Kinds that are none of its business do nothing.
func (a *Assembler) Event(e *capture.Event) {
	switch e.Kind {
	case capture.KindSend, capture.KindRecv:
		a.part(e)
	case capture.KindExit:
		a.exit(e.PID)
	case capture.KindLost:
		a.lost(e)
	}
}

// part takes one part of a message.
func (a *Assembler) part(e *capture.Event) {
	s := a.socket(e)
	if s.skipping {
		a.stats.SkippedParts++
		s.skipping = e.More
		return
	}
	if s.open == nil && !e.More {
		a.parts = append(a.parts[:0], newPart(e))
		a.deliver(s, e, 0)
		return
	}
	if s.open == nil {
		a.begin(s, e)
	}
	if e.More {
		a.keep(s.open, e)
		return
	}

	// The last part's bytes need not be copied: they are valid during this call.
	m := s.open
	a.parts = a.parts[:0]
	for _, p := range m.parts {
		a.parts = append(a.parts, Part{Data: m.buf[p.from:p.to:p.to], Tail: p.tail, Len: p.len})
	}
	if len(a.parts) < a.limits.maxParts {
		a.parts = append(a.parts, newPart(e))
	} else {
		m.dropped++
		a.stats.DroppedParts++
	}
	a.deliver(s, e, m.dropped)
	a.end(s)
}

// socket finds the event's socket, and notices what was lost on it.
func (a *Assembler) socket(e *capture.Event) *socket {
	key := socketKey{pid: e.PID, kind: e.Kind, conn: e.Conn}
	s := a.sockets.get(key)
	switch {
	case s == nil:
		s = a.newSocket(key)
		s.typ = e.Socket
		// A first event that is not number one: we came late, or those before are lost.
		if e.Seq > 1 {
			a.resync(s, e.Time)
		}
	case e.Seq == 1 && s.seq != 0:
		// The backend forgot the socket and counts anew. A new count starts with a part
		// of its own; only what was open is lost.
		if s.open != nil {
			a.resync(s, e.Time)
		}
		s.skipping = false
	case e.Seq != 0 && e.Seq != s.seq+1:
		a.resync(s, e.Time)
	}
	s.seq = e.Seq
	if e.Socket != capture.SocketUnknown {
		s.typ = e.Socket
	}
	return s
}

func (a *Assembler) newSocket(key socketKey) *socket {
	if len(a.sockets.byKey) >= a.limits.maxSockets {
		a.stats.EvictedSockets++
		a.forget(a.sockets.oldest)
	}
	return a.sockets.add(key)
}

// resync gives up what is open on s, and has everything skipped up to the next boundary.
func (a *Assembler) resync(s *socket, time int64) {
	if s.open != nil {
		a.stats.SkippedParts += uint64(len(s.open.parts) + s.open.dropped)
		a.end(s)
	}
	s.skipping = true
	a.stats.Gaps++
	a.gap = Gap{Time: time, PID: s.key.pid, Conn: s.key.conn, Socket: s.typ, Kind: s.key.kind}
	a.sink.Gap(&a.gap)
}

// lost takes a loss that names no socket. Sockets whose events are counted show their
// own losses by a jump; of the others any may have lost something.
func (a *Assembler) lost(e *capture.Event) {
	for s := a.sockets.oldest; s != nil; s = s.newer {
		if s.seq == 0 && !s.skipping && (e.PID == 0 || e.PID == s.key.pid) {
			a.resync(s, e.Time)
		}
	}
}

// exit frees what is held of a process.
func (a *Assembler) exit(pid uint32) {
	for s := a.sockets.oldest; s != nil; {
		next := s.newer
		if s.key.pid == pid {
			a.forget(s)
		}
		s = next
	}
	a.sink.Exit(pid)
}

func (a *Assembler) forget(s *socket) {
	if s.open != nil {
		a.end(s)
	}
	a.sockets.remove(s)
}

// begin opens a message on s. If there are too many, the one that has been open longest
// is given up: it belongs to a process that is gone, or its parts are lost.
func (a *Assembler) begin(s *socket, e *capture.Event) {
	if len(a.open) >= a.limits.maxOpen {
		a.stats.StolenMessages++
		a.resync(a.open[0], e.Time)
	}
	if n := len(a.free); n > 0 {
		s.open = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		s.open = new(assembly)
	}
	a.open = append(a.open, s)
}

// end closes the message that is open on s.
func (a *Assembler) end(s *socket) {
	if i := slices.Index(a.open, s); i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
	}
	if cap(s.open.buf) > keptBytes {
		s.open.buf = nil
	}
	s.open.reset()
	a.free = append(a.free, s.open)
	s.open = nil
}

// keep copies a part into m, within the limits.
func (a *Assembler) keep(m *assembly, e *capture.Event) {
	if len(m.parts) >= a.limits.maxParts {
		m.dropped++
		a.stats.DroppedParts++
		return
	}
	p := newPart(e)
	if len(m.buf)+len(p.Data) > a.limits.maxBytes {
		p.Data, p.Tail = nil, 0
		a.stats.TrimmedParts++
	}
	from := len(m.buf)
	m.buf = append(m.buf, p.Data...)
	m.parts = append(m.parts, span{from: from, to: len(m.buf), tail: p.Tail, len: p.Len})
}

// deliver passes on a.parts as the message of s whose last part is e.
func (a *Assembler) deliver(s *socket, e *capture.Event, dropped int) {
	a.stats.Messages++
	a.msg = Message{
		Time: e.Time, PID: e.PID, TID: e.TID, Comm: e.Comm, Conn: e.Conn,
		Socket: s.typ, Kind: e.Kind, Parts: a.parts, Dropped: dropped,
	}
	a.sink.Message(&a.msg)
}

// newPart is the part that e carries. An event that contradicts itself (a recording may
// hold anything) becomes a part that does not.
func newPart(e *capture.Event) Part {
	p := Part{Data: e.Data, Tail: e.Tail, Len: max(e.Len, len(e.Data))}
	if p.Complete() || p.Tail < 0 {
		p.Tail = 0
	}
	p.Tail = min(p.Tail, len(p.Data))
	return p
}
