package ebpf

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
)

// loaded is what the kernel took: the maps, and the programs of the features
// that work.
type loaded struct {
	maps      map[string]*ebpf.Map
	variables map[string]*ebpf.Variable
	programs  map[string]*ebpf.Program
	closers   []io.Closer
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
func load(o Options, want, older []string) (l *loaded, failed map[string]error, err error) {
	// Before Linux 5.11 maps count against RLIMIT_MEMLOCK. Where raising it is
	// refused the maps say so themselves.
	_ = rlimit.RemoveMemlock()

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
	if o.edit != nil {
		o.edit(spec)
	}

	// One cache for all programs: reading the kernel's types is the slow part.
	cache := btf.NewCache()
	coll, err := ebpf.NewCollectionWithOptions(only(spec, want...), ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes(cache)},
	})
	if err == nil {
		return &loaded{maps: coll.Maps, variables: coll.Variables, programs: coll.Programs, closers: []io.Closer{closeFunc(coll.Close)}}, nil, nil
	}
	return loadSingly(spec, append(want, older...), cache)
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
		return nil, nil, fmt.Errorf("create maps: %w", err)
	}
	l := &loaded{maps: base.Maps, variables: base.Variables, programs: map[string]*ebpf.Program{}, closers: []io.Closer{closeFunc(base.Close)}}
	failed := map[string]error{}
	for _, name := range want {
		coll, err := ebpf.NewCollectionWithOptions(only(spec, name), ebpf.CollectionOptions{
			MapReplacements: base.Maps,
			Programs:        ebpf.ProgramOptions{KernelTypes: kernelTypes(cache)},
		})
		if err != nil {
			failed[name] = fmt.Errorf("load program %s: %w", name, err)
			continue
		}
		l.programs[name] = coll.Programs[name]
		l.closers = append(l.closers, closeFunc(coll.Close))
	}
	return l, failed, nil
}
