package ebpf

// Records of the kernel's ring become capture.Events.

import (
	"bytes"
	"unsafe"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// kindFork is an event that ends here: whoever runs on with its parent's program
// has no exec by which it would be known.
const kindFork = capture.Kind(captureEventKindKIND_FORK)

const eventBytes = int(unsafe.Sizeof(captureEvent{}))

// maxNames bounds the table of thread names. Names repeat for the life of a
// server; a workload that invents new ones empties the table now and then.
const maxNames = 1024

// decoder turns records into events. Its zero value is ready.
type decoder struct {
	names map[[16]uint8]string
}

// decode fills e from a record of the ring and returns the kernel's header. The
// event's Data lies in the record. It is false for a record that is too short.
func (d *decoder) decode(record []byte, e *capture.Event) (*captureEvent, bool) {
	if len(record) < eventBytes {
		return nil, false
	}
	// The kernel aligns records to eight bytes, which is what captureEvent needs.
	raw := (*captureEvent)(unsafe.Pointer(unsafe.SliceData(record)))
	n := int(raw.Captured)
	if n > len(record)-eventBytes {
		return nil, false
	}
	*e = capture.Event{
		Kind:   capture.Kind(raw.Kind),
		Time:   int64(raw.TimeNs),
		PID:    raw.Pid,
		TID:    raw.Tid,
		Comm:   d.name(raw.Comm),
		Conn:   raw.Conn,
		Seq:    raw.Seq,
		Socket: capture.SocketType(raw.Socket),
		More:   raw.More != 0,
		Peer:   raw.Peer != 0,
		Port:   raw.Port,
		Len:    int(raw.Len),
		Data:   record[eventBytes : eventBytes+n : eventBytes+n],
		Tail:   int(raw.Tail),
	}
	return raw, true
}

// name returns the string of a thread name, made once for each.
func (d *decoder) name(comm [16]uint8) string {
	if s, ok := d.names[comm]; ok {
		return s
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = make(map[[16]uint8]string)
	}
	s, _, _ := bytes.Cut(comm[:], []byte{0})
	d.names[comm] = string(s)
	return d.names[comm]
}
