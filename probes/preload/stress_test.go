package preload

// The real library under a program that uses it as hard as it can be used: shim/test.
// Whatever the program does must go as without the library, and what the reader delivers
// must be what the program says it did, but for what is counted as lost.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// compiler is a C compiler; the test is skipped where there is none.
func compiler(t testing.TB) string {
	t.Helper()
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs a C compiler: cc, gcc or clang on PATH, or $CC")
	return ""
}

// compile runs the compiler; sources lie in shim/test or are other arguments.
func compile(t testing.TB, args ...string) {
	t.Helper()
	cc := compiler(t)
	for i, arg := range args {
		if strings.HasSuffix(arg, ".c") && !strings.Contains(arg, "/") {
			args[i] = filepath.Join("shim", "test", arg)
		}
	}
	args = append([]string{"-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-Wall", "-Wextra"}, args...)
	if out, err := exec.Command(cc, append(args, "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", cc, strings.Join(args, " "), err, out)
	}
}

// stressProgram builds the program and its plugins, each linked with a libzmq of its own.
func stressProgram(t testing.TB) (program, dir string) {
	t.Helper()
	dir = t.TempDir()
	program = filepath.Join(dir, "torture")
	compile(t, "-o", program, "torture.c", "storms.c", "exchange.c")
	for i := 1; i <= 2; i++ {
		n := strconv.Itoa(i)
		compile(t, "-shared", "-fPIC", "-DLIBRARY="+n, "-Wl,-soname,libfakezmq"+n+".so", "-o", filepath.Join(dir, "libfakezmq"+n+".so"), "fakezmq.c")
		compile(t, "-shared", "-fPIC", "-o", filepath.Join(dir, "plugin"+n+".so"), "plugin.c", "-L"+dir, "-lfakezmq"+n, "-Wl,-rpath,$ORIGIN")
	}
	return program, dir
}

