package http1

import "bytes"

// findChunk returns the index in p of a chunk's size line from where on p is a chain
// of whole chunks, or −1. p ends where its segment ends; its start lies behind
// bytes that are missing, so a size line counts only behind a CRLF.
func findChunk(p []byte) int {
	for i := 0; i < len(p); {
		j := bytes.Index(p[i:], crlf)
		if j < 0 {
			return -1
		}
		i += j + len(crlf)
		if chunkChain(p[i:]) {
			return i
		}
	}
	return -1
}

var crlf = []byte("\r\n")

// chunkChain reports whether p is one or more whole chunks, each with its size line
// and its CRLF in place, perhaps with the start of another behind them; or the last
// chunk. One chunk that fits is proof enough: text would have to hold its own length.
//
// It looks at maxChain of them: bytes made of line ends would else cost their square.
func chunkChain(p []byte) bool {
	whole := 0
	for len(p) > 0 && whole < maxChain {
		size, n := int64(0), 0
		for n < len(p) && n <= maxDigits {
			v, ok := unhex(p[n])
			if !ok {
				break
			}
			size = size<<4 | int64(v)
			n++
		}
		if n == len(p) {
			return whole > 0
		}
		if n == 0 || n > maxDigits || !bytes.HasPrefix(p[n:], crlf[:min(len(crlf), len(p)-n)]) {
			return false
		}
		p = p[min(len(p), n+len(crlf)):]
		if size == 0 {
			// Servers of inference engines send no trailers: the end of all must follow.
			return bytes.Equal(p, crlf)
		}
		if int64(len(p)) < size+int64(len(crlf)) {
			return whole > 0
		}
		if !bytes.HasPrefix(p[size:], crlf) {
			return false
		}
		p = p[size+int64(len(crlf)):]
		whole++
	}
	return whole > 0
}

// maxChain chunks that fit leave no doubt.
const maxChain = 8

// quickDigits bounds the size of a chunk that bareChunk takes: 16 MiB, far above what one
// write has.
const quickDigits = 6

// bareChunk reports whether p begins with a whole chunk that is not the last and has no
// extensions, as nearly every chunk comes: one a write. data is what is in it, rest what
// is behind it.
func bareChunk(p []byte) (data, rest []byte, ok bool) {
	size, n := 0, 0
	for n < len(p) && n < quickDigits {
		v, hex := unhex(p[n])
		if !hex {
			break
		}
		size = size<<4 | int(v)
		n++
	}
	from := n + len(crlf)
	to := from + size
	if n == 0 || size == 0 || len(p) < to+len(crlf) ||
		p[n] != '\r' || p[n+1] != '\n' || p[to] != '\r' || p[to+1] != '\n' {
		return nil, p, false
	}
	return p[from:to], p[to+len(crlf):], true
}

func unhex(b byte) (v byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
