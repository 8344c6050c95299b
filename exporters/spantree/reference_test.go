package spantree_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/request"
	"github.com/tokenscope/tokenscope/semconv"
)

// These tests hold docs/spans.md and the code together, in both directions.

const reference = "../../docs/spans.md"

// sections reads the reference's text by heading.
func sections(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, part := range strings.Split(string(data), "\n## ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		found[heading] = body
	}
	return found
}

// row is a table's row that begins with one word in code.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")

// documented reads key → type out of the tables of attributes in a section.
func documented(t *testing.T, heading string) map[string]string {
	t.Helper()
	body, ok := sections(t)[heading]
	if !ok {
		t.Fatalf("%s has no section %q", reference, heading)
	}
	found := map[string]string{}
	inTable := false
	for line := range strings.Lines(body) {
		switch {
		case strings.HasPrefix(line, "| attribute"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		}
		m := row.FindStringSubmatch(line)
		if !inTable || m == nil {
			continue
		}
		kind, _, _ := strings.Cut(m[2], ",")
		if _, twice := found[m[1]]; twice {
			t.Errorf("%s, %s: %s stands there twice", reference, heading, m[1])
		}
		found[m[1]] = kind
	}
	return found
}

// types names attribute types as the reference does.
var types = map[attribute.Type]string{
	attribute.STRING: "string", attribute.STRINGSLICE: "string[]", attribute.INT64: "int",
	attribute.FLOAT64: "double", attribute.BOOL: "boolean",
}

// emitted builds the trees of all kinds of Requests in every way, and gives key → type by
// the section in which the reference has it.
func emitted(t *testing.T) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	add := func(section string, kvs []attribute.KeyValue) {
		if found[section] == nil {
			found[section] = map[string]string{}
		}
		for _, kv := range kvs {
			kind := types[kv.Value.Type()]
			if old := found[section][string(kv.Key)]; old != "" && old != kind {
				t.Errorf("%s: %s is %s and %s", section, kv.Key, old, kind)
			}
			found[section][string(kv.Key)] = kind
		}
	}
	// An engine that is given n as it is, and a request for an adapter.
	choices := requesttest.Plain()
	wide := requesttest.Plain()
	for len(wide.Sequences) < 300 {
		wide.Sequences = append(wide.Sequences, requesttest.Sequence("wide"))
	}
	n := 2
	choices.Sequences[0].Params.N = &n
	choices.Lora = "sql-lora"
	for _, c := range append(requesttest.Cases(), requesttest.Case{Request: choices}, requesttest.Case{Request: wide}) {
		// Not the dialect arms, in which latencies have another type: it has no key that
		// both does not have.
		for _, o := range []spantree.Options{
			{Level: 0}, {Level: 1}, {Level: 2, EventLimit: 128}, {Level: 2, EventLimit: 128, Dialect: semconv.DialectOTel},
		} {
			for _, s := range spantree.Build(c.Request, o) {
				section := "The operation span"
				switch {
				case s.Kind == trace.SpanKindServer:
					section = "The HTTP span"
				case s.Name == semconv.SpanLLMRequest:
					section = "llm_request"
				case s.Name == semconv.SpanWait, s.Name == semconv.SpanPrefill, s.Name == semconv.SpanDecode:
					section = "wait, prefill, decode"
				}
				add(section, s.Attributes)
				for _, e := range s.Events {
					add("Token events", e.Attributes)
				}
			}
		}
	}
	return found
}

func TestReferenceListsEveryAttribute(t *testing.T) {
	for section, want := range emitted(t) {
		if diff := cmp.Diff(want, documented(t, section)); diff != "" {
			t.Errorf("%s, %s: attributes and types (-emitted +documented):\n%s", reference, section, diff)
		}
	}
}

