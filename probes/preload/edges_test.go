package preload

// The library at the edges of what calls allow: shim/test/edges.c.

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/backend"
	"github.com/tokenscope/tokenscope/probes/capture"
)

// letter is the kind of a connection's event as edges.c names it.
func letter(e *capture.Event) string {
	switch e.Kind {
	case capture.KindOpen:
		return "O"
	case capture.KindRead:
		return "R"
	case capture.KindWrite:
		return "W"
	case capture.KindClose:
		if e.Peer {
			return "P"
		}
		return "C"
	}
	return ""
}

func TestEdges(t *testing.T) {
	t.Run("the compiler's libc", func(t *testing.T) { testEdges(t) })
	t.Run("musl", func(t *testing.T) {
		cc, err := exec.LookPath("musl-gcc")
		if err != nil {
			t.Skip("needs musl-gcc: ", err)
		}
		t.Setenv("CC", cc)
		testEdges(t)
	})
}

func testEdges(t *testing.T) {
	program := filepath.Join(t.TempDir(), "edges")
	compile(t, "-o", program, "edges.c")
	r := newRing(t, RingOptions{RingBytes: 1 << 20})
	w := start(t, r, Options{})
	run := func(env []string) string {
		cmd := exec.Command(program)
		cmd.Env = env
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("%v:\n%s", err, errs.String())
		}
		if strings.Contains(strings.Join(env, "\n"), EnvRing+"=") {
			w.await("exit of the program", isExit(cmd.Process.Pid))
		}
		return out.String()
	}
	without := run(os.Environ())
	env, err := r.Inject(os.Environ(), unpacked(t))
	if err != nil {
		t.Fatal(err)
	}
	with := run(env)
	if with != without {
		t.Errorf("it says %q with the library, %q without", with, without)
	}
	want := map[string]string{}
	for line := range strings.Lines(with) {
		name, events, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = events
	}
	w.stop()

	type connection struct{ data, events string }
	connections := map[uint64]*connection{}
	for _, e := range w.all() {
		if e.Kind == capture.KindLost {
			t.Errorf("lost %d by %s", e.Len, e.Cause)
		}
		if l := letter(&e); l != "" {
			c := connections[e.Conn]
			if c == nil {
				c = &connection{}
				connections[e.Conn] = c
			}
			c.events += l
			if e.Kind == capture.KindRead {
				c.data += string(e.Data)
			}
			if e.Len == 40000 {
				checkCut(t, &e)
			}
			if string(e.Data) == "away" || e.Len == 7 && e.Kind == capture.KindRead && len(e.Data) == 0 {
				c.data += "|" // of discarded
			}
		}
	}
	got := map[string]string{}
	for _, c := range connections {
		_, rest, _ := strings.Cut(c.data, " /")
		name, _, _ := strings.Cut(rest, " ")
		got[name] += c.events
		if name == "discarded" && !strings.HasSuffix(c.data, "\r\n\r\n|away|") {
			t.Errorf("discarded: %q; want 7 bytes told without their text, then the rest", c.data)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("events by connection:\n%v\nwant\n%v", got, want)
	}
}

// checkCut: of a long piece the head and the tail are captured, true to the byte.
func checkCut(t *testing.T, e *capture.Event) {
	t.Helper()
	if len(e.Data) != backend.DefaultHeadBytes+backend.DefaultTailBytes || e.Tail != backend.DefaultTailBytes {
		t.Errorf("%d bytes, %d of them the tail", len(e.Data), e.Tail)
		return
	}
	for i, b := range e.Data {
		at := i
		if i >= len(e.Data)-e.Tail {
			at = e.Len - len(e.Data) + i
		}
		if int(b) != at%251 {
			t.Errorf("byte %d is %d; want %d", at, b, at%251)
			return
		}
	}
}

// TestEdgesCounted: what is no HTTP/1 is counted by what it is.
func TestEdgesCounted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "edges")
	compile(t, "-o", program, "edges.c")
	r := newRing(t, RingOptions{RingBytes: 1 << 20})
	s, err := Open(r.File(), Options{Root: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command(program)
	if cmd.Env, err = r.Inject(os.Environ(), unpacked(t)); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	c := s.counters()
	// Others: SSH, POTATO, and two that let the server speak first.
	if c.tls != 1 || c.http2 != 1 || c.other != 4 || c.nested != 0 || c.tableFull != 0 || c.unresolved != 0 {
		t.Errorf("counted: %+v; want 1 TLS, 1 HTTP/2, 4 others, nothing else", c)
	}
}
