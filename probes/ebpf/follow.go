package ebpf

// Following the workload's processes: finding libzmq in them and putting probes on it.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/backend"
)

// started records that a process executed a program, or was found running.
func (s *Source) started(pid, parent uint32, comm string, cmdline []byte, now int64) {
	p := s.processes[pid]
	if p == nil {
		if p = s.add(pid, parent); p == nil {
			return
		}
	}
	s.detach(p) // its old memory is gone, and with it the probes in it
	p.Comm = comm
	p.Cmdline = backend.SplitCmdline(cmdline)
	if from := s.processes[p.Parent]; from != nil {
		p.ParentWanted = from.wanted
	}
	p.wanted = s.options.WantReceives(p.Process)
	p.expected, p.settled, p.looks, p.since = false, false, 0, now
	p.next = now + int64(lookDelay(0, 0))
	for _, path := range installedZMQ(pid, p.Cmdline) {
		if s.useLibrary(path, path) {
			p.expected = true
		}
	}
	s.fresh = append(s.fresh, pid)
}

// forked records a process that runs on with its parent's program.
func (s *Source) forked(pid, parent uint32, now int64) {
	p := s.add(pid, parent)
	if p == nil {
		return
	}
	if from := s.processes[parent]; from != nil {
		p.Comm, p.Cmdline = from.Comm, from.Cmdline
		p.wanted, p.expected, p.settled = from.wanted, from.expected, from.settled
		p.looks, p.since, p.next = from.looks, from.since, from.next
	} else {
		p.since, p.next = now, now+int64(lookDelay(0, 0))
	}
	s.fresh = append(s.fresh, pid)
}

// attachFresh attaches to the processes that have begun since the last time and
// are still there: most of a server's children run another program at once and
// end soon, and a probe on them would only cost.
func (s *Source) attachFresh() {
	for _, pid := range s.fresh {
		if p := s.processes[pid]; p != nil {
			s.attachReceives(p)
		}
	}
	s.fresh = s.fresh[:0]
}

func (s *Source) add(pid, parent uint32) *process {
	if old := s.processes[pid]; old != nil {
		s.detach(old) // its exit was lost
	} else if len(s.processes) >= maxProcesses {
		return nil
	}
	p := &process{Process: Process{PID: pid, Parent: parent}}
	if from := s.processes[parent]; from != nil {
		p.ParentWanted = from.wanted
	}
	s.processes[pid] = p
	return p
}

func (s *Source) exited(pid uint32) {
	if p := s.processes[pid]; p != nil {
		s.detach(p)
		delete(s.processes, pid)
	}
}

// named looks at the name of a thread that sent something: vLLM gives its
// processes names (VLLM::EngineCore) when they begin to work, so a server that a
// script starts from within is recognised late, but is. Its parent, which talks
// to it, is vLLM then too.
func (s *Source) named(pid uint32, comm string) {
	if !strings.HasPrefix(comm, backend.EngineNamePrefix) {
		return
	}
	p := s.processes[pid]
	if p == nil || p.wanted {
		return
	}
	p.Comm = comm
	for range 2 {
		if p == nil || p.wanted || !s.options.WantReceives(Process{PID: p.PID, Parent: p.Parent, Comm: comm, Cmdline: p.Cmdline}) {
			return
		}
		p.wanted = true
		s.attachReceives(p)
		p = s.processes[p.Parent]
	}
}

// look goes through the processes whose libzmq is not known yet and whose time
// has come.
func (s *Source) look(now int64) {
	if !s.works(featureZMQSend) && !s.works(featureZMQReceive) {
		return
	}
	for _, p := range s.processes {
		if p.settled || now < p.next {
			continue
		}
		p.looks++
		p.next = now + int64(lookDelay(p.looks, time.Duration(now-p.since)))
		s.lookAt(p)
	}
}

func (s *Source) lookAt(p *process) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.PID))
	if err != nil {
		return // it has ended; its exit comes
	}
	defer f.Close()
	found, err := zmqMappings(f)
	if err != nil {
		return
	}
	for _, m := range found {
		if m.static && p.settled {
			break // pyzmq's module beside the shared library: nothing in it
		}
		for _, path := range mappedFile(p.PID, m) {
			if s.useLibrary(path, m.path) {
				p.settled = true
				break
			}
		}
	}
	if p.settled {
		s.attachReceives(p)
	}
}

// useLibrary makes sure that the file is probed; false if it cannot be. shown is
// its path for the log.
func (s *Source) useLibrary(path, shown string) bool {
	lib, id, err := openLibrary(path, shown)
	if err != nil {
		return false
	}
	if known, ok := s.libraries[id]; ok {
		lib.file.Close()
		return known != nil
	}
	if len(s.libraries) >= maxLibraries {
		lib.file.Close()
		s.warnOnce("libraries", "too many builds of libzmq, not probed", "path", shown)
		return false
	}
	// A library that cannot be probed stays in the table as nil: it is not tried again.
	s.libraries[id] = nil
	if s.works(featureZMQSend) {
		lib.probes, err = lib.attach(sendProbes, s.kernel, 0)
		if err != nil {
			lib.Close()
			s.options.Log.Warn("engine messages of this library cannot be seen", "path", shown, "error", err)
			return false
		}
	}
	if s.works(featureZMQTypes) {
		probes, err := lib.attach(typeProbes, s.kernel, 0)
		if err != nil {
			s.options.Log.Debug("socket types of this library cannot be seen", "path", shown, "error", err)
		}
		lib.probes = append(lib.probes, probes...)
	}
	s.libraries[id] = lib
	s.options.Log.Debug("probing libzmq", "path", shown)
	for _, p := range s.processes {
		s.attachReceives(p)
	}
	return true
}

// attachReceives puts the probes for receiving on every known library in one
// process, if its receives are wanted and it has, or is expected to load, libzmq.
// A library that it never maps costs nothing.
func (s *Source) attachReceives(p *process) {
	if !p.wanted || !(p.settled || p.expected) || !s.works(featureZMQReceive) {
		return
	}
	for _, lib := range s.libraries {
		if lib == nil || p.receives[lib] != nil {
			continue
		}
		if p.receives == nil {
			p.receives = map[*library]*attachment{}
		}
		p.receives[lib] = s.attach(lib, p.PID)
	}
}

// attachment is a process's probes for receiving on one library, in place or on
// their way.
type attachment struct {
	done  chan struct{}
	links []io.Closer // once done
}

// attach puts the probes for receiving in a process, beside the goroutine that
// empties the ring: the kernel takes some milliseconds for each, and on a busy
// machine far more.
func (s *Source) attach(lib *library, pid uint32) *attachment {
	a := &attachment{done: make(chan struct{})}
	s.aside.Go(func() {
		defer close(a.done)
		s.attaching <- struct{}{}
		defer func() { <-s.attaching }()
		links, err := lib.attach(receiveProbes, s.kernel, pid)
		if err != nil && !errors.Is(err, unix.ESRCH) { // else it has ended
			s.options.Log.Debug("received messages of this process cannot be seen", "pid", pid, "error", err)
		}
		a.links = links
	})
	return a
}

// warnOnce logs one line a key.
func (s *Source) warnOnce(key, message string, args ...any) {
	if s.warned[key] {
		return
	}
	s.warned[key] = true
	s.options.Log.Warn(message, args...)
}
