package version

// The numbers, and that they sort as their ecosystems sort.

import (
	"os/exec"
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	tests := []struct {
		name, describe                string
		pep440, debian, semantic, tag string
	}{
		{"no release yet", "f10bc809632b",
			"0.0.0.dev412+gf10bc809632b", "0.0.0~dev412+gf10bc809632b", "0.0.0-dev.412+gf10bc809632b", "0.0.0-dev.412_gf10bc809632b"},
		{"no release yet, tree changed", "f10bc809632b-dirty",
			"0.0.0.dev412+gf10bc809632b.dirty", "0.0.0~dev412+gf10bc809632b.dirty", "0.0.0-dev.412+gf10bc809632b.dirty",
			"0.0.0-dev.412_gf10bc809632b.dirty"},
		{"a release", "v1.2.3", "1.2.3", "1.2.3", "1.2.3", "1.2.3"},
		{"a release, tree changed", "v1.2.3-dirty", "1.2.3+dirty", "1.2.3+dirty", "1.2.3+dirty", "1.2.3_dirty"},
		{"five commits later", "v1.2.3-5-gf10bc809632b",
			"1.2.3.post5+gf10bc809632b", "1.2.3+5.gf10bc809632b", "1.2.3+5.gf10bc809632b", "1.2.3_5.gf10bc809632b"},
		{"five commits later, tree changed", "v1.2.3-5-gf10bc809632b-dirty",
			"1.2.3.post5+gf10bc809632b.dirty", "1.2.3+5.gf10bc809632b.dirty", "1.2.3+5.gf10bc809632b.dirty", "1.2.3_5.gf10bc809632b.dirty"},
		{"a candidate", "v1.3.0-rc.2", "1.3.0rc2", "1.3.0~rc.2", "1.3.0-rc.2", "1.3.0-rc.2"},
		{"a candidate without a dot", "v1.3.0-rc2", "1.3.0rc2", "1.3.0~rc.2", "1.3.0-rc.2", "1.3.0-rc.2"},
		{"behind a candidate", "v1.3.0-beta.1-7-gf10bc809632b",
			"1.3.0b1.post7+gf10bc809632b", "1.3.0~beta.1+7.gf10bc809632b", "1.3.0-beta.1+7.gf10bc809632b", "1.3.0-beta.1_7.gf10bc809632b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Parse(tt.describe, 412)
			if err != nil {
				t.Fatalf("Parse(%q): %v", tt.describe, err)
			}
			for _, form := range []struct{ name, got, want string }{
				{"PEP440", v.PEP440(), tt.pep440},
				{"Debian", v.Debian(), tt.debian},
				{"Semantic", v.Semantic(), tt.semantic},
				{"Tag", v.Tag(), tt.tag},
			} {
				if form.got != form.want {
					t.Errorf("Parse(%q).%s() = %q; want %q", tt.describe, form.name, form.got, form.want)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, describe string
		commits        int
	}{
		{"nothing", "", 1},
		{"not a clone", "devel", 1},
		{"no leading v", "1.2.3", 1},
		{"two numbers", "v1.2", 1},
		{"an unknown stage", "v1.2.3-preview.1", 1},
		{"a space", "v1.2.3 ", 1},
		{"a path", "v1.2.3/../../x", 1},
		{"a commit in a history of unknown length", "f10bc809632b", 0},
		{"a number past every limit", "v1.2.3-rc.99999999999999999999", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if v, err := Parse(tt.describe, tt.commits); err == nil {
				t.Errorf("Parse(%q, %d) = %+v; want an error", tt.describe, tt.commits, v)
			}
		})
	}
}

// ascending is the order in which versions must sort everywhere.
var ascending = []string{
	"aaaaaaaaaaaa", "v1.2.3-alpha.1", "v1.2.3-rc.1", "v1.2.3-rc.1-2-gf10bc809632b", "v1.2.3-rc.2", "v1.2.3",
	"v1.2.3-1-gffffffffffff", "v1.2.3-2-gaaaaaaaaaaaa", "v1.2.3-10-gaaaaaaaaaaaa", "v1.2.4",
}

func TestDebianOrder(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("dpkg, the judge of the order, is not installed")
	}
	pairs(t, Version.Debian, func(a, b string) error {
		return exec.Command(dpkg, "--compare-versions", a, "lt", b).Run()
	})
}

func TestPEP440Order(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("Python, the judge of the order, is not installed")
	}
	// packaging itself or the copy that pip carries; pip can be missing as well.
	const load = "try:\n from packaging.version import Version as V\nexcept ImportError:\n from pip._vendor.packaging.version import Version as V\n"
	if err := exec.Command(python, "-c", load).Run(); err != nil {
		t.Skip("this Python has neither packaging nor pip, the judges of the order")
	}
	pairs(t, Version.PEP440, func(a, b string) error {
		// The text must also be in its normal form: it becomes a file name.
		script := load + "import sys\na, b = sys.argv[1:]\nassert V(a) < V(b) and str(V(a)) == a and str(V(b)) == b"
		return exec.Command(python, "-c", script, a, b).Run()
	})
}

func pairs(t *testing.T, form func(Version) string, less func(a, b string) error) {
	t.Helper()
	var previous string
	for _, describe := range ascending {
		v, err := Parse(describe, 412)
		if err != nil {
			t.Fatal(err)
		}
		current := form(v)
		if previous != "" {
			if err := less(previous, current); err != nil {
				t.Errorf("%s does not sort before %s: %v", previous, current, err)
			}
		}
		previous = current
	}
}

func FuzzParse(f *testing.F) {
	for _, describe := range ascending {
		f.Add(describe)
	}
	f.Add("v1.2.3-5-gf10bc809632b-dirty")
	f.Fuzz(func(t *testing.T, describe string) {
		v, err := Parse(describe, 1)
		if err != nil {
			return
		}
		// All forms become parts of file names.
		for _, form := range []string{v.PEP440(), v.Debian(), v.Semantic(), v.Tag()} {
			if form == "" || strings.ContainsAny(form, "/\\ \n\x00") || strings.HasPrefix(form, "-") {
				t.Errorf("Parse(%q) gives %q, which is no part of a file name", describe, form)
			}
		}
	})
}
