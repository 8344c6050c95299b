// Package vllm reads the messages between vLLM's front-end and its engine core (V1,
// msgpack over ZeroMQ) and hands what they say to a request.EngineSink. It keeps no
// request: it turns one message into one input.
//
// # Messages
//
// As vLLM 0.8.2 to 0.33.0 send them (vllm/v1/engine/core_client.py, core.py, and
// __init__.py for the fields):
//
//	what      sent by              parts
//	request   front-end, ROUTER    identity (2 bytes), type (1 byte), payload, tensors…
//	          (0.8.2: PUSH)        type, payload
//	outputs   core, PUSH           payload, tensors…
//	ready     core, DEALER         one map
//	dead      core, PUSH           "ENGINE_CORE_DEAD"
//
// The other side receives them on DEALER (without the identity), PULL and ROUTER (with
// the identity). Where the socket's type is not known, the shape decides.
//
// The payloads are arrays of fields without names. msgspec writes every field of such a
// structure always, so that the array's length tells the release, apart from a few
// lengths that two releases share; those differ in the types of their elements. Fields
// are found by a table of the releases, and where a length is in no row, by what holds
// in all of them. Nested statistics and sampling parameters are maps with names, in
// which unknown names are passed over.
//
// # What is not read
//
// Only the first payload part is decoded: those behind it are tensors, of arbitrary
// bytes. A part that was captured in two pieces, head and tail, is decoded as far as the
// head goes; msgpack cannot be read backwards, so what lies behind is marked unknown.
//
// Other users of ZeroMQ in the same processes (KV events, transfer connectors, workers'
// queues, pyzmq's own sockets) are recognised by not being any of the above, and only
// counted.
package vllm