// TestReferenceSaysWhatDependsOnTheDialect compares the column "when" with the keys that
// the dialects leave out.
func TestReferenceSaysWhatDependsOnTheDialect(t *testing.T) {
	keys := func(d semconv.Dialect) map[string]bool {
		found := map[string]bool{}
		for _, s := range spantree.Build(requesttest.TwoChoices(), spantree.Options{Dialect: d}) {
			for _, kv := range s.Attributes {
				found[s.Name+" "+string(kv.Key)] = true
			}
		}
		return found
	}
	both, otel, arms := keys(semconv.DialectBoth), keys(semconv.DialectOTel), keys(semconv.DialectARMS)
	body := sections(t)
	for key := range both {
		span, name := key[:strings.LastIndexByte(key, ' ')], key[strings.LastIndexByte(key, ' ')+1:]
		section := "The operation span"
		switch {
		case span == semconv.SpanLLMRequest:
			section = span
		case strings.HasPrefix(span, "POST"):
			section = "The HTTP span"
		}
		want := ""
		switch {
		case otel[key] && !arms[key]:
			want = "dialects `both`, `otel`"
		case arms[key] && !otel[key]:
			want = "dialects `both`, `arms`"
		}
		for line := range strings.Lines(body[section]) {
			if !strings.HasPrefix(line, "| `"+name+"` |") {
				continue
			}
			if says := strings.Contains(line, "dialects `"); says != (want != "") || !strings.Contains(line, want) {
				t.Errorf("%s, %s: %s says %q; want it to name %q", reference, section, name, strings.TrimSpace(line), want)
			}
		}
	}
}

// constants reads the string constants of a Go file whose name has the prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, value)
		}
		return true
	})
	if len(found) == 0 {
		t.Fatalf("%s has no constant %s…", file, prefix)
	}
	slices.Sort(found)
	return found
}

func TestReferenceListsEveryReason(t *testing.T) {
	want := constants(t, "../../instrument/request/incomplete.go", "")
	var got []string
	for _, m := range row.FindAllStringSubmatch(sections(t)["What is missing: tokenscope.incomplete"], -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: reasons (-request +documented):\n%s", reference, diff)
	}
}

func TestReferenceListsEveryWord(t *testing.T) {
	text := sections(t)
	for _, c := range []struct{ section, prefix string }{
		{"Status and error.type", "ErrorType"},
		{"wait, prefill, decode", "SpanW"}, {"wait, prefill, decode", "SpanP"}, {"wait, prefill, decode", "SpanD"},
		{"llm_request", "SpanLLMRequest"},
		{"wait, prefill, decode", "Wait"},
		{"Token events", "Event"},
		{"The operation span", "Operation"}, {"The operation span", "Kind"},
	} {
		for _, word := range constants(t, "../../semconv/names.go", c.prefix) {
			if !strings.Contains(text[c.section], "`"+word+"`") {
				t.Errorf("%s, %s: `%s` is not there", reference, c.section, word)
			}
		}
	}
	for f := request.FinishStop; f.String() != "unknown"; f++ {
		if !strings.Contains(text["llm_request"], "`"+f.String()+"`") {
			t.Errorf("%s, llm_request: finish reason `%s` is not there", reference, f)
		}
	}
}

// TestReferenceHasNoOtherSection: each table of attributes belongs to a section that is
// compared, here or (Resource) in exporters/otlp.
func TestReferenceHasNoOtherSection(t *testing.T) {
	compared := slices.Collect(maps.Keys(emitted(t)))
	for section := range sections(t) {
		if keys := documented(t, section); len(keys) > 0 && section != "Resource" && !slices.Contains(compared, section) {
			t.Errorf("%s: section %q has attributes that nothing is compared with", reference, section)
		}
	}
}

// TestReferenceLinks: the anchors of links within the page are headings.
func TestReferenceLinks(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for heading := range sections(t) {
		anchors[regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(heading), "")] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(data), -1)
	if len(links) == 0 {
		t.Fatal("no links found")
	}
	for _, m := range links {
		if !anchors[strings.ReplaceAll(m[1], "-", " ")] {
			t.Errorf("%s: #%s leads nowhere", reference, m[1])
		}
	}
}
