package settings

// docs/settings.md has the table of settings; here it is held to the table in the code.

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table in docs/settings.md anew")

// settingsDoc is the page; docTable begins its table, which reaches to the next heading.
const (
	settingsDoc = "../../docs/settings.md"
	docTable    = "| setting | set by | default | what it is |\n"
)

func TestDocs(t *testing.T) {
	page, err := os.ReadFile(settingsDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), docTable)
	old, after, found2 := strings.Cut(rest, "\n\n")
	if !found || !found2 {
		t.Fatalf("%s has no table of settings, or nothing behind it", settingsDoc)
	}
	want := strings.TrimSuffix(docRows(), "\n")
	if *update {
		if err := os.WriteFile(settingsDoc, []byte(before+docTable+want+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("%s (-code +page); run go test ./instrument/settings -update:\n%s", settingsDoc, diff)
	}
}

func docRows() string {
	var b strings.Builder
	b.WriteString("|---|---|---|---|\n")
	for _, sp := range table {
		var by []string
		if sp.Flag != "" {
			by = append(by, "`--"+sp.Flag+"`")
		}
		for _, variable := range sp.Env {
			by = append(by, "`"+variable+"`")
		}
		what := sp.Help
		if choices := strings.Join(sp.Values, ", "); choices != "" && !strings.HasSuffix(what, choices) {
			what += " (" + choices + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", sp.Name, strings.Join(by, " "), sp.Default+sp.Derived, what)
	}
	return b.String()
}
