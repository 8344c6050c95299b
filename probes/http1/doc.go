// Package http1 decodes one HTTP/1.x connection as its server sees it: what it
// read (requests) and what it wrote (responses), from captured segments that may
// be split anywhere, cut in the middle, or lost.
//
// It follows RFC 9112: persistent connections, pipelining, Content-Length, chunked
// coding with extensions and trailers, bodies that last until the connection is
// closed, interim responses, and protocol switches (after which it looks no more).
// It is an observer, not a server: it is lenient where servers are (bare LF,
// obs-fold, empty lines before a message) and gives up where the next message's
// start cannot be known, until a segment begins with a recognisable one.
//
// Bodies are streamed to the Handler and never buffered; only a head that is split
// over segments is. What bodies mean is the business of package api.
//
// # Cuts and gaps
//
// A cut is a segment of which the middle was not captured; how many bytes are
// missing is known. Inside a body of known length, or inside one chunk, a cut is
// skipped exactly. Where it spans chunks, the chunk boundaries are looked for in
// the segment's tail, then at the start of later segments.
//
// A gap is a segment that was lost. Unless its length is known and lies inside a
// body, the exchange that was being answered ends as Lost: its end may lie in the
// gap, and so may the start of the next one, so that nothing after a gap may be
// booked on a request before it.
//
// Pairing after a gap assumes that the client does not pipeline, as real clients of
// inference servers do not; a connection that was seen to pipeline is given up
// at its first gap.
package http1
