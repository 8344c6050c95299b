package standin

// What a stand-in does, as the list of steps that its assembly walks down.

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A step is a call of the system or of a function, with three arguments. The list
// ends with a call that does not return. fork_GOARCH.s reads it by these names.
type step struct {
	function uintptr // 0: a system call
	number   uintptr // of the system call
	args     [3]uintptr
	optional uintptr // 1: the system call may fail
}

// The functions that probes are put on; fork_GOARCH.s numbers them by these names.
const (
	messageSend = iota
	messageReceive
	socketOpen
	socketClose
	functionCount
)

// SocketType is the type of the ZeroMQ socket that the stand-in opens: ZMQ_DEALER,
// one of those that engines send requests through.
const SocketType = 5

// sendMore is ZMQ_SNDMORE: the stand-in says that its frame is not the last part.
const sendMore = 2

// What the stand-in says begins with these words; a number that is chosen anew for
// each follows, so that nobody else's bytes are taken for its own.
const (
	requestHead  = "GET /tokenscope-self-test-"
	requestTail  = " HTTP/1.1\r\nHost: self-test\r\n\r\n"
	answerHead   = "HTTP/1.1 200 OK\r\nContent-Length: 33\r\nX-Self-Test: "
	vectorFirst  = "\r\n\r\nfirst "
	vectorSecond = "second "
	sentHead     = "tokenscope self-test sends a frame, which lies apart from its message: "
	receivedHead = "self-test has "
)

// message is a zmq_msg_t. bpf/zmq.h has its layout, and what the kinds are.
type message [64]byte

// Offsets and kinds within a message.
const (
	messageData    = 8
	messageVSMSize = 41
	messageType    = 42
	typeVSM        = 101
	typeLMSG       = 102
)

// script is the memory that the steps work on. The child has a copy of it, at the
// same addresses; nothing moves it, as Go's heap stays where it is.
type script struct {
	steps    [16]step
	room     [256]byte // for the request
	vectors  [2]unix.Iovec
	sent     message
	content  [2]uint64 // of sent: struct content_t {void *data; size_t size; …}
	received message
	context  [8]byte // what zmq_socket is given and gives back

	request, answer, sentFrame, receivedFrame []byte
	vectorParts                               [2][]byte
	all                                       uint64 // signals
	old                                       uint64
}

// newScript writes the list for a stand-in that reads from fd and holds a descriptor
// besides, peer, which is its parent's.
func newScript(fd, peer int) *script {
	var number [8]byte
	rand.Read(number[:]) // never fails
	nonce := binary.NativeEndian.Uint64(number[:])
	s := &script{
		request:       appendHex([]byte(requestHead), nonce, requestTail),
		answer:        appendHex([]byte(answerHead), nonce, ""),
		vectorParts:   [2][]byte{[]byte(vectorFirst), appendHex([]byte(vectorSecond), nonce, "")},
		sentFrame:     appendHex([]byte(sentHead), nonce, ""),
		receivedFrame: appendHex([]byte(receivedHead), nonce, ""),
		all:           ^uint64(0),
	}
	for i, part := range s.vectorParts {
		s.vectors[i].Base = &part[0]
		s.vectors[i].SetLen(len(part))
	}
	// One message that points to its frame, and one that holds it.
	s.content = [2]uint64{uint64(address(s.sentFrame)), uint64(len(s.sentFrame))}
	s.sent[messageType] = typeLMSG
	binary.NativeEndian.PutUint64(s.sent[messageData:], uint64(uintptr(unsafe.Pointer(&s.content))))
	s.received[messageType] = typeVSM
	s.received[messageVSMSize] = byte(copy(s.received[messageData:messageVSMSize], s.receivedFrame))

	var functionAt [functionCount]uintptr
	functions(&functionAt)
	socket := uintptr(unsafe.Pointer(&s.context))
	sent, received := uintptr(unsafe.Pointer(&s.sent)), uintptr(unsafe.Pointer(&s.received))
	connection := uintptr(fd)
	for i, st := range []step{
		// A copy of this process's memory must not lie about as a core file.
		{number: unix.SYS_PRCTL, args: [3]uintptr{unix.PR_SET_DUMPABLE, 0}},
		// All descriptors but its own, which are copies of the parent's: whoever closes
		// the last copy of a probe's waits in the kernel until it is detached, for
		// seconds on a busy machine. Linux 5.9; before that it has to be without.
		{number: unix.SYS_CLOSE_RANGE, args: [3]uintptr{0, connection - 1}, optional: 1},
		{number: unix.SYS_CLOSE_RANGE, args: [3]uintptr{connection + 1, math.MaxUint32}, optional: 1},
		// This one in any case, or the end of the parent would not end the read below.
		{number: unix.SYS_CLOSE, args: [3]uintptr{uintptr(peer)}, optional: 1},
		{number: unix.SYS_READ, args: [3]uintptr{connection, uintptr(unsafe.Pointer(&s.room)), unsafe.Sizeof(s.room)}},
		{number: unix.SYS_WRITE, args: [3]uintptr{connection, address(s.answer), uintptr(len(s.answer))}},
		{number: unix.SYS_WRITEV, args: [3]uintptr{connection, uintptr(unsafe.Pointer(&s.vectors)), uintptr(len(s.vectors))}},
		{function: functionAt[socketOpen], args: [3]uintptr{socket, SocketType}},
		{function: functionAt[messageSend], args: [3]uintptr{sent, socket, sendMore}},
		{function: functionAt[messageReceive], args: [3]uintptr{received, socket}},
		{function: functionAt[socketClose], args: [3]uintptr{socket}},
		{number: unix.SYS_CLOSE, args: [3]uintptr{connection}},
		{number: unix.SYS_EXIT_GROUP},
	} {
		s.steps[i] = st
	}
	return s
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// appendHex appends a number, always sixteen digits, and what follows it.
func appendHex(b []byte, n uint64, tail string) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[n>>shift&15])
	}
	return append(b, tail...)
}
