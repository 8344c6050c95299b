// Package deb writes Debian packages. They depend on nothing, since the programs are static, and
// have no scripts: unpacking is all that happens.
package deb

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goreleaser/nfpm/v2"
	nfpmdeb "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/tarball"
)

// documents is where Debian policy 12 wants what is to be read.
const documents = "usr/share/doc/" + payload.Project

// Release gives the package. version is by Debian policy.
func Release(r *payload.Release, version string) (name string, data []byte, err error) {
	scratch, err := os.MkdirTemp("", "tokenscope-deb-")
	if err != nil {
		return "", nil, fmt.Errorf("deb: %w", err)
	}
	defer os.RemoveAll(scratch)
	list, err := contents(r)
	if err != nil {
		return "", nil, fmt.Errorf("deb: %w", err)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: payload.Project, Arch: r.Arch, Platform: "linux",
		Version: version, VersionSchema: "none", // as it is: nfpm would take it apart by semver
		Section: "admin", Priority: "optional",
		Maintainer: payload.Maintainer, Homepage: payload.Homepage, License: payload.Licences,
		Description: payload.Summary + "\n" + description,
		MTime:       r.Time,
	})
	// xz: zstd is not read by the dpkg of Debian 11.
	info.Deb.Compression = "xz"
	for i, f := range list {
		content, err := nfpmContent(f, r, filepath.Join(scratch, strconv.Itoa(i)))
		if err != nil {
			return "", nil, fmt.Errorf("deb: %w", err)
		}
		info.Contents = append(info.Contents, content)
	}
	var b bytes.Buffer
	if err := nfpmdeb.Default.Package(info, &b); err != nil {
		return "", nil, fmt.Errorf("deb: %w", err)
	}
	return fmt.Sprintf("%s_%s_%s.deb", payload.Project, version, r.Arch), b.Bytes(), nil
}

// description is the long form; nfpm indents it.
const description = `Runs vLLM and SGLang servers unchanged and reports what happens to each request
as OpenTelemetry traces: how long it waited, how long prefill took, when each
token came out. It watches from outside, with eBPF or a preloaded library.`

func contents(r *payload.Release) ([]payload.File, error) {
	changelog, err := tarball.Gzip(r.Changelog) // policy 12.7: compressed, under this name
	if err != nil {
		return nil, err
	}
	return append(r.Commands("usr/bin"),
		payload.Regular(documents+"/copyright", copyright(r)),
		payload.Regular(documents+"/changelog.gz", changelog),
		payload.Regular(documents+"/"+payload.ThirdPartyFile, r.ThirdParty),
		payload.Regular(documents+"/"+payload.SBOMFile, r.SBOM),
	), nil
}

// copyright is the file of policy 12.5; the licence's whole text stands in it.
func copyright(r *payload.Release) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, from %s\nCopyright the Tokenscope authors\nLicence: %s\n"+
		"What the programs are linked with: %s in this folder.\n\n",
		payload.Project, payload.Homepage, payload.Licences, payload.ThirdPartyFile)
	b.Write(r.Licence)
	return b.Bytes()
}

// nfpmContent puts a file where nfpm reads it from, and names it.
func nfpmContent(f payload.File, r *payload.Release, scratch string) (*files.Content, error) {
	c := &files.Content{
		Destination: "/" + f.Path, Source: scratch,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.Mode.Perm(), MTime: r.Time},
	}
	if f.Mode.Type() == fs.ModeSymlink {
		c.Type, c.Source = files.TypeSymlink, f.Link
		return c, nil
	}
	if err := os.WriteFile(scratch, f.Data, 0o600); err != nil {
		return nil, fmt.Errorf("write %s: %w", f.Path, err)
	}
	return c, nil
}
