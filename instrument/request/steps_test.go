package request

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The keeper must choose what a look at all steps would choose: the first eight, the
// last, and the largest gaps of the rest.
func TestStepKeeperKeepsFirstLastAndLargestGaps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{0, 1, 2, 8, 9, 10, 20, 128} {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 10, 30, 500} {
			t.Run(fmt.Sprintf("limit %d of %d", limit, n), func(t *testing.T) {
				var k stepKeeper
				k.limit = limit
				var all []TokenStep
				ts := 1.0
				for i := range n {
					ts += rnd.Float64()
					all = append(all, TokenStep{TS: ts, Tokens: 1, Total: i + 1})
					k.add(all[i])
				}
				if k.total != n {
					t.Errorf("total = %d; want %d", k.total, n)
				}
				want := choose(all, limit)
				if d := cmp.Diff(want, k.steps(ts)); d != "" {
					t.Errorf("steps (-want +got):\n%s", d)
				}
				if c := cap(k.first) + cap(k.gaps); c > 2*limit+keepFirst {
					t.Errorf("%d steps of memory for a limit of %d", c, limit)
				}
			})
		}
	}
}

func choose(all []TokenStep, limit int) []TokenStep {
	out := []TokenStep{}
	for i := 0; i < len(all) && i < min(limit, keepFirst); i++ {
		out = append(out, all[i])
	}
	if len(all) > len(out) && limit > 0 {
		rest := all[len(out) : len(all)-1]
		idx := make([]int, len(rest))
		for i := range idx {
			idx[i] = len(out) + i
		}
		sort.Slice(idx, func(a, b int) bool {
			return all[idx[a]].TS-all[idx[a]-1].TS > all[idx[b]].TS-all[idx[b]-1].TS
		})
		idx = idx[:max(0, min(len(idx), limit-len(out)-1))]
		sort.Ints(idx)
		for _, i := range idx {
			out = append(out, all[i])
		}
		out = append(out, all[len(all)-1])
	}
	return out
}
