// Package sbom writes the software bill of materials of one architecture's programs, in CycloneDX
// 1.6. What it lists is what the linker wrote into the binaries, not what go.mod asks for.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
	"github.com/tokenscope/tokenscope/installer/dist/internal/licence"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
)

// sumProperty holds a module's line of go.sum. It is no plain hash of a file, so it cannot stand
// among a component's hashes.
const sumProperty = payload.Project + ":go.sum"

// namespace makes the serial number from the contents, so that it is the same every time.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte(payload.Homepage))

// Write gives the document. modules are the licences of all that the programs may be linked
// with; a module without one is an error.
func Write(arch, semantic string, at time.Time, programs map[string]build.Program, modules []licence.Module) ([]byte, error) {
	licences := map[string]string{}
	for _, m := range modules {
		licences[m.Path+" "+m.Version] = m.SPDX
	}
	self := packageURL(strings.TrimPrefix(payload.Homepage, "https://"), "v"+semantic)
	libraries := map[string]cdx.Component{}
	var files []cdx.Component
	dependencies := []cdx.Dependency{{Ref: self, Dependencies: &[]string{}}}
	digest := sha256.New()
	for _, name := range payload.Programs {
		program := programs[name]
		sum := sha256.Sum256(program.Data)
		digest.Write(sum[:])
		ref := "program:" + name
		files = append(files, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: name, Version: semantic,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
			Licenses: &cdx.Licenses{{Expression: payload.Licences}},
			Properties: &[]cdx.Property{
				{Name: payload.Project + ":platform", Value: "linux/" + arch},
				{Name: payload.Project + ":toolchain", Value: program.Info.GoVersion},
			},
		})
		*dependencies[0].Dependencies = append(*dependencies[0].Dependencies, ref)
		list, err := components(program.Info, licences)
		if err != nil {
			return nil, fmt.Errorf("bill of materials of %s: %w", name, err)
		}
		// The linker knows what is linked, not which module asked for which.
		var refs []string
		for _, c := range list {
			libraries[c.BOMRef] = c
			refs = append(refs, c.BOMRef)
		}
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &refs})
	}
	all := files
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		all = append(all, libraries[ref])
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(namespace, digest.Sum(nil)).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: self, Type: cdx.ComponentTypeApplication, Name: payload.Project, Version: semantic,
			Description: payload.Summary, PackageURL: self,
			Licenses: &cdx.Licenses{{Expression: payload.Licences}},
		},
	}
	bom.Components, bom.Dependencies = &all, &dependencies

	var b bytes.Buffer
	// 1.6 rather than the library's newest: more readers know it.
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// components are the modules of one program, the standard library among them.
func components(info *debug.BuildInfo, licences map[string]string) ([]cdx.Component, error) {
	modules := []*debug.Module{{Path: licence.StandardLibrary, Version: goVersion(info)}}
	var list []cdx.Component
	for _, m := range append(modules, info.Deps...) {
		if m.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced; a release is made of published modules", m.Path)
		}
		expression, ok := licences[m.Path+" "+m.Version]
		if !ok {
			return nil, fmt.Errorf("module %s@%s is linked, but its licence was not collected", m.Path, m.Version)
		}
		ref := packageURL(m.Path, m.Version)
		c := cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: ref,
			Licenses: &cdx.Licenses{{Expression: expression}},
		}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: sumProperty, Value: m.Sum}}
		}
		list = append(list, c)
	}
	return list, nil
}

// packageURL names a module as the purl specification does for Go: in lower case, with "+" escaped.
func packageURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(url.PathEscape(version), "+", "%2B")
}

// goVersion is the release of Go, as "1.26.8".
func goVersion(info *debug.BuildInfo) string {
	// Experiments would follow a blank.
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return version
}

// GoVersion is the release of Go that linked a program.
func GoVersion(p build.Program) string { return goVersion(p.Info) }
