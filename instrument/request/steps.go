package request

// The steps that a sequence keeps for token events, in bounded memory.

import (
	"cmp"
	"slices"
)

// stepKeeper keeps the steps that token events are made of, in bounded memory: the
// first eight, the last, and those with the largest gaps before them; at most limit,
// and the last in any case. The zero value keeps none.
type stepKeeper struct {
	limit int
	total int
	first []TokenStep
	// gaps is a min-heap by gap once it is full, so that the smallest makes room.
	gaps    []gapStep
	last    TokenStep
	lastGap float64
	hasLast bool
}

type gapStep struct {
	gap  float64
	step TokenStep
}

// keepFirst is how many steps from the start are always kept: a request's first
// tokens are what people look at first.
const keepFirst = 8

func (k *stepKeeper) add(s TokenStep) {
	k.total++
	if k.limit <= 0 {
		return
	}
	if n := min(keepFirst, k.limit); len(k.first) < n {
		if k.first == nil {
			k.first = make([]TokenStep, 0, n)
		}
		k.first = append(k.first, s)
		k.last, k.hasLast, k.lastGap = s, false, 0
		return
	}
	if k.hasLast {
		k.push(gapStep{k.lastGap, k.last})
	}
	prev := k.last.TS
	k.last, k.hasLast = s, true
	k.lastGap = s.TS - prev
}

// push keeps g if there is room, or a smaller gap to put out. The heap is made when the
// room is used up; shorter requests need none.
func (k *stepKeeper) push(g gapStep) {
	room := k.limit - len(k.first) - 1
	if room <= 0 {
		return
	}
	if len(k.gaps) < room {
		k.gaps = append(k.gaps, g)
		if len(k.gaps) == room {
			for i := room/2 - 1; i >= 0; i-- {
				k.sink(i)
			}
		}
		return
	}
	if g.gap <= k.gaps[0].gap {
		return
	}
	k.gaps[0] = g
	k.sink(0)
}

// sink moves the step at i down to its place in the heap.
func (k *stepKeeper) sink(i int) {
	for {
		c := 2*i + 1
		if c >= len(k.gaps) {
			return
		}
		if c+1 < len(k.gaps) && k.gaps[c+1].gap < k.gaps[c].gap {
			c++
		}
		if k.gaps[i].gap <= k.gaps[c].gap {
			return
		}
		k.gaps[i], k.gaps[c] = k.gaps[c], k.gaps[i]
		i = c
	}
}

// steps gives what was kept up to the stamp until (inclusive), in time order.
func (k *stepKeeper) steps(until float64) []TokenStep {
	out := make([]TokenStep, 0, len(k.first)+len(k.gaps)+1)
	out = append(out, k.first...)
	for _, g := range k.gaps {
		out = append(out, g.step)
	}
	if k.hasLast {
		out = append(out, k.last)
	}
	slices.SortFunc(out, func(a, b TokenStep) int { return cmp.Compare(a.Total, b.Total) })
	n := 0
	for _, s := range out {
		if s.TS <= until {
			out[n] = s
			n++
		}
	}
	return out[:n]
}
