package redact

import (
	"bytes"
	"strconv"
)

// Chunked transfer coding (RFC 9112, section 7.1): following it, and finding it again.

// maxChunkDigits is how long a chunk's size may be: 2^60 bytes.
const maxChunkDigits = 15

// chunked goes on at the start of a chunk.
func (s *httpSide) chunked() { s.state, s.left, s.digits = httpChunkSize, 0, 0 }

// chunkByte follows what stands between chunks.
func (s *httpSide) chunkByte(p []byte, i int, b byte) bool {
	switch s.state {
	case httpChunkSize:
		digit := bytes.IndexByte([]byte("0123456789abcdef"), b|0x20)
		switch {
		case digit >= 0 && b >= '0':
			s.left = s.left<<4 | int64(digit)
			s.digits++
			return s.digits <= maxChunkDigits
		case s.digits == 0:
			return false
		case b == '\r':
			s.state = httpChunkSizeEnd
		case b == '\n':
			s.chunk()
		case b == ';' || b == ' ' || b == '\t':
			s.state = httpChunkExt
		default:
			return false
		}
	case httpChunkExt:
		switch b {
		case '\r':
			s.state = httpChunkSizeEnd
		case '\n':
			s.chunk()
		default:
			p[i] = 'x'
		}
	case httpChunkSizeEnd:
		s.chunk()
		return b == '\n'
	case httpChunkDataEnd:
		switch b {
		case '\r':
		case '\n':
			s.chunked()
		default:
			return false
		}
	}
	return true
}

// chunk goes on behind a size line.
func (s *httpSide) chunk() {
	s.state = httpChunkData
	if s.left == 0 {
		s.state = httpTrailer
		status := s.head.status
		s.head.resetTrailer()
		s.head.status = status
	}
}

// wholeChunks reports whether p is nothing but whole chunks, the last of a body among
// them or not. Were it not so after all, the body's own machine would blank what makes
// no sense to it.
func wholeChunks(p []byte) bool {
	for len(p) > 0 {
		size, _, found := bytes.Cut(p[:min(len(p), maxChunkDigits+2)], []byte("\r\n"))
		n, err := strconv.ParseUint(string(size), 16, 4*maxChunkDigits)
		if !found || err != nil {
			return false
		}
		p = p[len(size)+2:]
		if n == 0 {
			return string(p) == "\r\n"
		}
		if uint64(len(p)) < n+2 || p[n] != '\r' || p[n+1] != '\n' {
			return false
		}
		if p = p[n+2:]; len(p) == 0 {
			return true
		}
	}
	return false
}

// chunksIn finds where in p, which may begin anywhere, whole chunks begin that reach to
// its end; len(p) where there are none.
func chunksIn(p []byte) int {
	for at, tries := 0, 0; tries < maxChunkTries; tries++ {
		end := bytes.Index(p[at:], []byte("\r\n"))
		if end < 0 {
			break
		}
		if at += end + 2; wholeChunks(p[at:]) {
			return at
		}
	}
	return len(p)
}

// maxChunkTries bounds the search in a tail made of line ends; each chunk has two.
const maxChunkTries = 64
