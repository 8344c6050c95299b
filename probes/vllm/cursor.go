package vllm

// Leaf readers of msgpack that never trust a length.

import (
	"errors"
	"math"

	"github.com/tinylib/msgp/msgp"
)

var (
	// errShort: the bytes end before the value does. In a part that was not captured
	// whole this is where the cut is.
	errShort = errors.New("unexpected end")
	// errForm: the bytes are no msgpack, or another type than the value has.
	errForm = errors.New("unexpected form")
)

// cursor is msgpack that has not been read yet. Its methods on a pointer read a value and
// advance, or report errShort or errForm and leave the cursor where it was; those on a
// value only look. What they return aliases the input. Nothing recurses or allocates, and no length is believed beyond the bytes
// that are there: each value takes at least one.
type cursor []byte

// failure turns msgp's errors into ours.
func failure(err error) error {
	if errors.Is(err, msgp.ErrShortBytes) {
		return errShort
	}
	return errForm
}

// kind is the type of the next value; msgp.InvalidType at the end.
func (c cursor) kind() msgp.Type { return msgp.NextType(c) }

// null reads a nil and reports whether there was one.
func (c *cursor) null() bool {
	if !msgp.IsNil(*c) {
		return false
	}
	*c = (*c)[1:]
	return true
}

// fixedBytes is how long a value with a lead byte is, itself included, where the lead
// byte alone tells (numbers, nil, booleans, short strings); 0 for all others. Source: the
// msgpack specification, "Formats".
var fixedBytes = func() (n [256]uint8) {
	for lead := range n {
		switch {
		case lead < 0x80, lead >= 0xe0: // small integers
			n[lead] = 1
		case lead >= 0xa0 && lead < 0xc0: // short strings
			n[lead] = 1 + uint8(lead&0x1f)
		}
	}
	n[0xc0], n[0xc2], n[0xc3] = 1, 1, 1 // nil, false, true
	n[0xca], n[0xcb] = 5, 9             // floats
	for i := range 4 {
		n[0xcc+i], n[0xd0+i] = 1+1<<i, 1+1<<i // integers of 1, 2, 4, 8 bytes
	}
	return n
}()

// skip passes over one value, whatever is in it.
func (c *cursor) skip() error {
	b := []byte(*c)
	// msgp.Skip recurses into arrays and maps, up to 100,000 levels. Counting the values
	// that are still to come does without.
	for pending := uint64(1); pending > 0; pending-- {
		if uint64(len(b)) < pending {
			return errShort
		}
		if n := fixedBytes[b[0]]; n > 0 { // most values
			if len(b) < int(n) {
				return errShort
			}
			b = b[n:]
			continue
		}
		var n uint32
		var err error
		switch msgp.NextType(b) {
		case msgp.ArrayType:
			n, b, err = msgp.ReadArrayHeaderBytes(b)
			pending += uint64(n)
		case msgp.MapType:
			n, b, err = msgp.ReadMapHeaderBytes(b)
			pending += 2 * uint64(n)
		default:
			b, err = msgp.Skip(b)
		}
		if err != nil {
			return failure(err)
		}
	}
	*c = b
	return nil
}

// take returns one value as a cursor of its own.
func (c *cursor) take() (cursor, error) {
	rest := *c
	if err := rest.skip(); err != nil {
		return nil, err
	}
	value := (*c)[:len(*c)-len(rest)]
	*c = rest
	return value, nil
}

// array reads the header of an array: its length.
func (c *cursor) array() (int, error) {
	if len(*c) == 0 {
		return 0, errShort
	}
	if lead := (*c)[0]; lead>>4 == 0x9 { // up to 15 elements: most arrays
		*c = (*c)[1:]
		return int(lead & 0xf), nil
	}
	if c.kind() != msgp.ArrayType {
		return 0, errForm
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(*c)
	if err != nil {
		return 0, failure(err)
	}
	*c = rest
	return int(n), nil
}

// dict reads the header of a map: the number of its entries.
func (c *cursor) dict() (int, error) {
	if len(*c) == 0 {
		return 0, errShort
	}
	if c.kind() != msgp.MapType {
		return 0, errForm
	}
	n, rest, err := msgp.ReadMapHeaderBytes(*c)
	if err != nil {
		return 0, failure(err)
	}
	*c = rest
	return int(n), nil
}

// str reads a string.
func (c *cursor) str() ([]byte, error) {
	if len(*c) == 0 {
		return nil, errShort
	}
	if c.kind() != msgp.StrType {
		return nil, errForm
	}
	s, rest, err := msgp.ReadStringZC(*c)
	if err != nil {
		return nil, failure(err)
	}
	*c = rest
	return s, nil
}

// integer reads an integer that fits into an int64.
func (c *cursor) integer() (int64, error) {
	if len(*c) == 0 {
		return 0, errShort
	}
	if lead := (*c)[0]; lead < 0x80 {
		*c = (*c)[1:]
		return int64(lead), nil
	}
	switch c.kind() {
	case msgp.IntType, msgp.UintType:
	default:
		return 0, errForm
	}
	n, rest, err := msgp.ReadInt64Bytes(*c)
	if err != nil {
		return 0, failure(err)
	}
	*c = rest
	return n, nil
}

// number reads a float or, since engines send whole numbers where others have a float,
// an integer. NaN and infinities are no numbers.
func (c *cursor) number() (float64, error) {
	switch c.kind() {
	case msgp.Float64Type, msgp.Float32Type:
		f, rest, err := msgp.ReadFloat64Bytes(*c)
		if err != nil {
			return 0, failure(err)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, errForm
		}
		*c = rest
		return f, nil
	default:
		n, err := c.integer()
		return float64(n), err
	}
}

// count reads a number of things; −1 where there is none.
func (c cursor) count() int {
	n, err := c.integer()
	if err != nil || n < 0 || n != int64(int32(n)) {
		return -1
	}
	return int(n)
}

// positive reads a number of things; 0 where there is none.
func (c cursor) positive() int { return max(c.count(), 0) }

// counts reads a list of numbers, maxSpecPositions at most; nil where there is none.
func (c cursor) counts() []int {
	n, err := c.array()
	if err != nil {
		return nil
	}
	// No more elements than bytes.
	list := make([]int, 0, min(n, len(c), maxSpecPositions))
	for i := 0; i < n && len(list) < maxSpecPositions; i++ {
		value, err := c.take()
		if err != nil {
			return list
		}
		list = append(list, value.positive())
	}
	return list
}
