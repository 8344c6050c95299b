package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// TestLayout compares the Go types with those in the object.
func TestLayout(t *testing.T) {
	spec, err := loadCapture()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"event": captureEvent{}, "counters": captureCounters{}, "adopted": captureAdopted{},
		"fd_key": captureFdKey{}, "socket_key": captureSocketKey{},
	} {
		var s *btf.Struct
		if err := spec.Types.TypeByName(name, &s); err != nil {
			t.Errorf("struct %s: %v", name, err)
			continue
		}
		typ := reflect.TypeOf(v)
		if int(s.Size) != int(typ.Size()) || int(s.Size) != binary.Size(v) {
			t.Errorf("struct %s has %d bytes, its Go type %d, of which %d are fields", name, s.Size, typ.Size(), binary.Size(v))
		}
		for i, m := range s.Members {
			f := typ.Field(i + 1) // the first is structs.HostLayout
			if uintptr(m.Offset.Bytes()) != f.Offset {
				t.Errorf("%s.%s is at %d, in Go %s at %d", name, m.Name, m.Offset.Bytes(), f.Name, f.Offset)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[captureEventKind]capture.Kind{
		captureEventKindKIND_EXEC: capture.KindExec, captureEventKindKIND_EXIT: capture.KindExit,
		captureEventKindKIND_SEND: capture.KindSend, captureEventKindKIND_RECV: capture.KindRecv,
		captureEventKindKIND_OPEN: capture.KindOpen, captureEventKindKIND_READ: capture.KindRead,
		captureEventKindKIND_WRITE: capture.KindWrite, captureEventKindKIND_CLOSE: capture.KindClose,
	} {
		if capture.Kind(kind) != want {
			t.Errorf("kind %d in C is %d in Go", kind, want)
		}
	}
	if kindFork <= capture.KindLost {
		t.Errorf("KIND_FORK = %d is a capture.Kind", kindFork)
	}
}

// TestPrograms wants every program in the object to belong to a feature and to
// have a place to be attached at.
func TestPrograms(t *testing.T) {
	spec, err := loadCapture()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range slices.Concat(featureSpecs, rawSpecs()) {
		for _, p := range slices.Concat(f.programs, f.older) {
			known[p] = true
		}
	}
	placed := map[string]bool{captureProgAdopt: true}
	for _, p := range slices.Concat(sendProbes, typeProbes, receiveProbes) {
		placed[p.program] = true
	}
	for name := range spec.Programs {
		if !known[name] {
			t.Errorf("program %s is in no feature", name)
		}
		if !placed[name] && rawTracepoints[name] == "" && syscallTracepoints[name] == nil {
			t.Errorf("program %s is attached nowhere", name)
		}
	}
	for name := range known {
		if spec.Programs[name] == nil {
			t.Errorf("no program %s in the object", name)
		}
	}
}

var mapsCases = []struct {
	name, in string
	want     []mapping
}{
	{"nothing", "", nil},
	{"auditwheel's name", "7f0c0000-7f0c1000 r--p 00000000 fe:00 9  /v/pyzmq.libs/libzmq-2f02442c.so.5.2.5\n",
		[]mapping{{"7f0c0000-7f0c1000", "/v/pyzmq.libs/libzmq-2f02442c.so.5.2.5", false}}},
	{"system library, padded address", "00400000-00401000 r-xp 00000000 fe:00 9                          /usr/lib/libzmq.so.5\n",
		[]mapping{{"400000-401000", "/usr/lib/libzmq.so.5", false}}},
	{"each file once, module last", "1-2 r--p 0 0:0 1 /a/_zmq.abi3.so\n2-3 r--p 0 0:0 2 /a/libzmq.so.5\n3-4 r-xp 0 0:0 2 /a/libzmq.so.5\n",
		[]mapping{{"2-3", "/a/libzmq.so.5", false}, {"1-2", "/a/_zmq.abi3.so", true}}},
	{"deleted", "1-2 r--p 0 0:0 1 /a b/libzmq.so.5 (deleted)\n", []mapping{{"1-2", "/a b/libzmq.so.5 (deleted)", false}}},
	{"other files with the letters", "1-2 r--p 0 0:0 1 /zmq/data\n1-2 r--p 0 0:0 1 /a/libzmqfoo.txt\n1-2 rw-p 0 0:0 0 [anon:zmq]\n", nil},
	{"cut line", "1-2 r--p 0 zmq", nil},
	{"last line without end", "1-2 r--p 0 0:0 1 /a/libzmq.so", []mapping{{"1-2", "/a/libzmq.so", false}}},
	{"very long line", strings.Repeat("zmq ", 40000) + "\n1-2 r--p 0 0:0 1 /a/libzmq.so\n", []mapping{{"1-2", "/a/libzmq.so", false}}},
}

func TestZMQMappings(t *testing.T) {
	for _, tc := range mapsCases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := zmqMappings(strings.NewReader(tc.in))
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("zmqMappings = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func FuzzZMQMappings(f *testing.F) {
	for _, tc := range mapsCases {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := zmqMappings(strings.NewReader(in))
		if err != nil {
			t.Fatalf("zmqMappings(%q) = %v", in, err)
		}
		for _, m := range got {
			if !strings.HasPrefix(m.path, "/") || !strings.Contains(m.path, "zmq") || !strings.Contains(in, m.path) {
				t.Errorf("zmqMappings(%q) found %+v", in, m)
			}
		}
	})
}

// TestInstalledZMQ finds a library beside an interpreter that is given by its path.
func TestInstalledZMQ(t *testing.T) {
	prefix := t.TempDir()
	libs := filepath.Join(prefix, "lib/python3.11/site-packages/pyzmq.libs")
	if err := os.MkdirAll(libs, 0o755); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(libs, "libzmq-0.so.5.2.5")
	if err := os.WriteFile(lib, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	pid := uint32(os.Getpid())
	want := []string{filepath.Join(fmt.Sprintf("/proc/%d/root", pid), lib)}
	for _, tc := range []struct {
		name    string
		cmdline []string
		want    []string
	}{
		{"path of the interpreter", []string{prefix + "/bin/python3", "-m", "vllm"}, want},
		{"bare name", []string{"python3"}, nil},
		{"no interpreter", []string{prefix + "/bin/sh"}, nil},
		{"no command line", nil, nil},
		{"pattern in the path", []string{prefix + "/*/bin/python3"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := installedZMQ(pid, tc.cmdline); !slices.Equal(got, tc.want) {
				t.Errorf("installedZMQ(%q) = %q; want %q", tc.cmdline, got, tc.want)
			}
		})
	}
}

func TestLookDelay(t *testing.T) {
	for _, tc := range []struct {
		looks int
		age   time.Duration
		want  time.Duration
	}{
		{0, 0, 20 * time.Millisecond},
		{5, time.Second, 640 * time.Millisecond},
		{6, time.Second, time.Second},
		{200, 3 * time.Minute, 10 * time.Second},
		{500, time.Hour, time.Minute},
	} {
		if got := lookDelay(tc.looks, tc.age); got != tc.want {
			t.Errorf("lookDelay(%d, %v) = %v; want %v", tc.looks, tc.age, got, tc.want)
		}
	}
}

// aligned is memory for records, aligned as the kernel aligns them.
func aligned(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

func eventRecord(h captureEvent, data string) []byte {
	b := aligned(eventBytes + len(data))
	*(*captureEvent)(unsafe.Pointer(unsafe.SliceData(b))) = h
	copy(b[eventBytes:], data)
	return b
}

func TestDecode(t *testing.T) {
	h := captureEvent{TimeNs: 5, Conn: 6, Seq: 7, Len: 9, Captured: 4, Tail: 2, Pid: 10, Tid: 11, Comm: [16]uint8{'c', 'o'}, Port: 80, Kind: 6, Socket: -1, More: 1, Peer: 1}
	var d decoder
	var e capture.Event
	if _, ok := d.decode(eventRecord(h, "abcdefgh"), &e); !ok {
		t.Fatal("decode = false")
	}
	want := capture.Event{Kind: capture.KindSend, Time: 5, PID: 10, TID: 11, Comm: "co", Conn: 6, Seq: 7, Socket: capture.SocketUnknown, More: true, Peer: true, Port: 80, Len: 9, Data: []byte("abcd"), Tail: 2}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("decode differs (-want +got):\n%s", diff)
	}
	record := eventRecord(h, "abcd")
	if n := testing.AllocsPerRun(100, func() { d.decode(record, &e) }); n != 0 {
		t.Errorf("decode allocates %v times an event", n)
	}
	for _, bad := range [][]byte{nil, record[:eventBytes-1], record[:eventBytes+3]} {
		if _, ok := d.decode(bad, &e); ok {
			t.Errorf("decode of %d bytes = true; want false", len(bad))
		}
	}
}

// TestNamesAreBounded lets a workload invent thread names.
func TestNamesAreBounded(t *testing.T) {
	var d decoder
	for i := range 3 * maxNames {
		var comm [16]uint8
		copy(comm[:], fmt.Sprint("t", i))
		if got := d.name(comm); got != fmt.Sprint("t", i) {
			t.Fatalf("name = %q", got)
		}
	}
	if len(d.names) > maxNames {
		t.Errorf("%d names are kept; want at most %d", len(d.names), maxNames)
	}
}

// fakeRing is a ring in this process's memory.
func fakeRing(size int) *ring {
	return &ring{data: aligned(2 * size), consumed: new(uint64), produced: new(uint64), mask: uint64(size - 1)}
}

// put writes a record as the kernel does, in both mappings.
func (r *ring) put(flags uint32, data string) {
	at := int(*r.produced & r.mask)
	size := int(r.size())
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(data))|flags)
	b = append(append(b, 0, 0, 0, 0), data...)
	for i, c := range b {
		r.data[(at+i)%size], r.data[(at+i)%size+size] = c, c
	}
	*r.produced += uint64(ringHeaderBytes + (len(data)+7)&^7)
}

func TestRing(t *testing.T) {
	r := fakeRing(64)
	read := func() (got []string) {
		r.drain(func(b []byte) { got = append(got, string(b)) })
		return got
	}
	if got := read(); got != nil {
		t.Errorf("empty ring gives %q", got)
	}
	r.put(0, "one")
	r.put(ringDiscard, "dropped")
	r.put(0, "")
	if got, want := read(), []string{"one", ""}; !slices.Equal(got, want) || r.filled() != 0 {
		t.Errorf("ring gives %q, %d bytes left; want %q, 0", got, r.filled(), want)
	}
	long := strings.Repeat("x", 40)
	r.put(0, long) // wraps
	if got := read(); !slices.Equal(got, []string{long}) {
		t.Errorf("ring gives %q; want %q", got, long)
	}
	busy := *r.produced & r.mask
	r.put(ringBusy, "later")
	r.put(0, "after")
	if got := read(); got != nil || r.filled() == 0 {
		t.Errorf("ring with an unfinished record gives %q", got)
	}
	for _, at := range []uint64{busy, busy + r.size()} {
		binary.NativeEndian.PutUint32(r.data[at:], 5)
	}
	if got, want := read(), []string{"later", "after"}; !slices.Equal(got, want) {
		t.Errorf("ring gives %q; want %q", got, want)
	}
}

func TestOptions(t *testing.T) {
	o, err := Options{}.withDefaults()
	if err != nil || o.HeadBytes != DefaultHeadBytes || o.TailBytes != DefaultTailBytes || o.RingBytes != DefaultRingBytes || o.Poll != DefaultPoll {
		t.Errorf("defaults = %+v, %v", o, err)
	}
	if o, err := (Options{RingBytes: 5<<20 + 1}).withDefaults(); err != nil || o.RingBytes != 8<<20 {
		t.Errorf("ring of 5 MiB and a byte = %d, %v; want %d", o.RingBytes, err, 8<<20)
	}
	for _, bad := range []Options{{Root: -1}, {HeadBytes: 1}, {HeadBytes: MaxCaptureBytes, TailBytes: 1}, {Poll: -1}, {RingBytes: -1}} {
		if _, err := bad.withDefaults(); err == nil {
			t.Errorf("withDefaults(%+v) = nil; want an error", bad)
		}
	}
}

func TestCure(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string // part of it; empty: none
	}{
		{"no error", nil, ""},
		{"not permitted", fmt.Errorf("load: %w", unix.EPERM), readPrivilege().cure()},
		{"too old", fmt.Errorf("load: %w", ebpf.ErrNotSupported), "5.8"},
		{"no BTF", errors.New("apply CO-RE relocations: no BTF found for kernel version 5.4"), "BTF"},
		{"refused by the verifier", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R9 !read_ok"}}, "verifier"},
		{"unknown", errors.New("broken"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Cure(tc.err); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("Cure(%v) = %q; want %q in it", tc.err, got, tc.want)
			}
		})
	}
}
