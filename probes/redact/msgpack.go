package redact

// A msgpack walker that overwrites in place, at the same width.

import "encoding/binary"

// maxPackDepth bounds nesting: the deepest message of vLLM's has less than ten levels.
const maxPackDepth = 64

type packKind uint8

const (
	packNil packKind = iota
	packBool
	packInt
	packFloat
	packString
	packBinary
	packExt
	packArray
	packMap
)

// packItem is one msgpack value's header.
type packItem struct {
	kind packKind
	at   int // of its first byte
	// from and to enclose the payload of a scalar, as far as it is there.
	from, to int
	// n counts the elements of an array or the pairs of a map.
	n int
}

// pack is a cursor over one msgpack message that it overwrites. Its methods move on
// and report true, or report false at the end of the bytes (short is set) or at
// something that is no msgpack. What they were asked to blank is blank then too, as
// far as it is there. No length in the message is believed beyond the bytes that are
// there, so that the cost is linear in them.
type pack struct {
	p     []byte
	i     int
	depth int
	short bool
}

// next reads the header of a value and moves behind it, behind the whole value if it
// is a scalar.
func (c *pack) next() (it packItem, ok bool) {
	if c.i >= len(c.p) {
		c.short = true
		return it, false
	}
	b := c.p[c.i]
	it.at = c.i
	c.i++
	switch {
	case b < 0x80 || b >= 0xe0:
		it.kind, it.from, it.to = packInt, it.at, c.i
		return it, true
	case b < 0x90:
		it.kind, it.n = packMap, int(b&15)
		return it, true
	case b < 0xa0:
		it.kind, it.n = packArray, int(b&15)
		return it, true
	case b < 0xc0:
		it.kind = packString
		return it, c.payload(&it, uint64(b&31))
	}
	switch b {
	case 0xc0:
		it.kind, it.from, it.to = packNil, c.i, c.i
		return it, true
	case 0xc2, 0xc3:
		it.kind, it.from, it.to = packBool, it.at, c.i
		return it, true
	case 0xc4, 0xc5, 0xc6:
		it.kind = packBinary
		return it, c.sized(&it, 1<<(b-0xc4))
	case 0xc7, 0xc8, 0xc9:
		it.kind = packExt
		return it, c.sized(&it, 1<<(b-0xc7))
	case 0xca, 0xcb:
		it.kind = packFloat
		return it, c.payload(&it, 4<<(b-0xca))
	case 0xcc, 0xcd, 0xce, 0xcf:
		it.kind = packInt
		return it, c.payload(&it, 1<<(b-0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		it.kind = packInt
		return it, c.payload(&it, 1<<(b-0xd0))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		it.kind = packExt
		return it, c.extType() && c.payload(&it, 1<<(b-0xd4))
	case 0xd9, 0xda, 0xdb:
		it.kind = packString
		return it, c.sized(&it, 1<<(b-0xd9))
	case 0xdc, 0xdd, 0xde, 0xdf:
		it.kind = packArray
		if b >= 0xde {
			it.kind = packMap
		}
		n, ok := c.length(2 << (b & 1))
		it.n = int(n)
		return it, ok
	}
	return it, false // 0xc1 is never used
}

// length reads a big-endian length of some bytes.
func (c *pack) length(width int) (uint64, bool) {
	if len(c.p)-c.i < width {
		// Half a length says nothing.
		fill(c.p[c.i:], 0)
		c.i, c.short = len(c.p), true
		return 0, false
	}
	var buf [8]byte
	copy(buf[8-width:], c.p[c.i:c.i+width])
	c.i += width
	return binary.BigEndian.Uint64(buf[:]), true
}

// sized reads the length of a scalar, the type byte of an extension, and goes behind
// the payload.
func (c *pack) sized(it *packItem, width int) bool {
	n, ok := c.length(width)
	if ok && it.kind == packExt {
		ok = c.extType()
	}
	return ok && c.payload(it, n)
}

func (c *pack) extType() bool {
	if c.i == len(c.p) {
		c.short = true
		return false
	}
	c.i++
	return true
}

// payload goes n bytes on. If they are not all there, those that are become zero.
func (c *pack) payload(it *packItem, n uint64) bool {
	it.from = c.i
	if n > uint64(len(c.p)-c.i) {
		fill(c.p[c.i:], 0)
		c.i, c.short = len(c.p), true
		it.to = c.i
		return false
	}
	c.i += int(n)
	it.to = c.i
	return true
}

// string is the text of a string item.
func (c *pack) string(it packItem) []byte { return c.p[it.from:it.to] }

// erase overwrites a scalar: texts by x, everything else by zero.
func (c *pack) erase(it packItem) {
	switch it.kind {
	case packNil:
	case packBool:
		c.p[it.at] = 0xc2
	case packString:
		fill(c.string(it), 'x')
	default:
		fill(c.p[it.from:it.to], 0)
	}
}

// blank overwrites the next value, whatever it is; lengths stay.
func (c *pack) blank() bool {
	it, ok := c.next()
	return ok && c.blankItem(it)
}

// blankItem overwrites a value whose header was read.
func (c *pack) blankItem(it packItem) bool {
	n := it.n
	switch it.kind {
	case packArray:
	case packMap:
		n *= 2
	default:
		c.erase(it)
		return true
	}
	return c.nested(n, func(int) bool { return c.blank() })
}

// nested calls each for every element of an array or map.
func (c *pack) nested(n int, each func(i int) bool) bool {
	if c.depth == maxPackDepth {
		return false
	}
	c.depth++
	for i := range n {
		if !each(i) {
			return false
		}
	}
	c.depth--
	return true
}

// scalar keeps a number or a truth value; anything else goes.
func (c *pack) scalar() bool {
	it, ok := c.next()
	if !ok {
		return false
	}
	if it.kind == packInt || it.kind == packFloat || it.kind == packBool {
		return true
	}
	return c.blankItem(it)
}

// id keeps a string that looks like an identifier; anything else goes.
func (c *pack) id() bool {
	it, ok := c.next()
	return ok && c.idItem(it)
}

func (c *pack) idItem(it packItem) bool {
	if it.kind != packString {
		return c.blankItem(it)
	}
	// Byte by byte as idString does it in JSON, so that both still agree.
	for i, b := range c.string(it) {
		if !isIDByte(b) || i >= maxKeptString {
			c.p[it.from+i] = 'x'
		}
	}
	return true
}

// array reads the header of an array.
func (c *pack) array() (n int, ok bool) {
	it, ok := c.next()
	return it.n, ok && it.kind == packArray
}

// packNode describes a map or the value of one of its keys; the zero node is blanked.
type packNode struct {
	rule packRule
	keys map[string]*packNode
}

type packRule uint8

const (
	packBlank  packRule = iota
	packNumber          // a number or truth value
	packList            // a number, or a list of numbers
	packIdent           // an identifier
	packWord            // a word of handshakes
	packTrace           // a header of trace context
)

// by redacts the next value as n describes it; known counts the known keys that were
// found, nil if nobody asks.
func (c *pack) by(n *packNode, known *int) bool {
	if n.rule == packNumber {
		return c.scalar()
	}
	it, ok := c.next()
	if !ok {
		return false
	}
	return c.byItem(it, n, known)
}

func (c *pack) byItem(it packItem, n *packNode, known *int) bool {
	switch {
	case it.kind == packMap && n.keys != nil:
		return c.nested(it.n, func(int) bool {
			key, ok := c.next()
			if !ok {
				return false
			}
			if key.kind == packString {
				if kid := n.keys[string(c.string(key))]; kid != nil {
					if known != nil {
						*known++
					}
					return c.by(kid, nil)
				}
			}
			return c.blankItem(key) && c.blank()
		})
	case it.kind == packArray && n.rule == packList:
		return c.nested(it.n, func(int) bool { return c.scalar() })
	case it.kind == packInt && n.rule == packList:
		return true
	case n.rule == packIdent:
		return c.idItem(it)
	case it.kind == packString && n.rule == packWord && handshakeWords.has(string(c.string(it))):
		return true
	case it.kind == packString && n.rule == packTrace && isTrace(c.string(it)):
		return true
	}
	return c.blankItem(it)
}

// isTrace reports whether s may be a traceparent or tracestate header.
func isTrace(s []byte) bool {
	for _, b := range s {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return len(s) <= maxHeaderValue
}

func packKeys(n *packNode, text string) map[string]*packNode {
	out := map[string]*packNode{}
	for _, k := range wordsOf(text) {
		out[k] = n
	}
	return out
}
