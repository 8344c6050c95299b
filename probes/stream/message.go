package stream

import "github.com/tokenscope/tokenscope/probes/capture"

// Part is one part of a message: what was captured of it and its true length.
type Part struct {
	// Data is the captured bytes; if the last Tail of them come from the end of the
	// part, bytes are missing before those.
	Data []byte
	Tail int
	// Len is the true length in bytes.
	Len int
}

// Complete reports whether all bytes of the part were captured.
func (p *Part) Complete() bool { return len(p.Data) == p.Len }

// Head is the captured bytes from the part's start up to the first missing one.
func (p *Part) Head() []byte {
	if p.Complete() {
		return p.Data
	}
	return p.Data[:len(p.Data)-p.Tail]
}

// Message is a whole ZeroMQ message. It is valid, bytes included, only during the call
// that gets it.
type Message struct {
	// Time is that of the last part (CLOCK_MONOTONIC, nanoseconds): ZeroMQ hands a
	// message over when it is complete, never earlier.
	Time     int64
	PID, TID uint32
	Comm     string
	Conn     uint64
	Socket   capture.SocketType
	// Kind is capture.KindSend or capture.KindRecv.
	Kind  capture.Kind
	Parts []Part
	// Dropped is the number of further parts that were over the limit.
	Dropped int
}

// Gap says that messages of one socket and direction are missing before Time.
type Gap struct {
	Time   int64
	PID    uint32
	Conn   uint64
	Socket capture.SocketType
	Kind   capture.Kind
}

// Sink takes what an Assembler puts together; an engine's decoder is one. It is called
// on the goroutine that calls Assembler.Event.
type Sink interface {
	Message(*Message)
	// Gap is called once for each loss, before any later message of that socket.
	Gap(*Gap)
	// Exit says that a process has ended: none of its sockets will be heard of again.
	Exit(pid uint32)
}

// Stats counts what an Assembler has done since it was made.
type Stats struct {
	// Messages were passed on.
	Messages uint64
	// Gaps are losses on a socket; SkippedParts were thrown away after them because
	// the message that they belong to is not known from its start.
	Gaps, SkippedParts uint64
	// DroppedParts were over the limit of parts in a message, TrimmedParts over the
	// limit of bytes: their messages were passed on without those parts' bytes.
	DroppedParts, TrimmedParts uint64
	// StolenMessages were given up because too many were being assembled, and
	// EvictedSockets forgotten because there were too many.
	StolenMessages, EvictedSockets uint64
}
