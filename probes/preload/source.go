package preload

// The agent's side of the ring: opening it.

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// Source watches one workload by its ring. Run delivers its events on one goroutine;
// Stats may be called from any, until Close, which comes after Run has returned.
type Source struct {
	options Options
	header  *ringHeader
	data    []byte
	epoch   uint32
	exits   *exitWatch

	// What follows belongs to the goroutine that runs Run.
	reader    *reader
	adopted   []uint32 // pids that were there before
	processes map[uint32]*process
	slots     [ringProcesses]slotSeen
	warned    map[string]bool
	lost      counters
	cover     coverage
}

var _ capture.Source = (*Source)(nil)

// Open activates a ring: what the workload does after Open has returned is recorded. The
// file stays the caller's. What an earlier agent has not read is dropped.
func Open(f *os.File, o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open preload capture: %w", err)
	}
	s := &Source{options: o, processes: map[uint32]*process{}, warned: map[string]bool{}}
	if err := s.open(f); err != nil {
		return nil, fmt.Errorf("open preload capture: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Source) open(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	if st.Size < ringHeaderBytes {
		return fmt.Errorf("ring: its file has %d bytes, too few for a header", st.Size)
	}
	var err error
	if s.header, err = mapHeader(f); err != nil {
		return err
	}
	size := 0
	if fault := guarded(func() { size, err = checkHeader(s.header, st.Size) }); fault != nil || err != nil {
		return fmt.Errorf("ring: %w", errors.Join(fault, err))
	}
	// Once more, in case that the supervisor did not: see Ring.Reserve.
	if err := fallocate(f, ringHeaderBytes, int64(size)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("reserve %d bytes for the ring: %w; give it more room, or set a smaller ring", size, err)
	}
	if s.data, err = mapData(f, size, unix.PROT_READ); err != nil {
		return err
	}
	if s.exits, err = newExitWatch(s.options.withoutPidfd); err != nil {
		return err
	}
	return guarded(s.activate)
}

// activate begins to record.
func (s *Source) activate() {
	s.reader = newReader(s.header, s.data, threadFate)
	s.lost = s.counters()
	// From now on whoever begins a program writes that; so the list of those that are
	// there already is made after it.
	s.epoch = nextEpoch(atomic.LoadUint32(&s.header.Epoch))
	atomic.StoreUint32(&s.header.Epoch, s.epoch)
	s.adopt()
}

// nextEpoch is a number that no agent of this ring had before. The last one's is lost
// where it has ended in order, but its time was another, in milliseconds.
func nextEpoch(old uint32) uint32 {
	e := old + 1
	if old == 0 {
		e = uint32(backend.Monotonic() / 1e6)
	}
	return max(e, 1)
}

// Stats counts what is not told as events, since the ring was made.
type Stats struct {
	// Connections of the workload's servers that began with a TLS hello, an HTTP/2
	// preface, or something else that is not HTTP/1.
	TLS, HTTP2, Other uint64
}

// Stats may be called while Run runs.
func (s *Source) Stats() (Stats, error) {
	var c counters
	if err := guarded(func() { c = s.counters() }); err != nil {
		return Stats{}, fmt.Errorf("read counters: %w", err)
	}
	return Stats{TLS: c.tls, HTTP2: c.http2, Other: c.other}, nil
}

// counters is a copy of what the workload counts.
type counters struct {
	ringFull, tableFull, nested uint64
	tls, http2, other           uint64
	refused, unresolved         uint64
	torn, corrupt               uint64 // counted by the reader
}

// follows reports whether c can have come of an earlier look: counters only grow, and not
// by more than calls can be made.
func (c *counters) follows(was *counters) bool {
	for _, n := range [][2]uint64{
		{c.ringFull, was.ringFull}, {c.tableFull, was.tableFull}, {c.nested, was.nested}, {c.tls, was.tls},
		{c.http2, was.http2}, {c.other, was.other}, {c.refused, was.refused}, {c.unresolved, was.unresolved},
	} {
		if n[0] < n[1] || n[0]-n[1] > maxCountAtOnce {
			return false
		}
	}
	return true
}

func (s *Source) counters() counters {
	h := s.header
	c := counters{
		ringFull: atomic.LoadUint64(&h.RingFull), tableFull: atomic.LoadUint64(&h.TableFull), nested: atomic.LoadUint64(&h.Nested),
		tls: atomic.LoadUint64(&h.TLS), http2: atomic.LoadUint64(&h.HTTP2), other: atomic.LoadUint64(&h.Other),
		refused: atomic.LoadUint64(&h.Refused), unresolved: atomic.LoadUint64(&h.Unresolved),
	}
	return c
}

// Close makes the ring dormant, if no other agent has taken it over, and releases it.
func (s *Source) Close() error {
	var errs []error
	if s.exits != nil {
		errs = append(errs, s.exits.close())
	}
	s.cover.wait()
	if s.header != nil {
		if s.epoch != 0 {
			// After an error nobody can use the ring any more.
			_ = guarded(func() { atomic.CompareAndSwapUint32(&s.header.Epoch, s.epoch, 0) })
		}
		errs = append(errs, unmapHeader(s.header))
	}
	errs = append(errs, unmapData(s.data))
	s.header, s.data, s.reader, s.exits = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close preload capture: %w", err)
	}
	return nil
}

// warnOnce logs one line a key.
func (s *Source) warnOnce(key, message string, args ...any) {
	if s.warned[key] {
		return
	}
	s.warned[key] = true
	s.options.Log.Warn(message, args...)
}
