package agent

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// fakeSource is a backend by its name.
type fakeSource string

func (fakeSource) Run(context.Context, func(*capture.Event)) error { return nil }
func (fakeSource) Close() error                                    { return nil }

// fakeSide is a supervisor that has the shim's file, or not.
type fakeSide struct {
	ring     *os.File
	needless bool
}

func (s *fakeSide) Shim() *os.File { return s.ring }
func (s *fakeSide) NoShim() error  { s.needless = true; return nil }

func TestOpenSource(t *testing.T) {
	refused := errors.New("load programs: no BTF")
	broken := errors.New("the ring has another version")
	for _, c := range []struct {
		name          string
		want          Backend
		ebpf, preload error
		noRing        bool
		source        string
		needless      bool     // the supervisor is told that no shim is needed
		words         []string // of the line or of the error
	}{
		{name: "auto, eBPF sees", want: BackendAuto, source: "ebpf", needless: true, words: []string{"watching by eBPF"}},
		{name: "auto, eBPF is refused", want: BackendAuto, ebpf: refused, source: "preload",
			words: []string{"by the preloaded library, because eBPF does not work here", "no BTF", "CONFIG_DEBUG_INFO_BTF"}},
		{name: "auto, neither", want: BackendAuto, ebpf: refused, preload: broken,
			words: []string{"no BTF", "CONFIG_DEBUG_INFO_BTF", "nor by the preloaded library", "another version"}},
		{name: "auto, restarted where eBPF watched", want: BackendAuto, ebpf: refused, noRing: true,
			words: []string{"no BTF", "the workload runs without it"}},
		{name: "eBPF, sees", want: BackendEBPF, source: "ebpf", needless: true, words: []string{"as asked for"}},
		{name: "eBPF, is refused", want: BackendEBPF, ebpf: refused, words: []string{"no BTF", "CONFIG_DEBUG_INFO_BTF"}},
		{name: "preload", want: BackendPreload, source: "preload", words: []string{"as asked for"}},
		{name: "preload, no ring", want: BackendPreload, noRing: true, words: []string{"the workload runs without it"}},
		{name: "preload, broken ring", want: BackendPreload, preload: broken, words: []string{"another version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(name string, err error) (capture.Source, error) {
				if err != nil {
					return nil, err
				}
				return fakeSource(name), nil
			}
			side := &fakeSide{ring: os.Stdin}
			if c.noRing {
				side.ring = nil
			}
			source, why, err := openSource(t.Context(), c.want, backends{
				ebpf:    func(context.Context) (capture.Source, error) { return open("ebpf", c.ebpf) },
				preload: func(*os.File) (capture.Source, error) { return open("preload", c.preload) },
			}, side)
			if (err == nil) != (c.source != "") || err == nil && source != fakeSource(c.source) {
				t.Fatalf("openSource() = %v, %v; want %q", source, err, c.source)
			}
			if err != nil {
				why = err.Error()
			}
			for _, word := range c.words {
				if !strings.Contains(why, word) {
					t.Errorf("told %q; want %q in it", why, word)
				}
			}
			if side.needless != c.needless {
				t.Errorf("the supervisor was told that no shim is needed: %v; want %v", side.needless, c.needless)
			}
		})
	}
}
