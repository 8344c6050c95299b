package summary_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/internal/golden"
	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/summary"
	"github.com/tokenscope/tokenscope/instrument/request"
)

func write(t *testing.T, requests ...*request.Request) []byte {
	t.Helper()
	var table summary.Table
	for _, r := range requests {
		table.Add(r)
	}
	var out bytes.Buffer
	n, err := table.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Errorf("WriteTo = %d, %v; want %d, nil", n, err, out.Len())
	}
	return out.Bytes()
}

func TestSummaryGolden(t *testing.T) {
	var all []*request.Request
	for _, c := range requesttest.Cases() {
		all = append(all, c.Request)
	}
	golden.Check(t, "all.txt", write(t, append(all, requesttest.Long(1000))...))
	golden.Check(t, "one.txt", write(t, requesttest.Rejected()))
	golden.Check(t, "none.txt", write(t))
}

func TestColumnsAreAligned(t *testing.T) {
	out := string(write(t, requesttest.Plain(), requesttest.Hostile(), requesttest.Long(1000)))
	table, _, _ := strings.Cut(out, "\n\n")
	lines := strings.Split(table, "\n")
	// ID is the first column after the numbers: it begins at the same character everywhere.
	at := strings.Index(lines[0], "ID ")
	for _, l := range lines[1:] {
		runes := []rune(l)
		if string(runes[at-2:at]) != "  " || runes[at] != 'c' {
			t.Errorf("line %q: ID does not begin at character %d", l, at)
		}
	}
}

func TestLimitKeepsTheNewest(t *testing.T) {
	table := summary.Table{Limit: 2}
	for range 3 {
		table.Add(requesttest.Rejected())
	}
	table.Add(requesttest.Preempted())
	table.Add(requesttest.TwoChoices())
	var out bytes.Buffer
	if _, err := table.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "limited.txt", out.Bytes())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteError(t *testing.T) {
	if _, err := new(summary.Table).WriteTo(broken{}); err == nil {
		t.Error("WriteTo(full disk) = nil; want its error")
	}
}
