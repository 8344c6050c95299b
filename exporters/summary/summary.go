// Package summary prints Requests as a table for people, one a line, with totals and
// percentiles below: what `instrument replay --output summary` shows.
//
// Times are milliseconds; "-" is a value that was not observed. Of a request with several
// sequences (n > 1, several prompts) the line shows the longest queue time, the earliest
// first token and the latest end, and no time between tokens; the percentiles are over
// sequences, each with its own.
package summary

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tokenscope/tokenscope/exporters/latency"
	"github.com/tokenscope/tokenscope/instrument/request"
)

// unknown is shown for what was not observed.
const unknown = "-"

// maxCell bounds a cell in characters, so that one client's long name does not widen the
// table past reading.
const maxCell = 48

type column struct {
	title string
	// right aligns numbers.
	right bool
}

var columns = []column{
	{"TIME", false}, {"ENDPOINT", false}, {"MODEL", false}, {"STATUS", true}, {"FINISH", false},
	{"PROMPT", true}, {"COMPL", true}, {"QUEUE", true}, {"TTFT", true}, {"E2E", true}, {"ITL", true},
	{"ID", false}, {"INCOMPLETE", false},
}

// Table collects Requests. The zero value is empty and ready. It keeps a line of text and
// four numbers per sequence, not the Requests.
type Table struct {
	// Limit is the most lines kept, and the most numbers for percentiles: the newest.
	// Totals are of all Requests. 0 is no limit, for what ends; a running agent needs one.
	Limit int

	requests int
	rows     [][]string

	failed, disconnected, incomplete int
	prompt, completion, uncounted    int
	first, last                      int64

	queue, ttft, e2e, itl []float64
}

// Add appends the line of r.
func (t *Table) Add(r *request.Request) {
	var queue, ttft, e2e, itl *float64
	for _, s := range r.Sequences {
		l := latency.Of(r, s)
		t.collect(&t.queue, l.TimeInQueue)
		t.collect(&t.ttft, l.TimeToFirstToken)
		t.collect(&t.e2e, l.E2E)
		queue = pick(queue, l.TimeInQueue, math.Max)
		ttft = pick(ttft, l.TimeToFirstToken, math.Min)
		e2e = pick(e2e, l.E2E, math.Max)
		// Metrics are in milliseconds already.
		if m := s.Metrics().MeanITLMs; m != nil {
			seconds := *m / 1000
			t.collect(&t.itl, &seconds)
			if len(r.Sequences) == 1 {
				itl = &seconds
			}
		}
	}
	endpoint, status := unknown, unknown
	if r.HTTP != nil {
		endpoint = r.HTTP.Route
		if endpoint == "" {
			endpoint = r.HTTP.Path
		}
	}
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	finish := r.FinishReason
	if r.Disconnected {
		finish = "disconnected"
	} else if r.ErrorType != "" {
		finish = r.ErrorType
	}
	prompt, completion := -1, -1
	if r.Usage != nil {
		prompt, completion = r.Usage.Prompt, r.Usage.Completion
	}
	keep(&t.rows, t.Limit, []string{
		time.Unix(0, r.Wall(r.Start)).UTC().Format("15:04:05.000"), cell(endpoint), cell(r.Model), status, cell(finish),
		count(prompt), count(completion), millis(queue), millis(ttft), millis(e2e), millis(itl),
		cell(r.ID), cell(strings.Join(r.Incomplete, " ")),
	})
	t.total(r, prompt, completion)
}

func (t *Table) total(r *request.Request, prompt, completion int) {
	t.requests++
	switch {
	case r.Disconnected:
		t.disconnected++
	case r.Status >= 400 || r.ErrorType != "":
		t.failed++
	}
	if len(r.Incomplete) > 0 {
		t.incomplete++
	}
	if prompt < 0 || completion < 0 {
		t.uncounted++
	}
	t.prompt += max(prompt, 0)
	t.completion += max(completion, 0)
	if t.requests == 1 || r.Start < t.first {
		t.first = r.Start
	}
	t.last = max(t.last, r.End)
}

