package request

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Limits of what the Tracker keeps. A request beyond them is counted, not followed.
const (
	// DefaultMaxOpen bounds exchanges and engine requests in flight, each. At about a
	// kilobyte apiece it keeps the Tracker under 64 MiB whatever the traffic.
	DefaultMaxOpen = 32768
	// maxID bounds an engine request's id. Clients choose it (X-Request-Id), servers
	// accept up to 64 KiB of headers; no one's ids are this long.
	maxID = 1024
	// maxCores bounds the engine processes that are remembered; a node has some dozens.
	maxCores = 4096
)

// Times after which the Tracker stops waiting, in nanoseconds of event time.
const (
	// lingerAfterAbort: outputs that were under way when the front-end ended a request
	// still arrive; they count as generated, not as received.
	lingerAfterAbort = 250e6
	// lingerForEnd: after a response's end the engine's own end is waited for as long
	// as outputs arrive, and this long without any.
	lingerForEnd = 60e9
	// lingerForHTTP: an engine request that ended is kept this long for a response that
	// names it, unless an exchange that could be its own is open: then it waits.
	lingerForHTTP = 5e9
	// maxIdle is how long an engine request without any call lives without a message.
	maxIdle = 600e9
	// sweepEvery is how often such requests are looked for.
	sweepEvery = 10e9
	// scanEvery is how often waiting requests are looked through.
	scanEvery = 100e6
)

// Remote is the caller's span, from the request's headers.
type Remote struct {
	TraceID    [16]byte
	SpanID     [8]byte
	Sampled    bool
	Tracestate string
}

// Options of a Tracker. Emit and Random are required.
type Options struct {
	// Emit gets each Request when it is over. It may keep it.
	Emit func(*Request)
	// Random gives random bits for ids: from the operating system in life, from the
	// recording in a replay.
	Random func() uint64
	// Extract reads the caller's span from an exchange's headers; nil: there is none.
	Extract func(*Exchange) (Remote, bool)
	// KeepSteps is how many steps a sequence keeps for token events; 0 keeps none.
	KeepSteps int
	// MaxOpen bounds exchanges and engine requests in flight, each (DefaultMaxOpen).
	MaxOpen int
	// Engine and EngineVersion are what is known before the engine has said anything.
	Engine, EngineVersion string
}

// Stats counts what a Tracker did since it was made.
type Stats struct {
	// Emitted requests; Incomplete of them lacked something.
	Emitted, Incomplete uint64
	// Refused exchanges and engine requests: too many were open, or an id was too long.
	RefusedExchanges, RefusedSequences uint64
	// Tokens made by engines, counted once each.
	Tokens uint64
	// OpenExchanges and OpenSequences are in flight now.
	OpenExchanges, OpenSequences int
}

// Tracker joins the HTTP side and the engine side of each request and emits it when it
// is over. Its methods take inputs in the order of capture; they are not safe for
// concurrent use. It reads no clock: time is what inputs say.
type Tracker struct {
	opts Options
	now  int64
	scan int64
	// roomAt is when makeRoom looked the last time.
	roomAt int64
	offset int64
	stats  Stats

	seqs map[string]*seq
	// front is none; its next is the sequence of the last step's first output.
	front  seq
	groups map[string]*group
	calls  map[*Exchange]*call
	// named are open calls whose response id is known before the response (X-Request-Id).
	named map[string][]*call
	// waiting are calls that ended before the engine did.
	waiting map[*call]struct{}
	// orphans are groups whose sequences have all ended and that no call has taken.
	orphans map[*group]struct{}
	order   uint64

	engine, version string
	// rustFrontEnd: the last request that was seen whole came from vLLM's Rust front-end.
	rustFrontEnd bool
	// cores are the processes that sent outputs: engines.
	cores map[uint32]struct{}
	// gone remembers engine ids that were emitted a short time ago.
	gone  recentIDs
	sweep int64
}

// NewTracker makes a Tracker.
func NewTracker(o Options) *Tracker {
	if o.MaxOpen <= 0 {
		o.MaxOpen = DefaultMaxOpen
	}
	return &Tracker{
		opts:    o,
		seqs:    make(map[string]*seq),
		groups:  make(map[string]*group),
		calls:   make(map[*Exchange]*call),
		named:   make(map[string][]*call),
		waiting: make(map[*call]struct{}),
		orphans: make(map[*group]struct{}),
		cores:   make(map[uint32]struct{}),
		engine:  o.Engine, version: o.EngineVersion,
	}
}

