package preload

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tokenscope/tokenscope/probes/capture"
)

func unsafeBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// BenchmarkSource reads events of a usual size; what it costs to write them is not in it.
func BenchmarkSource(b *testing.B) {
	ring := newRing(b, RingOptions{RingBytes: 8 << 20})
	s, err := Open(ring.File(), Options{Poll: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w := newWriter(b, ring)
	events := 0
	r := &run{Source: s, sink: func(*capture.Event) { events++ }}
	r.handle = r.take
	r.begin()
	body := strings.Repeat("x", 200)
	fill := func() {
		for range 10_000 {
			w.write(capture.KindSend, body)
		}
	}
	fill()
	r.poll() // names are known then
	b.ReportAllocs()
	b.ResetTimer()
	for events = 0; events < b.N; {
		b.StopTimer()
		fill()
		b.StartTimer()
		r.poll()
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// TestNoAllocations holds the promise that an event costs none.
func TestNoAllocations(t *testing.T) {
	ring := newRing(t, RingOptions{})
	s, err := Open(ring.File(), Options{Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := newWriter(t, ring)
	r := &run{Source: s, sink: func(*capture.Event) {}}
	r.handle = r.take
	w.write(capture.KindSend, "x")
	r.begin()
	r.poll()
	if n := testing.AllocsPerRun(100, func() {
		w.write(capture.KindSend, "x")
		w.write(capture.KindRead, "GET / HTTP/1.1")
		r.reader.drain(r.now, r.handle)
	}); n != 0 {
		t.Errorf("two events allocate %v times", n)
	}
}
