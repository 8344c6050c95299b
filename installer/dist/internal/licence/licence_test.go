package licence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
)

const mit = `MIT License

Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
(the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge,
publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so,
subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

const isc = `Copyright (c) 2026 Somebody Else

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that
the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES
OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR
ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS
ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see https://www.gnu.org/licenses/.
`

// tree writes files and gives the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// linked is a package in the folder sub of a module at root.
func linked(root, sub string) []build.Package {
	return []build.Package{{
		ImportPath: "example.com/m/" + sub, Dir: filepath.Join(root, filepath.FromSlash(sub)),
		Module: &build.Module{Path: "example.com/m", Version: "v1.0.0", Dir: root},
	}}
}

func TestCollect(t *testing.T) {
	tests := []struct {
		name, sub string
		files     map[string]string
		spdx      string
		texts     string // names, joined
	}{
		{"one licence", "pkg", map[string]string{"LICENSE": mit, "pkg/x.go": ""}, "MIT", "LICENSE"},
		{"the British spelling, with an ending", "pkg", map[string]string{"LICENCE.md": mit, "pkg/x.go": ""}, "MIT", "LICENCE.md"},
		{"a notice goes along", "pkg", map[string]string{"LICENSE": mit, "NOTICE": "thanks", "pkg/x.go": ""}, "MIT", "LICENSE NOTICE"},
		{"a package taken over from elsewhere", "pkg/in", map[string]string{"LICENSE": mit, "pkg/in/COPYING": isc}, "ISC AND MIT", "LICENSE pkg/in/COPYING"},
		{"a package that is not linked", "pkg", map[string]string{"LICENSE": mit, "pkg/x.go": "", "other/LICENSE": gpl}, "MIT", "LICENSE"},
		{"a program named like a licence", "pkg", map[string]string{"LICENSE": mit, "pkg/license.go": "package pkg"}, "MIT", "LICENSE"},
		{"two licences in one file", "pkg", map[string]string{"LICENSE": mit + "\n---\n" + isc, "pkg/x.go": ""}, "ISC AND MIT", "LICENSE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			modules, err := Collect(linked(tree(t, tt.files), tt.sub), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if len(modules) != 1 {
				t.Fatalf("Collect() = %d modules; want 1", len(modules))
			}
			var names []string
			for _, text := range modules[0].Texts {
				names = append(names, text.Name)
			}
			if got := strings.Join(names, " "); modules[0].SPDX != tt.spdx || got != tt.texts {
				t.Errorf("Collect() = %q with %q; want %q with %q", modules[0].SPDX, got, tt.spdx, tt.texts)
			}
		})
	}
}

func TestCollectRefuses(t *testing.T) {
	replaced := linked(tree(t, map[string]string{"LICENSE": mit}), ".")
	replaced[0].Module.Replace = &build.Module{Path: "../fork"}
	outside := linked(tree(t, nil), "pkg")
	outside[0].Module.Dir = t.TempDir()
	tests := []struct {
		name     string
		packages []build.Package
		want     string
	}{
		{"no licence", linked(tree(t, map[string]string{"pkg/x.go": ""}), "pkg"), "no licence text"},
		{"a notice alone", linked(tree(t, map[string]string{"NOTICE": "thanks", "pkg/x.go": ""}), "pkg"), "no licence text"},
		{"copyleft", linked(tree(t, map[string]string{"LICENSE": gpl}), "."), "not among the accepted"},
		{"words of its own", linked(tree(t, map[string]string{"LICENSE": "Do what you like, but tell your friends."}), "."), "known licence"},
		{"conditions added to a licence", linked(tree(t, map[string]string{"LICENSE": mit + strings.Repeat("No use on Sundays. ", 60)}), "."), "known licence"},
		{"a replaced module", replaced, "replaced"},
		{"no module", []build.Package{{ImportPath: "example.com/m"}}, "belongs to no module"},
		{"a package outside its module", outside, "outside its module"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if modules, err := Collect(tt.packages, "", ""); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Collect() = %v, %v; want an error with %q", modules, err, tt.want)
			}
		})
	}
}

// The standard library's licence is in the Go release itself; our own module needs none here.
func TestCollectStandardLibrary(t *testing.T) {
	goroot, err := new(build.Builder).GoRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	modules, err := Collect([]build.Package{
		{ImportPath: "fmt", Standard: true},
		{ImportPath: "example.com/own", Module: &build.Module{Path: "example.com/own", Main: true}},
	}, goroot, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 1 || modules[0].Path != "std" || modules[0].Version != "1.2.3" || modules[0].SPDX != "BSD-3-Clause" {
		t.Errorf("Collect() = %+v; want std 1.2.3 under BSD-3-Clause", modules)
	}
}

func TestDocument(t *testing.T) {
	got := string(Document([]Module{
		{Path: "example.com/a", Version: "v1.0.0", SPDX: "MIT", Texts: []Text{{"LICENSE", "shared\r\nterms\n"}}},
		{Path: "example.com/b", Version: "v2.0.0", SPDX: "MIT", Texts: []Text{{"LICENSE", "shared\nterms\n"}, {"NOTICE", "thanks"}}},
		{Path: StandardLibrary, Version: "1.26.8", SPDX: "BSD-3-Clause", Texts: []Text{{"LICENSE", "their terms"}}},
	}))
	for part, want := range map[string]int{
		"  example.com/a v1.0.0  (MIT)\n":                1,
		"  Go standard library 1.26.8  (BSD-3-Clause)\n": 1,
		"shared\nterms": 1, // once for both
		"\nexample.com/a v1.0.0: LICENSE\nexample.com/b v2.0.0: LICENSE\n====": 1,
		"thanks\n":      1,
		"their terms\n": 1,
	} {
		if n := strings.Count(got, part); n != want {
			t.Errorf("%q stands in the document %d times; want %d:\n%s", part, n, want, got)
		}
	}
}
