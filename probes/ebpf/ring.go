package ebpf

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ring reads the kernel's ring buffer where it lies: the bytes are not copied and
// nobody waits for a wake-up. (The reader of cilium/ebpf copies each record, and
// turns round and round while a record is reserved but not yet filled.)
//
// Layout, kernel/bpf/ringbuf.c: one page with the consumer's position, one with
// the producer's, then the data, mapped twice in a row so that a record never
// wraps. A record is a header of eight bytes, whose first four are the length
// with two flags, then the data, padded to eight.
type ring struct {
	consumer []byte // one page, ours to write
	producer []byte // one page and the data twice
	data     []byte
	consumed *uint64
	produced *uint64
	mask     uint64
}

const (
	ringHeaderBytes = 8
	ringBusy        = 1 << 31 // reserved, not yet submitted
	ringDiscard     = 1 << 30
)

func openRing(m *ebpf.Map) (*ring, error) {
	page := os.Getpagesize()
	size := int(m.MaxEntries())
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	producer, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map ring data: %w", err), unix.Munmap(consumer))
	}
	return &ring{
		consumer: consumer,
		producer: producer,
		data:     producer[page:],
		consumed: (*uint64)(unsafe.Pointer(&consumer[0])),
		produced: (*uint64)(unsafe.Pointer(&producer[0])),
		mask:     uint64(size - 1),
	}, nil
}

func (r *ring) Close() error {
	err := errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer))
	r.data, r.consumed, r.produced = nil, nil, nil
	return err
}

// filled is the number of bytes that wait, filled or being filled.
func (r *ring) filled() uint64 {
	return atomic.LoadUint64(r.produced) - atomic.LoadUint64(r.consumed)
}

// begin is the position of the first record that waits, end the one behind the last.
func (r *ring) begin() uint64 { return atomic.LoadUint64(r.consumed) }
func (r *ring) end() uint64   { return atomic.LoadUint64(r.produced) }

func (r *ring) size() uint64 { return r.mask + 1 }

// drain hands each record that is complete to f, in order, and gives its place
// back after f has returned. It stops at a record that is still being filled, and
// at what was produced when it began, so that a busy workload cannot hold it.
func (r *ring) drain(f func(record []byte)) {
	produced := atomic.LoadUint64(r.produced)
	for consumed := atomic.LoadUint64(r.consumed); consumed < produced; {
		record, next, ok := r.at(consumed)
		if !ok {
			return
		}
		if record != nil {
			f(record)
		}
		consumed = next
		atomic.StoreUint64(r.consumed, consumed)
	}
}

// peek hands each record that is complete from a position on to f and leaves it where
// it is. It returns the position behind the last. Nobody may drain meanwhile.
func (r *ring) peek(from uint64, f func(record []byte)) (next uint64) {
	produced := atomic.LoadUint64(r.produced)
	for from < produced {
		record, next, ok := r.at(from)
		if !ok {
			break
		}
		if record != nil {
			f(record)
		}
		from = next
	}
	return from
}

// at is the record at a position, nil if it was discarded, and the position behind
// it; not ok while it is being filled.
func (r *ring) at(position uint64) (record []byte, next uint64, ok bool) {
	at := position & r.mask
	// The atomic load pairs with the kernel's exchange when it submits: who sees
	// the flag gone also sees the data.
	header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
	if header&ringBusy != 0 {
		return nil, position, false
	}
	n := uint64(header &^ (ringBusy | ringDiscard))
	next = position + ringHeaderBytes + (n+7)&^7
	if header&ringDiscard == 0 {
		record = r.data[at+ringHeaderBytes : at+ringHeaderBytes+n : at+ringHeaderBytes+n]
	}
	return record, next, true
}
