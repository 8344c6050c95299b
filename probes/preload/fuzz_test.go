package preload

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// FuzzReader writes anything anywhere into a ring, as a hostile workload may: the reader
// neither fails nor stays, gives out nothing that is not in the ring, and reads on what is
// well-formed once the nonsense stops. The input is a list of words: where, as a number
// of eight bytes, and what to write there; a word to an odd place moves the clock on.
func FuzzReader(f *testing.F) {
	word := func(at uint32, value uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, at), value)
	}
	const base = ringHeaderBytes
	// A well-formed record in a ring whose nonce is 0.
	record := slices.Concat(word(base, 0), word(base+8, recordCommitted<<32|recordAlign), word(base+40, 0), word(base+56, uint64(capture.KindSend)<<32))
	f.Add([]byte{})
	f.Add(slices.Concat(record, word(128, recordAlign)))
	f.Add(slices.Concat(record, word(128, 3*recordAlign), word(1, uint64(stuckAfter)), word(1, uint64(stuckAfter)), word(base+8, recordReserved<<32|recordAlign)))
	f.Add(slices.Concat(word(base, 0), word(base+8, recordReserved<<32|recordAlign), word(128, recordAlign), word(1, 1<<40), word(1, 1<<62)))
	f.Add(slices.Concat(word(base, 0), word(base+8, recordCommitted<<32|1<<31), word(128, minDataBytes)))
	f.Add(slices.Concat(record, word(base+40, 1<<63-1), word(128, 1<<63), word(1, 1)))
	f.Add(word(128, 1<<64-1))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, data := new(ringHeader), make([]uint64, 2*minDataBytes/8)
		bytes := unsafeBytes(data)
		r := newReader(h, bytes, func(pid, _ uint32) fate { return fate(pid % 3) })
		var now int64
		drain := func() {
			// One half is the other: the fuzzer's memory is not mapped twice.
			copy(data[len(data)/2:], data[:len(data)/2])
			r.drain(now, func(h *recordHeader, d []byte) {
				if int(h.Captured) != len(d) || h.Captured > h.Len || uint32(h.Tail) > h.Captured || cap(d) != len(d) {
					t.Fatalf("handed out %d bytes of %+v", len(d), h)
				}
			})
			if r.tail > r.next || r.next-r.tail > r.size || len(r.held) > maxHeld {
				t.Fatalf("tail %d, next %d, %d held", r.tail, r.next, len(r.held))
			}
		}
		for ; len(in) >= 12; in = in[12:] {
			at, value := binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint64(in[4:])
			switch {
			case at%2 == 1:
				now += int64(value >> 1)
				drain()
			case at < ringHeaderBytes:
				// Of the header, only what the reader looks at.
				atomic.StoreUint64([]*uint64{&h.Head, &h.Tail, &h.RingFull}[at/64%3], value)
			default:
				data[(at-ringHeaderBytes)/8%(minDataBytes/8)] = value
			}
		}
		drain()
		// The nonsense stops.
		clear(data)
		r.restart()
		w := &writer{header: h, data: bytes, size: r.size}
		if !w.write(capture.KindSend, "on") {
			t.Fatal("no room in a ring that was started anew")
		}
		for i := range len(data) / 2 { // a record that wraps lies in both halves
			data[i] |= data[len(data)/2+i]
		}
		copy(data[len(data)/2:], data[:len(data)/2])
		got := ""
		r.drain(now, func(_ *recordHeader, d []byte) { got += string(d) })
		if got != "on" {
			t.Fatalf("ring gives %q; want what was written last", got)
		}
	})
}

// FuzzSource lets records of any content come through a whole Source.
func FuzzSource(f *testing.F) {
	f.Add(uint8(capture.KindExec), uint32(1), uint32(1), uint64(0), uint32(3), uint32(3), uint16(0), []byte("abc"))
	f.Add(uint8(kindFork), uint32(1<<31), uint32(0), uint64(1<<40), uint32(1<<31), uint32(0), uint16(0), []byte{})
	f.Add(uint8(capture.KindSend), uint32(0), uint32(1<<32-1), uint64(1), uint32(5), uint32(5), uint16(6), []byte("abcde"))
	f.Add(uint8(255), uint32(7), uint32(7), uint64(1), uint32(0), uint32(1<<32-1), uint16(0), []byte{})
	ring := newRing(f, RingOptions{})
	w := newWriter(f, ring)
	f.Fuzz(func(t *testing.T, kind uint8, pid, tid uint32, conn uint64, length, captured uint32, tail uint16, data []byte) {
		s, err := Open(ring.File(), Options{Poll: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		data = data[:min(len(data), 1000)]
		pos, _ := w.claim(alignUp(uint64(recordHeaderBytes + len(data))))
		p := w.announce(pos, alignUp(uint64(recordHeaderBytes+len(data))))
		w.fill(p, capture.Kind(kind), string(data))
		p.Pid, p.Tid, p.Conn, p.Len, p.Captured, p.Tail = pid, tid, conn, length, captured, tail
		w.commit(p)
		atomic.StoreUint32(&w.header.Processes[pid%ringProcesses].Pid, pid)
		atomic.StoreUint64(&w.header.Processes[pid%ringProcesses].RegisteredNs, conn)
		r := &run{Source: s, sink: func(e *capture.Event) {
			if e.Tail > len(e.Data) || e.Len < len(e.Data) || e.Kind == kindFork {
				t.Fatalf("event: %s", show([]capture.Event{*e}))
			}
		}}
		r.handle = r.take
		r.begin()
		for range 3 {
			r.poll()
		}
		if s.reader.filled() != 0 {
			t.Fatal("the record was not read")
		}
		for i := range w.header.Processes {
			w.header.Processes[i] = ringProcess{}
		}
	})
}
