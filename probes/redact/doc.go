// Package redact takes the content out of captured events before they are
// written to a recording: prompts and answers, token ids, stop strings, tool
// definitions, query strings, addresses, credentials, error text. What a decoder
// needs to come to the same result stays, byte for byte: lengths, framing, times,
// request ids, model names, usage numbers, sampling parameters, finish reasons,
// error types.
//
// # How
//
// Everything is overwritten in place with filler of the same length, so that no
// Content-Length, chunk size, msgpack header or SSE boundary changes. What stays is
// named in allow-lists (schema.go, words.go, vllm.go, argv.go); whatever is not
// named goes, and so do the names of unknown JSON and msgpack keys and of unknown
// HTTP headers. Filler is
//
//	x            text; the bytes of an escape sequence too
//	X            a key or a word that is not on the list
//	1 and 0      digits of a JSON number (mantissa and exponent)
//	null, "null " true and false
//	NUL          msgpack numbers, binary data and frames that are not understood
//
// # Losing track
//
// Bytes come in arbitrary pieces, may be cut in the middle (head and tail of an
// event), and whole events may be lost. The package follows HTTP framing, JSON, SSE
// and ZeroMQ parts on its own, apart from the decoders, and fails closed: as soon as
// it is not certain what a byte is, it blanks everything until it is certain again.
//
//   - JSON: never again in that body, but for the last members of an object of which
//     bytes are missing; they can be told from the end.
//   - SSE: at the next empty line.
//   - Chunked coding: at whole chunks that reach to the end of an event, where bytes were
//     cut over a chunk's end.
//   - HTTP: at an event that begins with a whole, well-formed message head.
//     Such a head cannot be part of a JSON text, where line ends are escaped.
//   - ZeroMQ: after a part that ends its message.
//
// One thing follows from bytes being handed on at once: where a key or a word of an
// allow-list is split between two events, its first part is kept as long as some
// listed word begins with it. So of a text that stands in such a place at most as
// much may be seen as agrees with a public word.
package redact
