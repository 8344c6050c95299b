package redact

import "github.com/tokenscope/tokenscope/probes/capture"

const (
	// maxConnections and maxSockets bound what is remembered. Beyond, some other one is
	// forgotten, and blanked until it is certain again.
	maxConnections = 4096
	maxSockets     = 4096
)

// Redactor takes the content out of the events of one recording, in their order. It is
// not safe for concurrent use.
type Redactor struct {
	conns   map[connKey]*connection
	sockets map[socketKey]*zmqSide
	// attached says that capture of some process began in its middle, so that the first
	// event of a connection or socket need not begin a message.
	attached bool
	out      capture.Event
	buf      []byte
	lost     uint64
}

type connKey struct {
	pid  uint32
	conn uint64
}

type socketKey struct {
	connKey
	kind capture.Kind
}

// New makes a Redactor.
func New() *Redactor {
	return &Redactor{conns: map[connKey]*connection{}, sockets: map[socketKey]*zmqSide{}}
}

// Lost is how many times it lost track of a stream because events or bytes of it were
// missing or made no sense.
func (r *Redactor) Lost() uint64 { return r.lost }

// Event gives a copy of e without content: the same fields, the same number of bytes.
// The copy, its Data included, is valid until the next call; e is left as it is.
func (r *Redactor) Event(e *capture.Event) *capture.Event {
	r.out = *e
	r.buf = append(r.buf[:0], e.Data...)
	r.out.Data = r.buf
	if e.Data == nil {
		r.out.Data = nil
	}
	data := r.buf
	tail := min(max(e.Tail, 0), len(data))
	missing := max(e.Len-len(data), 0)
	if missing == 0 {
		tail = 0 // the end follows what is before
	}
	head, end := data[:len(data)-tail], data[len(data)-tail:]

	switch e.Kind {
	case capture.KindSend, capture.KindRecv:
		r.socket(e).part(head, end, missing > 0, e.More)
	case capture.KindRead, capture.KindWrite:
		r.http(e, head, missing, end)
	case capture.KindExec:
		redactArgv(head, missing > 0)
		fill(end, 'x')
	default:
		r.control(e)
		fill(data, 'x') // these have no bytes; nobody knows what it would be
	}
	return &r.out
}

// control follows events without bytes.
func (r *Redactor) control(e *capture.Event) {
	switch e.Kind {
	case capture.KindOpen:
		c := r.connection(e)
		c.lose()
		if !r.attached {
			c.fresh()
		}
	case capture.KindClose:
		// A peer's close ends one direction only.
		if !e.Peer {
			delete(r.conns, connKey{e.PID, e.Conn})
		}
	case capture.KindExit:
		r.each(e.PID, func(k connKey, c *connection) { delete(r.conns, k) },
			func(k socketKey, z *zmqSide) { delete(r.sockets, k) })
	case capture.KindAttach:
		r.attached = true
		r.each(e.PID, func(_ connKey, c *connection) { c.lose() },
			func(_ socketKey, z *zmqSide) { z.lose() })
	case capture.KindLost:
		// Who counts sees a jump of Seq; who does not may have missed something anywhere.
		r.each(0, func(_ connKey, c *connection) {
			if c.read.last == 0 && c.write.last == 0 {
				c.lose()
			}
		}, func(_ socketKey, z *zmqSide) {
			if z.last == 0 {
				z.lose()
			}
		})
	}
}

// each visits what belongs to a process, 0 meaning all.
func (r *Redactor) each(pid uint32, conn func(connKey, *connection), socket func(socketKey, *zmqSide)) {
	for k, c := range r.conns {
		if pid == 0 || k.pid == pid {
			conn(k, c)
		}
	}
	for k, z := range r.sockets {
		if pid == 0 || k.pid == pid {
			socket(k, z)
		}
	}
}

// connection finds or makes a connection; what is new is unknown.
func (r *Redactor) connection(e *capture.Event) *connection {
	key := connKey{e.PID, e.Conn}
	c := r.conns[key]
	if c == nil {
		if len(r.conns) >= maxConnections {
			for k := range r.conns {
				delete(r.conns, k)
				break
			}
		}
		c = newConnection()
		r.conns[key] = c
	}
	return c
}

func (r *Redactor) http(e *capture.Event, head []byte, missing int, tail []byte) {
	c := r.connection(e)
	side := &c.read
	if e.Kind == capture.KindWrite {
		side = &c.write
	}
	if e.Seq == 1 && side.last == 0 && !r.attached && side.state == httpLost {
		side.restart() // its very first bytes, although nobody saw it open
	}
	if e.Seq != side.last+1 && (e.Seq != 0 || side.last != 0) {
		side.lose()
	}
	side.last = e.Seq
	before := side.state
	side.event(c, head, int64(missing), tail)
	if side.state == httpLost && before != httpLost {
		r.lost++
	}
}

// socket finds or makes one direction of a ZeroMQ socket.
func (r *Redactor) socket(e *capture.Event) *zmqSide {
	key := socketKey{connKey{e.PID, e.Conn}, e.Kind}
	z := r.sockets[key]
	if z == nil {
		if len(r.sockets) >= maxSockets {
			for k := range r.sockets {
				delete(r.sockets, k)
				break
			}
		}
		z = &zmqSide{}
		if r.attached {
			z.lose()
		}
		r.sockets[key] = z
	}
	if e.Seq != z.last+1 && (e.Seq != 0 || z.last != 0) {
		if z.state != partLost {
			r.lost++
		}
		z.lose()
	}
	z.last = e.Seq
	return z
}
