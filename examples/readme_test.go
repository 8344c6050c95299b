package examples

// What all examples have in common: an index that names each, links that lead somewhere, scripts
// that a shell can read.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestIndexNamesEveryExample(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.Contains(string(index), "["+e.Name()+"](") {
			t.Errorf("README.md does not name %s", e.Name())
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md", "../docs/deploy.md")
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			}
		}
	}
	if seen == 0 {
		t.Error("no link was found")
	}
}

func TestScriptsParse(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	scripts, err := filepath.Glob("*/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts = %v, %v", scripts, err)
	}
	for _, s := range scripts {
		if out, err := exec.Command(bash, "-n", s).CombinedOutput(); err != nil {
			t.Errorf("bash -n %s: %v\n%s", s, err, out)
		}
	}
}
