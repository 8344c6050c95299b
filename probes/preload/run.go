package preload

// The loop that reads the ring and does what is due.

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

const (
	// tickInterval is how long nothing may come before a tick does.
	tickInterval = time.Second
	// While the ring fills by more than busyShare of its size between two looks,
	// its level is looked at busyLooks times as often, and it is emptied when it is
	// half full. The look itself is one load.
	busyShare = 16
	busyLooks = 5
	// finalWait is how long the last look waits for a record that a preempted thread
	// has not finished.
	finalWait = 20 * time.Millisecond
	// tlsGrace is how long connections may have been seen to be encrypted before it is
	// said that they cannot be read: the library may be read a moment later.
	tlsGrace = 5 * time.Second
	// maxCountAtOnce is more than a counter can grow by between two looks, even if every
	// core of a large machine did nothing else for a minute.
	maxCountAtOnce = 1 << 36
)

// run is the state of one Run.
type run struct {
	*Source
	sink    func(*capture.Event)
	handle  func(*recordHeader, []byte) // r.take, made once: a method value allocates
	event   capture.Event               // the one that is handed out, again and again
	clock   backend.OffsetClock
	now     int64 // CLOCK_MONOTONIC of this look
	last    int64 // of the last event or tick
	notes   []exitNote
	exiting []exit
	tls     int64 // when a connection was first seen to be encrypted
	plain   bool  // the text of one was seen
	// unreliable: a counter had a number that cannot be, so that they say nothing any more
	// about what kinds of calls there were.
	unreliable bool
}

// exit is the end of a process that is told when the ring has been read as far as it was
// filled then, so that nothing that the process did comes after it.
type exit struct {
	exitNote
	after uint64
}

// Run delivers events until ctx is cancelled, and then what is left in the ring.
func (s *Source) Run(ctx context.Context, sink func(*capture.Event)) (err error) {
	r := &run{Source: s, sink: sink}
	r.handle = r.take
	// As guarded does, but a fault of the sink's own is not the ring's.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer r.recoverFault(&err)
	r.begin()
	for r.wait(ctx, r.poll()) {
	}
	for deadline := backend.Monotonic() + int64(finalWait); ; time.Sleep(time.Millisecond) {
		r.poll()
		if r.reader.filled() == 0 && len(r.exiting) == 0 || backend.Monotonic() >= deadline {
			return nil
		}
	}
}

// recoverFault makes an error of a fault in the ring's memory; any other panic goes on.
func (r *run) recoverFault(err *error) {
	v := recover()
	if v == nil {
		return
	}
	if f, ok := v.(interface{ Addr() uintptr }); ok && r.holds(f.Addr()) {
		*err = fmt.Errorf("run preload capture: %w", errShortened)
		return
	}
	panic(v)
}

func (s *Source) holds(addr uintptr) bool {
	header, data := uintptr(unsafe.Pointer(s.header)), uintptr(unsafe.Pointer(unsafe.SliceData(s.data)))
	return addr >= header && addr < header+ringHeaderBytes || addr >= data && addr < data+uintptr(len(s.data))
}

// deliver hands out r.event.
func (r *run) deliver() { r.sink(&r.event) }

// begin delivers the clock, and the processes that were there before.
func (r *run) begin() {
	now := backend.Monotonic()
	r.last = now
	r.tellClock(now)
	if len(r.adopted) == 0 {
		return
	}
	r.event = capture.Event{Kind: capture.KindAttach, Time: now, Socket: capture.SocketUnknown}
	r.deliver()
	for _, pid := range r.adopted {
		p := r.processes[pid]
		cmdline := backend.ReadCmdline(pid)
		r.started(p, cmdline, now)
		r.event = capture.Event{
			Kind: capture.KindExec, Time: now, PID: pid, TID: pid, Comm: p.Comm,
			Socket: capture.SocketUnknown, Len: len(cmdline), Data: cmdline,
		}
		r.deliver()
	}
	r.adopted = nil
}

// poll empties the ring once and does what is due. It returns how many bytes the ring
// held.
func (r *run) poll() uint64 {
	r.now = backend.Monotonic()
	r.tellClock(r.now)
	// Ends before the head: what a process wrote before its end is below it.
	r.noteExits()
	used := r.reader.filled()
	r.scan(r.now)
	// Before the events as well: one that was lost may be what shows that a later one, an
	// end above all, is not the whole truth.
	r.tellLost()
	r.reader.drain(r.now, r.handle)
	r.tellLost()
	r.tellExits()
	if r.now-r.last >= int64(tickInterval) {
		r.last = r.now
		r.event = capture.Event{Kind: capture.KindTick, Time: r.now, Socket: capture.SocketUnknown}
		r.deliver()
	}
	r.lookForUncovered(r.now)
	return used
}

