package preload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// bench is a ring with a reader and a writer in this process, and a clock that the test
// turns.
type bench struct {
	*writer
	r    *reader
	now  int64
	fate fate
	got  []string
}

func newBench(t testing.TB, ringBytes int) *bench {
	t.Helper()
	w := newWriter(t, newRing(t, RingOptions{RingBytes: ringBytes}))
	b := &bench{writer: w}
	b.r = newReader(w.header, w.data, func(pid, tid uint32) fate {
		if pid != w.pid || tid != w.tid {
			t.Errorf("asked for the fate of thread %d of %d", tid, pid)
		}
		return b.fate
	})
	return b
}

// read drains once, after a time has passed, and returns what came.
func (b *bench) read(passed time.Duration) []string {
	b.now += int64(passed)
	b.got = nil
	b.r.drain(b.now, func(h *recordHeader, data []byte) { b.got = append(b.got, string(data)) })
	return b.got
}

func (b *bench) tail() uint64 { return atomic.LoadUint64(&b.header.Tail) }

func (b *bench) want(t *testing.T, passed time.Duration, want ...string) {
	t.Helper()
	if got := b.read(passed); !slices.Equal(got, want) {
		t.Fatalf("ring gives %q; want %q", got, want)
	}
}

func TestReader(t *testing.T) {
	b := newBench(t, 0)
	b.want(t, 0)
	b.write(capture.KindSend, "one")
	b.write(capture.KindSend, "")
	b.write(capture.KindSend, strings.Repeat("x", 1000))
	b.want(t, 0, "one", "", strings.Repeat("x", 1000))
	if head := b.header.Head; b.tail() != head || b.r.filled() != 0 {
		t.Errorf("tail = %d, %d bytes left; want %d, 0", b.tail(), b.r.filled(), head)
	}
	if b.r.torn+b.r.corrupt != 0 {
		t.Errorf("torn %d, corrupt %d", b.r.torn, b.r.corrupt)
	}
}

// TestReaderGoesRound writes several times what the ring holds, records that wrap too.
func TestReaderGoesRound(t *testing.T) {
	b := newBench(t, 0)
	random := rand.New(rand.NewPCG(1, 2))
	var want []string
	for i := range 5000 {
		s := strings.Repeat(fmt.Sprint(i, " "), random.IntN(200))
		if !b.write(capture.KindSend, s) {
			b.want(t, 0, want...)
			want = want[:0]
			if !b.write(capture.KindSend, s) {
				t.Fatalf("no room for %d bytes in an empty ring", len(s))
			}
		}
		want = append(want, s)
	}
	b.want(t, 0, want...)
	if b.header.Head < 10*b.size {
		t.Fatalf("only %d bytes were written", b.header.Head)
	}
}

// TestKilledWriter lets a writer be killed at each step.
func TestKilledWriter(t *testing.T) {
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			b := newBench(t, 0)
			b.fate = fateGone
			b.write(capture.KindSend, "before")
			size := step.do(b.writer, strings.Repeat("never", 100))
			b.write(capture.KindSend, "after")

			b.want(t, 0, "before")
			b.want(t, stuckAfter-1)
			// Only now: its neighbours wait no longer than they must.
			b.want(t, 1, "after")
			if b.r.torn != 1 {
				t.Errorf("%d records are counted as torn; want 1", b.r.torn)
			}
			b.write(capture.KindSend, "more")
			b.want(t, 0, "more")
			if step.name == "room taken" {
				// Nobody knows whose it is: it could still be alive.
				if want := b.header.Head - size - 2*128; b.tail() != want {
					t.Errorf("tail = %d; want %d, at the room that was taken", b.tail(), want)
				}
				for range abandonLooks {
					b.want(t, abandonAfter/abandonLooks)
				}
			}
			b.want(t, 0)
			if b.tail() != b.header.Head {
				t.Errorf("tail = %d; want %d: the room is not given back", b.tail(), b.header.Head)
			}
		})
	}
}

// TestManyKilledWriters: who was reserved when the first was found unfinished needs no
// waiting time of its own.
func TestManyKilledWriters(t *testing.T) {
	b := newBench(t, 0)
	b.fate = fateGone
	for i := range 64 {
		steps[1+i%2].do(b.writer, "never")
		b.write(capture.KindSend, fmt.Sprint(i))
	}
	b.want(t, 0)
	if got := b.read(stuckAfter); len(got) != 64 {
		t.Errorf("%d records came at once; want 64", len(got))
	}
	if b.r.torn != 64 {
		t.Errorf("%d records are counted as torn; want 64", b.r.torn)
	}
	b.want(t, 0)
	if b.tail() != b.header.Head {
		t.Error("the room is not given back")
	}
}

