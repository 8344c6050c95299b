// Package stream puts the parts of ZeroMQ messages, which backends capture one by
// one, together again: messages in order for each socket, and a word where some
// are missing. It knows nothing of what the messages mean.
//
// # Order and loss
//
// A message's parts come from one thread and are not interleaved with another's on
// the same socket and in the same direction (ZeroMQ sockets are not thread-safe), so
// the parts of one (process, socket, direction) in the order of their events are the
// message. A jump in Event.Seq means that parts between are lost. What follows may
// then begin in the middle of a message, and a message whose first part is missing
// looks like a shorter one; so everything up to and including the next last part
// (More is false) is thrown away, and the sink is told of the gap. That costs one
// good message where the lost one was whole; taking a stray part for a message could
// cost a wrong number.
//
// # Sends that are seen twice
//
// Sends are captured at the entry of zmq_msg_send, before it is known whether the
// socket takes the message. A non-blocking send that gets EAGAIN is tried again, and
// libzmq refuses only the first part of a message (once that is accepted, room for
// the others is certain). So a retry shows as the first part once more: a message of
// one part comes twice, whole and equal; a message of several parts gets its first
// part twice. This package does not remove either, because equal messages may be two
// messages, and only the decoder knows by what a message can be told from its copy.
//
// # Bounds
//
// Parts per message, bytes kept per message, messages being assembled and sockets
// remembered are all limited, and what the limits cost is counted in Stats. A message
// of one part, which is nearly every message, is passed on without a copy.
package stream
