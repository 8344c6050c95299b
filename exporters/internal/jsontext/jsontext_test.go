package jsontext_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/tokenscope/tokenscope/exporters/internal/jsontext"
)

func TestAppendString(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "chat", `"chat"`},
		{"empty", "", `""`},
		{"quotes and backslash", `a"b\c`, `"a\"b\\c"`},
		{"control bytes", "a\nb\rc\td\x00e\x7f", `"a\nb\rc\td\u0000e\u007f"`},
		{"markup is left alone", "<a&b>", `"<a&b>"`},
		{"not UTF-8", "a\xffb", "\"a\ufffdb\""},
		{"cut rune", "\xe4\xbd", "\"\ufffd\ufffd\""},
		{"line separator", "a\u2028b\u2029c", `"a\u2028b\u2029c"`},
		{"other runes", "模型", `"模型"`},
	} {
		if got := string(jsontext.AppendString(nil, c.in)); got != c.want {
			t.Errorf("%s: AppendString(%q) = %s; want %s", c.name, c.in, got, c.want)
		}
	}
}

func TestAppendFloat(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.1: "0.1", 34.46002304614867: "34.46002304614867", 1e-7: "1e-07", 1e21: "1e+21", -2: "-2",
		math.Inf(1): "null", math.Inf(-1): "null",
	} {
		if got := string(jsontext.AppendFloat(nil, in)); got != want {
			t.Errorf("AppendFloat(%v) = %s; want %s", in, got, want)
		}
	}
	if got := string(jsontext.AppendFloat(nil, math.NaN())); got != "null" {
		t.Errorf("AppendFloat(NaN) = %s; want null", got)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "chat", "a\"\\\n", "\xff\xfe", "\u2028", "模型"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := jsontext.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("AppendString(%q) = %s; not JSON: %v", s, b, err)
		}
		// encoding/json replaces each bad byte, as we do.
		if want := string([]rune(s)); back != want {
			t.Fatalf("AppendString(%q) reads back as %q; want %q", s, back, want)
		}
		if bytes.ContainsAny(b, "\n\r") {
			t.Fatalf("AppendString(%q) = %q; want one line", s, b)
		}
	})
}
