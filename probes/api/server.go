package api

import (
	"maps"
	"time"

	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/http1"
)

const (
	// maxConns bounds the connections that are followed at once. Servers are run with
	// limits on open files of this order; beyond it, the one that was silent longest
	// is given up.
	maxConns = 16384
	// maxHeads bounds the memory for heads that come in pieces, over all connections.
	maxHeads = 8 << 20
	// maxLive bounds the exchanges in flight, over all connections: each holds some KiB, and
	// a client may send 64 on one connection before the first is answered.
	maxLive = 8192
	// maxSpare bounds the connections and exchanges that are kept to be used again.
	maxSpare = 256
	// halfClosed is how long a connection may stay silent, after its peer has closed
	// its sending side, before its exchange counts as disconnected. uvicorn and hyper
	// close at once; another server may answer still.
	halfClosed = int64(5 * time.Second)
)

// Stats count what a Server saw. All only grow, except Conns.
type Stats struct {
	// Conns are the connections followed now.
	Conns int
	// Exchanges are the calls of the API, Other are requests that are none.
	Exchanges, Other uint64
	// Refused are calls of the API that were not followed: too many were open.
	Refused uint64
	// Orphans are responses whose request was not seen.
	Orphans uint64
	// Switched are connections that changed to another protocol.
	Switched uint64
	// Gaps are jumps of sequence numbers: segments were lost.
	Gaps uint64
	// Evicted are connections given up because there were too many.
	Evicted uint64
	// Desyncs count by reason how often a stream could not be followed.
	Desyncs map[http1.Reason]uint64
}

// Server follows the connections of all servers of one workload. It is not safe for
// concurrent use. What it tells the sink, it tells during the call of a method.
type Server struct {
	sink  request.HTTPSink
	conns map[key]*conn
	used  connList // all, the one silent longest first
	half  connList // those whose peer has closed while a response was due, by quiet

	live           int // exchanges in flight
	spareConns     []*conn
	spareExchanges []*exchange
	budget         http1.Budget
	lostAt         int64 // of the newest KindLost
	stats          Stats
}

// NewServer returns a Server that tells sink what it finds.
func NewServer(sink request.HTTPSink) *Server {
	return &Server{
		sink: sink, conns: map[key]*conn{}, budget: http1.Budget{Free: maxHeads},
		used:  connList{at: func(c *conn) *link { return &c.used }},
		half:  connList{at: func(c *conn) *link { return &c.half }},
		stats: Stats{Desyncs: map[http1.Reason]uint64{}},
	}
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	st := s.stats
	st.Conns = len(s.conns)
	st.Desyncs = maps.Clone(st.Desyncs)
	return st
}

// Handle takes any Event, in order. Those that are not about connections count only as
// the passing of time.
func (s *Server) Handle(e *capture.Event) {
	s.Tick(e.Time)
	switch e.Kind {
	case capture.KindOpen:
		s.Open(e)
	case capture.KindRead:
		s.Read(e)
	case capture.KindWrite:
		s.Write(e)
	case capture.KindClose:
		s.Close(e)
	case capture.KindExit:
		s.Exit(e)
	case capture.KindLost:
		s.Lost(e)
	case capture.KindAttach:
		s.Attach(e)
	}
}

// Tick says that it is t now.
func (s *Server) Tick(t int64) {
	for c := s.half.first; c != nil && t-c.quiet > halfClosed; c = s.half.first {
		c.http.Abandon(c.left)
		s.drop(c)
	}
}

// Open is a new connection (KindOpen).
func (s *Server) Open(e *capture.Event) {
	k := key{e.PID, e.Conn}
	if c := s.conns[k]; c != nil {
		// Its end was not seen.
		c.http.Abandon(e.Time)
		s.drop(c)
	}
	s.open(k).port = e.Port
}

// Read is bytes that the server read (KindRead).
func (s *Server) Read(e *capture.Event) {
	c := s.get(e)
	if s.jumped(e.Seq, &c.read) {
		c.missed = true
		c.http.ReadGap(e.Time, 0)
		c.missed = false
	}
	c.counted = c.counted || e.Seq != 0
	c.tls = c.tls || e.TLS
	c.last = e.Time
	c.http.Read(e.Time, e.Data, e.Len-len(e.Data), e.Tail)
}