// Stats returns the counts so far.
func (t *Tracker) Stats() Stats {
	s := t.stats
	s.OpenExchanges, s.OpenSequences = len(t.calls), len(t.seqs)
	return s
}

// Engine returns the engine's kind and version as far as they are known.
func (t *Tracker) Engine() (kind, version string) { return t.engine, t.version }

// Clock sets the wall clock's offset, in nanoseconds, from time on.
func (t *Tracker) Clock(time, offset int64) {
	t.advance(time)
	t.offset = offset
}

// Tick says that it is time now; requests that have waited long enough end.
func (t *Tracker) Tick(time int64) { t.advance(time) }

// Flush ends everything that is still open: the workload has ended, or a recording.
func (t *Tracker) Flush() {
	for _, c := range sortOrdered(slices.Collect(maps.Values(t.calls))) {
		t.finish(c)
	}
	for _, c := range sortOrdered(slices.Collect(maps.Keys(t.waiting))) {
		t.finish(c)
	}
	for _, g := range sortOrdered(slices.Collect(maps.Values(t.groups))) {
		t.finishOrphan(g)
	}
}

// advance moves event time forward and ends what has waited long enough.
func (t *Tracker) advance(now int64) {
	if now <= t.now {
		return
	}
	t.now = now
	if now-t.scan < scanEvery {
		return
	}
	t.scan = now
	// What is due is chosen before anything ends: the end of one does not change another.
	var calls []*call
	for c := range t.waiting {
		if t.over(c) {
			calls = append(calls, c)
		}
	}
	for _, c := range sortOrdered(calls) {
		t.finish(c)
	}
	var groups []*group
	for g := range t.orphans {
		if now-g.lastSeen >= lingerForHTTP && g.free(true) {
			groups = append(groups, g)
		}
	}
	if len(groups) > 0 {
		callers := t.unnamed()
		// An answer follows its engine's end closely, so that the newest are the likelier.
		var done []*group
		for _, g := range slices.Backward(sortOrdered(groups)) {
			if !callers.mayName(g) {
				done = append(done, g)
			}
		}
		for _, g := range slices.Backward(done) {
			t.finishOrphan(g)
		}
	}
	if now-t.sweep < sweepEvery {
		return
	}
	t.sweep = now
	groups = groups[:0]
	for _, g := range t.groups {
		if now-g.lastSeen >= maxIdle && g.free(false) {
			groups = append(groups, g)
		}
	}
	for _, g := range sortOrdered(groups) {
		t.finishOrphan(g)
	}
}

// makeRoom ends the oldest calls that are open although the engine is done with them: a
// client that does not read its answer must not keep others from being followed. It
// reports whether there is room now.
func (t *Tracker) makeRoom() bool {
	if t.now-t.roomAt < scanEvery {
		return false
	}
	t.roomAt = t.now
	var idle []*call
	for _, c := range t.calls {
		if len(c.seqs) > 0 && !slices.ContainsFunc(c.seqs, func(s *seq) bool { return !s.settled() || t.now-s.lastSeen < lingerForHTTP }) {
			idle = append(idle, c)
		}
	}
	enough := t.opts.MaxOpen - t.opts.MaxOpen/16 - 1
	for _, c := range sortOrdered(idle) {
		if len(t.seqs) <= enough {
			break
		}
		// The HTTP decoder goes on with its Exchange; what is emitted changes no more.
		delete(t.calls, c.x)
		c.x = c.x.clone()
		t.finish(c)
	}
	return len(t.seqs) < t.opts.MaxOpen
}

// newRecord makes a UUID version 7 (RFC 9562, 5.7) from a wall time and random bits.
func (t *Tracker) newRecord(wallNs int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[0:], uint64(wallNs/1e6)<<16)
	r := t.opts.Random()
	id[6] = 0x70 | byte(r>>8)&0x0f
	id[7] = byte(r)
	binary.BigEndian.PutUint64(id[8:], t.opts.Random())
	id[8] = 0x80 | id[8]&0x3f
	return id
}

func (t *Tracker) newTraceID() (id [16]byte) {
	for id == [16]byte{} {
		binary.BigEndian.PutUint64(id[0:], t.opts.Random())
		binary.BigEndian.PutUint64(id[8:], t.opts.Random())
	}
	return id
}
