package bootstrap

// Words for people and objects for programs.

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is text with what would break a line or steer a terminal escaped: names of
// files and processes may hold anything.
func printable(text string) string {
	if !strings.ContainsFunc(text, unsafeRune) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

func unsafeRune(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// quoted is a word as it is, or in quotes where it could not be told from what is around.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r == ' ' || unsafeRune(r) }) {
		return word
	}
	return strconv.Quote(word)
}

// writeJSON writes a value as one object.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// page gathers lines of text.
type page struct{ b strings.Builder }

// line adds one.
func (p *page) line(format string, args ...any) {
	p.b.WriteString(strings.TrimRight(printable(fmt.Sprintf(format, args...)), " "))
	p.b.WriteByte('\n')
}

// heading begins a part.
func (p *page) heading(text string) {
	if p.b.Len() > 0 {
		p.b.WriteByte('\n')
	}
	p.line("%s", text)
}

func (p *page) writeTo(w io.Writer) error {
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// yesNo is a bool in words.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