// TestStoppedWriter: its room is not given back before it has finished, and what it
// then writes is not read out of its order.
func TestStoppedWriter(t *testing.T) {
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			b := newBench(t, 0)
			b.fate = fateWriting
			at := b.header.Head
			size := step.do(b.writer, "late")
			b.write(capture.KindSend, "after")
			b.want(t, 0)
			b.want(t, stuckAfter, "after")
			if b.tail() != at {
				t.Fatalf("tail = %d; want %d", b.tail(), at)
			}
			p := b.announce(at, size)
			b.want(t, abandonAfter)
			if b.tail() != at {
				t.Fatalf("tail = %d when the writer goes on; want %d", b.tail(), at)
			}
			b.fill(p, capture.KindSend, "late")
			b.commit(p)
			b.want(t, 0)
			b.want(t, 0)
			if b.tail() != b.header.Head {
				t.Errorf("tail = %d; want %d", b.tail(), b.header.Head)
			}
			b.write(capture.KindSend, "on")
			b.want(t, 0, "on")
		})
	}
}

// TestAbandonedRecord: a thread that lives but has left the library would keep its
// room for ever.
func TestAbandonedRecord(t *testing.T) {
	b := newBench(t, 0)
	b.fate = fateElsewhere
	at := b.header.Head
	steps[1].do(b.writer, "never")
	b.write(capture.KindSend, "after")
	b.want(t, 0)
	b.want(t, stuckAfter, "after")
	b.want(t, 100*abandonAfter) // one look says nothing, however long it took to come
	if b.tail() != at {
		t.Fatal("given up after one look")
	}
	for range abandonLooks {
		b.want(t, 0)
	}
	if b.tail() != b.header.Head {
		t.Error("the room is not given back")
	}
}

// TestSlowWriter finishes in time: nothing is lost.
func TestSlowWriter(t *testing.T) {
	b := newBench(t, 0)
	size := alignUp(recordHeaderBytes + 4)
	pos, _ := b.claim(size)
	p := b.announce(pos, size)
	b.write(capture.KindSend, "after")
	b.want(t, 0)
	b.want(t, stuckAfter-1)
	b.fill(p, capture.KindSend, "slow")
	b.commit(p)
	b.want(t, 1, "slow", "after")
	if b.r.torn != 0 {
		t.Errorf("%d records are counted as torn", b.r.torn)
	}
}

// TestManyHeld holds more places than are remembered one by one.
func TestManyHeld(t *testing.T) {
	b := newBench(t, 4<<20)
	b.fate = fateWriting
	const n = 3 * maxHeld
	var places []*recordHeader
	for i := range n {
		pos, ok := b.claim(recordAlign)
		if !ok {
			t.Fatal("no room")
		}
		places = append(places, b.announce(pos, recordAlign))
		if i%2 == 0 {
			b.write(capture.KindSend, "x")
		}
	}
	b.want(t, 0)
	if got := b.read(stuckAfter); len(got) != (n+1)/2 {
		t.Fatalf("%d records came; want %d", len(got), (n+1)/2)
	}
	if len(b.r.held) > maxHeld {
		t.Errorf("%d places are remembered; want at most %d", len(b.r.held), maxHeld)
	}
	if b.tail() != 0 {
		t.Fatalf("tail = %d; want 0", b.tail())
	}
	for _, p := range places {
		b.fill(p, capture.KindSend, "")
		b.commit(p)
	}
	b.want(t, 0)
	if b.tail() != b.header.Head {
		t.Errorf("tail = %d; want %d", b.tail(), b.header.Head)
	}
}

// TestBadRecords are finished, and cannot be.
func TestBadRecords(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(*recordHeader)
	}{
		{"more captured than it holds", func(p *recordHeader) { p.Captured, p.Len = 1<<31, 1<<31 }},
		{"more captured than there was", func(p *recordHeader) { p.Len = p.Captured - 1 }},
		{"longer tail than captured", func(p *recordHeader) { p.Tail = uint16(p.Captured) + 1 }},
		{"no such kind", func(p *recordHeader) { p.Kind = 77 }},
		{"a kind that only the agent makes", func(p *recordHeader) { p.Kind = uint8(capture.KindLost) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 0)
			b.write(capture.KindSend, "bad")
			tc.bend(b.at(0))
			b.write(capture.KindSend, "good")
			b.want(t, 0, "good")
			if b.r.torn != 1 {
				t.Errorf("%d records are counted as torn; want 1", b.r.torn)
			}
		})
	}
}

