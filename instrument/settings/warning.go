package settings

// What is wrong with a setting, in one line.

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxShown is the most of a value, in bytes, that a message repeats.
const maxShown = 64

// Warning says that a variable, or a combination of settings, is not used as written.
type Warning struct {
	// Variable is the environment variable or flag, "--" included.
	Variable string
	// Value is its text, quoted and shortened; "" where it may hold a secret.
	Value string
	// Problem is the cause.
	Problem string
	// Using is what holds instead.
	Using string
}

// String gives the line: `VARIABLE="value": problem; using this`.
func (w Warning) String() string {
	s := w.Variable
	if w.Value != "" {
		s += "=" + w.Value
	}
	s += ": " + w.Problem
	if w.Using != "" {
		s += "; " + w.Using
	}
	return s
}

// FlagError is a flag whose value cannot be used.
type FlagError struct {
	Flag    string // without dashes
	Value   string // quoted and shortened
	Problem string
}

func (e *FlagError) Error() string {
	return fmt.Sprintf("--%s=%s: %s", e.Flag, e.Value, e.Problem)
}

// quote makes text safe for a terminal and short enough for a line.
func quote(text string) string {
	if len(text) <= maxShown {
		return strconv.Quote(text)
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strconv.Quote(text[:end]) + "…"
}
