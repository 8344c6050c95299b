package settings

// From text to value, one function for each kind. Each returns the value (nil: not
// usable) and what is wrong with the text ("" when nothing is). Both can be there: a
// list may hold one choice that is known and one that is not.
//
// A problem never repeats the text: Warning and FlagError decide whether it may be
// shown.

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func parse(sp *Spec, text string) (value any, problem string) {
	switch sp.Kind {
	case KindString:
		return parseString(text)
	case KindToken:
		if p := tokenProblem(text); p != "" {
			return nil, p
		}
		return text, ""
	case KindSecret:
		if p := tokenProblem(text); p != "" {
			return nil, p
		}
		return Secret(text), ""
	case KindBool:
		return parseBool(text)
	case KindInt:
		return parseInt(sp, text)
	case KindMillis:
		return parseMillis(sp, text)
	case KindRatio:
		return parseRatio(text)
	case KindEnum:
		return parseEnum(sp, text)
	case KindList:
		return parseList(sp, text)
	case KindFile:
		return parseFile(text)
	case KindAttributes:
		return parseAttributes(text)
	case KindHeaders:
		return parseHeaders(text)
	}
	// KindURL depends on other settings: see deriveOTLP.
	return nil, "cannot be read here"
}

func parseString(text string) (any, string) {
	if !printable(text) {
		return nil, "has characters that cannot be printed"
	}
	return text, ""
}

// printable reports whether text is UTF-8 without control characters.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// tokenProblem says why text cannot be the value of a header.
func tokenProblem(text string) string {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return "has a space or a character that is not printable ASCII"
		}
	}
	return ""
}

// parseBool follows the specification: only "true" is true, and everything that is
// neither is false.
func parseBool(text string) (any, string) {
	switch {
	case strings.EqualFold(text, "true"):
		return true, ""
	case strings.EqualFold(text, "false"):
		return false, ""
	}
	return false, "neither true nor false"
}

func parseInt(sp *Spec, text string) (any, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < sp.Min || n > sp.Max {
		return nil, fmt.Sprintf("not a whole number from %d to %d", sp.Min, sp.Max)
	}
	if sp.PowerOfTwo && n&(n-1) != 0 {
		return nil, "not a power of two"
	}
	return n, ""
}

func parseMillis(sp *Spec, text string) (any, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < sp.Min || n > sp.Max {
		return nil, fmt.Sprintf("not a whole number of milliseconds from %d to %d", sp.Min, sp.Max)
	}
	return time.Duration(n) * time.Millisecond, ""
}

func parseRatio(text string) (any, string) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		return nil, "not a number from 0 to 1"
	}
	return f, ""
}

func parseEnum(sp *Spec, text string) (any, string) {
	word := strings.ToLower(text)
	if slices.Contains(sp.Values, word) {
		return word, ""
	}
	return nil, "not one of " + strings.Join(sp.Values, ", ")
}

// parseList keeps the known choices, each once. "none" stands for an empty list and
// wins over the others: who writes it does not want something sent by mistake.
func parseList(sp *Spec, text string) (any, string) {
	var known []string
	var unknown, none bool
	for item := range strings.SplitSeq(text, ",") {
		word := strings.ToLower(strings.TrimSpace(item))
		switch {
		case word == "":
		case !slices.Contains(sp.Values, word):
			unknown = true
		case word == ExporterNone:
			none = true
		case !slices.Contains(known, word):
			known = append(known, word)
		}
	}
	var problem string
	switch {
	case unknown:
		problem = "has a part that is not one of " + strings.Join(sp.Values, ", ")
	case none && known != nil:
		problem = "names others beside none"
	}
	switch {
	case none:
		return []string{}, problem
	case known == nil:
		if problem == "" {
			problem = "names nothing"
		}
		return nil, problem
	}
	return known, problem
}

// parseFile takes any path. A key or certificate pasted where its file belongs must
// neither be opened nor shown.
func parseFile(text string) (any, string) {
	if strings.Contains(text, "-----BEGIN") {
		return nil, "holds the PEM text itself; name the file that holds it"
	}
	if strings.ContainsRune(text, 0) || !printable(text) {
		return nil, "has characters that cannot be printed"
	}
	return text, ""
}

// Attribute is one attribute of the resource.
type Attribute struct{ Key, Value string }

// Attributes are in the order of the variable, each key once (the last value wins).
type Attributes []Attribute

// String gives key=value,key=value as people read it (not escaped again).
func (a Attributes) String() string {
	var b strings.Builder
	for i, attr := range a {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(attr.Key + "=" + attr.Value)
	}
	return b.String()
}

// Get gives the value of key.
func (a Attributes) Get(key string) (string, bool) {
	for _, attr := range a {
		if attr.Key == key {
			return attr.Value, true
		}
	}
	return "", false
}

// parseAttributes reads OTEL_RESOURCE_ATTRIBUTES: pairs separated by commas, values
// percent-encoded. One bad pair discards all, as the specification asks
// (resource/sdk.md): half a resource would be reported as if it were whole.
func parseAttributes(text string) (any, string) {
	var attrs Attributes
	at := make(map[string]int) // a variable may have 128 KiB of pairs
	n := 0
	for pair := range strings.SplitSeq(text, ",") {
		n++
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key, err1 := url.PathUnescape(strings.TrimSpace(key))
		value, err2 := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case !found || key == "":
			return nil, fmt.Sprintf("pair %d is not key=value, so none is used", n)
		case err1 != nil || err2 != nil:
			return nil, fmt.Sprintf("pair %d has a %% that two hexadecimal digits do not follow, so none is used", n)
		case !printable(key) || !utf8.ValidString(value):
			return nil, fmt.Sprintf("pair %d is not text, so none is used", n)
		}
		if i, ok := at[key]; ok {
			attrs[i].Value = value
		} else {
			at[key] = len(attrs)
			attrs = append(attrs, Attribute{key, value})
		}
	}
	if attrs == nil {
		return nil, "has no pair"
	}
	return attrs, ""
}

// parseHeaders reads OTEL_EXPORTER_OTLP_HEADERS: pairs separated by commas, values
// percent-encoded. A bad pair is left out and named by its number only: a lone token
// without a name looks like "c2VjcmV0=", so what stands before "=" is shown as a
// name only where a value stands behind it.
func parseHeaders(text string) (any, string) {
	headers := Headers{}
	var problem string
	n := 0
	for pair := range strings.SplitSeq(text, ",") {
		n++
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, raw, _ := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(raw))
		if err != nil || !headerName(name) || strings.Trim(value, "=") == "" || !headerValue(value) {
			if problem == "" {
				problem = fmt.Sprintf("pair %d is not name=value and is left out", n)
			}
			continue
		}
		headers[name] = Secret(value)
	}
	if len(headers) == 0 {
		return nil, problem
	}
	return headers, problem
}

// headerName reports whether s is a token of RFC 9110, section 5.6.2.
func headerName(s string) bool {
	if s == "" {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// headerValue reports whether s can be sent both as an HTTP header and as gRPC
// metadata, which allows printable ASCII only.
func headerValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
