package ebpf

// The loop that empties the ring and does what is due.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

const (
	// tickInterval is how long nothing may come before a tick does.
	tickInterval = time.Second
	// sweepInterval is how often the kernel's tables are cleaned of processes that
	// have ended.
	sweepInterval = time.Second
	// While the ring fills by more than busyShare of its size between two looks,
	// its level is looked at busyLooks times as often, and it is emptied when it is
	// half full. The look itself is two loads.
	busyShare = 16
	busyLooks = 5
	// finalWait is how long the last look waits for a record that a preempted
	// program has not finished.
	finalWait = 20 * time.Millisecond
)

// run is the state of one Run.
type run struct {
	*Source
	sink  func(*capture.Event)
	event capture.Event // the one that is handed out, again and again
	clock backend.OffsetClock
	last  int64 // CLOCK_MONOTONIC of the last event or tick
	lost  captureCounters
	swept int64
	torn  bool // a record that cannot be
}

// Run delivers events until ctx is cancelled, and then what is left in the ring.
func (s *Source) Run(ctx context.Context, sink func(*capture.Event)) error {
	r := &run{Source: s, sink: sink}
	r.begin()
	for {
		used := r.poll()
		if r.torn {
			return errors.New("run ebpf capture: the ring holds a record that cannot be")
		}
		if !r.wait(ctx, used) {
			break
		}
	}
	for deadline := backend.Monotonic() + int64(finalWait); ; time.Sleep(time.Millisecond) {
		r.poll()
		if s.ring.filled() == 0 || backend.Monotonic() >= deadline {
			return nil
		}
	}
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
	for _, a := range r.adopted {
		comm := r.decoder.name(a.Comm)
		cmdline := backend.ReadCmdline(a.Pid)
		r.started(a.Pid, a.Parent, comm, cmdline, now)
		if p := r.processes[a.Pid]; p != nil {
			p.next = now // it may have been running for hours
		}
		r.event = capture.Event{
			Kind: capture.KindExec, Time: now, PID: a.Pid, TID: a.Pid, Comm: comm,
			Socket: capture.SocketUnknown, Len: len(cmdline), Data: cmdline,
		}
		r.deliver()
	}
	r.adopted = nil
}

// poll empties the ring once and does what is due. It returns how many bytes the
// ring held.
func (r *run) poll() uint64 {
	// Taken first: what comes out of the ring now is, but for a program that was
	// held up, older.
	now := backend.Monotonic()
	r.tellClock(now)
	used := r.ring.filled()
	// Before the events as well: one that was lost may be what shows that a later
	// one, an end above all, is not the whole truth.
	r.tellLost(now)
	r.ring.drain(r.record)
	r.tellLost(now)
	if now-r.last >= int64(tickInterval) {
		r.last = now
		r.event = capture.Event{Kind: capture.KindTick, Time: now, Socket: capture.SocketUnknown}
		r.deliver()
	}
	r.attachFresh()
	r.look(now)
	if len(r.dead) > 0 && now-r.swept >= int64(sweepInterval) {
		r.swept = now
		r.sweep()
	}
	return used
}

// record handles one record of the ring.
func (r *run) record(record []byte) {
	e := &r.event
	raw, ok := r.decoder.decode(record, e)
	if !ok {
		r.torn = true
		return
	}
	if r.ofTest(e.PID) {
		return
	}
	switch e.Kind {
	case kindFork:
		r.forked(e.PID, uint32(raw.Conn), e.Time)
		return
	case capture.KindExec:
		e.Data = backend.ReadCmdline(e.PID)
		e.Len = len(e.Data)
		r.started(e.PID, 0, e.Comm, e.Data, e.Time)
	case capture.KindExit:
		r.exited(e.PID)
		r.dead[uint32(raw.Conn)] = true
		e.Conn = 0
	case capture.KindSend:
		r.named(e.PID, e.Comm)
	}
	r.last = max(r.last, e.Time)
	r.deliver()
}

func (r *run) tellClock(now int64) {
	offset, ok := r.clock.Next(now)
	if !ok {
		return
	}
	r.event = capture.Event{Kind: capture.KindClock, Time: now, Offset: offset, Socket: capture.SocketUnknown}
	r.deliver()
}

// tellLost delivers what the kernel could not, since the last time.
func (r *run) tellLost(now int64) {
	sum, err := r.counters()
	if err != nil {
		r.warnOnce("counters", "the kernel's counters of lost events cannot be read", "error", err)
		return
	}
	for _, l := range []struct {
		cause capture.Cause
		n     uint64
	}{
		{capture.LostRingFull, sum.RingFull - r.lost.RingFull},
		{capture.LostUnreadable, sum.Unreadable - r.lost.Unreadable},
		{capture.LostTable, sum.TableFull - r.lost.TableFull},
	} {
		if l.n == 0 {
			continue
		}
		r.event = capture.Event{Kind: capture.KindLost, Time: now, Len: int(l.n), Cause: l.cause, Socket: capture.SocketUnknown}
		r.deliver()
	}
	if sum.Tls > 0 {
		r.warnOnce("tls", "the server's connections are encrypted: their HTTP cannot be seen, only engine messages")
	}
	if sum.Http2 > 0 {
		r.warnOnce("http2", "the server speaks HTTP/2, which is not followed")
	}
	r.lost = sum
}

// counters sums the kernel's counters over all CPUs.
func (s *Source) counters() (captureCounters, error) {
	var perCPU []captureCounters
	if err := s.kernel.maps[captureMapCounts].Lookup(uint32(0), &perCPU); err != nil {
		return captureCounters{}, fmt.Errorf("read counters: %w", err)
	}
	var sum captureCounters
	for _, c := range perCPU {
		sum.RingFull += c.RingFull
		sum.Unreadable += c.Unreadable
		sum.TableFull += c.TableFull
		sum.Tls += c.Tls
		sum.Http2 += c.Http2
		sum.Other += c.Other
	}
	return sum, nil
}

// wait returns when the ring is to be looked at again; false when ctx is done.
func (r *run) wait(ctx context.Context, used uint64) bool {
	step := r.options.Poll
	if used > r.ring.size()/busyShare {
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
		if waited >= r.options.Poll || r.ring.filled() >= r.ring.size()/2 {
			return true
		}
		timer.Reset(step)
	}
}

// sweep removes what processes that have ended left in the kernel's tables.
func (s *Source) sweep() {
	sweepMap(s.kernel.maps[captureMapConnections], func(k captureFdKey) bool { return s.dead[k.Tgid] })
	sweepMap(s.kernel.maps[captureMapSockets], func(k captureSocketKey) bool { return s.dead[k.Tgid] })
	sweepMap(s.kernel.maps[captureMapCalls], func(thread uint64) bool { return s.dead[uint32(thread>>32)] })
	sweepMap(s.kernel.maps[captureMapZmqCalls], func(thread uint64) bool { return s.dead[uint32(thread>>32)] })
	clear(s.dead)
}

// sweepMap deletes the keys of m that are gone. A table that changes meanwhile
// may hide some of them; they cost a place and nothing else.
func sweepMap[K comparable](m *ebpf.Map, gone func(K) bool) {
	var keys []K
	var key K
	var value []byte
	for it := m.Iterate(); it.Next(&key, &value); {
		if gone(key) {
			keys = append(keys, key)
		}
	}
	for _, k := range keys {
		// It may be gone by itself.
		_ = m.Delete(k)
	}
}
