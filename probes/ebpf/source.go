package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// Source watches one workload. Run delivers its events on one goroutine; Features
// and Stats may be called from any, until Close, which comes after Run has returned.
type Source struct {
	options  Options
	features []Feature
	slow     error // why the tracepoints of single system calls cannot be had
	kernel   *loaded
	links    []io.Closer
	ring     *ring
	// aside are the goroutines that put probes in place or give them up; attaching
	// and detaching let one of either kind work at a time.
	aside                sync.WaitGroup
	attaching, detaching chan struct{}

	// What follows belongs to the goroutine that runs Run.
	adopted   []captureAdopted
	processes map[uint32]*process
	fresh     []uint32 // pids that have begun since the last look
	libraries map[fileID]*library
	warned    map[string]bool
	decoder   decoder
	dead      map[uint32]bool // host tgids whose table entries are to be removed
	tests     []testTrace
}

var _ capture.Source = (*Source)(nil)

// Open loads the programs and begins to watch: what the workload does after Open
// has returned is seen. A feature that the kernel refuses is lost with one line in
// the log; if nothing can be watched the error, one line without a word in the
// log, wraps ErrUnavailable, and Cure may know what helps.
//
// It takes 0.10 to 0.15 s, of which the kernel's verifier has two thirds and
// attaching 2 ms; longer only beside others that detach. It holds up nobody: see
// [Source.Close].
func Open(o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open ebpf capture: %w", err)
	}
	s := newSource(o)
	if err := s.open(); err != nil {
		err = fmt.Errorf("open ebpf capture: %w", err)
		if cerr := s.Close(); cerr != nil {
			err = fmt.Errorf("%w; %w", err, cerr)
		}
		return nil, err
	}
	return s, nil
}

// newSource is a Source that is not open.
func newSource(o Options) *Source {
	return &Source{
		options:   o,
		processes: map[uint32]*process{},
		libraries: map[fileID]*library{},
		warned:    map[string]bool{},
		dead:      map[uint32]bool{},
		attaching: make(chan struct{}, 1),
		detaching: make(chan struct{}, 1),
	}
}

func (s *Source) open() error {
	watch := newStopwatch(s.options.Log)
	specs := featureSpecs
	points, noTracefs := s.openTracepoints()
	if noTracefs != nil {
		specs = rawSpecs()
	} else {
		defer points.Close()
	}
	watch.lap("tracefs")

	want, older := programsOf(specs)
	if points != nil {
		for _, name := range want {
			points.begin(syscallTracepoints[name]...)
		}
	}
	kernel, failed, err := load(s.options, want, older, watch)
	if err != nil {
		return unavailable(Feature{Name: "maps", Err: err})
	}
	s.kernel = kernel
	if s.ring, err = openRing(kernel.maps[captureMapEvents]); err != nil {
		return unavailable(Feature{Name: "ring", Err: err})
	}
	// First those that follow processes, then the root: so none of its children is
	// missed, and all that were there before are found by the iterator.
	attached := map[string]bool{}
	for _, f := range specs {
		s.features = append(s.features, Feature{Name: f.name, Lost: f.lost, Err: s.attachFeature(f, points, failed, attached)})
		watch.lap(f.name)
	}
	watch.log()
	if err := s.report(); err != nil {
		return err
	}
	if noTracefs != nil && s.works(featureHTTP) {
		s.slow = fmt.Errorf("%w: %w", errNoTracefs, noTracefs)
		s.options.Log.Warn("the tracepoints of single system calls cannot be had; using those of all, which slows every system call of this machine a little", "error", noTracefs)
	}
	return nil
}

// errNoTracefs is why all system calls pass a program.
var errNoTracefs = errors.New("no tracepoints of single system calls")

// openTracepoints finds the tracepoints of single system calls, or says why they
// cannot be had.
func (s *Source) openTracepoints() (*tracepoints, error) {
	if s.options.withoutTracefs {
		return nil, errors.New("switched off")
	}
	fs, err := openTracefs()
	if err != nil {
		return nil, err
	}
	if _, err := fs.id("sys_enter_read"); err != nil {
		fs.Close()
		return nil, fmt.Errorf("tracepoint sys_enter_read: %w", err)
	}
	return newTracepoints(fs), nil
}

// attachFeature attaches a feature's programs, or the older ones that do the same.
func (s *Source) attachFeature(f featureSpec, points *tracepoints, failed map[string]error, attached map[string]bool) error {
	err := s.attachPrograms(f.programs, points, failed, attached)
	if err == nil || f.older == nil {
		return err
	}
	if older := s.attachPrograms(f.older, points, failed, attached); older != nil {
		return fmt.Errorf("%w; for older kernels: %w", err, older)
	}
	s.options.Log.Debug("using the programs for older kernels", "feature", f.name, "error", err)
	return nil
}

// attachPrograms attaches programs, all or none, each once.
func (s *Source) attachPrograms(names []string, points *tracepoints, failed map[string]error, attached map[string]bool) error {
	for _, name := range names {
		if err := failed[name]; err != nil {
			return err
		}
		if s.kernel.programs[name] == nil {
			return fmt.Errorf("program %s is not loaded", name)
		}
	}
	var links []io.Closer
	for _, name := range names {
		if attached[name] {
			continue
		}
		more, err := s.attachProgram(name, points)
		links = append(links, more...)
		if err != nil {
			closeAll(links)
			return err
		}
	}
	for _, name := range names {
		attached[name] = true
	}
	s.links = append(s.links, links...)
	return nil
}

// rawTracepoints says on which raw tracepoint a program runs.
var rawTracepoints = map[string]string{
	captureProgProcessFork: "sched_process_fork",
	captureProgProcessExec: "sched_process_exec",
	captureProgProcessExit: "sched_process_exit",
	captureProgRawEnter:    "sys_enter",
	captureProgRawExit:     "sys_exit",
}

