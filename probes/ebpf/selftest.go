package ebpf

// Whether what is attached sees: programs that the kernel took and attached may still
// see nothing, or break what they watch.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tokenscope/tokenscope/probes/ebpf/internal/standin"
)

// selfTestLimit bounds what the test process does once all is attached. It takes a
// millisecond; a machine on which it takes this long has no time for a server either.
const selfTestLimit = 2 * time.Second

// SelfTest proves that s sees: a process that is followed as a server is, and is none
// of the workload's, talks HTTP over a socket and calls functions as it would call
// libzmq's, and its own bytes must come out of the ring. Call it after Open and before
// Run, which then delivers nothing of it.
//
// The error, one line, wraps ErrUnavailable where a feature is blind without which the
// workload cannot be understood (processes, http, zmq-send, zmq-receive), or where Open
// has lost it: another backend may have it. And where the test process died at a probe:
// the workload would as well. Another feature that is blind is lost with one line in
// the log, as in Open. Cure knows what the error says.
//
// It takes 10 to 20 ms, more where others attach and detach at the same time (the
// kernel lets one after the other), and adds nothing to the way of the workload: no process but
// those of this program's file is touched, and the ring is read where it lies, so that
// what was captured meanwhile stays there for Run. It may therefore run beside a busy
// workload; an agent that was restarted can leave it out, as its predecessor has had
// the answer and each moment until Run costs messages that are not seen.
func (s *Source) SelfTest(ctx context.Context) error {
	if err := s.selfTest(ctx); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	return nil
}

// Kills reports whether the error of a SelfTest says that a probe has killed the test
// process: it would kill a server as well.
func Kills(err error) bool {
	var died *standin.Died
	return errors.As(err, &died)
}

// testTrace is what a self-test has left in the ring: the records of one process
// before a position. Behind it the pid may be another's.
type testTrace struct {
	pid   uint32
	until uint64
}

// ofTest reports whether the record that is being drained, of process pid, is a
// self-test's.
func (s *Source) ofTest(pid uint32) bool {
	for _, t := range s.tests {
		if t.pid == pid && s.ring.begin() < t.until {
			return true
		}
	}
	return false
}

func (s *Source) selfTest(ctx context.Context) error {
	before, err := s.counters()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	from := s.ring.end()
	double, err := s.startDouble()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	links, refused := s.attachDouble(double.PID)
	ctx, cancel := context.WithTimeout(ctx, selfTestLimit)
	defer cancel()
	trouble := double.Speak(ctx)
	s.detachDouble(links)
	until := s.ring.end()
	s.tests = append(s.tests, testTrace{pid: uint32(double.PID), until: until})
	if err := double.Close(); err != nil {
		s.options.Log.Debug("self-test", "error", err)
	}

	wanted := s.sightings(double)
	s.peekAt(from, until, uint32(double.PID), wanted)
	after, err := s.counters()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return s.verdict(wanted, refused, trouble, hint(before, after))
}

// startDouble forks the test process and has the kernel follow it. This process's own
// children are not followed; for the moment of the fork they are.
func (s *Source) startDouble() (*standin.Process, error) {
	processes := s.kernel.maps[captureMapProcesses]
	own, entry, found := findAgent(processes)
	if !found {
		// This process is the root itself, as for Check: its children are followed.
		return standin.Start()
	}
	open := entry
	open.Role = roleRoot
	if err := processes.Put(own, open); err != nil {
		return nil, fmt.Errorf("follow test process: %w", err)
	}
	double, err := standin.Start()
	if perr := processes.Put(own, entry); perr != nil {
		// Then every child of this process would be the workload's.
		err = errors.Join(err, fmt.Errorf("cease to follow own processes: %w", perr))
		if double != nil {
			err = errors.Join(err, double.Close())
		}
		return nil, err
	}
	return double, err
}

// processEntry is the kernel's struct process (bpf/state.h).
type processEntry struct {
	PID, Role, Execs, Padding uint32
}

// The roles that matter here, as enum process_role has them.
const (
	roleRoot     = 2
	roleExcluded = 3
)

// findAgent finds this process in the kernel's table, in which it has the number that
// the machine knows it by: another than its own where it is in a PID namespace.
func findAgent(processes *ebpf.Map) (tgid uint32, entry processEntry, found bool) {
	tgid = uint32(os.Getpid())
	if processes.Lookup(tgid, &entry) == nil && entry.Role == roleExcluded {
		return tgid, entry, true
	}
	// The table changes while it is read if the workload runs; then it may have to be
	// read again.
	for range 3 {
		it := processes.Iterate()
		for it.Next(&tgid, &entry) {
			if entry.Role == roleExcluded {
				return tgid, entry, true
			}
		}
		if it.Err() == nil {
			break
		}
	}
	return 0, processEntry{}, false
}

// attachDouble puts on the test process's functions what is put on libzmq's, in the
// same way. refused says what could not be, by feature.
func (s *Source) attachDouble(pid int) (links []io.Closer, refused map[string]error) {
	refused = map[string]error{}
	lib, err := openDouble()
	for _, a := range []struct {
		feature string
		probes  []probe
		pid     uint32
	}{
		{featureZMQSend, sendProbes, 0},
		{featureZMQTypes, typeProbes, 0},
		{featureZMQReceive, receiveProbes, uint32(pid)},
	} {
		if !s.works(a.feature) {
			continue
		}
		if err != nil {
			refused[a.feature] = err
			continue
		}
		more, err := lib.attach(a.probes, s.kernel, a.pid)
		if err != nil {
			refused[a.feature] = err
		}
		links = append(links, more...)
	}
	if lib != nil {
		links = append(links, lib.file)
	}
	return links, refused
}

// openDouble is this program's file as the library that the test process calls.
func openDouble() (*library, error) {
	offsets, err := standin.Offsets()
	if err != nil {
		return nil, err
	}
	lib, _, err := openLibrary(standin.File, standin.File)
	if err != nil {
		return nil, fmt.Errorf("open own program: %w", err)
	}
	lib.offsets = offsets
	return lib, nil
}

// detachDouble gives up the probes on the test process, beside whoever waits for the
// answer: the kernel takes 60 ms for each. Perf events stay until Close, since while
// one is closed the workload's first cannot be opened (see useMulti); nobody calls
// what they are on.
func (s *Source) detachDouble(links []io.Closer) {
	if !s.kernel.multi {
		s.links = append(s.links, links...)
		return
	}
	s.aside.Go(func() {
		s.detaching <- struct{}{}
		defer func() { <-s.detaching }()
		if err := errors.Join(closeAll(links)...); err != nil {
			s.options.Log.Debug("detach from test process", "error", err)
		}
	})
}
