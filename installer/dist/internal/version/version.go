// Package version turns what `git describe` says into the version numbers of the artefacts. Each
// ecosystem has an order of its own (PEP 440 for wheels, Debian policy 5.6.12 for packages,
// semantic versioning for the rest); builds between two releases sort between them in all three.
package version

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is one state of the source.
type Version struct {
	// Describe is the text of git describe, as the binaries print it.
	Describe string

	base     string // "1.2.3"; "" before the first release
	stage    string // "alpha", "beta" or "rc"; "" for a final release
	stageNo  int
	commits  int    // since the release, or since the beginning where there is none
	commit   string // short hash; "" exactly on a release
	modified bool   // the tree differed from the commit
}

var (
	tagged   = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?(?:-(\d+)-g([0-9a-f]{7,40}))?(-dirty)?$`)
	untagged = regexp.MustCompile(`^([0-9a-f]{7,40})(-dirty)?$`)
)

// Parse reads the output of `git describe --tags --always --dirty`. commits is the number of
// commits of the history; it is used only where there is no release tag yet.
func Parse(describe string, commits int) (Version, error) {
	v := Version{Describe: describe}
	if m := untagged.FindStringSubmatch(describe); m != nil {
		if commits < 1 {
			return Version{}, fmt.Errorf("version %q has no release tag, and the number of commits by which it would be ordered is not known: "+
				"fetch the whole history (git fetch --unshallow --tags), or give a version: make dist VERSION=v1.2.3", describe)
		}
		v.commits, v.commit, v.modified = commits, m[1], m[2] != ""
		return v, nil
	}
	m := tagged.FindStringSubmatch(describe)
	if m == nil {
		return Version{}, fmt.Errorf("version %q is neither a release (v1.2.3, v1.2.3-rc.1) nor the output of git describe; "+
			"outside a clone give one: make dist VERSION=v1.2.3", describe)
	}
	v.base, v.stage, v.commit, v.modified = m[1], m[2], m[5], m[6] != ""
	for _, number := range []struct {
		text string
		to   *int
	}{{m[3], &v.stageNo}, {m[4], &v.commits}} {
		if number.text == "" {
			continue
		}
		n, err := strconv.Atoi(number.text)
		if err != nil {
			return Version{}, fmt.Errorf("version %q: %w", describe, err)
		}
		*number.to = n
	}
	return v, nil
}

// PEP440 is the version of the wheel. A commit goes into the local part, which an index such as
// PyPI refuses: only releases can be uploaded.
func (v Version) PEP440() string {
	if v.base == "" {
		return fmt.Sprintf("0.0.0.dev%d+%s", v.commits, v.local())
	}
	text := v.base
	if v.stage != "" {
		text += map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[v.stage] + strconv.Itoa(v.stageNo)
	}
	if v.commits > 0 {
		text += ".post" + strconv.Itoa(v.commits)
	}
	if local := v.local(); local != "" {
		text += "+" + local
	}
	return text
}

// Debian is the version of the package: "~" sorts before the end of the text, "+" behind it.
func (v Version) Debian() string {
	if v.base == "" {
		return fmt.Sprintf("0.0.0~dev%d+%s", v.commits, v.local())
	}
	text := v.base
	if v.stage != "" {
		text += fmt.Sprintf("~%s.%d", v.stage, v.stageNo)
	}
	return text + v.build()
}

// Semantic is the version by semver.org, without a leading v: in file names, the SBOM and the
// image's labels.
func (v Version) Semantic() string {
	if v.base == "" {
		return fmt.Sprintf("0.0.0-dev.%d+%s", v.commits, v.local())
	}
	text := v.base
	if v.stage != "" {
		text += fmt.Sprintf("-%s.%d", v.stage, v.stageNo)
	}
	return text + v.build()
}

// Tag is Semantic in the letters that an image's tag may have: no "+".
func (v Version) Tag() string { return strings.ReplaceAll(v.Semantic(), "+", "_") }

// build is what follows a release in Debian and Semantic.
func (v Version) build() string {
	local := v.local()
	switch {
	case local == "":
		return ""
	case v.commits > 0:
		return fmt.Sprintf("+%d.%s", v.commits, local)
	}
	return "+" + local
}

// local names the commit and whether the tree differed from it.
func (v Version) local() string {
	var parts []string
	if v.commit != "" {
		parts = append(parts, "g"+v.commit)
	}
	if v.modified {
		parts = append(parts, "dirty")
	}
	return strings.Join(parts, ".")
}
