package preload

// What a call costs in a process that is watched.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf"
)

const (
	// costCalls are so few that no ring of costRing bytes is ever full of them.
	costCalls = 20_000
	costRing  = 64 << 20
	// attachTime is how long eBPF is given to find the program's libzmq.
	attachTime = 1500 * time.Millisecond
)

// costMode is a way in which the program may be watched. run begins to watch; what it
// returns ends that.
type costMode struct {
	name string
	wait time.Duration
	run  func(b *testing.B) (env []string, stop func())
}

func costModes(shim string) []costMode {
	inject := func(b *testing.B, bytes int) (*Ring, []string) {
		r := newRing(b, RingOptions{RingBytes: bytes})
		env, err := r.Inject(os.Environ(), shim)
		if err != nil {
			b.Fatal(err)
		}
		return r, env
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	type source interface {
		Run(context.Context, func(*capture.Event)) error
		Close() error
	}
	watch := func(b *testing.B, s source, err error) func() {
		if err != nil {
			b.Fatal(err)
		}
		var events atomic.Int64
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- s.Run(ctx, func(e *capture.Event) {
				if e.Kind == capture.KindRead || e.Kind == capture.KindWrite || e.Kind == capture.KindSend {
					events.Add(1)
				}
			})
		}()
		return func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
			if err := s.Close(); err != nil {
				b.Error(err)
			}
			if got := events.Load(); got < 3*costCalls {
				b.Errorf("%d events; want at least %d: it was not watched", got, 3*costCalls)
			}
		}
	}
	modes := []costMode{
		{"plain", 0, func(b *testing.B) ([]string, func()) { return os.Environ(), func() {} }},
		{"dormant", 0, func(b *testing.B) ([]string, func()) {
			_, env := inject(b, costRing)
			return env, func() {}
		}},
		{"recording", 0, func(b *testing.B) ([]string, func()) {
			r, env := inject(b, costRing)
			s, err := Open(r.File(), Options{Root: os.Getpid(), Log: quiet})
			return env, watch(b, s, err)
		}},
		{"full", 0, func(b *testing.B) ([]string, func()) {
			r, env := inject(b, minDataBytes)
			s, err := Open(r.File(), Options{Root: os.Getpid(), Log: quiet})
			if err != nil {
				b.Fatal(err)
			}
			return env, func() { s.Close() }
		}},
	}
	// Only where it may be loaded; otherwise the rest is still of use.
	if s, err := ebpf.Open(ebpf.Options{Root: os.Getpid(), RingBytes: costRing, Log: quiet}); err == nil {
		s.Close()
		modes = append(modes, costMode{"ebpf", attachTime, func(b *testing.B) ([]string, func()) {
			s, err := ebpf.Open(ebpf.Options{Root: os.Getpid(), RingBytes: costRing, Log: quiet})
			return os.Environ(), watch(b, s, err)
		}})
	}
	return modes
}

// BenchmarkShimCall measures the same program in all modes, in turn, as often as the
// benchmark runs (-benchtime 9x): the machine's mood is then everybody's. It reports
// medians, and logs the spread.
func BenchmarkShimCall(b *testing.B) {
	dir := b.TempDir()
	program, library := filepath.Join(dir, "cost"), filepath.Join(dir, "libzmq.so.5")
	// By the name by which eBPF knows it.
	compile(b, "-O2", "-shared", "-fPIC", "-DLIBRARY=1", "-Wl,-soname,libzmq.so.5", "-o", library, "fakezmq.c")
	compile(b, "-O2", "-o", program, "cost.c", library, "-Wl,-rpath,$ORIGIN")
	modes := costModes(unpacked(b))
	socket, zmq := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for _, m := range modes {
			env, stop := m.run(b)
			cmd := exec.Command(program, fmt.Sprint(costCalls))
			cmd.Env = env
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			time.Sleep(m.wait)
			io.WriteString(in, "go\n")
			if err := cmd.Wait(); err != nil {
				b.Fatal(m.name, err)
			}
			stop()
			var s, z float64
			if _, err := fmt.Sscan(out.String(), &s, &z); err != nil {
				b.Fatalf("%q: %v", out.String(), err)
			}
			socket[m.name], zmq[m.name] = append(socket[m.name], s), append(zmq[m.name], z)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "ns a call, median (lowest to highest) of %d\n%-10s %26s %26s\n", len(socket["plain"]), "", "write and read, 200 B", "zmq_msg_send, 200 B")
	for _, m := range modes {
		s, z := socket[m.name], zmq[m.name]
		slices.Sort(s)
		slices.Sort(z)
		b.ReportMetric(s[len(s)/2], "ns/socket-"+m.name)
		b.ReportMetric(z[len(z)/2], "ns/zmq-"+m.name)
		fmt.Fprintf(&table, "%-10s %8.0f (%.0f to %.0f) %16.0f (%.0f to %.0f)\n", m.name, s[len(s)/2], s[0], s[len(s)-1], z[len(z)/2], z[0], z[len(z)-1])
	}
	b.Log(table.String())
}
