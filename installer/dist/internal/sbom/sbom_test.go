package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
	"github.com/tokenscope/tokenscope/installer/dist/internal/licence"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("elsewhere", 3600))

// fixture gives programs that are linked as this test is, and a licence for each module.
func fixture(t *testing.T) (map[string]build.Program, []licence.Module) {
	t.Helper()
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "github.com/cilium/ebpf", Version: "v0.22.0", Sum: "h1:sum-of-ebpf="},
		{Path: "github.com/Azure/Upper", Version: "v0.0.0-20240521201337-686a1a2994c1", Sum: "h1:sum-of-upper="},
		{Path: "gopkg.in/plus.v2", Version: "v2.0.0+incompatible", Sum: "h1:sum-of-plus="},
	}}
	modules := []licence.Module{{Path: licence.StandardLibrary, Version: goVersion(info), SPDX: "BSD-3-Clause"}}
	for _, m := range info.Deps {
		modules = append(modules, licence.Module{Path: m.Path, Version: m.Version, SPDX: "MIT AND ISC"})
	}
	// bootstrap is linked with less.
	few := *info
	few.Deps = info.Deps[:1]
	return map[string]build.Program{
		"instrument": {Data: []byte("one"), Info: info},
		"bootstrap":  {Data: []byte("two"), Info: &few},
	}, modules
}

func write(t *testing.T) ([]byte, *cdx.BOM) {
	t.Helper()
	programs, modules := fixture(t)
	data, err := Write("arm64", "1.2.3+5.gabc", at, programs, modules)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return data, &bom
}

func TestHead(t *testing.T) {
	_, bom := write(t)
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Version != 1 || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Errorf("specification %v, version %d, serial number %q", bom.SpecVersion, bom.Version, bom.SerialNumber)
	}
	if got := bom.Metadata.Timestamp; got != "2026-03-04T04:06:07Z" {
		t.Errorf("timestamp = %s; want the commit's, in UTC", got)
	}
	if got := bom.Metadata.Component.PackageURL; got != "pkg:golang/github.com/tokenscope/tokenscope@v1.2.3%2B5.gabc" {
		t.Errorf("package URL = %s", got)
	}
}

func TestComponents(t *testing.T) {
	_, bom := write(t)
	programs, modules := fixture(t)
	byName := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		if _, twice := byName[c.Name]; twice {
			t.Errorf("%s is listed twice", c.Name)
		}
		byName[c.Name] = c
	}
	if want := len(programs) + len(modules); len(byName) != want {
		t.Errorf("%d components; want %d: the programs and every module", len(byName), want)
	}
	for name, p := range programs {
		sum := sha256.Sum256(p.Data)
		if c := byName[name]; c.Hashes == nil || (*c.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
			t.Errorf("hash of %s = %v; want %x", name, c.Hashes, sum)
		}
	}
	for _, m := range modules {
		c := byName[m.Path]
		if c.Version != m.Version || c.Licenses == nil || (*c.Licenses)[0].Expression != m.SPDX {
			t.Errorf("%s: version %q, licences %v; want %s, %s", m.Path, c.Version, c.Licenses, m.Version, m.SPDX)
		}
	}
	for name, want := range map[string]string{
		"std":                    "pkg:golang/std@1.26.8",
		"github.com/Azure/Upper": "pkg:golang/github.com/azure/upper@v0.0.0-20240521201337-686a1a2994c1",
		"gopkg.in/plus.v2":       "pkg:golang/gopkg.in/plus.v2@v2.0.0%2Bincompatible",
	} {
		if got := byName[name].PackageURL; got != want {
			t.Errorf("package URL of %s = %s; want %s", name, got, want)
		}
	}
	if p := byName["github.com/cilium/ebpf"].Properties; p == nil || (*p)[0].Value != "h1:sum-of-ebpf=" {
		t.Errorf("properties of github.com/cilium/ebpf = %v; want its line of go.sum", p)
	}
}

// Each program depends on what it is linked with, and every reference leads somewhere.
func TestDependencies(t *testing.T) {
	_, bom := write(t)
	refs := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, c := range *bom.Components {
		refs[c.BOMRef] = true
	}
	edges := map[string][]string{}
	for _, d := range *bom.Dependencies {
		edges[d.Ref] = *d.Dependencies
		for _, ref := range append([]string{d.Ref}, *d.Dependencies...) {
			if !refs[ref] {
				t.Errorf("reference %s leads to no component", ref)
			}
		}
	}
	if got, want := edges[bom.Metadata.Component.BOMRef], []string{"program:instrument", "program:bootstrap"}; !slices.Equal(got, want) {
		t.Errorf("tokenscope consists of %q; want %q", got, want)
	}
	programs, _ := fixture(t)
	for name, p := range programs {
		if got, want := len(edges["program:"+name]), len(p.Info.Deps)+1; got != want {
			t.Errorf("%s depends on %d components; want %d", name, got, want)
		}
	}
}

func TestWriteIsReproducible(t *testing.T) {
	first, one := write(t)
	second, _ := write(t)
	if !bytes.Equal(first, second) {
		t.Error("two documents of one release differ")
	}
	programs, modules := fixture(t)
	other := programs["instrument"]
	other.Data = []byte("another build")
	programs["instrument"] = other
	data, err := Write("arm64", "1.2.3+5.gabc", at, programs, modules)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(one.SerialNumber)) {
		t.Error("another build has the same serial number")
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(map[string]build.Program, *[]licence.Module)
		want  string
	}{
		{"a module whose licence nobody read", func(_ map[string]build.Program, m *[]licence.Module) { *m = (*m)[:1] }, "licence was not collected"},
		{"another version than the one whose licence was read", func(_ map[string]build.Program, m *[]licence.Module) {
			(*m)[1].Version = "v0.0.1"
		}, "licence was not collected"},
		{"a replaced module", func(p map[string]build.Program, _ *[]licence.Module) {
			info := *p["instrument"].Info
			replaced := *info.Deps[0]
			replaced.Replace = &debug.Module{Path: "../fork"}
			info.Deps = append([]*debug.Module{&replaced}, info.Deps[1:]...)
			p["instrument"] = build.Program{Data: []byte("one"), Info: &info}
		}, "is replaced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			programs, modules := fixture(t)
			tt.spoil(programs, &modules)
			if _, err := Write("amd64", "1.2.3", at, programs, modules); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Write() error = %v; want %q", err, tt.want)
			}
		})
	}
}
