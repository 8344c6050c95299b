package agent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// A new agent's receive probes reach a process some time after its others. What the
// front-end received until then leaves no gap in the numbers, and must not make a wrong
// count.
func TestLateReceivesNeverMakeAWrongNumber(t *testing.T) {
	for _, name := range propertyRecordings {
		t.Run(name, func(t *testing.T) {
			h, events := load(t, name)
			whole := linesByID(run(t, h, events))
			cores := engineCores(events)
			for from := 0; from < len(events); from += 1 + len(events)/60 {
				late := events[from].Time
				cut := slices.DeleteFunc(slices.Clone(events), func(e capture.Event) bool {
					return e.Kind == capture.KindRecv && !cores[e.PID] && e.Time < late
				})
				for _, l := range run(t, h, renumber(cut)).lines {
					if want := whole[l.id()]; want != nil {
						if wrong := wrongNumbers(want, l); len(wrong) > 0 {
							t.Fatalf("%s: %v\n got %s\nwant %s", fmt.Sprint("receives from event ", from), wrong, l.raw, want.raw)
						}
					}
				}
			}
		})
	}
}
