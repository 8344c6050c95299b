package capture

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// This file is the form of one event in a recording: a JSON object on a line. It is
// the form of the recorded fixtures as well, with some kinds and fields more.
//
//	t_ns    CLOCK_MONOTONIC nanoseconds
//	src     zmq | http | proc | meta
//	op      zmq: send, recv · http: open, read, write, close · proc: exec, exit
//	        meta: clock, tick, attach, lost
//	pid tid comm
//	socket  ZeroMQ socket type; sock its number · conn the connection's number
//	seq     place among the events of its socket or connection and direction
//	more    a further part of the same message follows
//	len     true length; data (base64) what was captured of it; tail how many of those
//	        bytes are from its end
//	tls     the connection is encrypted, and data its plain text
//	by      who closed: client | server · port the server's · offset_ns, cause

// line is a recorded event as encoding/json reads it.
type line struct {
	TimeNs   int64   `json:"t_ns"`
	Src      string  `json:"src"`
	Op       string  `json:"op"`
	PID      *uint32 `json:"pid"`
	TID      uint32  `json:"tid"`
	Comm     string  `json:"comm"`
	Socket   string  `json:"socket"`
	Sock     string  `json:"sock"`
	Conn     string  `json:"conn"`
	Seq      uint64  `json:"seq"`
	More     bool    `json:"more"`
	Len      int     `json:"len"`
	Data     []byte  `json:"data"`
	Tail     int     `json:"tail"`
	TLS      bool    `json:"tls"`
	By       string  `json:"by"`
	Port     uint16  `json:"port"`
	OffsetNs int64   `json:"offset_ns"`
	Cause    string  `json:"cause"`
}

type kindName struct{ src, op string }

var kindNames = map[Kind]kindName{
	KindClock: {"meta", "clock"}, KindTick: {"meta", "tick"}, KindAttach: {"meta", "attach"}, KindLost: {"meta", "lost"},
	KindExec: {"proc", "exec"}, KindExit: {"proc", "exit"},
	KindSend: {"zmq", "send"}, KindRecv: {"zmq", "recv"},
	KindOpen: {"http", "open"}, KindRead: {"http", "read"}, KindWrite: {"http", "write"}, KindClose: {"http", "close"},
}

var kindOf = func() map[kindName]Kind {
	m := make(map[kindName]Kind, len(kindNames))
	for k, n := range kindNames {
		m[n] = k
	}
	return m
}()

var socketNames = map[SocketType]string{
	SocketPair: "PAIR", SocketPub: "PUB", SocketSub: "SUB", SocketReq: "REQ", SocketRep: "REP", SocketDealer: "DEALER",
	SocketRouter: "ROUTER", SocketPull: "PULL", SocketPush: "PUSH", SocketXPub: "XPUB", SocketXSub: "XSUB",
}

var socketOf = func() map[string]SocketType {
	m := make(map[string]SocketType, len(socketNames))
	for t, n := range socketNames {
		m[n] = t
	}
	return m
}()

// String gives the name that zmq.h has after ZMQ_, or "unknown".
func (t SocketType) String() string {
	if n, ok := socketNames[t]; ok {
		return n
	}
	return "unknown"
}

// appendLine appends e as a line. It allocates nothing but what dst needs.
func appendLine(dst []byte, e *Event) []byte {
	n := kindNames[e.Kind]
	dst = append(dst, `{"t_ns":`...)
	dst = strconv.AppendInt(dst, e.Time, 10)
	dst = append(dst, `,"src":"`...)
	dst = append(dst, n.src...)
	dst = append(dst, `","op":"`...)
	dst = append(dst, n.op...)
	dst = append(dst, '"')
	if e.PID != 0 {
		dst = appendUint(dst, "pid", uint64(e.PID))
	}
	if e.TID != 0 {
		dst = appendUint(dst, "tid", uint64(e.TID))
	}
	if e.Comm != "" {
		dst = append(dst, `,"comm":`...)
		dst = appendString(dst, e.Comm)
	}
	switch e.Kind {
	case KindSend, KindRecv:
		dst = append(dst, `,"socket":"`...)
		dst = append(dst, e.Socket.String()...)
		dst = append(dst, `","sock":"0x`...)
		dst = strconv.AppendUint(dst, e.Conn, 16)
		dst = append(dst, '"')
		if e.More {
			dst = append(dst, `,"more":true`...)
		}
	case KindOpen, KindRead, KindWrite, KindClose:
		dst = append(dst, `,"conn":"`...)
		dst = strconv.AppendUint(dst, e.Conn, 10)
		dst = append(dst, '"')
		if e.TLS {
			dst = append(dst, `,"tls":true`...)
		}
		if e.Port != 0 {
			dst = appendUint(dst, "port", uint64(e.Port))
		}
		if e.Kind == KindClose {
			by := `,"by":"server"`
			if e.Peer {
				by = `,"by":"client"`
			}
			dst = append(dst, by...)
		}
	case KindClock:
		dst = append(dst, `,"offset_ns":`...)
		dst = strconv.AppendInt(dst, e.Offset, 10)
	case KindLost:
		dst = append(dst, `,"cause":`...)
		dst = appendString(dst, string(e.Cause))
	}
	if e.Seq != 0 {
		dst = appendUint(dst, "seq", e.Seq)
	}
	if e.Len != 0 {
		dst = appendUint(dst, "len", uint64(e.Len))
	}
	if e.Tail != 0 {
		dst = appendUint(dst, "tail", uint64(e.Tail))
	}
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		dst = append(dst, '"')
	}
	return append(dst, "}\n"...)
}

