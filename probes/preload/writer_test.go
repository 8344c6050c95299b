package preload

// A writer in Go that follows the protocol of ring.h as the library does, and can stop at
// each of its steps, as a process that is killed does.

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// newRing makes a ring that is removed with the test.
func newRing(t testing.TB, o RingOptions) *Ring {
	t.Helper()
	if o.RingBytes == 0 {
		o.RingBytes = minDataBytes
	}
	r, err := Create(o)
	if err != nil {
		t.Fatalf("Create(%+v) = %v", o, err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	if err := r.Reserve(); err != nil {
		t.Fatalf("Reserve() = %v", err)
	}
	return r
}

// writer is a process of the workload.
type writer struct {
	header *ringHeader
	data   []byte
	size   uint64
	pid    uint32
	tid    uint32
	conn   uint64
	seq    uint64
}

// newWriter maps a ring as a process does: by its path.
func newWriter(t testing.TB, r *Ring) *writer {
	t.Helper()
	f, err := os.OpenFile(r.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := mapHeader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := mapData(f, int(h.DataBytes), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmapHeader(h); err != nil {
			t.Error(err)
		}
		if err := unmapData(data); err != nil {
			t.Error(err)
		}
	})
	return &writer{header: h, data: data, size: h.DataBytes, pid: uint32(os.Getpid()), tid: uint32(os.Getpid()), conn: 1}
}

// at is the record at a position.
func (w *writer) at(pos uint64) *recordHeader {
	return (*recordHeader)(unsafe.Pointer(&w.data[pos&(w.size-1)]))
}

// claim moves the head; false without room.
func (w *writer) claim(size uint64) (pos uint64, ok bool) {
	for {
		head, tail := atomic.LoadUint64(&w.header.Head), atomic.LoadUint64(&w.header.Tail)
		if head+size-tail > w.size {
			atomic.AddUint64(&w.header.RingFull, 1)
			return 0, false
		}
		if atomic.CompareAndSwapUint64(&w.header.Head, head, head+size) {
			return head, true
		}
	}
}

// announce writes what a reader must know of a record that is not finished.
func (w *writer) announce(pos, size uint64) *recordHeader {
	p := w.at(pos)
	atomic.StoreUint32(&p.State, recordReserved)
	atomic.StoreUint32(&p.Size, uint32(size))
	atomic.StoreUint32(&p.Pid, w.pid)
	atomic.StoreUint32(&p.Tid, w.tid)
	atomic.StoreUint64(&p.Position, pos^w.header.Nonce)
	return p
}

// fill writes the rest of a record, but not that it is finished.
func (w *writer) fill(p *recordHeader, kind capture.Kind, data string) {
	w.seq++
	p.TimeNs, p.Conn, p.Seq = uint64(backend.Monotonic()), w.conn, w.seq
	p.Len, p.Captured, p.Tail = uint32(len(data)), uint32(len(data)), 0
	p.Kind, p.Socket, p.Flags, p.Port = uint8(kind), int8(capture.SocketPush), 0, 0
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), recordHeaderBytes)), len(data)), data)
}

func (w *writer) commit(p *recordHeader) { atomic.StoreUint32(&p.State, recordCommitted) }

// write records an event; false without room.
func (w *writer) write(kind capture.Kind, data string) bool {
	size := alignUp(uint64(recordHeaderBytes + len(data)))
	pos, ok := w.claim(size)
	if !ok {
		w.seq++
		return false
	}
	p := w.announce(pos, size)
	w.fill(p, kind, data)
	w.commit(p)
	return true
}

// steps are how far a writer that is killed may have come with a record, after which it
// says so by its return value: the room that it took.
var steps = []struct {
	name string
	do   func(w *writer, data string) uint64
}{
	{"room taken", func(w *writer, data string) uint64 {
		size := alignUp(uint64(recordHeaderBytes + len(data)))
		w.claim(size)
		return size
	}},
	{"announced", func(w *writer, data string) uint64 {
		size := alignUp(uint64(recordHeaderBytes + len(data)))
		pos, _ := w.claim(size)
		w.announce(pos, size)
		return size
	}},
	{"filled", func(w *writer, data string) uint64 {
		size := alignUp(uint64(recordHeaderBytes + len(data)))
		pos, _ := w.claim(size)
		w.fill(w.announce(pos, size), capture.KindSend, data)
		return size
	}},
}

// patience bounds waiting for something that must come; nothing is measured by it.
const patience = 30 * time.Second
