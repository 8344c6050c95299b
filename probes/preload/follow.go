package preload

// Following the workload's processes: their places in the ring's table, their names,
// and whether what they receive is wanted.

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// process is what the source remembers of a process.
type process struct {
	backend.Process
	wanted bool
	// spoke: it has recorded more than that it began.
	spoke bool
	// slot is its place in the ring's table, −1 if it has none.
	slot int
	// adopted is when it had registered, if it was there before this agent.
	adopted uint64
	threads map[uint32]threadName
}

// threadName is the name of a thread as it was when it was last looked at. Records have
// none: a thread would need a system call to know its own.
type threadName struct {
	name  string
	since int64 // CLOCK_MONOTONIC of the first look
	next  int64 // of the next
}

const (
	// A thread's name is looked at again after as long as it is known, within these:
	// servers name their processes and threads when they have begun.
	minNameAge = 100 * time.Millisecond
	maxNameAge = time.Minute
	// maxThreads bounds the names of a process; beyond it all are looked up again.
	maxThreads = 4096
)

// slotSeen is what was last seen in a place of the ring's table.
type slotSeen struct {
	pid        uint32
	registered uint64
}

// adopt notes the processes that are there before the agent, and frees the places of
// those that have ended meanwhile.
func (s *Source) adopt() {
	for i := range s.header.Processes {
		slot := &s.header.Processes[i]
		pid, registered := atomic.LoadUint32(&slot.Pid), atomic.LoadUint64(&slot.RegisteredNs)
		if pid == 0 {
			continue
		}
		start, alive := startTime(pid)
		if !alive || registered != 0 && start > int64(registered)+int64(startMargin) {
			s.free(i, pid, registered)
			continue
		}
		if registered == 0 {
			continue // it is about to, and will write that
		}
		s.slots[i] = slotSeen{pid, registered}
		if p := s.add(pid); p != nil {
			p.slot, p.adopted, p.Parent = i, registered, atomic.LoadUint32(&slot.Parent)
			s.adopted = append(s.adopted, pid)
			s.exits.add(pid, int64(registered))
		}
	}
}

// scan looks for processes that have registered, or have begun another program. It is
// cheap: a load or two a place.
func (s *Source) scan(now int64) {
	for i := range s.header.Processes {
		slot := &s.header.Processes[i]
		pid := atomic.LoadUint32(&slot.Pid)
		if pid == 0 {
			s.slots[i] = slotSeen{}
			continue
		}
		// The process writes this last: who sees it sees its parent as well.
		registered := atomic.LoadUint64(&slot.RegisteredNs)
		if registered == 0 || s.slots[i] == (slotSeen{pid, registered}) {
			continue
		}
		s.slots[i] = slotSeen{pid, registered}
		p := s.add(pid)
		if p == nil {
			continue
		}
		p.slot, p.Parent = i, atomic.LoadUint32(&slot.Parent)
		s.exits.add(pid, int64(registered))
		// Its record says the same, if there was room for it, and says it in its place
		// among the others; but whether its receives are wanted is to be known soon.
		s.started(p, backend.ReadCmdline(pid), now)
	}
}

// free gives a place of the table back, unless another process has it by now.
func (s *Source) free(i int, pid uint32, registered uint64) {
	slot := &s.header.Processes[i]
	if atomic.LoadUint32(&slot.Pid) != pid || atomic.LoadUint64(&slot.RegisteredNs) != registered {
		return
	}
	atomic.StoreUint32(&slot.WantReceives, 0)
	atomic.StoreUint64(&slot.RegisteredNs, 0)
	atomic.CompareAndSwapUint32(&slot.Pid, pid, 0)
	s.slots[i] = slotSeen{}
}

// add returns what is remembered of a process, new if need be; nil if there are too many.
func (s *Source) add(pid uint32) *process {
	p := s.processes[pid]
	if p == nil && len(s.processes) < backend.MaxProcesses {
		p = &process{Process: backend.Process{PID: pid}, slot: -1}
		s.processes[pid] = p
	}
	return p
}

