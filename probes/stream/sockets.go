package stream

// The sockets that are remembered, and the messages being put together on them.

import "github.com/tokenscope/tokenscope/probes/capture"

// socketKey names one direction of one socket.
type socketKey struct {
	pid  uint32
	kind capture.Kind
	conn uint64
}

// socket is what is known of one direction of a socket.
type socket struct {
	key socketKey
	typ capture.SocketType
	// seq is that of the last event; 0 if the backend does not count.
	seq uint64
	// skipping: the message that the next part belongs to is not known from its start.
	skipping bool
	// open is the message being assembled; nil between messages.
	open *assembly

	// newer and older link the sockets by their last use.
	newer, older *socket
}

// socketTable is the sockets by key and by age.
type socketTable struct {
	byKey          map[socketKey]*socket
	newest, oldest *socket
}

// get returns the socket and makes it the newest; nil if it is not known.
func (t *socketTable) get(key socketKey) *socket {
	s := t.byKey[key]
	if s != nil && s != t.newest {
		t.unlink(s)
		t.link(s)
	}
	return s
}

// add makes a socket that is not in the table yet.
func (t *socketTable) add(key socketKey) *socket {
	s := &socket{key: key}
	t.byKey[key] = s
	t.link(s)
	return s
}

func (t *socketTable) remove(s *socket) {
	delete(t.byKey, s.key)
	t.unlink(s)
}

// link makes s the newest.
func (t *socketTable) link(s *socket) {
	s.older, s.newer = t.newest, nil
	if t.newest != nil {
		t.newest.newer = s
	} else {
		t.oldest = s
	}
	t.newest = s
}

func (t *socketTable) unlink(s *socket) {
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		t.newest = s.older
	}
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		t.oldest = s.newer
	}
	s.newer, s.older = nil, nil
}

// assembly holds the parts of a message until its last one.
type assembly struct {
	// buf is the bytes of all parts; it may move while it grows, so that parts hold
	// offsets.
	buf     []byte
	parts   []span
	dropped int
}

// span is a part whose bytes are buf[from:to].
type span struct{ from, to, tail, len int }

func (a *assembly) reset() {
	a.buf, a.parts, a.dropped = a.buf[:0], a.parts[:0], 0
}
