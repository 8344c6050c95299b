package ebpf

// What a self-test must see, and what follows from what it did not.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf/internal/standin"
)

// unseen is the error for something that the test process did and nobody told.
type unseen string

func (u unseen) Error() string { return string(u) }

// sighting is one event that the test process must have caused.
type sighting struct {
	feature string
	what    string // that tells of it, for the error
	kind    capture.Kind
	// right accepts the event; nil accepts any of the kind.
	right func(*capture.Event) bool
	// needs says that the event is another feature's, without which this one cannot
	// be judged.
	needs bool

	seen  bool // one of the kind
	found bool // the right one
}

// sightings are all that a test process causes, in its order.
func (s *Source) sightings(double *standin.Process) []*sighting {
	o := s.options
	// is accepts an event with these bytes, captured as far as the options say.
	is := func(want []byte, whole int) func(*capture.Event) bool {
		return func(e *capture.Event) bool {
			got := want
			if n := len(want); n > o.HeadBytes+o.TailBytes && n > whole {
				got = slices.Concat(want[:o.HeadBytes], want[n-o.TailBytes:])
			}
			return e.Len == len(want) && bytes.Equal(e.Data, got)
		}
	}
	sent := is(double.Sent(), o.FrameBytes)
	return []*sighting{
		{feature: featureProcesses, what: "the tracepoint of a process that begins", kind: kindFork},
		{feature: featureHTTP, what: "the tracepoint of read", kind: capture.KindOpen},
		{feature: featureHTTP, what: "the tracepoint of read", kind: capture.KindRead, right: is(double.Request(), 0)},
		{feature: featureHTTP, what: "the tracepoint of write", kind: capture.KindWrite, right: is(double.Answer(), 0)},
		{feature: featureHTTPVectors, what: "the tracepoint of writev", kind: capture.KindWrite, right: is(double.VectorAnswer(), 0), needs: true},
		{feature: featureZMQTypes, what: "the probe on the return of zmq_socket", kind: capture.KindSend, needs: true,
			right: func(e *capture.Event) bool { return e.Socket == standin.SocketType }},
		{feature: featureZMQSend, what: "the probe on zmq_msg_send", kind: capture.KindSend,
			right: func(e *capture.Event) bool { return e.More && sent(e) }},
		{feature: featureZMQReceive, what: "the probe on the return of zmq_msg_recv", kind: capture.KindRecv, right: is(double.Received(), o.FrameBytes)},
		{feature: featureHTTPClose, what: "the tracepoint of close", kind: capture.KindClose},
		{feature: featureProcesses, what: "the tracepoint of a process that ends", kind: capture.KindExit},
	}
}

// peekAt looks at the records of one process in a part of the ring, which stay there.
func (s *Source) peekAt(from, until uint64, pid uint32, wanted []*sighting) {
	var d decoder
	var e capture.Event
	look := func(record []byte) {
		raw, ok := d.decode(record, &e)
		if !ok || e.PID != pid {
			return
		}
		if e.Kind == capture.KindExit {
			s.dead[uint32(raw.Conn)] = true // Run sweeps what it left in the tables
		}
		for _, w := range wanted {
			if w.kind == e.Kind {
				w.seen = true
				w.found = w.found || w.right == nil || w.right(&e)
			}
		}
	}
	// A record of the workload that is being filled may stand before the last ones.
	deadline := time.Now().Add(finalWait)
	for from = s.ring.peek(from, look); from < until && time.Now().Before(deadline); from = s.ring.peek(from, look) {
		time.Sleep(time.Millisecond)
	}
}

// hint says what the kernel counted meanwhile that may explain what was not seen.
func hint(before, after captureCounters) string {
	switch {
	case after.RingFull > before.RingFull:
		return " (the ring was full)"
	case after.Unreadable > before.Unreadable:
		return " (memory could not be read)"
	case after.TableFull > before.TableFull:
		return " (a table was full)"
	}
	return ""
}

// essential are the features without which the workload cannot be understood.
var essential = []string{featureProcesses, featureHTTP, featureZMQSend, featureZMQReceive}

// verdict marks the features that are blind and decides whether enough is left.
func (s *Source) verdict(wanted []*sighting, refused map[string]error, trouble error, hint string) error {
	var died *standin.Died
	if trouble != nil && !errors.As(trouble, &died) {
		return fmt.Errorf("%w: %w", ErrUnavailable, trouble) // which says nothing of features
	}
	var blind []Feature
	for _, w := range wanted {
		if w.found || !s.works(w.feature) {
			continue // or found out already
		}
		err := refused[w.feature]
		switch {
		case err != nil:
		case died != nil:
			err = fmt.Errorf("at %s %w", w.what, died)
		case w.needs && !w.seen, w.feature == featureHTTPClose && !s.works(featureHTTP):
			continue
		case w.needs:
			err = unseen(w.what + " does not fire" + hint)
		case w.seen:
			err = unseen(w.what + " tells other bytes than there were" + hint)
		default:
			err = unseen(w.what + " does not fire" + hint)
		}
		f := s.lose(w.feature, err)
		if died != nil {
			return unavailable(f) // what comes after its end is unseen as well
		}
		blind = append(blind, f)
	}
	if died != nil {
		return fmt.Errorf("%w: after all that was to be seen %w", ErrUnavailable, died)
	}
	for _, f := range s.features {
		if f.Err != nil && slices.Contains(essential, f.Name) {
			return unavailable(f)
		}
	}
	for _, f := range blind {
		s.warnLost(f)
	}
	return nil
}

// lose marks a feature as lost.
func (s *Source) lose(name string, err error) Feature {
	i := slices.IndexFunc(s.features, func(f Feature) bool { return f.Name == name })
	s.features[i].Err = err
	return s.features[i]
}
