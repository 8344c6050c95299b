package ebpf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf/internal/standin"
)

// blind makes programs do nothing: the kernel takes and attaches them all the same.
func blind(names ...string) func(*ebpf.CollectionSpec) {
	return func(spec *ebpf.CollectionSpec) {
		for _, name := range names {
			p := spec.Programs[name]
			first := asm.Mov.Imm(asm.R0, 0).WithSymbol(name)
			first = first.WithSource(p.Instructions[0].Source())
			if fn := btf.FuncMetadata(&p.Instructions[0]); fn != nil {
				first = btf.WithFuncMetadata(first, fn)
			}
			p.Instructions = asm.Instructions{first, asm.Return()}
		}
	}
}

// TestSelfTest wants success wherever Open has it, by whichever way the programs are
// attached and however little is captured, and nothing of it in what Run delivers.
func TestSelfTest(t *testing.T) {
	needPrivileges(t)
	for _, tc := range []struct {
		name string
		o    Options
	}{
		{"as the kernel can", Options{}},
		{"probes by perf events", Options{perfEvents: true}},
		{"tracepoints of all system calls", Options{withoutTracefs: true}},
		{"programs for older kernels", Options{edit: refuse(captureProgDoneFlat, captureProgDoneVector)}},
		{"cut bytes", Options{HeadBytes: 11, TailBytes: 7, FrameBytes: 20}},
		{"a ring that holds little", Options{RingBytes: 16 << 10}},
		{"without what is not essential", Options{edit: refuse(captureProgDoneVector, captureProgEnterShort, captureProgZmqClose, captureProgLeaveAccept)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			o := tc.o
			o.Root, o.Log, o.Poll = os.Getpid(), slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond
			s, err := Open(o)
			if err != nil {
				t.Fatalf("Open() = %v", err)
			}
			w := &watch{t: t, source: s}
			said := log.String()
			begun := time.Now()
			for range 2 {
				if err := s.SelfTest(t.Context()); err != nil {
					t.Errorf("SelfTest() = %v", err)
				}
			}
			t.Logf("two took %v", time.Since(begun))
			if got := strings.TrimPrefix(log.String(), said); got != "" {
				t.Errorf("SelfTest logs %q; want nothing", got)
			}
			pids := map[uint32]bool{}
			for _, trace := range s.tests {
				pids[trace.pid] = true
			}
			if len(pids) != 2 {
				t.Errorf("traces %v; want those of two processes", s.tests)
			}
			w.run()
			c := spawn(t, nil, "serve", "read", "write:9", "close")
			exchange(t, c.out.next(t))
			c.finish(t)
			w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == c.Process.Pid })
			w.stop()
			for _, e := range w.all() {
				if pids[e.PID] || e.Kind == capture.KindLost || bytes.Contains(e.Data, []byte("self-test")) {
					t.Errorf("Run delivers %s", show([]capture.Event{e}))
				}
			}
			s.sweep()
			for _, name := range []string{captureMapConnections, captureMapSockets, captureMapZmqCalls, captureMapCalls} {
				var key, value []byte
				if it := s.kernel.maps[name].Iterate(); it.Next(&key, &value) {
					t.Errorf("table %s holds %x", name, key)
				}
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		})
	}
}

