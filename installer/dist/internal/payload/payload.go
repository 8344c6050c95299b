// Package payload holds what goes into the artefacts, before it takes the form of any of them:
// files with a path, a mode and bytes. Owners and times are the same everywhere (root, the time
// of the commit), so they are no part of a File; whoever writes an archive sets them.
package payload

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Names of the programs. SecondName is another name of Launcher, for a PATH on which some other
// program of that name comes first.
const (
	Launcher   = "instrument"
	Bootstrap  = "bootstrap"
	SecondName = "tokenscope"
)

// Programs are the commands that are built, in the order in which they are listed everywhere.
var Programs = []string{Launcher, Bootstrap}

// Texts of every artefact.
const (
	LicenceFile    = "LICENSE"
	ThirdPartyFile = "THIRD_PARTY_LICENSES"
	SBOMFile       = "tokenscope.cdx.json"
)

// What the metadata of every artefact says of the project.
const (
	Project  = "tokenscope"
	Homepage = "https://github.com/tokenscope/tokenscope"
	Summary  = "OpenTelemetry agent and launcher for LLM inference servers"
	// Maintainer is in the form of RFC 5322, which Debian's control file wants.
	Maintainer = "Tokenscope maintainers <tokenscope@users.noreply.github.com>"
	// Licences is the SPDX expression of all that is in the binaries of this repository: the
	// programs, and the kernel programs inside, which are dual licensed.
	Licences = "Apache-2.0 AND (MIT OR GPL-2.0-only)"
)

// File is one file, directory or symbolic link.
type File struct {
	Path string      // relative, with slashes
	Mode fs.FileMode // type and permissions
	Data []byte      // of a regular file
	Link string      // target of a symbolic link
}

// Release is what all artefacts of one architecture are made of.
type Release struct {
	Arch       string            // as Go names it
	Programs   map[string][]byte // by name
	Licence    []byte            // of this repository
	ThirdParty []byte            // of what the programs are linked with
	SBOM       []byte
	Readme     []byte
	Changelog  []byte
	Time       time.Time // of the commit, whole seconds
}

// Regular is a file that everyone may read.
func Regular(name string, data []byte) File { return File{Path: name, Mode: 0o644, Data: data} }

// Executable is a file that everyone may run.
func Executable(name string, data []byte) File { return File{Path: name, Mode: 0o755, Data: data} }

// Symlink is a symbolic link.
func Symlink(name, target string) File {
	return File{Path: name, Mode: fs.ModeSymlink | 0o777, Link: target}
}

// Commands are the programs below the directory bin, with the second name as a link.
func (r *Release) Commands(bin string) []File {
	var list []File
	for _, name := range Programs {
		list = append(list, Executable(path.Join(bin, name), r.Programs[name]))
	}
	return append(list, Symlink(path.Join(bin, SecondName), Launcher))
}

// Documents are the texts that must go with the programs, below the directory dir.
func (r *Release) Documents(dir string) []File {
	return []File{
		Regular(path.Join(dir, LicenceFile), r.Licence),
		Regular(path.Join(dir, ThirdPartyFile), r.ThirdParty),
		Regular(path.Join(dir, SBOMFile), r.SBOM),
	}
}

// WithParents adds the directories above the files and sorts all by path, so that a parent
// stands before what is in it. Directories that are already listed keep their mode.
func WithParents(list []File) []File {
	known := map[string]bool{}
	for _, f := range list {
		known[f.Path] = true
	}
	all := slices.Clone(list)
	for _, f := range list {
		for dir := path.Dir(f.Path); dir != "." && !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			all = append(all, File{Path: dir, Mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}