// Write is bytes that the server wrote (KindWrite).
func (s *Server) Write(e *capture.Event) {
	c := s.get(e)
	if s.jumped(e.Seq, &c.written) {
		c.missed = true
		c.http.WriteGap(e.Time, 0)
		c.missed = false
	}
	c.counted = c.counted || e.Seq != 0
	c.last = e.Time
	c.http.Write(e.Time, e.Data, e.Len-len(e.Data), e.Tail)
	if c.left != 0 {
		if c.quiet = e.Time; c.http.Waiting() {
			s.half.append(c)
		} else {
			s.drop(c) // answered, and nothing more can be asked
		}
	}
}

// jumped books a sequence number and reports whether some before it are missing.
func (s *Server) jumped(seq uint64, last *uint64) bool {
	if seq == 0 {
		return false
	}
	gap := seq > *last+1
	*last = seq
	if gap {
		s.stats.Gaps++
	}
	return gap
}

// Close is the end of a connection, or of what its peer sends (KindClose).
func (s *Server) Close(e *capture.Event) {
	c := s.conns[key{e.PID, e.Conn}]
	switch {
	case c == nil:
	case !e.Peer:
		c.http.ServerClose(e.Time)
		s.drop(c)
	case !c.http.Waiting():
		s.drop(c)
	case c.left == 0:
		c.http.PeerClose(e.Time)
		c.left, c.quiet = e.Time, e.Time
		s.half.append(c)
	}
}

// Exit is the end of a process (KindExit): its connections are closed.
func (s *Server) Exit(e *capture.Event) {
	if e.PID == 0 {
		return // whose?
	}
	s.each(e.PID, func(c *conn) {
		c.http.ServerClose(e.Time)
		s.drop(c)
	})
}

// Lost is an unknown loss of events (KindLost). Connections whose events are numbered
// show it themselves; of any other, a segment may be missing.
func (s *Server) Lost(e *capture.Event) {
	s.lostAt = e.Time
	s.each(0, func(c *conn) {
		if !c.counted {
			c.gap(e.Time)
		}
	})
}

// Attach says that a process was not watched for a while (KindAttach; PID 0: none was).
func (s *Server) Attach(e *capture.Event) {
	s.each(e.PID, func(c *conn) {
		c.gap(e.Time)
		c.read, c.written, c.counted = 0, 0, false // the numbers may begin anew
	})
}

// gap says that anything may have been missed in both directions.
func (c *conn) gap(t int64) {
	c.missed = true
	c.http.ReadGap(t, 0)
	c.http.WriteGap(t, 0)
	c.missed = false
}

// Flush ends everything, because no more events come.
func (s *Server) Flush(t int64) {
	s.each(0, func(c *conn) {
		c.http.Abandon(t)
		s.drop(c)
	})
}

// each calls f for every connection of a process (0: of all), the one silent longest
// first; f may drop it.
func (s *Server) each(pid uint32, f func(*conn)) {
	for c := s.used.first; c != nil; {
		next := c.used.next
		if pid == 0 || c.pid == pid {
			f(c)
		}
		c = next
	}
}

// get returns an event's connection, which may be new: its opening was not seen.
func (s *Server) get(e *capture.Event) *conn {
	k := key{e.PID, e.Conn}
	c := s.conns[k]
	if c == nil {
		return s.open(k)
	}
	s.used.append(c)
	return c
}

func (s *Server) open(k key) *conn {
	if len(s.conns) >= maxConns {
		s.stats.Evicted++
		old := s.used.first
		old.http.Abandon(old.last)
		s.drop(old)
	}
	var c *conn
	if n := len(s.spareConns); n > 0 {
		c, s.spareConns = s.spareConns[n-1], s.spareConns[:n-1]
	} else {
		c = &conn{s: s}
	}
	c.key = k
	c.http.Init(c, &s.budget)
	s.conns[k] = c
	s.used.append(c)
	return c
}

// drop forgets a connection.
func (s *Server) drop(c *conn) {
	c.http.Abandon(c.last) // for its memory: the exchanges have ended
	s.used.remove(c)
	s.half.remove(c)
	delete(s.conns, c.key)
	if len(s.spareConns) < maxSpare {
		http := c.http
		*c = conn{s: s, http: http, live: c.live[:0]}
		s.spareConns = append(s.spareConns, c)
	}
}

// exchange returns one to fill.
func (s *Server) exchange() *exchange {
	s.live++
	n := len(s.spareExchanges)
	if n == 0 {
		return &exchange{}
	}
	x := s.spareExchanges[n-1]
	s.spareExchanges = s.spareExchanges[:n-1]
	return x
}

func (s *Server) recycle(x *exchange) {
	s.live--
	x.forget()
	if len(s.spareExchanges) < maxSpare {
		s.spareExchanges = append(s.spareExchanges, x)
	}
}
