package vllm

// Where each release's ADD message has its fields.

import (
	"bytes"

	"github.com/tinylib/msgp/msgp"
)

// addLayout is where a release's ADD has the fields that are of use, by position; −1
// where the release does not have it.
type addLayout struct {
	releases string
	fields   int
	prompt, sampling, pooling, arrival, lora,
	priority, external int8
}

// addLayouts are those of vLLM's releases, read from EngineCoreRequest in
// vllm/v1/engine/__init__.py of each. The request id is field 0 in all. Two releases of
// one length differ in the position of the arrival time, the only float (see fits).
var addLayouts = []addLayout{
	//                                          prompt sampling pooling arrival lora priority external
	{"0.8.0–0.8.4", 10, 2, 6, -1, 8, 9, -1, -1},
	{"0.8.5", 10, 1, 5, -1, 7, 8, -1, -1},
	{"0.9.0", 11, 1, 5, -1, 7, 8, -1, -1},
	{"0.9.1", 13, 1, 5, -1, 7, 8, -1, -1},
	{"0.9.2–0.10.1", 15, 1, 5, 6, 8, 9, 14, -1},
	{"0.10.2", 14, 1, 3, 4, 6, 7, 12, -1},
	{"0.11.0–0.13.0", 15, 1, 3, 4, 6, 7, 13, -1},
	{"0.14", 16, 1, 3, 4, 6, 7, 13, 15},
	{"0.15", 17, 1, 3, 4, 6, 7, 13, 16},
	{"0.16", 18, 1, 3, 4, 6, 7, 13, 16},
	{"0.17–0.19", 17, 1, 3, 4, 5, 6, 12, 15},
	{"0.20", 18, 1, 3, 4, 5, 6, 12, 15},
	{"0.21–0.27", 20, 1, 3, 4, 5, 6, 13, 16},
	{"0.28–0.30", 21, 1, 3, 4, 5, 6, 13, 16},
	{"0.31–0.33", 22, 1, 3, 4, 5, 6, 13, 16},
}

// suffixedFields is the length from which the release (0.14) puts a random suffix behind
// request ids.
const suffixedFields = 16

// field is one element of the top-level array.
type field struct {
	kind msgp.Type
	raw  cursor // as far as it was captured
}

// null reports whether there is nothing in the field.
func (f field) null() bool { return f.kind == msgp.NilType }

// array reports whether the field is an array, and its length.
func (f field) array() (int, bool) {
	raw := f.raw
	n, err := raw.array()
	return n, err == nil
}

// firstElement is the type of an array's first element; msgp.InvalidType for an empty one.
func (f field) firstElement() msgp.Type {
	raw := f.raw
	if n, err := raw.array(); err != nil || n == 0 {
		return msgp.InvalidType
	}
	return raw.kind()
}

// addPositions says which field is what; −1 where there is none.
type addPositions struct {
	prompt, sampling, pooling, arrival, lora, priority, external int
}

// layoutPositions finds the fields by the table: of the releases with that many fields,
// the one that fits.
func layoutPositions(fields []field, total int) (addPositions, bool) {
	for i := range addLayouts {
		l := &addLayouts[i]
		if l.fields == total && l.fits(fields) {
			return addPositions{
				prompt: int(l.prompt), sampling: int(l.sampling), pooling: int(l.pooling),
				arrival: int(l.arrival), lora: int(l.lora),
				priority: int(l.priority), external: int(l.external),
			}, true
		}
	}
	return addPositions{}, false
}

// fits reports whether the fields have the types that the layout says. Those up to the
// arrival time must have been captured.
func (l *addLayout) fits(fields []field) bool {
	if len(fields) <= int(l.arrival) || fields[l.arrival].kind != msgp.Float64Type {
		return false
	}
	if _, ok := fields[l.prompt].array(); !ok && !fields[l.prompt].null() {
		return false
	}
	sampling := fields[l.sampling]
	return sampling.kind == msgp.MapType || sampling.null()
}

// guessPositions finds the fields by what has held in every release so far, for one that
// is not in the table, and for what was captured of a message that was cut.
func guessPositions(fields []field) addPositions {
	p := addPositions{prompt: -1, sampling: -1, pooling: -1, arrival: -1, lora: -1, priority: -1, external: -1}
	// The prompt is the first array of integers: field 1, or in the oldest releases 2
	// behind a nil. Further behind are other arrays, and field 2 may be an empty one.
	if len(fields) > 1 {
		if n, ok := fields[1].array(); ok && (n == 0 || isInteger(fields[1].firstElement())) {
			p.prompt = 1
		} else if fields[1].null() && len(fields) > 2 && isInteger(fields[2].firstElement()) {
			p.prompt = 2
		}
	}
	for i := 1; i < len(fields); i++ {
		if fields[i].kind == msgp.Float64Type {
			p.arrival = i
			break
		}
		if fields[i].kind == msgp.MapType && p.sampling < 0 {
			p.sampling = i
		}
	}
	if p.arrival < 0 {
		return p
	}
	// Without sampling parameters it is a pooling request, whose parameters are the array
	// nearest before the arrival time.
	for i := p.arrival - 1; i > max(p.prompt, 0) && p.sampling < 0; i-- {
		if _, ok := fields[i].array(); ok {
			p.pooling = i
			break
		}
	}
	if i := p.arrival + 1; i < len(fields) && fields[i].firstElement() == msgp.StrType {
		p.lora = i
	}
	id := withoutIndex(stringOf(fields[0]))
	for i := p.arrival + 1; i < len(fields); i++ {
		// The id without its suffix; for one of n > 1 the id begins with "N_".
		if s := stringOf(fields[i]); len(s) > 0 && bytes.HasPrefix(id, s) {
			p.external = i
			break
		}
	}
	return p
}

func isInteger(t msgp.Type) bool { return t == msgp.IntType || t == msgp.UintType }

func stringOf(f field) []byte {
	s, _ := f.raw.str()
	return s
}

// withoutIndex is an id without the "N_" that the parts of a request with n > 1 have.
func withoutIndex(id []byte) []byte {
	digits := 0
	for digits < len(id) && id[digits] >= '0' && id[digits] <= '9' {
		digits++
	}
	if digits > 0 && digits < len(id) && id[digits] == '_' {
		return id[digits+1:]
	}
	return id
}
