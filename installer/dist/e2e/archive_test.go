//go:build e2e

package e2e

// The checksums, the tar.gz, and the bill of materials held against the binaries.

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestChecksums(t *testing.T) {
	need(t, "sha256sum")
	cmd := command(t, "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dist(t)
	checked := strings.Count(runCmd(t, cmd), ": OK\n")
	entries, err := os.ReadDir(dist(t))
	if err != nil {
		t.Fatal(err)
	}
	if checked != len(entries)-1 {
		t.Errorf("%d files are listed; want all but the list: %d", checked, len(entries)-1)
	}
}

// unpacked gives the folder of an unpacked tar.gz.
func unpacked(t *testing.T, arch string) string {
	t.Helper()
	need(t, "tar")
	archive := artefact(t, "tokenscope-*-linux-"+arch+".tar.gz")
	dir := t.TempDir()
	run(t, "tar", "-xzf", archive, "-C", dir)
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
}

func TestTar(t *testing.T) {
	dir := unpacked(t, runtime.GOARCH)
	works(t, func(name string, args ...string) string { return run(t, filepath.Join(dir, "bin", name), args...) })
}

// Both architectures' programs are static and for their machine.
func TestPrograms(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, name := range []string{"instrument", "bootstrap"} {
			t.Run(arch+" "+name, func(t *testing.T) {
				f, err := elf.Open(filepath.Join(unpacked(t, arch), "bin", name))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if f.Machine != machine {
					t.Errorf("machine = %v; want %v", f.Machine, machine)
				}
				for _, p := range f.Progs {
					if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
						t.Errorf("segment %v: the program is not static", p.Type)
					}
				}
			})
		}
	}
}

// The bill of materials and the licences name exactly the modules that are in the binaries.
func TestBillOfMaterials(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			dir := unpacked(t, arch)
			var want []string
			for _, name := range []string{"instrument", "bootstrap"} {
				info, err := buildinfo.ReadFile(filepath.Join(dir, "bin", name))
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, "std "+strings.TrimPrefix(info.GoVersion, "go"))
				for _, m := range info.Deps {
					want = append(want, m.Path+" "+m.Version)
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)

			data, err := os.ReadFile(filepath.Join(dir, "tokenscope.cdx.json"))
			if err != nil {
				t.Fatal(err)
			}
			var bom struct {
				Components []struct {
					Type, Name, Version string
					Licenses            []struct{ Expression string }
				}
			}
			if err := json.Unmarshal(data, &bom); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range bom.Components {
				if c.Type == "library" {
					got = append(got, c.Name+" "+c.Version)
				}
				if len(c.Licenses) != 1 || c.Licenses[0].Expression == "" {
					t.Errorf("%s has no licence", c.Name)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("bill of materials:\n%q\nlinked:\n%q", got, want)
			}
			licences, err := os.ReadFile(filepath.Join(dir, "THIRD_PARTY_LICENSES"))
			if err != nil {
				t.Fatal(err)
			}
			for _, module := range want {
				module = strings.Replace(module, "std ", "Go standard library ", 1)
				if !strings.Contains(string(licences), "  "+module+"  (") || !strings.Contains(string(licences), "\n"+module+": ") {
					t.Errorf("THIRD_PARTY_LICENSES has no licence of %s", module)
				}
			}
		})
	}
}
