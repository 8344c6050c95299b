package stream

import (
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// bounds is a sink that holds an Assembler to its limits.
type bounds struct {
	t        *testing.T
	limits   limits
	messages uint64
}

func (b *bounds) Message(m *Message) {
	b.messages++
	if len(m.Parts) == 0 || len(m.Parts) > b.limits.maxParts {
		b.t.Fatalf("Message has %d parts; want 1 to %d", len(m.Parts), b.limits.maxParts)
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Len < len(p.Data) || p.Tail < 0 || p.Tail > len(p.Data) || len(p.Head()) > len(p.Data) {
			b.t.Fatalf("Part contradicts itself: %d bytes of %d, tail %d", len(p.Data), p.Len, p.Tail)
		}
	}
}
func (b *bounds) Gap(*Gap)    {}
func (b *bounds) Exit(uint32) {}

// FuzzAssembler reads three bytes as an event: whatever comes, in whatever order, an
// Assembler keeps to its limits.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x00, 1, 3})
	f.Add([]byte{0x10, 1, 2, 0x10, 2, 1, 0x00, 3, 9})
	f.Add([]byte{0x10, 1, 2, 0x00, 3, 9, 0x00, 4, 9})
	f.Add([]byte{0x10, 1, 200, 0x11, 1, 200, 0x12, 1, 200, 0x13, 1, 200, 0x24, 0, 0, 0x28, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		l := limits{maxParts: 3, maxBytes: 64, maxOpen: 2, maxSockets: 3}
		sink := &bounds{t: t, limits: l}
		a := NewAssembler(sink)
		a.limits = l
		var time int64
		for ; len(data) >= 3; data = data[3:] {
			time++
			e := capture.Event{
				Kind: capture.KindSend, Time: time, PID: uint32(data[0]) & 1, Conn: uint64(data[0]) & 7,
				Seq: uint64(data[1]), More: data[0]&0x10 != 0, Len: int(data[2]), Data: data[:data[2]%4],
				Tail: int(data[2])%7 - 1,
			}
			switch data[0] & 0xe0 {
			case 0x20:
				e.Kind = capture.KindExit
			case 0x40:
				e.Kind = capture.KindLost
			case 0x60:
				e.Kind = capture.KindRecv
			}
			a.Event(&e)
			if len(a.open) > l.maxOpen || len(a.sockets.byKey) > l.maxSockets || len(a.free) > l.maxOpen+1 {
				t.Fatalf("Assembler holds %d open, %d sockets, %d free; limits %+v",
					len(a.open), len(a.sockets.byKey), len(a.free), l)
			}
			for _, s := range a.open {
				if s.open == nil || len(s.open.buf) > l.maxBytes {
					t.Fatalf("Assembler holds an open message over its limits")
				}
			}
			checkLinks(t, &a.sockets)
		}
		if a.Stats().Messages != sink.messages {
			t.Fatalf("Stats().Messages = %d; sink got %d", a.Stats().Messages, sink.messages)
		}
	})
}

// checkLinks walks the list of sockets both ways.
func checkLinks(t *testing.T, table *socketTable) {
	n := 0
	for s := table.oldest; s != nil; s = s.newer {
		n++
		if table.byKey[s.key] != s || s.newer == nil && table.newest != s || s.older == nil && table.oldest != s {
			t.Fatal("socket table is torn")
		}
	}
	if n != len(table.byKey) {
		t.Fatalf("socket table links %d of %d sockets", n, len(table.byKey))
	}
}