// WriteTo writes the table, the totals and the percentiles.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	header := make([]string, len(columns))
	for i, c := range columns {
		header[i] = c.title
	}
	if len(t.rows) > 0 {
		if n := t.requests - len(t.rows); n > 0 {
			fmt.Fprintf(&b, "(%s before these)\n", plural(n, "request"))
		}
		align(&b, columns, append([][]string{header}, t.rows...))
		b.WriteByte('\n')
	}
	b.WriteString(plural(t.requests, "request"))
	if t.requests > 0 {
		fmt.Fprintf(&b, " in %.3f s: %d failed, %d disconnected, %d incomplete", float64(t.last-t.first)/1e9, t.failed, t.disconnected, t.incomplete)
		fmt.Fprintf(&b, "\n%s, %s", plural(t.prompt, "prompt token"), plural(t.completion, "completion token"))
		if t.uncounted > 0 {
			fmt.Fprintf(&b, " (%s without a count)", plural(t.uncounted, "request"))
		}
	}
	b.WriteByte('\n')
	t.percentiles(&b)
	n, err := io.WriteString(w, b.String())
	if err != nil {
		return int64(n), fmt.Errorf("write summary: %w", err)
	}
	return int64(n), nil
}

func (t *Table) percentiles(b *strings.Builder) {
	cols := []column{{"MS", false}, {"P50", true}, {"P90", true}, {"P99", true}, {"MAX", true}, {"SEQUENCES", true}}
	rows := [][]string{{"MS", "P50", "P90", "P99", "MAX", "SEQUENCES"}}
	for _, l := range []struct {
		name   string
		values []float64
	}{
		{"queue time", t.queue}, {"time to first token", t.ttft}, {"end to end", t.e2e}, {"between tokens", t.itl},
	} {
		if len(l.values) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(l.values))
		row := []string{l.name}
		for _, p := range []float64{0.5, 0.9, 0.99, 1} {
			row = append(row, millis(ptr(rank(sorted, p))))
		}
		rows = append(rows, append(row, strconv.Itoa(len(sorted))))
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		align(b, cols, rows)
	}
}

// rank is the p-quantile of sorted by the nearest-rank method: always a value that
// occurred.
func rank(sorted []float64, p float64) float64 {
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}

// align writes rows with two spaces between columns and none at a line's end.
func align(b *strings.Builder, cols []column, rows [][]string) {
	width := make([]int, len(cols))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i > 0 {
				line.WriteString("  ")
			}
			if cols[i].right {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// cell makes a client's text fit for a table on a terminal. No cell is empty, so that a
// line splits at spaces into as many fields as there are columns.
func cell(s string) string {
	if s == "" {
		return unknown
	}
	s = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxCell {
		s = string([]rune(s)[:maxCell-1]) + "…"
	}
	return s
}

func count(n int) string {
	if n < 0 {
		return unknown
	}
	return strconv.Itoa(n)
}

func millis(seconds *float64) string {
	if seconds == nil || math.IsNaN(*seconds) || math.IsInf(*seconds, 0) {
		return unknown
	}
	return strconv.FormatFloat(*seconds*1000, 'f', 2, 64)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// collect keeps a value that was observed and is a number.
func (t *Table) collect(to *[]float64, v *float64) {
	if v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
		keep(to, t.Limit, *v)
	}
}

// keep appends v and lets go of the oldest past limit.
func keep[T any](to *[]T, limit int, v T) {
	if limit > 0 && len(*to) >= limit {
		*to = slices.Delete(*to, 0, len(*to)-limit+1)
	}
	*to = append(*to, v)
}

func pick(a, b *float64, which func(x, y float64) float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ptr(which(*a, *b))
}

func ptr[T any](v T) *T { return &v }