// TestWrongSizes: such a record is like one without a header.
func TestWrongSizes(t *testing.T) {
	for _, size := range []uint32{0, 1, 63, 65, 1 << 20, 1<<32 - 64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := newBench(t, 0)
			b.write(capture.KindSend, "bad")
			b.at(0).Size = size
			b.write(capture.KindSend, "good")
			b.want(t, 0)
			b.want(t, stuckAfter, "good")
			if b.r.torn != 1 {
				t.Errorf("%d records are counted as torn; want 1", b.r.torn)
			}
		})
	}
}

// TestWrongHead: the reader starts anew, whatever somebody has written there.
func TestWrongHead(t *testing.T) {
	for name, head := range map[string]uint64{
		"unaligned": 1000*recordAlign + 1, "far ahead": 1 << 40, "behind": 64, "largest": 1<<64 - 1,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0)
			for range 900 {
				b.write(capture.KindSend, "")
			}
			b.read(0)
			atomic.StoreUint64(&b.header.Head, head)
			b.want(t, 0)
			if b.r.corrupt != 1 {
				t.Errorf("counted %d times; want once", b.r.corrupt)
			}
			if !b.write(capture.KindSend, "on") {
				t.Fatal("no room afterwards")
			}
			b.want(t, 0, "on")
		})
	}
}

// TestWrongNonce: writers go by what is there, so that the reader does, from then on.
func TestWrongNonce(t *testing.T) {
	b := newBench(t, 0)
	atomic.StoreUint64(&b.header.Nonce, b.header.Nonce+1)
	b.write(capture.KindSend, "unseen")
	b.want(t, 0)
	if b.r.corrupt != 1 {
		t.Errorf("counted %d times; want once", b.r.corrupt)
	}
	b.write(capture.KindSend, "on")
	b.want(t, 0, "on")
}

// TestEarlierLap: what an earlier lap left is no record, whatever its state says.
func TestEarlierLap(t *testing.T) {
	b := newBench(t, 0)
	for b.header.Head < b.size {
		b.write(capture.KindSend, "old")
		b.read(0)
	}
	at := b.header.Head
	b.claim(2 * recordAlign) // where an old record lies, finished
	b.write(capture.KindSend, "new")
	b.want(t, 0)
	b.want(t, stuckAfter, "new")
	if b.tail() != at || b.r.torn != 1 {
		t.Errorf("tail = %d, torn %d; want %d, 1", b.tail(), b.r.torn, at)
	}
}

// TestManyWriters lets goroutines write at once, more than the reader keeps up with, and
// compares numbers and bytes: each event comes whole and in its place, or is counted.
func TestManyWriters(t *testing.T) {
	ring := newRing(t, RingOptions{RingBytes: 256 << 10})
	const writers, events = 8, 20000
	body := func(conn, seq uint64) string {
		return strings.Repeat(fmt.Sprintf("%d/%d ", conn, seq), int(conn*seq%40))
	}
	var group sync.WaitGroup
	first := newWriter(t, ring)
	for i := range writers {
		w := *first
		w.conn = uint64(i + 1)
		group.Go(func() {
			for w.seq < events {
				w.write(capture.KindSend, body(w.conn, w.seq+1))
			}
		})
	}
	r := newReader(first.header, first.data, func(uint32, uint32) fate { return fateWriting })
	var last [writers + 1]uint64
	var got uint64
	take := func(h *recordHeader, data []byte) {
		got++
		if h.Seq <= last[h.Conn] || string(data) != body(h.Conn, h.Seq) {
			t.Errorf("event %d of %d after %d holds %.40q", h.Seq, h.Conn, last[h.Conn], data)
		}
		last[h.Conn] = h.Seq
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		r.drain(time.Now().UnixNano(), take)
	}
	if full := atomic.LoadUint64(&first.header.RingFull); got+full+r.torn != writers*events {
		t.Errorf("%d events came, %d found no room, %d were torn; want %d together", got, full, r.torn, writers*events)
	} else {
		t.Logf("%d events came, %d found no room", got, full)
	}
}
