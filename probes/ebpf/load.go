package ebpf

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// loaded is what the kernel took: the maps, and the programs of the features
// that work.
type loaded struct {
	maps      map[string]*ebpf.Map
	variables map[string]*ebpf.Variable
	programs  map[string]*ebpf.Program
	closers   []io.Closer
	// multi says how the programs on libraries are attached, see useMulti.
	multi bool
}

// uprobePrograms are those on functions of libraries.
var uprobePrograms = []string{
	captureProgZmqSend, captureProgZmqRecv, captureProgZmqRecvReturn,
	captureProgZmqSocketEnter, captureProgZmqSocketReturn, captureProgZmqClose,
}

// useMulti reports whether programs on libraries are attached by uprobe_multi links and
// not by perf events. The kernel takes a perf event off under a lock that every opening
// of another waits for, and for some grace periods each: after an agent was killed, the
// next one waited six seconds for its probes beside a busy server. Links of this kind
// are another way to the same breakpoints, without that lock.
//
// They came with Linux 6.6; whom their PID filter lets through was wrong until
// 46ba0e49b642 ("bpf: fix multi-uprobe PID filtering logic", 6.10).
func useMulti() bool {
	var u unix.Utsname
	return unix.Uname(&u) == nil && !before(unix.ByteSliceToString(u.Release[:]), 6, 10)
}

// setMulti has the uprobe programs loaded for uprobe_multi links, or for perf events.
func setMulti(spec *ebpf.CollectionSpec, multi bool) {
	kind := ebpf.AttachNone
	if multi {
		kind = ebpf.AttachTraceUprobeMulti
	}
	for _, name := range uprobePrograms {
		spec.Programs[name].AttachType = kind
	}
}

func (l *loaded) Close() error {
	var errs []error
	for _, c := range l.closers {
		errs = append(errs, c.Close())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// closeFunc makes an io.Closer of a method without a result.
type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

// load brings the programs named in want into the kernel: all at once, which is
// fastest, and if that fails one by one, and the older ones too, so that a refused
// program costs only its feature. failed names those that were refused.
func load(o Options, want, older []string, watch *stopwatch) (l *loaded, failed map[string]error, err error) {
	memlock := raiseMemlock()
	spec, err := loadCapture()
	if err != nil {
		return nil, nil, fmt.Errorf("parse bpf object: %w", err)
	}
	for name, value := range map[string]uint32{
		captureVarHeadBytes:  uint32(o.HeadBytes),
		captureVarTailBytes:  uint32(o.TailBytes),
		captureVarFrameBytes: uint32(o.FrameBytes),
		captureVarRootPid:    uint32(o.Root),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Maps[captureMapEvents].MaxEntries = uint32(o.RingBytes)
	multi := useMulti() && !o.perfEvents
	setMulti(spec, multi)
	if o.edit != nil {
		o.edit(spec)
	}

	// One cache for all programs: reading the kernel's types is the slow part.
	cache := btf.NewCache()
	watch.lap("parse")
	types := kernelTypes(cache)
	watch.lap("kernel-types")
	coll, err := ebpf.NewCollectionWithOptions(only(spec, want...), ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{KernelTypes: types},
	})
	watch.lap("load")
	if err == nil {
		return &loaded{maps: coll.Maps, variables: coll.Variables, programs: coll.Programs, closers: []io.Closer{closeFunc(coll.Close)}, multi: multi}, nil, nil
	}
	setMulti(spec, false) // perhaps that was it
	l, failed, err = loadSingly(spec, append(want, older...), cache)
	if err != nil && memlock != nil {
		err = fmt.Errorf("%w; %w", err, memlock)
	}
	return l, failed, err
}

// errMemlock is part of the error where an old kernel may have refused for want of
// memory that may be locked.
var errMemlock = errors.New("the limit of locked memory cannot be raised")

// raiseMemlock lifts RLIMIT_MEMLOCK on kernels before 5.11, which count programs
// and maps against it. cilium/ebpf's rlimit.RemoveMemlock would do that as well,
// but finds out by a call of bpf in every process that links it, when it starts: in
// the supervisor, under a seccomp filter that kills for that call.
func raiseMemlock() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil || !before(unix.ByteSliceToString(u.Release[:]), 5, 11) {
		return nil
	}
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("%w: %w", errMemlock, err)
	}
	return nil
}

// before reports whether a kernel's release, such as "5.10.0-28-amd64", is older
// than a version. One that cannot be read is not.
func before(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// refusal takes out of an error the library's advice for programmers, which it
// gives whenever the kernel does not permit something.
func refusal(err error) error {
	var verifier *ebpf.VerifierError
	if errors.Is(err, unix.EPERM) && !errors.As(err, &verifier) {
		return unix.EPERM
	}
	return err
}

// kernelTypes is the kernel's BTF, or nil for the loader to complain about.
func kernelTypes(cache *btf.Cache) *btf.Spec {
	types, err := cache.Kernel()
	if err != nil {
		return nil
	}
	return types
}

// only returns a copy of spec with the named programs alone.
func only(spec *ebpf.CollectionSpec, programs ...string) *ebpf.CollectionSpec {
	c := spec.Copy()
	for name := range c.Programs {
		if !slices.Contains(programs, name) {
			delete(c.Programs, name)
		}
	}
	return c
}

func loadSingly(spec *ebpf.CollectionSpec, want []string, cache *btf.Cache) (*loaded, map[string]error, error) {
	base, err := ebpf.NewCollection(only(spec))
	if err != nil {
		return nil, nil, fmt.Errorf("create maps: %w", refusal(err))
	}
	l := &loaded{maps: base.Maps, variables: base.Variables, programs: map[string]*ebpf.Program{}, closers: []io.Closer{closeFunc(base.Close)}}
	failed := map[string]error{}
	for _, name := range want {
		coll, err := ebpf.NewCollectionWithOptions(only(spec, name), ebpf.CollectionOptions{
			MapReplacements: base.Maps,
			Programs:        ebpf.ProgramOptions{KernelTypes: kernelTypes(cache)},
		})
		if err != nil {
			failed[name] = fmt.Errorf("load program %s: %w", name, refusal(err))
			continue
		}
		l.programs[name] = coll.Programs[name]
		l.closers = append(l.closers, closeFunc(coll.Close))
	}
	return l, failed, nil
}