// TestSelfTestBesideWorkload talks to a server whose events stand in the ring before,
// between and behind those of the self-test: it wants all of them from Run.
func TestSelfTestBesideWorkload(t *testing.T) {
	needPrivileges(t)
	s, err := Open(Options{Root: os.Getpid(), Poll: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{t: t, source: s}
	const bursts = 3
	c := spawn(t, nil, "serve", "read", "burst:200", "wait", "burst:200", "wait", "burst:200", "close")
	conn := c.dial(t)
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	for range bursts - 1 {
		c.in.Write([]byte("\n"))
		if err := s.SelfTest(t.Context()); err != nil {
			t.Errorf("SelfTest() = %v", err)
		}
	}
	c.finish(t)
	w.run()
	w.await("exit", func(e *capture.Event) bool { return e.Kind == capture.KindExit && int(e.PID) == c.Process.Pid })
	w.stop()
	writes := of(w.all(), c.Process.Pid, capture.KindWrite)
	if len(writes) != bursts*200 {
		t.Errorf("%d writes; want %d", len(writes), bursts*200)
	}
	for i, e := range writes {
		if e.Seq != uint64(i+1) || len(e.Data) != 10 {
			t.Fatalf("write %d is %s", i, show([]capture.Event{e}))
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// TestSelfTestBlind wants programs found out that are attached and do nothing.
func TestSelfTestBlind(t *testing.T) {
	needPrivileges(t)
	for _, tc := range []struct {
		name     string
		programs []string
		feature  string // that is lost
		err      string // part of the error; empty: it goes on
	}{
		{"forks", []string{captureProgProcessFork}, featureProcesses, "process that begins does not fire"},
		{"exits", []string{captureProgProcessExit}, featureProcesses, "process that ends does not fire"},
		{"flat calls", []string{captureProgDoneFlat}, featureHTTP, "the tracepoint of read does not fire"},
		{"vector calls", []string{captureProgDoneVector}, featureHTTPVectors, ""},
		{"close", []string{captureProgEnterClose}, featureHTTPClose, ""},
		{"send", []string{captureProgZmqSend}, featureZMQSend, "the probe on zmq_msg_send does not fire"},
		{"receive", []string{captureProgZmqRecv}, featureZMQReceive, "the probe on the return of zmq_msg_recv does not fire"},
		{"return of receive", []string{captureProgZmqRecvReturn}, featureZMQReceive, "the probe on the return of zmq_msg_recv does not fire"},
		{"socket", []string{captureProgZmqSocketReturn}, featureZMQTypes, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			s, err := Open(Options{Root: os.Getpid(), edit: blind(tc.programs...), Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatalf("Open() = %v", err)
			}
			defer s.Close()
			err = s.SelfTest(t.Context())
			switch {
			case tc.err == "" && err != nil:
				t.Errorf("SelfTest() = %v; want nil", err)
			case tc.err == "" && (strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "feature="+tc.feature)):
				t.Errorf("log = %q; want one line on %s", &log, tc.feature)
			case tc.err != "" && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "\n")):
				t.Errorf("SelfTest() = %v; want ErrUnavailable with %q in one line", err, tc.err)
			case tc.err != "" && Cure(err) == "":
				t.Errorf("Cure(%v) is empty", err)
			case tc.err != "" && log.Len() > 0:
				t.Errorf("log = %q; want nothing", &log)
			}
			for _, f := range s.Features() {
				if (f.Err != nil) != (f.Name == tc.feature) && !(tc.feature == featureProcesses) {
					t.Errorf("feature %s: %v", f.Name, f.Err)
				}
			}
		})
	}
}

// TestSelfTestLost wants a feature that Open has lost to decide as a blind one does.
func TestSelfTestLost(t *testing.T) {
	needPrivileges(t)
	s, err := Open(Options{Root: os.Getpid(), edit: refuse(captureProgZmqRecv), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SelfTest(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), featureZMQReceive) || !strings.Contains(Cure(err), "verifier") {
		t.Errorf("SelfTest() = %v; want %s to be lost", err, featureZMQReceive)
	}
}

// TestSelfTestWrongBytes wants bytes noticed that are not those that were said.
func TestSelfTestWrongBytes(t *testing.T) {
	needPrivileges(t)
	s, err := Open(Options{Root: os.Getpid(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	double, err := standin.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer double.Close()
	wanted := s.sightings(double)
	record := make([]byte, eventBytes+4)
	(*captureEvent)(unsafe.Pointer(&record[0])).Kind = uint8(capture.KindRead)
	var e capture.Event
	var d decoder
	d.decode(record, &e)
	for _, w := range wanted {
		w.seen = true
		w.found = w.kind != e.Kind || w.right(&e)
	}
	err = s.verdict(wanted, nil, nil, hint(captureCounters{}, captureCounters{Unreadable: 1}))
	if want := "http: the tracepoint of read tells other bytes than there were (memory could not be read)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("verdict = %v; want %q", err, want)
	}
}

// TestSelfTestLimits wants a context that is done to end it.
func TestSelfTestLimits(t *testing.T) {
	needPrivileges(t)
	s, err := Open(Options{Root: os.Getpid(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SelfTest(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("SelfTest() = %v; want %v", err, context.Canceled)
	}
	if err := s.SelfTest(t.Context()); err != nil {
		t.Errorf("SelfTest() once more = %v", err)
	}
}

// attachments counts this process's descriptors of programs, maps, links and perf events.
func attachments(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // the directory's own is gone
		if strings.HasPrefix(to, "anon_inode:bpf") || strings.HasPrefix(to, "anon_inode:[perf") {
			n++
		}
	}
	return n
}

// TestCheck wants a verdict, and nothing left attached.
func TestCheck(t *testing.T) {
	needPrivileges(t)
	before := attachments(t)
	r := Check(t.Context(), Options{Root: 1, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if r.Err != nil || r.Opening <= 0 || r.Testing <= 0 || len(r.Features) != len(featureSpecs) {
		t.Errorf("Check() = %+v; want success", r)
	}
	t.Logf("opening %v, testing %v", r.Opening, r.Testing)
	for i, f := range r.Features {
		if f.Err != nil || f.Name != featureSpecs[i].name {
			t.Errorf("feature %d: %+v", i, f)
		}
	}
	if after := attachments(t); after != before {
		t.Errorf("%d descriptors of what is attached; %d before", after, before)
	}
	r = Check(t.Context(), Options{edit: refuse(captureProgAdopt)})
	if !errors.Is(r.Err, ErrUnavailable) || len(r.Features) != len(featureSpecs) || r.Testing != 0 {
		t.Errorf("Check() without the iterator = %+v; want ErrUnavailable", r)
	}
	r = Check(t.Context(), Options{HeadBytes: -1})
	if r.Err == nil || len(r.Features) != len(featureSpecs) || r.Features[0].Err == nil {
		t.Errorf("Check() with options that make no sense = %+v; want an error", r)
	}
}

// TestPeek wants records seen from a position on, and left for drain.
func TestPeek(t *testing.T) {
	r := fakeRing(128)
	r.put(0, "before")
	from := r.end()
	r.put(0, "one")
	r.put(ringDiscard, "dropped")
	r.put(ringBusy, "later")
	busy := r.end()
	r.put(0, "after")
	var got []string
	see := func(b []byte) { got = append(got, string(b)) }
	next := r.peek(from, see)
	if want := []string{"one"}; !slices.Equal(got, want) || next >= busy {
		t.Errorf("peek = %d, %q; want %q, and less than %d", next, got, want, busy)
	}
	binary.NativeEndian.PutUint32(r.data[next&r.mask:], 5)
	got = nil
	if next = r.peek(next, see); !slices.Equal(got, []string{"later", "after"}) || next != r.end() {
		t.Errorf("peek = %d, %q; want the rest, and %d", next, got, r.end())
	}
	got = nil
	if r.drain(see); !slices.Equal(got, []string{"before", "one", "later", "after"}) {
		t.Errorf("drain gives %q after peek", got)
	}
}

// TestProcessEntry compares with the kernel's type.
func TestProcessEntry(t *testing.T) {
	spec, err := loadCapture()
	if err != nil {
		t.Fatal(err)
	}
	value := spec.Maps[captureMapProcesses].Value
	st, ok := btf.UnderlyingType(value).(*btf.Struct)
	if !ok || st.Size != uint32(unsafe.Sizeof(processEntry{})) {
		t.Fatalf("processes hold %v; want %d bytes", value, unsafe.Sizeof(processEntry{}))
	}
	for i, name := range []string{"pid", "role", "execs", "padding"} {
		if m := st.Members[i]; m.Name != name || m.Offset.Bytes() != uint32(4*i) {
			t.Errorf("member %d is %s at %d", i, m.Name, m.Offset.Bytes())
		}
	}
	var roles *btf.Enum
	if err := spec.Types.TypeByName("process_role", &roles); err != nil {
		t.Skip("the object does not keep the names of roles: ", err)
	}
	for _, v := range roles.Values {
		if want := map[string]uint64{"ROLE_ROOT": roleRoot, "ROLE_EXCLUDED": roleExcluded}[v.Name]; want != 0 && v.Value != want {
			t.Errorf("%s = %d; want %d", v.Name, v.Value, want)
		}
	}
}
