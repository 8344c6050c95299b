package semconv_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/semconv"
)

// keys reads the attribute keys out of the package's own source: name → key.
func keys(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			call, ok := spec.Values[0].(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			key, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = key
			return true
		})
	}
	return found
}

func TestKeysAreUniqueAndWellFormed(t *testing.T) {
	wellFormed := regexp.MustCompile(`^(gen_ai|tokenscope|acs)(\.[a-z][a-z0-9_]*)+$`)
	owner := map[string]string{}
	all := keys(t)
	if len(all) < 40 {
		t.Fatalf("keys() found %d keys; want at least 40: has the layout of the source changed?", len(all))
	}
	for name, key := range all {
		if !wellFormed.MatchString(key) {
			t.Errorf("%s = %q; want dotted lower-case words in a known namespace", name, key)
		}
		if other, ok := owner[key]; ok {
			t.Errorf("%s and %s are both %q; want each key once", name, other, key)
		}
		owner[key] = name
	}
}

func TestParseDialect(t *testing.T) {
	for _, c := range []struct {
		in string
		d  semconv.Dialect
		ok bool
	}{
		{"both", semconv.DialectBoth, true},
		{"OTel", semconv.DialectOTel, true},
		{"ARMS", semconv.DialectARMS, true},
		{"", semconv.DialectBoth, false},
		{"loongsuite", semconv.DialectBoth, false},
	} {
		if d, ok := semconv.ParseDialect(c.in); d != c.d || ok != c.ok {
			t.Errorf("ParseDialect(%q) = %v, %v; want %v, %v", c.in, d, ok, c.d, c.ok)
		}
	}
}

func TestProvider(t *testing.T) {
	for in, want := range map[string]string{
		"vllm-v1": "vllm", "vllm-v0": "vllm", "vllm": "vllm", "sglang": "sglang", "": "", "vllmx": "",
	} {
		if got := semconv.Provider(in); got != want {
			t.Errorf("Provider(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestSpanNames(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"route known", semconv.ServerSpan("POST", "/v1/completions"), "POST /v1/completions"},
		{"route unknown", semconv.ServerSpan("POST", ""), "POST"},
		{"method unknown", semconv.ServerSpan(semconv.MethodOther, "/v1/completions"), "HTTP /v1/completions"},
		{"model known", semconv.OperationSpan("chat", "tiny"), "chat tiny"},
		{"model unknown", semconv.OperationSpan("chat", ""), "chat"},
	} {
		if c.got != c.want {
			t.Errorf("%s: name = %q; want %q", c.name, c.got, c.want)
		}
	}
}
