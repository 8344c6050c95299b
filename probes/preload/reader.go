package preload

// Reading the ring where it lies, past writers that were killed or stopped in the middle.

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tokenscope/tokenscope/probes/capture"
)

const (
	// stuckAfter is how long a record may stay unfinished before others are read that
	// stand behind it. Filling one takes a microsecond; a thread that loses its CPU in the
	// middle has it back sooner than this on all but a hopelessly busy machine.
	stuckAfter = 100 * time.Millisecond
	// stuckLooks is how often it must have been seen unfinished: whoever stops the
	// workload, as a cgroup's CPU quota does, often stops this process as well, and then
	// the time says nothing.
	stuckLooks = 2
	// abandonAfter and abandonLooks are the same for giving back the room of a record
	// whose thread lives, but does something else: it has left the library by longjmp
	// out of a signal handler. Should it finish the record nevertheless, it would write
	// over another; so they are long.
	abandonAfter = 10 * time.Second
	abandonLooks = 100
	// maxHeld bounds how many unfinished records are remembered one by one.
	maxHeld = 4096
	// releaseShare of the ring is given back at a time: the writers' next look at tail
	// after each store costs them a cache miss.
	releaseShare = 16
)

// held is a part of the ring that was passed over, and may still be written to.
type held struct {
	from, to uint64
	since    int64 // CLOCK_MONOTONIC
	looks    int
}

// fate is what has become of a thread that has not finished its record.
type fate int

const (
	fateWriting   fate = iota // it may go on any moment
	fateElsewhere             // it sleeps, which the library never does
	fateGone
)

// reader reads a ring. Positions only grow; what this process gave back (tail) and has
// read (next) it keeps for itself, as others can write to shared memory.
type reader struct {
	header *ringHeader
	data   []byte // mapped twice in a row
	size   uint64
	nonce  uint64
	// fate says what has become of a thread.
	fate func(pid, tid uint32) fate

	tail, next uint64
	released   uint64 // what tail in shared memory is
	held       []held // between tail and next, oldest first
	// Everything below markHead was reserved at markSince, and is looked at for the
	// markLooks-th time.
	markHead  uint64
	markSince int64
	markLooks int

	record recordHeader // a copy of the current one
	// torn counts records that were not finished, or cannot be.
	torn uint64
	// corrupt counts heads that cannot be.
	corrupt uint64
}

func newReader(h *ringHeader, data []byte, fate func(pid, tid uint32) fate) *reader {
	r := &reader{header: h, data: data, size: uint64(len(data) / 2), fate: fate}
	r.restart()
	return r
}

// restart drops what is in the ring. Positions begin at the head, which is put back on a
// boundary in case that a hostile hand has moved it.
func (r *reader) restart() {
	r.nonce = atomic.LoadUint64(&r.header.Nonce) // by which the writers go, whatever it was
	head := atomic.LoadUint64(&r.header.Head)
	if head%recordAlign != 0 {
		head = alignUp(head)
		atomic.StoreUint64(&r.header.Head, head)
	}
	r.tail, r.next, r.markHead = head, head, head
	r.held = r.held[:0]
	r.released = head
	atomic.StoreUint64(&r.header.Tail, head)
}

func alignUp(n uint64) uint64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// head returns how far there is something to read; where it cannot be, it starts anew.
func (r *reader) head() uint64 {
	head := atomic.LoadUint64(&r.header.Head)
	if head-r.tail > r.size || head-r.next > r.size || head%recordAlign != 0 || atomic.LoadUint64(&r.header.Nonce) != r.nonce {
		r.corrupt++
		r.restart()
		return r.next
	}
	return head
}

// filled is the number of bytes that wait to be read.
func (r *reader) filled() uint64 {
	n := atomic.LoadUint64(&r.header.Head) - r.next
	if n > r.size {
		return 0 // drain finds that out, and says it
	}
	return n
}

// place is what a position holds.
type place int

const (
	placeUnwritten place = iota // no header; of unknown size
	placeReserved
	placeRecord
	placeBad // finished, and cannot be
)