// take handles one record.
func (r *run) take(h *recordHeader, data []byte) {
	p := r.of(h)
	e := &r.event
	*e = capture.Event{
		Kind: capture.Kind(h.Kind), Time: int64(h.TimeNs), PID: h.Pid, TID: h.Tid, Conn: h.Conn, Seq: h.Seq,
		Socket: capture.SocketUnknown, TLS: h.Flags&recordTLS != 0, Len: int(h.Len), Data: data, Tail: int(h.Tail),
	}
	switch e.Kind {
	case kindFork:
		if p != nil {
			r.forked(p, uint32(h.Conn))
		}
		return
	case capture.KindExec:
		if p != nil && !r.beganNow(p, h) {
			return
		}
		cmdline := backend.ReadCmdline(h.Pid)
		if p != nil {
			r.started(p, cmdline, r.now)
		}
		e.Conn, e.Seq, e.Len, e.Data, e.Tail, e.TLS = 0, 0, len(cmdline), cmdline, 0, false
	case capture.KindSend, capture.KindRecv:
		e.Socket, e.More = capture.SocketType(h.Socket), h.Flags&recordMore != 0
	case capture.KindOpen:
		e.Port = h.Port
	case capture.KindClose:
		e.Peer = h.Flags&recordPeer != 0
	}
	r.plain = r.plain || e.TLS
	if p != nil {
		p.spoke = p.spoke || e.Kind != capture.KindExec
		e.Comm = r.threadName(p, h.Tid, r.now)
		if e.Kind == capture.KindSend {
			r.named(p, e.Comm)
		}
	}
	r.last = max(r.last, e.Time)
	r.deliver()
}

// beganNow is false for the record of a process that was adopted as it began: it
// registered before the list of those that were there was made, and saw the ring active
// a moment later.
func (r *run) beganNow(p *process, h *recordHeader) bool {
	if p.adopted == 0 {
		return true
	}
	adopted := p.adopted
	p.adopted = 0
	return p.slot < 0 || r.slots[p.slot].registered != adopted
}

// noteExits takes over the ends that were noticed.
func (r *run) noteExits() {
	r.notes = r.exits.take(r.notes[:0])
	if len(r.notes) == 0 {
		return
	}
	head := r.reader.head()
	for _, n := range r.notes {
		r.exiting = append(r.exiting, exit{n, head})
	}
}

// tellExits delivers the ends before which nothing is left in the ring.
func (r *run) tellExits() {
	for len(r.exiting) > 0 {
		x := r.exiting[0]
		// Behind head means that the ring was started anew.
		if left := x.after - r.reader.next; left > 0 && left <= r.reader.size {
			return
		}
		r.exiting = r.exiting[1:]
		r.event = r.exited(x.exitNote)
		r.last = max(r.last, r.event.Time)
		r.deliver()
	}
	r.exiting = nil
}

func (r *run) tellClock(now int64) {
	offset, ok := r.clock.Next(now)
	if !ok {
		return
	}
	r.event = capture.Event{Kind: capture.KindClock, Time: now, Offset: offset, Socket: capture.SocketUnknown}
	r.deliver()
}

// tellLost delivers what was lost since the last time.
func (r *run) tellLost() {
	sum := r.counters()
	if !sum.follows(&r.lost) {
		// Somebody has written there; what was counted meanwhile is not known.
		r.reader.corrupt++
		torn, corrupt := r.lost.torn, r.lost.corrupt
		r.lost = sum
		r.lost.torn, r.lost.corrupt = torn, corrupt
		r.unreliable = true
	}
	sum.torn, sum.corrupt = r.reader.torn, r.reader.corrupt
	for _, l := range []struct {
		cause    capture.Cause
		now, was uint64
	}{
		{capture.LostRingFull, sum.ringFull, r.lost.ringFull},
		{capture.LostTable, sum.tableFull, r.lost.tableFull},
		{capture.LostNested, sum.nested, r.lost.nested},
		{capture.LostRecord, sum.torn + sum.corrupt, r.lost.torn + r.lost.corrupt},
	} {
		if l.now == l.was {
			continue
		}
		r.event = capture.Event{Kind: capture.KindLost, Time: r.now, Len: int(l.now - l.was), Cause: l.cause, Socket: capture.SocketUnknown}
		r.deliver()
	}
	r.lost = sum
	if r.reader.corrupt > 0 {
		r.warnOnce("corrupt", "something in the workload writes to memory that is not its own: the ring held numbers that cannot be, and was emptied")
	}
	if !r.unreliable {
		r.warn(&sum)
	}
}

// warn says once what is not seen.
func (r *run) warn(c *counters) {
	if c.tls > 0 && r.tls == 0 {
		r.tls = r.now
	}
	if r.tls > 0 && !r.plain && r.now-r.tls >= int64(tlsGrace) {
		r.warnOnce("tls", "the server's connections are encrypted by something else than OpenSSL's library: their HTTP cannot be seen, only engine messages")
	}
	if c.http2 > 0 {
		r.warnOnce("http2", "the server speaks HTTP/2, which is not followed")
	}
	if c.refused > 0 {
		r.warnOnce("refused", "processes of the workload carry the preloaded library of another version of this program, and are not seen; start the workload again",
			"expected", ringVersion)
	}
	if c.unresolved > 0 {
		r.warnOnce("unresolved", "calls of libzmq or libssl could not be passed on, because the library was not found that they were meant for", "count", c.unresolved)
	}
}

// wait returns when the ring is to be looked at again; false when ctx is done.
func (r *run) wait(ctx context.Context, used uint64) bool {
	step := r.options.Poll
	if used > r.reader.size/busyShare {
		step = max(step/busyLooks, time.Millisecond)
	}
	timer := time.NewTimer(step)
	defer timer.Stop()
	for waited := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		waited += step
		if waited >= r.options.Poll || r.reader.filled() >= r.reader.size/2 {
			return true
		}
		timer.Reset(step)
	}
}
