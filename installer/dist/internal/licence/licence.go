// Package licence finds the licences of the modules that a program is really linked with, names
// them by SPDX, and makes the one text that must go with the program. A module without a licence
// text, or with one that is not known or not in the list of accepted ones, stops the release.
package licence

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
)

// Module is a module with its licences.
type Module struct {
	Path, Version string
	SPDX          string // expression; several licences are joined by AND, since each covers some of the files
	Texts         []Text
}

// Text is one file that must go with the program.
type Text struct {
	Name string // within the module, with slashes
	Data string
}

// StandardLibrary is the name under which Go's own packages stand, as in package URLs.
const StandardLibrary = "std"

// accepted are the licences that allow what we do: ship binaries under Apache-2.0 with the texts beside them.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// leastCoverage is the percentage of a licence file that must be known licence text. Copyright
// lines and headings are the rest; real files have 80 and more.
const leastCoverage = 75

var (
	licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents)([.-].*)?$`)
)

// Collect reads the licences of the packages, by module, sorted by path. goroot is where the
// standard library's own are, goVersion its version.
func Collect(packages []build.Package, goroot, goVersion string) ([]Module, error) {
	type source struct {
		version, root string
		dirs          map[string]bool
	}
	sources := map[string]*source{}
	for _, p := range packages {
		name, version, root, dir := StandardLibrary, goVersion, goroot, goroot
		if !p.Standard {
			if p.Module == nil {
				return nil, fmt.Errorf("package %s belongs to no module", p.ImportPath)
			}
			if p.Module.Main {
				continue
			}
			m := p.Module
			if m.Replace != nil {
				return nil, fmt.Errorf("module %s is replaced by %s; a release is made of published modules", m.Path, m.Replace.Path)
			}
			name, version, root, dir = m.Path, m.Version, m.Dir, p.Dir
		}
		s := sources[name]
		if s == nil {
			s = &source{version: version, root: root, dirs: map[string]bool{}}
			sources[name] = s
		}
		// Every folder from the package up to the module: a package that was taken over from
		// elsewhere keeps its licence beside it (klauspost/compress has several).
		for {
			s.dirs[dir] = true
			if dir == root {
				break
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				return nil, fmt.Errorf("package %s lies outside its module %s", p.ImportPath, root)
			}
			dir = parent
		}
	}
	var modules []Module
	for name, s := range sources {
		m, err := read(name, s.version, s.root, s.dirs)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// read reads the texts in the folders dirs of one module.
func read(name, version, root string, dirs map[string]bool) (Module, error) {
	m := Module{Path: name, Version: version}
	var ids []string
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return Module{}, fmt.Errorf("read licences of %s: %w", name, err)
		}
		for _, e := range entries {
			isLicence := licenceName.MatchString(e.Name())
			// licence.go is a program, not a text.
			if !e.Type().IsRegular() || !isLicence && !noticeName.MatchString(e.Name()) || path.Ext(e.Name()) == ".go" {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return Module{}, fmt.Errorf("read licences of %s: %w", name, err)
			}
			inside, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return Module{}, fmt.Errorf("read licences of %s: %w", name, err)
			}
			if isLicence {
				found, err := Identify(data)
				if err != nil {
					return Module{}, fmt.Errorf("licence of %s@%s, file %s: %w", name, version, inside, err)
				}
				ids = append(ids, found...)
			}
			m.Texts = append(m.Texts, Text{Name: filepath.ToSlash(inside), Data: string(data)})
		}
	}
	if len(ids) == 0 {
		return Module{}, fmt.Errorf("module %s@%s has no licence text in %s; it cannot be shipped", name, version, root)
	}
	slices.SortFunc(m.Texts, func(a, b Text) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(ids)
	m.SPDX = strings.Join(slices.Compact(ids), " AND ")
	return m, nil
}

// Identify names the licences in a text by their SPDX identifiers.
func Identify(text []byte) ([]string, error) {
	coverage := licensecheck.Scan(text)
	var ids []string
	for _, match := range coverage.Match {
		if match.IsURL {
			continue
		}
		if !slices.Contains(accepted, match.ID) {
			return nil, fmt.Errorf("%s is not among the accepted licences (%s)", match.ID, strings.Join(accepted, ", "))
		}
		ids = append(ids, match.ID)
	}
	if len(ids) == 0 || coverage.Percent < leastCoverage {
		return nil, fmt.Errorf("%.0f %% of the text is a known licence, at least %d %% must be", coverage.Percent, leastCoverage)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