func appendUint(dst []byte, key string, v uint64) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, key...)
	dst = append(dst, `":`...)
	return strconv.AppendUint(dst, v, 10)
}

// appendString quotes s; thread names are bytes, so what is not UTF-8 is replaced.
func appendString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return append(dst, `""`...)
	}
	return append(dst, b...)
}

// Bounds of the names of connections. They come from a file that may hold anything, and
// are kept until the connection's close.
const (
	// maxConnName is more than two addresses take.
	maxConnName = 128
	// maxConnNames is far more than any fixture has open.
	maxConnNames = 1 << 16
)

// lineReader turns lines into events. Connections of the fixtures have names
// ("127.0.0.1:37532") that come again after a close; they get numbers here.
type lineReader struct {
	conns map[string]uint64
	next  uint64
	l     line
	e     Event
}

// read parses one line. The event is valid until the next call.
func (r *lineReader) read(b []byte) (*Event, error) {
	r.l = line{Data: r.l.Data[:0]}
	if err := json.Unmarshal(b, &r.l); err != nil {
		return nil, fmt.Errorf("parse event: %w", err)
	}
	l := &r.l
	kind, ok := kindOf[kindName{l.Src, l.Op}]
	if !ok {
		return nil, fmt.Errorf("parse event: unknown kind %q %q", l.Src, l.Op)
	}
	if l.Len < 0 || l.Tail < 0 || l.Tail > len(l.Data) || l.Len < len(l.Data) && kind != KindExec {
		return nil, fmt.Errorf("parse event: len %d and tail %d do not fit %d bytes", l.Len, l.Tail, len(l.Data))
	}
	r.e = Event{Kind: kind, Time: l.TimeNs, TID: l.TID, Comm: l.Comm, Seq: l.Seq, Socket: SocketUnknown, More: l.More,
		Peer: l.By == "client", TLS: l.TLS, Port: l.Port, Len: l.Len, Data: l.Data, Tail: l.Tail, Offset: l.OffsetNs, Cause: Cause(l.Cause)}
	if l.PID != nil {
		r.e.PID = *l.PID
	}
	switch kind {
	case KindSend, KindRecv:
		if t, ok := socketOf[l.Socket]; ok {
			r.e.Socket = t
		}
		n, err := strconv.ParseUint(l.Sock, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("parse event: socket %q is no number", l.Sock)
		}
		r.e.Conn = n
	case KindOpen, KindRead, KindWrite, KindClose:
		n, err := r.conn(l.Conn, kind)
		if err != nil {
			return nil, err
		}
		r.e.Conn = n
	}
	return &r.e, nil
}

func (r *lineReader) conn(name string, kind Kind) (uint64, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		return n, nil
	}
	if len(name) > maxConnName {
		return 0, fmt.Errorf("parse event: a connection's name has %d bytes; at most %d are read", len(name), maxConnName)
	}
	n, ok := r.conns[name]
	if !ok || kind == KindOpen {
		if !ok && len(r.conns) >= maxConnNames {
			return 0, fmt.Errorf("parse event: more than %d connections are open", maxConnNames)
		}
		if r.conns == nil {
			r.conns = make(map[string]uint64)
		}
		r.next++
		n = r.next
		r.conns[name] = n
	}
	if kind == KindClose {
		delete(r.conns, name)
	}
	return n, nil
}
