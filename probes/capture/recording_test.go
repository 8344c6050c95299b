package capture

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

const seed = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// samples has an event of each kind with every field that the kind has.
var samples = []Event{
	{Kind: KindClock, Time: 1, Offset: 1_796_051_856_681_443_286, Socket: SocketUnknown},
	{Kind: KindAttach, Time: 2, Socket: SocketUnknown},
	{Kind: KindExec, Time: 3, PID: 7, TID: 7, Comm: "vllm", Len: 10, Data: []byte("vllm\x00serve"), Socket: SocketUnknown},
	{Kind: KindSend, Time: 4, PID: 7, TID: 8, Comm: "a\"b", Conn: 0x55f979d286b0, Seq: 1, Socket: SocketRouter, More: true, Len: 2, Data: []byte{0, 0}},
	{Kind: KindRecv, Time: 5, PID: 9, TID: 9, Conn: 12, Seq: 2, Socket: SocketPull, Len: 100, Data: []byte{0x99, 1, 2}, Tail: 1},
	{Kind: KindOpen, Time: 6, PID: 7, Conn: 3, Port: 8000, Socket: SocketUnknown},
	{Kind: KindRead, Time: 7, PID: 7, Conn: 3, Seq: 1, TLS: true, Len: 4, Data: []byte("GET "), Socket: SocketUnknown},
	{Kind: KindWrite, Time: 8, PID: 7, Conn: 3, Seq: 1, TLS: true, Len: 4, Data: []byte("HTTP"), Socket: SocketUnknown},
	{Kind: KindClose, Time: 9, PID: 7, Conn: 3, Seq: 2, Peer: true, Socket: SocketUnknown},
	{Kind: KindTick, Time: 10, Socket: SocketUnknown},
	{Kind: KindLost, Time: 11, Len: 3, Cause: LostRingFull, Socket: SocketUnknown},
	{Kind: KindExit, Time: 12, PID: 7, Socket: SocketUnknown},
}

func write(t *testing.T, path string, events []Event) {
	t.Helper()
	w, err := NewWriter(path, Header{Seed: seed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		w.Write(&events[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) (events []Event, r *Recording, err error) {
	t.Helper()
	r, err = OpenRecording(path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	err = r.Run(context.Background(), func(e *Event) {
		c := *e
		c.Data = bytes.Clone(e.Data)
		if len(c.Data) == 0 {
			c.Data = nil
		}
		events = append(events, c)
	})
	return events, r, err
}

func TestRecordingKeepsEveryField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tsrec")
	write(t, path, samples)
	got, r, err := read(t, path)
	if err != nil || r.Torn {
		t.Fatalf("Run: error %v, torn %v; want none", err, r.Torn)
	}
	if d := cmp.Diff(samples, got); d != "" {
		t.Errorf("events read differ from those written (-want +got):\n%s", d)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v; want 0600: recordings are for their owner", info.Mode().Perm())
	}
}

// A crash can cut the file anywhere: what is before the cut must be read, in order.
func TestRecordingTornAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tsrec")
	write(t, path, samples)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	complete := 0
	for n := range whole {
		torn := filepath.Join(t.TempDir(), "torn.tsrec")
		if err := os.WriteFile(torn, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, r, err := read(t, torn)
		if r == nil {
			if err == nil || !strings.Contains(err.Error(), "open recording") {
				t.Fatalf("cut at %d: error %v; want one that says what could not be opened", n, err)
			}
			continue
		}
		if err != nil || !r.Torn {
			t.Fatalf("cut at %d: error %v, torn %v; want a torn recording", n, err, r.Torn)
		}
		last := got[len(got)-1]
		if last.Kind != KindLost || last.Cause != LostTorn {
			t.Fatalf("cut at %d: last event = %+v; want the loss", n, last)
		}
		if d := cmp.Diff(samples[:len(got)-1], got[:len(got)-1]); d != "" {
			t.Fatalf("cut at %d: %s", n, d)
		}
		complete = max(complete, len(got)-1)
	}
	if complete != len(samples) {
		t.Errorf("at most %d events were read from a torn file; want all %d before the trailer", complete, len(samples))
	}
}

func TestRecordingBadInput(t *testing.T) {
	gz := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(s))
		z.Close()
		return b.String()
	}
	head := `{"tokenscope_recording":1,"seed":"` + seed + `"}` + "\n"
	for name, c := range map[string]struct{ file, want string }{
		"not compressed":   {"hello", "not a gzip file"},
		"empty":            {"", "not a gzip file"},
		"no header":        {gz(""), "no header"},
		"newer version":    {gz(`{"tokenscope_recording":99,"seed":"` + seed + `"}` + "\n"), "version 99"},
		"bad seed":         {gz(`{"tokenscope_recording":1,"seed":"xy"}` + "\n"), "seed"},
		"unknown kind":     {gz(head + `{"src":"x","op":"y"}` + "\n"), `unknown kind "x" "y"`},
		"no JSON":          {gz(head + "nonsense\n"), "event 1: parse event"},
		"tail too long":    {gz(head + `{"src":"http","op":"read","conn":"1","len":1,"tail":5,"data":"YQ=="}` + "\n"), "do not fit"},
		"len too short":    {gz(head + `{"src":"http","op":"read","conn":"1","len":0,"data":"YQ=="}` + "\n"), "do not fit"},
		"socket no number": {gz(head + `{"src":"zmq","op":"send","sock":"q"}` + "\n"), "no number"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.tsrec")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := read(t, path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("reading gives %v; want an error with %q", err, c.want)
			}
		})
	}
}

func TestWriterOnFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	w, err := NewWriter("/dev/full", Header{Seed: seed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range samples {
		w.Write(&samples[i])
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Close() = %v; want the disk's error", err)
	}
	w.Write(&samples[0]) // must not block or panic
}

func TestFixtureFolder(t *testing.T) {
	events, r, err := read(t, "testdata/recordings/vllm-0.32.0")
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.EngineVersion != "0.32.0" {
		t.Errorf("EngineVersion = %q; want 0.32.0", r.Header.EngineVersion)
	}
	if events[0].Kind != KindClock || events[0].Offset == 0 || events[0].Time != events[1].Time {
		t.Errorf("first event = %+v; want the clock's offset at the time of the next", events[0])
	}
	conns := map[uint64]bool{}
	for _, e := range events {
		if e.Kind == KindOpen {
			if conns[e.Conn] {
				t.Errorf("connection %d was opened twice; want a new number each time", e.Conn)
			}
			conns[e.Conn] = true
		}
	}
	if len(conns) != 19 {
		t.Errorf("%d connections; want 19", len(conns))
	}
	found, err := Find("testdata/recordings")
	if err != nil || len(found) < 20 {
		t.Errorf("Find = %d recordings, %v; want at least 20", len(found), err)
	}
}

func TestWriteAllocatesNothing(t *testing.T) {
	w, err := NewWriter(filepath.Join(t.TempDir(), "x.tsrec"), Header{Seed: seed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	e := Event{Kind: KindWrite, Time: 8, PID: 7, Conn: 3, Seq: 1, Len: 256, Data: make([]byte, 256)}
	if n := testing.AllocsPerRun(100, func() { w.line = appendLine(w.line[:0], &e) }); n != 0 {
		t.Errorf("appendLine allocates %v times an event; want 0", n)
	}
}
