package api

// A list of connections by when something last happened, without an allocation.

// link is a place in a list of connections.
type link struct {
	prev, next *conn
	in         bool
}

// connList is a list of connections that needs no memory of its own: at selects which
// of a connection's links it uses.
type connList struct {
	first, last *conn
	at          func(*conn) *link
}

// remove takes c out; it need not be in.
func (l *connList) remove(c *conn) {
	k := l.at(c)
	if !k.in {
		return
	}
	if k.prev != nil {
		l.at(k.prev).next = k.next
	} else {
		l.first = k.next
	}
	if k.next != nil {
		l.at(k.next).prev = k.prev
	} else {
		l.last = k.prev
	}
	*k = link{}
}

// append puts c at the end, wherever it was.
func (l *connList) append(c *conn) {
	if l.last == c {
		return
	}
	l.remove(c)
	*l.at(c) = link{prev: l.last, in: true}
	if l.last != nil {
		l.at(l.last).next = c
	} else {
		l.first = c
	}
	l.last = c
}
