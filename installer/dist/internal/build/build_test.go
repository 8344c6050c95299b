package build

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// module writes a small module with one command, cmd/hello, and gives its folder.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.com/hello\n\ngo 1.26\n",
		"cmd/hello/main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
	} {
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

func build(t *testing.T, arch string) Program {
	t.Helper()
	b := &Builder{Root: module(t), LDFlags: "-s -w -X main.version=v1.2.3-of-the-linker"}
	p, err := b.Build(t.Context(), arch, "hello")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBuild(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			p := build(t, arch)
			f, err := elf.NewFile(bytes.NewReader(p.Data))
			if err != nil {
				t.Fatal(err)
			}
			if f.Machine != machine {
				t.Errorf("machine = %v; want %v", f.Machine, machine)
			}
			for _, s := range f.Progs {
				if s.Type == elf.PT_INTERP || s.Type == elf.PT_DYNAMIC {
					t.Errorf("the program has a segment %v; want a static one", s.Type)
				}
			}
			if !bytes.Contains(p.Data, []byte("v1.2.3-of-the-linker")) {
				t.Error("the linker's flags did not reach the program")
			}
		})
	}
}

// What the builder has set for the go command, and where the source lies, change nothing.
func TestBuildIsReproducible(t *testing.T) {
	first := build(t, "amd64")
	for name, value := range map[string]string{
		"GOFLAGS": "-race -tags=netgo", "GOAMD64": "v3", "GOOS": "darwin", "GOARCH": "386", "CGO_ENABLED": "1",
		"GOEXPERIMENT": "arenas", "GODEBUG": "http2client=0", "GOFIPS140": "latest", "GOWORK": "/nowhere/go.work",
	} {
		t.Setenv(name, value)
	}
	second := build(t, "amd64")
	if !bytes.Equal(first.Data, second.Data) {
		t.Error("two builds of one source differ")
	}
}

func TestBuildSaysWhatFailed(t *testing.T) {
	root := module(t)
	if err := os.WriteFile(filepath.Join(root, "cmd/hello/main.go"), []byte("package main\n\nfunc main() { missing() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := (&Builder{Root: root}).Build(t.Context(), "amd64", "hello")
	if err == nil || !strings.Contains(err.Error(), "build hello for linux/amd64") || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("Build() error = %v; want the program's name and the compiler's words", err)
	}
}

func TestCheckSettings(t *testing.T) {
	tests := []struct {
		name    string
		setting debug.BuildSetting
		ok      bool
	}{
		{"as it is built here", debug.BuildSetting{Key: "GOAMD64", Value: "v1"}, true},
		{"a default of the product's go.mod", debug.BuildSetting{Key: "DefaultGODEBUG", Value: "x=1"}, true},
		{"a newer CPU", debug.BuildSetting{Key: "GOAMD64", Value: "v3"}, false},
		{"another architecture", debug.BuildSetting{Key: "GOARCH", Value: "arm64"}, false},
		{"an experiment", debug.BuildSetting{Key: "GOEXPERIMENT", Value: "arenas"}, false},
		{"cgo", debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}, false},
		{"build tags", debug.BuildSetting{Key: "-tags", Value: "netgo"}, false},
		{"version control", debug.BuildSetting{Key: "vcs.revision", Value: "f10bc80"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkSettings(&debug.BuildInfo{Settings: []debug.BuildSetting{tt.setting}}, "amd64")
			if (err == nil) != tt.ok {
				t.Errorf("checkSettings(%v) = %v; want it accepted: %t", tt.setting, err, tt.ok)
			}
		})
	}
}

func TestPackages(t *testing.T) {
	list, err := (&Builder{Root: module(t)}).Packages(t.Context(), "arm64", "hello")
	if err != nil {
		t.Fatal(err)
	}
	var standard, own bool
	for _, p := range list {
		standard = standard || p.ImportPath == "runtime" && p.Standard
		own = own || p.ImportPath == "example.com/hello/cmd/hello" && p.Module != nil && p.Module.Main
	}
	if !standard || !own {
		t.Errorf("Packages() = %d packages; runtime among them: %t, the command: %t", len(list), standard, own)
	}
}