// attachProgram attaches one program where it belongs; programs on libraries wait
// for a library.
func (s *Source) attachProgram(name string, points *tracepoints) (links []io.Closer, err error) {
	prog := s.kernel.programs[name]
	if name == captureProgAdopt {
		return nil, s.adopt(prog)
	}
	if tp, ok := rawTracepoints[name]; ok {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tp, Program: prog})
		if err != nil {
			return nil, fmt.Errorf("attach to tracepoint %s: %w", tp, err)
		}
		return []io.Closer{l}, nil
	}
	for _, tp := range syscallTracepoints[name] {
		p, err := points.take(tp)
		if err != nil {
			return links, err
		}
		links = append(links, p)
		if err := p.attach(prog); err != nil {
			return links, fmt.Errorf("tracepoint %s: %w", tp, err)
		}
	}
	return links, nil
}

// errNoRoot is the error for an Options.Root that is not above this process.
var errNoRoot = errors.New("the root process is neither this process nor one of its ancestors")

// adopt runs the iterator that registers this process and finds the workload's
// processes that are already there, until it finds no more.
func (s *Source) adopt(prog *ebpf.Program) error {
	it, err := link.AttachIter(link.IterOptions{Program: prog})
	if err != nil {
		return fmt.Errorf("attach iterator: %w", err)
	}
	defer it.Close()
	for {
		found, err := readAdopted(it)
		if err != nil {
			return err
		}
		s.adopted = append(s.adopted, found...)
		if len(found) == 0 || len(s.adopted) >= maxProcesses {
			break
		}
	}
	var registered uint32
	if err := s.kernel.variables[captureVarRootFound].Get(&registered); err != nil {
		return fmt.Errorf("read root: %w", err)
	}
	if registered == 0 {
		return errNoRoot
	}
	return nil
}

// readAdopted runs the iterator over all tasks once.
func readAdopted(it *link.Iter) ([]captureAdopted, error) {
	r, err := it.Open()
	if err != nil {
		return nil, fmt.Errorf("open iterator: %w", err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read iterator: %w", err)
	}
	found := make([]captureAdopted, len(data)/binary.Size(captureAdopted{}))
	if _, err := binary.Decode(data, binary.NativeEndian, found); err != nil {
		return nil, fmt.Errorf("read iterator: %w", err)
	}
	return found, nil
}

// report logs what is lost, one line a feature, and decides whether enough is left.
func (s *Source) report() error {
	for _, f := range s.features {
		if f.Err == nil {
			continue
		}
		if f.Name == featureProcesses || f.Name == featureAdopt {
			return unavailable(f)
		}
		s.warnLost(f)
	}
	if !s.works(featureZMQSend) && !s.works(featureZMQReceive) && !s.works(featureHTTP) {
		for _, f := range s.features {
			if f.Name == featureZMQSend {
				return unavailable(f)
			}
		}
	}
	return nil
}

func (s *Source) warnLost(f Feature) {
	s.options.Log.Warn("cannot see "+f.Lost, "feature", f.Name, "error", f.Err, "cure", Cure(f.Err))
}

// Features says what can be watched and what cannot, in a fixed order; SelfTest may
// change it.
func (s *Source) Features() []Feature {
	return append([]Feature(nil), s.features...)
}

// Stats counts what is not told as events, since Open.
type Stats struct {
	// Connections of the workload's servers that began with a TLS hello, an HTTP/2
	// preface, or something else that is not HTTP/1.
	TLS, HTTP2, Other uint64
}

// Stats may be called while Run runs.
func (s *Source) Stats() (Stats, error) {
	sum, err := s.counters()
	return Stats{TLS: sum.Tls, HTTP2: sum.Http2, Other: sum.Other}, err
}

func (s *Source) works(name string) bool {
	for _, f := range s.features {
		if f.Name == name {
			return f.Err == nil
		}
	}
	return false
}

// Close detaches everything: probes first, so that no program runs any more when
// the ring and the maps go. For each tracepoint and probe the kernel waits until
// no CPU is in it, one after the other: some 60 ms for a tracepoint, as much again
// for a probe. That is 0.8 s, and 2 s with probes in four processes; where its
// threads have to compete for the CPU it was 20 s. A process that ends anyway can
// leave it out, though the kernel then does the same before the process is gone.
//
// What waits is this process, and whoever else opens or closes tracepoints or
// probes (see tracepoints), not the workload. Of an unrelated process, at real-time
// priority so that only waiting for the kernel counts, a fork with exec and wait
// took in the median 0.65 ms at any time and at the 99th percentile 1.0 to 1.5 ms
// during Open, 0.85 to 1.3 during Close, 0.8 to 1.4 beside them; a hundred writes
// and reads took at most 0.23, 0.23 and 0.17 ms. (Linux 6.18, two CPUs, busy.)
func (s *Source) Close() error {
	for _, p := range s.processes {
		s.detach(p)
	}
	s.aside.Wait()
	var probes []io.Closer
	for _, l := range s.libraries {
		if l != nil {
			probes = append(probes, l)
		}
	}
	errs := closeAll(append(probes, s.links...))
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
	}
	if s.kernel != nil {
		errs = append(errs, s.kernel.Close())
	}
	s.processes, s.libraries, s.links, s.ring, s.kernel = nil, nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close ebpf capture: %w", err)
	}
	return nil
}

// closeAll closes one after the other. At once would be no faster, the kernel has
// them wait for each other, and would put all of them into the queue before whoever
// opens something: see tracepoints.
func closeAll(closers []io.Closer) []error {
	errs := make([]error, len(closers))
	for i, c := range closers {
		errs[i] = c.Close()
	}
	return errs
}
