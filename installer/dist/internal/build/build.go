// Package build compiles the programs, in an environment that is the same everywhere: what the
// builder has set for the go command (flags, CPU levels, experiments) must not reach the bytes.
package build

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// Builder says what is built and how.
type Builder struct {
	Root    string // of the product's module
	LDFlags string // one text, as -ldflags takes it
	Go      string // the go command; "go" where empty
}

// Program is one compiled command.
type Program struct {
	Data []byte
	Info *debug.BuildInfo // as the linker wrote it into the binary
}

// Package is one package that a program is linked with.
type Package struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *Module
}

// Module is a module as `go list` tells of it.
type Module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *Module
}

// fixed are the settings that change the bytes of a program: the least CPU of each architecture,
// no cgo. Version control is left out (-buildvcs=false below): the version is in the linker's
// flags, and a source archive without .git must give the same bytes as a clone.
var fixed = []string{
	"CGO_ENABLED=0", "GOOS=linux", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOWORK=off",
	// Never empty: the go command takes an empty variable for an unset one and then reads the
	// file that `go env -w` writes.
	"GOFLAGS=-mod=readonly",
}

// forgotten are variables that have no neutral value to be fixed at.
var forgotten = []string{"GOEXPERIMENT", "GODEBUG", "GOCOVERDIR"}

// environment is the builder's own, which knows its module proxy and cache, with every
// setting that would reach the bytes fixed.
func environment(arch string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name == "GOARCH" || slices.Contains(forgotten, name) ||
			slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") }) {
			continue
		}
		env = append(env, variable)
	}
	return append(append(env, fixed...), "GOARCH="+arch)
}

// Build compiles ./cmd/NAME for linux on the architecture arch.
func (b *Builder) Build(ctx context.Context, arch, name string) (Program, error) {
	scratch, err := os.MkdirTemp("", "tokenscope-dist-")
	if err != nil {
		return Program{}, fmt.Errorf("build %s: %w", name, err)
	}
	defer os.RemoveAll(scratch)
	file := filepath.Join(scratch, name)
	if _, err := b.run(ctx, arch, "build", "-trimpath", "-buildvcs=false", "-ldflags", b.LDFlags, "-o", file, "./cmd/"+name); err != nil {
		return Program{}, fmt.Errorf("build %s for linux/%s: %w", name, arch, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Program{}, fmt.Errorf("build %s: %w", name, err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return Program{}, fmt.Errorf("read build information of %s: %w", name, err)
	}
	if err := checkSettings(info, arch); err != nil {
		return Program{}, fmt.Errorf("build %s for linux/%s: %w", name, arch, err)
	}
	return Program{Data: data, Info: info}, nil
}

// expected are the build settings that a program may have; another one (GOEXPERIMENT from the
// file of `go env -w`, say) means that this machine's configuration reached the bytes.
var expected = map[string][]string{
	"-buildmode": {"exe"}, "-compiler": {"gc"}, "-trimpath": {"true"}, "CGO_ENABLED": {"0"},
	"GOOS": {"linux"}, "GOARCH": {"amd64", "arm64"}, "GOAMD64": {"v1"}, "GOARM64": {"v8.0"}, "GOFIPS140": {"off"},
}

func checkSettings(info *debug.BuildInfo, arch string) error {
	for _, s := range info.Settings {
		// The product's own go.mod gives the default GODEBUG: part of the source.
		if s.Key == "DefaultGODEBUG" {
			continue
		}
		if !slices.Contains(expected[s.Key], s.Value) || s.Key == "GOARCH" && s.Value != arch {
			return fmt.Errorf("the build setting %s=%s comes from this machine's configuration (go env); unset it", s.Key, s.Value)
		}
	}
	return nil
}

// Packages lists what ./cmd/NAME is linked with on the architecture arch, the standard library
// included.
func (b *Builder) Packages(ctx context.Context, arch, name string) ([]Package, error) {
	out, err := b.run(ctx, arch, "list", "-deps", "-json=ImportPath,Dir,Standard,Module", "./cmd/"+name)
	if err != nil {
		return nil, fmt.Errorf("list packages of %s: %w", name, err)
	}
	var list []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages of %s: %w", name, err)
		}
		list = append(list, p)
	}
}

// GoRoot is the folder of the Go release that builds.
func (b *Builder) GoRoot(ctx context.Context) (string, error) {
	out, err := b.run(ctx, "amd64", "env", "GOROOT")
	if err != nil {
		return "", fmt.Errorf("find the Go release: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// run gives the go command's output; its complaints are in the error.
func (b *Builder) run(ctx context.Context, arch string, args ...string) ([]byte, error) {
	program := b.Go
	if program == "" {
		program = "go"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = b.Root, environment(arch)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