// of returns the process of a record, which may have found no place in the table.
func (s *Source) of(h *recordHeader) *process {
	p := s.processes[h.Pid]
	if p == nil {
		if p = s.add(h.Pid); p != nil {
			s.exits.add(h.Pid, int64(h.TimeNs))
		}
	}
	return p
}

// started takes note that a process runs a program.
func (s *Source) started(p *process, cmdline []byte, now int64) {
	clear(p.threads) // exec gives a new name
	p.Comm = ""
	p.Comm = s.threadName(p, p.PID, now)
	p.Cmdline = backend.SplitCmdline(cmdline)
	if from := s.processes[p.Parent]; from != nil {
		p.ParentWanted = from.wanted
	}
	p.wanted = s.options.WantReceives(p.Process)
	s.tellWanted(p)
}

// forked takes note of a process that runs on with its parent's program.
func (s *Source) forked(p *process, parent uint32) {
	p.Parent = parent
	if from := s.processes[parent]; from != nil {
		p.Comm, p.Cmdline, p.ParentWanted, p.wanted = from.Comm, from.Cmdline, from.wanted, from.wanted
	}
	s.tellWanted(p)
}

// tellWanted writes into the table whether the process is to record what it receives.
func (s *Source) tellWanted(p *process) {
	if p.slot < 0 {
		return
	}
	var want uint32
	if p.wanted {
		want = 1
	}
	if slot := &s.header.Processes[p.slot]; atomic.LoadUint32(&slot.Pid) == p.PID {
		atomic.StoreUint32(&slot.WantReceives, want)
	}
}

// named looks at the name of a thread that sent something: vLLM gives its processes
// names when they begin to work, so a server that a script starts from within is
// recognised late, but is. Its parent, which talks to it, is vLLM then too.
func (s *Source) named(p *process, comm string) {
	if p == nil || p.wanted || !strings.HasPrefix(comm, backend.EngineNamePrefix) {
		return
	}
	p.Comm = comm
	for range 2 {
		if p == nil || p.wanted || !s.options.WantReceives(backend.Process{PID: p.PID, Parent: p.Parent, Comm: comm, Cmdline: p.Cmdline}) {
			return
		}
		p.wanted = true
		s.tellWanted(p)
		p = s.processes[p.Parent]
	}
}

// threadName returns the name of a thread, as it is or was not long ago; of one that had
// ended before it was looked at, that of its process, or of the one that this was forked
// from.
func (s *Source) threadName(p *process, tid uint32, now int64) string {
	t, known := p.threads[tid]
	if known && now < t.next {
		return cmp.Or(t.name, p.Comm)
	}
	if !known {
		t.since = now
		if p.threads == nil || len(p.threads) >= maxThreads {
			p.threads = make(map[uint32]threadName)
		}
	}
	var b [maxCommBytes]byte
	if name := readComm(p.PID, tid, b[:]); name != nil && string(name) != t.name {
		t.name = string(name)
	}
	t.next = now + min(max(now-t.since, int64(minNameAge)), int64(maxNameAge))
	p.threads[tid] = t
	return cmp.Or(t.name, p.Comm)
}

// exited forgets a process, and returns the event that says so.
func (s *Source) exited(note exitNote) capture.Event {
	e := capture.Event{Kind: capture.KindExit, Time: note.time, PID: note.pid, TID: note.pid, Socket: capture.SocketUnknown}
	p := s.processes[note.pid]
	if p == nil {
		return e
	}
	e.Comm = cmp.Or(p.threads[note.pid].name, p.Comm)
	delete(s.processes, note.pid)
	if p.slot >= 0 {
		// If the number was given again, and to one of the workload's, this place is its,
		// and the next scan finds it new.
		seen := s.slots[p.slot]
		s.slots[p.slot] = slotSeen{}
		s.free(p.slot, note.pid, seen.registered)
	}
	return e
}
