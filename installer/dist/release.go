package main

// One release from beginning to end: build, read licences, write artefacts.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
	"github.com/tokenscope/tokenscope/installer/dist/internal/checksum"
	"github.com/tokenscope/tokenscope/installer/dist/internal/deb"
	"github.com/tokenscope/tokenscope/installer/dist/internal/image"
	"github.com/tokenscope/tokenscope/installer/dist/internal/licence"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/sbom"
	"github.com/tokenscope/tokenscope/installer/dist/internal/tarball"
	"github.com/tokenscope/tokenscope/installer/dist/internal/version"
	"github.com/tokenscope/tokenscope/installer/dist/internal/wheel"
)

// architectures are what is released.
var architectures = []string{"amd64", "arm64"}

type options struct {
	root, out, version, ldflags, epoch string

	log func(format string, args ...any)
}

// compiled is what the Go command made: programs by architecture and name, and the licences of
// all that is linked into any of them.
type compiled struct {
	programs map[string]map[string]build.Program
	modules  []licence.Module
}

func release(ctx context.Context, o options) error {
	if err := mustBeEmpty(o.out); err != nil {
		return err
	}
	at, err := commitTime(ctx, o.root, o.epoch)
	if err != nil {
		return err
	}
	commits, err := commitCount(ctx, o.root)
	if err != nil {
		return err
	}
	v, err := version.Parse(o.version, commits)
	if err != nil {
		return err
	}
	o.log("version %s (wheel %s, Debian %s), time %s", o.version, v.PEP440(), v.Debian(), at.Format(time.RFC3339))
	made, err := compile(ctx, o)
	if err != nil {
		return err
	}
	artefacts, err := pack(o, v, at, made)
	if err != nil {
		return err
	}
	return write(o, artefacts)
}

// compile builds every program for every architecture.
func compile(ctx context.Context, o options) (*compiled, error) {
	b := &build.Builder{Root: o.root, LDFlags: o.ldflags}
	goroot, err := b.GoRoot(ctx)
	if err != nil {
		return nil, err
	}
	made := &compiled{programs: map[string]map[string]build.Program{}}
	var packages []build.Package
	var goVersion string
	for _, arch := range architectures {
		made.programs[arch] = map[string]build.Program{}
		for _, name := range payload.Programs {
			o.log("build %s for linux/%s", name, arch)
			program, err := b.Build(ctx, arch, name)
			if err != nil {
				return nil, err
			}
			list, err := b.Packages(ctx, arch, name)
			if err != nil {
				return nil, err
			}
			made.programs[arch][name] = program
			packages = append(packages, list...)
			goVersion = sbom.GoVersion(program)
		}
	}
	made.modules, err = licence.Collect(packages, goroot, goVersion)
	return made, err
}

// pack gives all artefacts by name.
func pack(o options, v version.Version, at time.Time, made *compiled) (map[string][]byte, error) {
	common := payload.Release{Time: at, ThirdParty: licence.Document(made.modules)}
	for _, text := range []struct {
		name string
		to   *[]byte
	}{{payload.LicenceFile, &common.Licence}, {"README.md", &common.Readme}, {"CHANGELOG.md", &common.Changelog}} {
		data, err := os.ReadFile(filepath.Join(o.root, text.name))
		if err != nil {
			return nil, fmt.Errorf("read text of the release: %w", err)
		}
		*text.to = data
	}
	artefacts := map[string][]byte{payload.ThirdPartyFile: common.ThirdParty}
	var releases []*payload.Release
	for _, arch := range architectures {
		o.log("pack for linux/%s", arch)
		r := common
		r.Arch, r.Programs = arch, map[string][]byte{}
		for name, program := range made.programs[arch] {
			r.Programs[name] = program.Data
		}
		var err error
		if r.SBOM, err = sbom.Write(arch, v.Semantic(), at, made.programs[arch], made.modules); err != nil {
			return nil, err
		}
		artefacts[fmt.Sprintf("%s-%s-linux-%s.cdx.json", payload.Project, v.Semantic(), arch)] = r.SBOM
		for _, form := range []struct {
			pack    func(*payload.Release, string) (string, []byte, error)
			version string
		}{{wheel.Release, v.PEP440()}, {tarball.Release, v.Semantic()}, {deb.Release, v.Debian()}} {
			name, data, err := form.pack(&r, form.version)
			if err != nil {
				return nil, err
			}
			artefacts[name] = data
		}
		releases = append(releases, &r)
	}
	name, data, err := image.Release(releases, v)
	if err != nil {
		return nil, err
	}
	artefacts[name] = data
	artefacts[checksum.File] = checksum.List(artefacts)
	return artefacts, nil
}

// mustBeEmpty keeps an old release from being mixed with the new one.
func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look into the output folder: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("output folder %s is not empty; remove it first", dir)
	}
	return nil
}

// write puts the artefacts into the output folder, in the end all at once: a release that was
// interrupted leaves no folder that looks whole.
func write(o options, artefacts map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(o.out), ".dist-")
	if err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	for _, name := range slices.Sorted(maps.Keys(artefacts)) {
		if err := os.WriteFile(filepath.Join(scratch, name), artefacts[name], 0o644); err != nil {
			return fmt.Errorf("write artefact: %w", err)
		}
		o.log("%10d  %s", len(artefacts[name]), name)
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	// An empty folder may be replaced by a rename.
	if err := os.Rename(scratch, o.out); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	return nil
}
