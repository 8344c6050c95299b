package request

// What was emitted a moment ago, and the order in which things are ended.

import (
	"cmp"
	"slices"
)

// recentIDs remembers the last ids that were emitted, so that an output which was
// still under way does not look like a request of its own. The zero value is ready.
type recentIDs struct {
	ring []string
	next int
	set  map[string]struct{}
}

// recentCap covers the largest batch an engine runs, several times over.
const recentCap = 8192

func (r *recentIDs) has(id []byte) bool {
	_, ok := r.set[string(id)]
	return ok
}

func (r *recentIDs) add(id string) {
	if r.set == nil {
		r.set = make(map[string]struct{})
	}
	if _, ok := r.set[id]; ok {
		return
	}
	if len(r.ring) < recentCap {
		r.ring = append(r.ring, id)
	} else {
		delete(r.set, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % recentCap
	}
	r.set[id] = struct{}{}
}

// remove forgets an id: it is in use again.
func (r *recentIDs) remove(id string) { delete(r.set, id) }

// ordered is anything that came at a place in the order of inputs.
type ordered interface{ at() uint64 }

func (c *call) at() uint64  { return c.order }
func (s *seq) at() uint64   { return s.order }
func (g *group) at() uint64 { return g.seqs[0].order }

func sortOrdered[T ordered](list []T) []T {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(a.at(), b.at()) })
	return list
}