// look says what is at pos, how long it is, and if it is a record copies its header to
// r.record. Numbers from shared memory are loaded once, and checked before they are used.
func (r *reader) look(pos, head uint64) (place, uint64) {
	p := (*recordHeader)(unsafe.Pointer(&r.data[pos&(r.size-1)]))
	// The writer stores position last of the numbers that it stores when it reserves, with
	// release: who sees it sees those, and none of an earlier lap.
	if atomic.LoadUint64(&p.Position) != pos^r.nonce {
		return placeUnwritten, 0
	}
	state := atomic.LoadUint32(&p.State)
	size := uint64(atomic.LoadUint32(&p.Size))
	if size < recordHeaderBytes || size%recordAlign != 0 || size > head-pos {
		return placeUnwritten, 0
	}
	switch state {
	case recordReserved:
		return placeReserved, size
	case recordCommitted:
	default:
		return placeUnwritten, 0
	}
	r.record = *p
	h := &r.record
	if uint64(h.Captured) > size-recordHeaderBytes || h.Captured > h.Len || uint32(h.Tail) > h.Captured {
		return placeBad, size
	}
	switch k := capture.Kind(h.Kind); k {
	case capture.KindExec, capture.KindSend, capture.KindRecv, capture.KindOpen, capture.KindRead, capture.KindWrite, capture.KindClose, kindFork:
		return placeRecord, size
	}
	return placeBad, size
}

// drain hands each finished record to f, in order, as far as the ring was filled when it
// began, so that a busy workload cannot hold it. What f is given is valid until it
// returns.
func (r *reader) drain(now int64, f func(h *recordHeader, data []byte)) {
	head := r.head()
	r.settle(now, head)
	if r.next < r.markHead {
		r.markLooks++
	}
	for r.next < head {
		what, size := r.look(r.next, head)
		switch what {
		case placeRecord:
			from := r.next&(r.size-1) + recordHeaderBytes
			to := from + uint64(r.record.Captured)
			f(&r.record, r.data[from:to:to])
		case placeBad:
			r.torn++
		default:
			if !r.old(now, head) {
				r.release()
				return
			}
			if size = r.pass(what, size, now, head); size == 0 {
				r.release()
				return
			}
		}
		r.next += size
		if len(r.held) == 0 && r.next-r.released >= r.size/releaseShare {
			r.release()
		}
	}
	r.release()
}

// old reports whether what is not finished at next has been so for long. If that is not
// known, the clock starts.
func (r *reader) old(now int64, head uint64) bool {
	if r.next >= r.markHead {
		r.markHead, r.markSince, r.markLooks = head, now, 1
	}
	return now-r.markSince >= int64(stuckAfter) && r.markLooks >= stuckLooks
}

// pass goes past a place that was not finished in time, and returns its size; 0 if nothing
// true stands behind it yet.
func (r *reader) pass(what place, size uint64, now int64, head uint64) uint64 {
	if what == placeUnwritten {
		// The place of a writer that has not even said how long it is.
		for size = recordAlign; ; size += recordAlign {
			if r.next+size >= head {
				return 0
			}
			if w, _ := r.look(r.next+size, head); w != placeUnwritten {
				break
			}
		}
	}
	r.torn++
	h := held{from: r.next, to: r.next + size, since: now}
	if n := len(r.held); n >= maxHeld {
		r.held[n-1].to = h.to
	} else {
		r.held = append(r.held, h)
	}
	return size
}

// settle forgets the oldest places that were passed over and will not be written to any
// more.
func (r *reader) settle(now int64, head uint64) {
	for len(r.held) > 0 {
		h := &r.held[0]
		if h.from >= h.to || r.settled(h, now, head) {
			r.held = r.held[1:]
			continue
		}
		break
	}
	if len(r.held) == 0 {
		r.held = nil // what was cut off in front is not kept for ever
	}
	r.release()
}

// settled reports whether all of h is at rest. What is behind a record that has come to
// rest may be another, so h shrinks.
func (r *reader) settled(h *held, now int64, head uint64) bool {
	for h.from < h.to {
		what, size := r.look(h.from, head)
		if what == placeRecord || what == placeBad {
			h.from += size // finished too late: it was counted as lost
			h.since, h.looks = now, 0
			continue
		}
		f := fateElsewhere // unwritten: nobody knows whose it is
		if what == placeReserved {
			p := (*recordHeader)(unsafe.Pointer(&r.data[h.from&(r.size-1)]))
			f = r.fate(atomic.LoadUint32(&p.Pid), atomic.LoadUint32(&p.Tid))
		}
		switch f {
		case fateGone:
			h.from += size
			h.since, h.looks = now, 0
			continue
		case fateWriting:
			h.since, h.looks = now, 0
			return false
		}
		h.looks++
		return now-h.since >= int64(abandonAfter) && h.looks >= abandonLooks
	}
	return true
}

// release gives back what was read and nobody writes to any more.
func (r *reader) release() {
	r.tail = r.next
	if len(r.held) > 0 {
		r.tail = r.held[0].from
	}
	if r.tail != r.released {
		r.released = r.tail
		atomic.StoreUint64(&r.header.Tail, r.tail)
	}
}