// unpacked is the library where it can be loaded.
func unpacked(t testing.TB) string {
	t.Helper()
	s, err := Unpack([]string{t.TempDir()})
	if err != nil {
		t.Skip("no library for this machine: ", err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Path
}

// served is what the program says of a connection.
type served struct {
	pid, id, reads, writes, ends, port uint64
	readBytes, writtenBytes            uint64
	readHash, writtenHash              uint64
}

// events is how many a connection is told by.
func (s served) events() uint64 { return 1 + s.reads + s.writes + s.ends }

// outcome is what the program says of all.
type outcome struct {
	connections                          map[uint64]served
	frames, signals, cancelled, children uint64
	pid                                  int
	failures, count                      uint64
	expected                             uint64 // events of connections and sockets
}

func parseOutcome(t *testing.T, text []byte) (o outcome) {
	t.Helper()
	o.connections = map[uint64]served{}
	for line := range strings.Lines(string(text)) {
		var s served
		if rest, ok := strings.CutPrefix(line, "total "); ok {
			if _, err := fmt.Sscan(rest, &o.failures, &o.count, &o.frames, &o.signals, &o.cancelled, &o.children, &o.pid); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			continue
		}
		_, err := fmt.Sscanf(line, "%d %d %d %d %d %d %d %d %x %x", &s.pid, &s.id, &s.reads, &s.writes, &s.ends, &s.port, &s.readBytes, &s.writtenBytes, &s.readHash, &s.writtenHash)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o.connections[s.id] = s
		o.expected += s.events()
	}
	if o.pid == 0 || uint64(len(o.connections)) != o.count {
		t.Fatalf("the program has not said what it did: %d connections of %d", len(o.connections), o.count)
	}
	o.expected += o.frames
	return o
}

// stressDeadline is above the program's own, which says what hangs.
const stressDeadline = 90 * time.Second

// stress runs the program with the library and its ring.
func stress(t *testing.T, r *Ring, program string, args ...string) outcome {
	t.Helper()
	env, err := r.Inject(os.Environ(), unpacked(t))
	if err != nil {
		t.Fatal(err)
	}
	return stressIn(t, env, program, args...)
}

func stressIn(t *testing.T, env []string, program string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stressDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.2000s", program, err, errs.String())
	}
	if errs.Len() > 0 {
		t.Errorf("it says: %.2000s", errs.String())
	}
	return parseOutcome(t, out.Bytes())
}

// stream is what was told of a connection.
type stream struct {
	pid           uint32
	opens, ends   uint64
	reads, writes []capture.Event
	port          uint16
}

// told sorts events by connection, and counts frames and what was lost.
func told(t *testing.T, events []capture.Event) (streams map[[2]uint64]*stream, frames, lost uint64) {
	streams = map[[2]uint64]*stream{}
	for _, e := range events {
		switch e.Kind {
		case capture.KindOpen, capture.KindRead, capture.KindWrite, capture.KindClose:
		case capture.KindSend:
			if frames++; string(e.Data) != "plugin's frame" || e.Socket != 5 {
				t.Errorf("a frame that nobody sent: %s", show([]capture.Event{e}))
			}
			continue
		case capture.KindLost:
			lost += uint64(e.Len)
			continue
		default:
			continue
		}
		if e.Conn == 0 {
			t.Fatalf("an event of no connection: %s", show([]capture.Event{e}))
		}
		key := [2]uint64{uint64(e.PID), e.Conn}
		s := streams[key]
		if s == nil {
			s = &stream{pid: e.PID}
			streams[key] = s
		}
		switch e.Kind {
		case capture.KindOpen:
			s.opens, s.port = s.opens+1, e.Port
		case capture.KindRead:
			s.reads = append(s.reads, e)
		case capture.KindWrite:
			s.writes = append(s.writes, e)
		case capture.KindClose:
			s.ends++
		}
	}
	return streams, frames, lost
}

// check compares a direction with what the program has counted and hashed; it returns how
// many events are missing.
func (s *stream) check(what string, events []capture.Event, calls, size, hash uint64) (missing uint64, err error) {
	sum := fnv.New64a()
	var n, last uint64
	for _, e := range events {
		if e.Seq <= last || e.Seq > calls {
			return 0, fmt.Errorf("%s: event %d of %d comes after %d", what, e.Seq, calls, last)
		}
		if len(e.Data) != e.Len {
			return 0, fmt.Errorf("%s: %d of %d bytes, where all are to be captured", what, len(e.Data), e.Len)
		}
		last = e.Seq
		n += uint64(e.Len)
		sum.Write(e.Data)
	}
	if missing = calls - uint64(len(events)); missing > 0 {
		return missing, nil
	}
	if n != size || sum.Sum64() != hash {
		return 0, fmt.Errorf("%s: %d bytes with the hash %x; want %d with %x", what, n, sum.Sum64(), size, hash)
	}
	return 0, nil
}

// id is the number by which the program knows a connection, from its first request.
func (s *stream) id() (uint64, bool) {
	var data []byte
	for i, e := range s.reads {
		if e.Seq != uint64(i)+1 {
			break
		}
		data = append(data, e.Data...)
		if len(data) > 40 {
			break
		}
	}
	rest, ok := bytes.CutPrefix(data, []byte("POST /"))
	number, rest, found := bytes.Cut(rest, []byte("/"))
	id, err := strconv.ParseUint(string(number), 10, 64)
	return id, ok && found && err == nil && bytes.HasPrefix(rest, []byte("0 ")) // its first request
}

// compare checks what was delivered against what the program did, and returns how many
// events of it are missing.
func compare(t *testing.T, o outcome, events []capture.Event) (missing, lost uint64) {
	t.Helper()
	streams, frames, lost := told(t, events)
	missing = o.frames - frames
	seen := map[uint64]bool{}
	for key, s := range streams {
		id, ok := s.id()
		if !ok {
			continue // its beginning is missing: counted below
		}
		want, ok := o.connections[id]
		if !ok || seen[id] {
			t.Errorf("connection %v tells of number %d, which the program did not have (%v) or had once (%v)", key, id, !ok, seen[id])
			continue
		}
		seen[id] = true
		miss, err := s.check("reads", s.reads, want.reads, want.readBytes, want.readHash)
		more, also := s.check("writes", s.writes, want.writes, want.writtenBytes, want.writtenHash)
		if err := errors.Join(err, also); err != nil {
			t.Errorf("connection %d: %v", id, err)
		}
		if uint64(s.pid) != want.pid || s.opens > 1 || s.ends > want.ends || s.opens == 1 && uint64(s.port) != want.port {
			t.Errorf("connection %d: process %d, %d opens, %d ends, port %d; want %d, 1, %d, %d", id, s.pid, s.opens, s.ends, s.port, want.pid, want.ends, want.port)
		}
		for _, e := range append(s.reads, s.writes...) {
			// Children have one thread each.
			if int(e.PID) != o.pid && e.TID != e.PID {
				t.Errorf("connection %d: thread %d of process %d", id, e.TID, e.PID)
			}
		}
		missing += miss + more + 1 - s.opens + want.ends - s.ends
		delete(o.connections, id)
	}
	for key, s := range streams {
		if _, ok := s.id(); !ok && lost == 0 {
			t.Errorf("connection %v: its first request is not there, but nothing was lost: %s", key, show(s.reads[:min(3, len(s.reads))]))
		}
	}
	for id, want := range o.connections {
		if lost == 0 {
			t.Errorf("connection %d was not told of: %+v", id, want)
		}
		missing += want.events()
	}
	for _, s := range streams {
		if _, ok := s.id(); !ok {
			missing -= s.opens + s.ends + uint64(len(s.reads)+len(s.writes))
		}
	}
	return missing, lost
}

// TestStress: all at once, and nothing is missing that is not counted.
func TestStress(t *testing.T) {
	program, dir := stressProgram(t)
	threads, connections := "64", "100"
	if testing.Short() {
		connections = "15"
	}
	r := newRing(t, RingOptions{RingBytes: 64 << 20})
	w := start(t, r, Options{})
	o := stress(t, r, program, dir, threads, connections)
	w.await("exit of the program", isExit(o.pid))
	w.stop()
	if o.signals == 0 || o.cancelled == 0 || o.children == 0 || o.frames == 0 {
		t.Errorf("%d signals, %d cancelled threads, %d children, %d frames; want some of each", o.signals, o.cancelled, o.children, o.frames)
	}
	missing, lost := compare(t, o, w.all())
	t.Logf("%d connections, %d events; %d signals, %d children, %d cancelled; %d missing, %d lost", o.count, o.expected, o.signals, o.children, o.cancelled, missing, lost)
	// A child's first record may be among the lost, which is none of a connection.
	if missing > lost || lost > missing+o.children+1 {
		t.Errorf("%d events are missing; %d were counted", missing, lost)
	}
}

// TestStressFull: a ring that is too small, read too seldom. What is lost is counted, to
// the event.
func TestStressFull(t *testing.T) {
	program, dir := stressProgram(t)
	r := newRing(t, RingOptions{RingBytes: 256 << 10})
	w := start(t, r, Options{Poll: 40 * time.Millisecond})
	o := stress(t, r, program, dir, "64", "20", "calm")
	w.await("exit of the program", isExit(o.pid))
	w.stop()
	missing, lost := compare(t, o, w.all())
	t.Logf("%d events expected; %d missing, %d lost", o.expected, missing, lost)
	if lost == 0 {
		t.Error("nothing was lost, so nothing was tested")
	}
	if missing != lost {
		t.Errorf("%d events are missing; %d were counted", missing, lost)
	}
}

// TestStressUnread: the ring is active, and its reader has died. The program goes on as
// if nothing were there.
func TestStressUnread(t *testing.T) {
	program, dir := stressProgram(t)
	r := newRing(t, RingOptions{RingBytes: 256 << 10})
	s, err := Open(r.File(), Options{Root: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := stress(t, r, program, dir, "16", "20", "calm")
	if got := s.counters().ringFull; got == 0 || got >= o.expected {
		t.Errorf("%d events without room; want some of %d", got, o.expected)
	}
}

// TestStressReaders: readers come and go while the program runs. Every one sees the
// connections that begin under it, whole.
func TestStressReaders(t *testing.T) {
	program, dir := stressProgram(t)
	r := newRing(t, RingOptions{RingBytes: 64 << 20})
	done := make(chan outcome, 1)
	go func() { done <- stress(t, r, program, dir, "16", "300", "calm") }()
	var all [][]capture.Event
	var o outcome
	for running := true; running; {
		w := start(t, r, Options{})
		select {
		case o = <-done:
			running = false
		case <-time.After(60 * time.Millisecond):
		}
		w.stop()
		all = append(all, w.all())
	}
	whole := 0
	for i, events := range all {
		streams, _, lost := told(t, events)
		if lost > 0 {
			t.Logf("reader %d: %d lost", i, lost)
		}
		for _, s := range streams {
			if s.opens != 1 && lost == 0 {
				t.Errorf("reader %d has %d opens of a connection with %d reads; want one, also of an older connection", i, s.opens, len(s.reads))
			}
			id, ok := s.id()
			if !ok || s.opens == 0 {
				continue
			}
			want := o.connections[id]
			miss, err := s.check("reads", s.reads, want.reads, want.readBytes, want.readHash)
			more, also := s.check("writes", s.writes, want.writes, want.writtenBytes, want.writtenHash)
			if err := cmp.Or(err, also); err != nil {
				t.Errorf("reader %d, connection %d: %v", i, id, err)
			}
			if miss+more == 0 && s.ends == want.ends {
				whole++
			} else if s.ends == want.ends && lost == 0 {
				t.Errorf("reader %d, connection %d: %d reads and %d writes are missing of one that ended", i, id, miss, more)
			}
		}
	}
	t.Logf("%d readers, %d of %d connections whole", len(all), whole, o.count)
	if len(all) < 2 || whole == 0 {
		t.Errorf("%d readers saw %d connections; want several readers, some connections", len(all), whole)
	}
}

// TestStressSanitizers runs the library's sources, linked into the program, under the
// compilers' sanitizers. ThreadSanitizer sees neither the reader, which gives room back,
// so the ring is not filled twice, nor what a forked child or a signal handler may do.
func TestStressSanitizers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	compiler(t)
	_, dir := stressProgram(t)
	sources, err := filepath.Glob("shim/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, c := range []struct {
		sanitizer string
		compilers []string
		args      []string
	}{
		// AddressSanitizer's own CHECK fails where a thread is cancelled.
		{"address,undefined", []string{"gcc", "clang"}, []string{dir, "32", "40", "uncancelled"}},
		// GCC's ThreadSanitizer stands behind the library's functions, and takes
		// descriptors that the client closes past it for the same one.
		{"thread", []string{"clang"}, []string{dir, "32", "20", "calm"}},
	} {
		for _, cc := range c.compilers {
			t.Run(cc+" "+c.sanitizer, func(t *testing.T) {
				path, err := exec.LookPath(cc)
				if err != nil {
					t.Skip(err)
				}
				program := filepath.Join(t.TempDir(), "torture")
				flags := []string{"-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-rdynamic", "-Wno-unknown-pragmas", "-fno-omit-frame-pointer",
					"-fsanitize=" + c.sanitizer, "-fno-sanitize-recover=undefined", "-o", program}
				args := append(append(flags, sources...), "shim/test/torture.c", "shim/test/storms.c", "shim/test/exchange.c", "-ldl")
				if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
					t.Skipf("%s has no -fsanitize=%s: %v\n%.500s", cc, c.sanitizer, err, out)
				}
				r := newRing(t, RingOptions{RingBytes: 64 << 20})
				w := start(t, r, Options{})
				env := append(os.Environ(), EnvRing+"="+r.Path(), "ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
				o := stressIn(t, env, program, c.args...)
				w.await("exit of the program", isExit(o.pid))
				w.stop()
				if missing, lost := compare(t, o, w.all()); missing > lost {
					t.Errorf("%d events are missing; %d were counted", missing, lost)
				}
			})
		}
	}
}
