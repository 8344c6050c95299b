// Package capture defines what every backend delivers: Events, in one order,
// each with a kernel time, a process, a connection or socket, and the bytes
// that were seen.
//
// The eBPF backend, recordings and the fixtures of real servers all speak this
// type, so that whatever stands behind them cannot tell them apart. The package
// knows nothing of HTTP or of an engine's messages.
package capture

import "context"

// Kind says what happened.
type Kind uint8

const (
	// KindInvalid is the zero Kind; no backend delivers it.
	KindInvalid Kind = iota
	// KindClock carries the wall clock's offset (Event.Offset). One comes first
	// and another each time the offset has moved by more than 100 µs.
	KindClock
	// KindTick says only that time has passed: a backend sends one at least every
	// second, so that no later stage needs a clock of its own.
	KindTick
	// KindAttach says that capture of a process begins here although the process
	// was there before (the agent was restarted): what is in flight was not seen
	// from its start. PID 0 means all processes of the workload.
	KindAttach
	// KindExec is a process that executed a new program, or was found running one;
	// Event.Comm and Event.Data (the command line, arguments ended by NUL) may be set.
	KindExec
	// KindExit is the end of a whole process (not of a thread).
	KindExit
	// KindSend is one part of a ZeroMQ message at the entry of zmq_msg_send.
	KindSend
	// KindRecv is one part of a ZeroMQ message at the return of zmq_msg_recv.
	KindRecv
	// KindOpen is a connection of the server that was accepted (or recognised later).
	KindOpen
	// KindRead is bytes that the server read from a connection.
	KindRead
	// KindWrite is bytes that the server wrote to a connection.
	KindWrite
	// KindClose is the end of a connection, or of one direction of it: a read of
	// zero bytes (Event.Peer is true) or the server's own close.
	KindClose
	// KindLost counts events that never arrived: Event.Len of them, by Event.Cause.
	KindLost
)

// SocketType is a ZeroMQ socket type, numbered as in zmq.h; SocketUnknown where
// the socket was made before capture began.
type SocketType int8

// The socket types that engines use.
const (
	SocketUnknown SocketType = -1
	SocketPair    SocketType = 0
	SocketPub     SocketType = 1
	SocketSub     SocketType = 2
	SocketReq     SocketType = 3
	SocketRep     SocketType = 4
	SocketDealer  SocketType = 5
	SocketRouter  SocketType = 6
	SocketPull    SocketType = 7
	SocketPush    SocketType = 8
	SocketXPub    SocketType = 9
	SocketXSub    SocketType = 10
)

// Event is one thing that was seen. It is valid, Data included, only until the
// function it was handed to returns: whoever keeps it copies it.
type Event struct {
	Kind Kind
	// Time is nanoseconds of CLOCK_MONOTONIC, taken where the event happened.
	Time int64
	// PID and TID are numbers in the agent's PID namespace; 0 where unknown.
	PID, TID uint32
	// Comm is the thread's name, at most 15 bytes; it may be empty.
	Comm string

	// Conn names a connection (KindOpen, KindRead, KindWrite, KindClose) or a ZeroMQ
	// socket (KindSend, KindRecv). It is unique together with PID, and a number that
	// was closed is not used again for another connection.
	Conn uint64
	// Seq counts the events of one Conn and one direction (Kind) from 1. A jump
	// means that events between were lost. 0 means that the backend does not count.
	Seq uint64
	// Socket is the ZeroMQ socket's type (KindSend, KindRecv).
	Socket SocketType
	// More says that further parts of the same ZeroMQ message follow.
	More bool
	// Peer says of a KindClose that the other side closed (a read gave zero bytes or
	// an error), not the server.
	Peer bool
	// TLS says that the connection is encrypted, and Data the plain text of it, as the
	// server gave it to its TLS library or got it from there.
	TLS bool
	// Port is the server's own TCP port (KindOpen), 0 where unknown or not TCP.
	Port uint16

	// Len is the true length in bytes; of a KindLost, how many events were lost.
	Len int
	// Data is what was captured of it: all, or the first Len(Data)-Tail bytes
	// followed by the last Tail bytes.
	Data []byte
	// Tail is the number of bytes at the end of Data that come from the end of the
	// true bytes; 0 when nothing, or only the end, is missing.
	Tail int

	// Offset is CLOCK_REALTIME − CLOCK_MONOTONIC in nanoseconds (KindClock).
	Offset int64
	// Cause says why events were lost (KindLost).
	Cause Cause
}

// Complete reports whether all bytes of the event were captured.
func (e *Event) Complete() bool { return len(e.Data) == e.Len }

// Cause is a reason for lost events or bytes.
type Cause string

// Causes of loss. They are exported as they stand.
const (
	// LostRingFull: the kernel's ring had no room.
	LostRingFull Cause = "ring_full"
	// LostUnreadable: the process's memory could not be read (a page was not there).
	LostUnreadable Cause = "memory_unreadable"
	// LostTable: a table in the kernel (connections, sockets, calls in flight) was full.
	LostTable Cause = "table_full"
	// LostRecord: a record in the ring was not finished (its process was killed in the
	// middle, or held up for too long), or cannot be.
	LostRecord Cause = "record_torn"
	// LostNested: a signal handler did something while the event before it was recorded.
	LostNested Cause = "signal_handler"
	// LostTorn: a recording ends in the middle of an event.
	LostTorn Cause = "recording_torn"
	// LostQueue: the agent's own queue was full.
	LostQueue Cause = "queue_full"
)

// Source is a backend: it delivers the events of one workload.
type Source interface {
	// Run hands every event to sink, on one goroutine, until ctx is cancelled, the
	// source is at its end (nil) or has failed. What was captured before ctx was
	// cancelled is delivered before Run returns.
	Run(ctx context.Context, sink func(*Event)) error
	// Close releases what the source holds. It is called after Run has returned.
	Close() error
}
