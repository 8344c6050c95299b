package redact

import (
	"strings"
	"testing"
)

func TestMatcher(t *testing.T) {
	list := newWords("stop", "stop_sequence", "length", "line 0 column 0", "base64")
	tests := []struct {
		in   string
		want bool
	}{
		{"stop", true},
		{"stop_sequence", true},
		{"stop_", false},
		{"sto", false},
		{"", false},
		{"stopp", false},
		{"line 1 column 32", true},
		{"line 0 column 00000", true},
		{"line 12345 column 6", true},
		{"line  column 6", false},
		{"line 1a column 6", false},
		{"base64", true},
		{"base6", false},
		{"base644", false},
		{"\xff", false},
	}
	for _, tt := range tests {
		m := list.matcher()
		got := true
		for i := range len(tt.in) {
			got = got && m.step(list, tt.in[i])
		}
		got = got && m.index(list) >= 0
		if got != tt.want {
			t.Errorf("match(%q) = %v; want %v", tt.in, got, tt.want)
		}
	}
}

// A key that turns out to be unknown is filled from where that was seen, which must not
// make a known one of it.
func TestFillerMakesNoKnownWord(t *testing.T) {
	var keys func(n *node, depth int) []string
	keys = func(n *node, depth int) []string {
		out := []string(n.keys)
		if depth < 12 {
			for _, kid := range n.kids {
				out = append(out, keys(kid, depth+1)...)
			}
		}
		return out
	}
	lists := map[string][]string{
		"request keys": keys(requestRoot, 0), "response keys": keys(responseRoot, 0),
		"finishWords": finishWords, "apiWords": apiWords, "errorPhrases": errorPhrases, "topWords": topWords,
	}
	for name, list := range lists {
		for _, w := range list {
			if strings.HasSuffix(w, "X") {
				t.Errorf("%s: %q ends in the filler", name, w)
			}
			if name != "errorPhrases" && name != "topWords" && strings.Contains(w, "0") {
				t.Errorf("%s: %q has a '0', which stands for any number", name, w)
			}
		}
	}
	for _, w := range knownHeaders {
		if strings.HasSuffix(w, "x") || w != strings.ToLower(w) {
			t.Errorf("knownHeaders: %q ends in the filler or is not lower case", w)
		}
	}
}
