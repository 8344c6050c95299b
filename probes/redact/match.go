package redact

// Words that may stay, recognised although they come in pieces.

import (
	"slices"
	"strings"
)

// words is a sorted list of strings that may stay. A '0' in a word stands for any
// run of digits.
type words []string

func newWords(list ...string) words {
	w := words(slices.Clone(list))
	slices.Sort(w)
	return slices.Compact(w)
}

// wordsOf splits a text of words at white space.
func wordsOf(text string) words { return newWords(strings.Fields(text)...) }

func (w words) has(s string) bool {
	_, ok := slices.BinarySearch(w, s)
	return ok
}

// matcher compares a string with a list byte by byte: all words in [lo, hi) begin
// with the n bytes that were seen.
type matcher struct {
	lo, hi, n int
	digit     bool // the last byte was a digit
}

func (w words) matcher() matcher { return matcher{hi: len(w)} }

// step takes the next byte and reports whether any word is still possible.
func (m *matcher) step(w words, b byte) bool {
	if b >= '0' && b <= '9' {
		if m.digit && m.zero(w) {
			return m.lo < m.hi
		}
		m.digit = true
		if m.allows(w, '0') && !m.allows(w, b) {
			b = '0'
		}
	} else {
		m.digit = false
	}
	for m.lo < m.hi && (len(w[m.lo]) <= m.n || w[m.lo][m.n] < b) {
		m.lo++
	}
	for m.lo < m.hi && (len(w[m.hi-1]) <= m.n || w[m.hi-1][m.n] > b) {
		m.hi--
	}
	m.n++
	return m.lo < m.hi
}

// zero reports whether the last byte was matched by a word's '0'.
func (m *matcher) zero(w words) bool {
	return m.lo < m.hi && m.n > 0 && w[m.lo][m.n-1] == '0'
}

// allows reports whether some possible word goes on with b.
func (m *matcher) allows(w words, b byte) bool {
	for i := m.lo; i < m.hi; i++ {
		if len(w[i]) > m.n && w[i][m.n] == b {
			return true
		}
	}
	return false
}

// index is the place of the word that is equal to what was seen, −1 for none.
func (m *matcher) index(w words) int {
	if m.lo < m.hi && len(w[m.lo]) == m.n {
		return m.lo
	}
	return -1
}

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}
