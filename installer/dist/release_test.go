package main

// The release as a whole, with programs of a few bytes; what compiles is tested in
// internal/build, real artefacts in e2e.

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/build"
	"github.com/tokenscope/tokenscope/installer/dist/internal/licence"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/version"
)

// fixture is a repository with nothing but its texts, and what was compiled from it.
func fixture(t *testing.T) (options, *compiled) {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("text of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made := &compiled{
		programs: map[string]map[string]build.Program{},
		modules:  []licence.Module{{Path: licence.StandardLibrary, Version: "1.26.8", SPDX: "BSD-3-Clause"}},
	}
	for _, arch := range architectures {
		made.programs[arch] = map[string]build.Program{}
		for _, name := range payload.Programs {
			made.programs[arch][name] = build.Program{Data: []byte(name + arch), Info: &debug.BuildInfo{GoVersion: "go1.26.8"}}
		}
	}
	return options{root: root, out: filepath.Join(t.TempDir(), "deep", "dist"), log: t.Logf}, made
}

func TestPack(t *testing.T) {
	o, made := fixture(t)
	v, err := version.Parse("v1.3.0-rc.2", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1796073736, 0)
	artefacts, err := pack(o, v, at, made)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"SHA256SUMS",
		"THIRD_PARTY_LICENSES",
		"tokenscope-1.3.0-rc.2-linux-amd64.cdx.json",
		"tokenscope-1.3.0-rc.2-linux-amd64.tar.gz",
		"tokenscope-1.3.0-rc.2-linux-arm64.cdx.json",
		"tokenscope-1.3.0-rc.2-linux-arm64.tar.gz",
		"tokenscope-1.3.0-rc.2-oci.tar",
		"tokenscope-1.3.0rc2-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl",
		"tokenscope-1.3.0rc2-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
		"tokenscope_1.3.0~rc.2_amd64.deb",
		"tokenscope_1.3.0~rc.2_arm64.deb",
	}
	if got := slices.Sorted(maps.Keys(artefacts)); !slices.Equal(got, want) {
		t.Errorf("artefacts:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := strings.Count(string(artefacts["SHA256SUMS"]), "\n"); got != len(want)-1 {
		t.Errorf("SHA256SUMS lists %d files; want all %d others", got, len(want)-1)
	}
	again, err := pack(o, v, at.In(time.FixedZone("elsewhere", 7200)), made)
	if err != nil {
		t.Fatal(err)
	}
	for name := range artefacts {
		if !bytes.Equal(artefacts[name], again[name]) {
			t.Errorf("%s is another one the second time", name)
		}
	}
}

func TestWrite(t *testing.T) {
	o, _ := fixture(t)
	if err := write(o, map[string][]byte{"a": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(o.out, "a"))
	if err != nil || string(data) != "x" {
		t.Errorf("a = %q, %v", data, err)
	}
	entries, err := os.ReadDir(filepath.Dir(o.out))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the output folder lie %v, %v; want nothing", entries, err)
	}
	if err := mustBeEmpty(o.out); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("mustBeEmpty() of an old release = %v; want an error", err)
	}
}

// repository makes a git repository of two commits and gives its folder.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"commit", "--quiet", "--allow-empty", "-m", "one"},
		{"commit", "--quiet", "--allow-empty", "-m", "two"},
	} {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-03-04T05:06:07Z", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	return root
}

func TestCommitTime(t *testing.T) {
	root := repository(t)
	tests := []struct {
		name, root, epoch string
		want              string // "" for an error
	}{
		{"of the commit", root, "", "2026-03-04T05:06:07Z"},
		{"SOURCE_DATE_EPOCH goes first", root, "1796073736", "2026-11-30T21:22:16Z"},
		{"SOURCE_DATE_EPOCH outside a clone", t.TempDir(), "1796073736", "2026-11-30T21:22:16Z"},
		{"nothing to go by", t.TempDir(), "", ""},
		{"no number", root, "yesterday", ""},
		{"before 1970", root, "-1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := commitTime(t.Context(), tt.root, tt.epoch)
			if (err != nil) != (tt.want == "") || err == nil && got.Format(time.RFC3339) != tt.want {
				t.Errorf("commitTime() = %v, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestCommitCount(t *testing.T) {
	root := repository(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	if out, err := exec.Command("git", "clone", "--quiet", "--depth=1", "file://"+root, shallow).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, out)
	}
	for _, tt := range []struct {
		name, root string
		want       int
	}{{"a clone", root, 2}, {"a part of the history", shallow, 0}, {"no clone", t.TempDir(), 0}} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := commitCount(t.Context(), tt.root); err != nil || got != tt.want {
				t.Errorf("commitCount() = %d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1796073736")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a word", []string{"now"}, `unknown argument "now"`},
		{"an unknown flag", []string{"--fast"}, "not defined"},
		{"a folder with something in it", []string{"--out", full, "--version", "v1.2.3"}, "not empty"},
		{"no version", []string{"--out", t.TempDir()}, "make dist VERSION="},
		{"a commit outside a clone", []string{"--out", t.TempDir(), "--root", t.TempDir(), "--version", "f10bc809632b"}, "no release tag"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(context.Background(), tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v; want an error with %q", tt.args, err, tt.want)
			}
		})
	}
}
