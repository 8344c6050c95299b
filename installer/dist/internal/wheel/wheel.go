// Package wheel writes Python wheels (PyPA's binary distribution format, wheel 1.0) that hold
// programs and no Python: pip puts them into the environment's bin folder as they are.
//
//	tokenscope-V.data/scripts/instrument     the programs
//	tokenscope-V.data/scripts/bootstrap
//	tokenscope-V.data/scripts/tokenscope     the second name
//	tokenscope-V.dist-info/METADATA WHEEL RECORD licenses/ sboms/
//
// A wheel can hold no symbolic link, and a copy of instrument would double its size for a name
// that few need. So the second name is two lines of shell that start what lies beside them; where
// there is no shell there is no pip either. `bootstrap -a install` makes a link of it.
package wheel

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
)

// platforms are the tags of each architecture. The programs are static, so that glibc and musl
// are the same to them. manylinux2014 is the older name of manylinux_2_17, for a pip before 20.3
// (Ubuntu 20.04 has 20.0).
var platforms = map[string][]string{
	"amd64": {"manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64"},
	"arm64": {"manylinux2014_aarch64", "manylinux_2_17_aarch64", "musllinux_1_1_aarch64"},
}

// secondName starts instrument under its second name. readlink -f, since it may be reached by a
// link from elsewhere; exec, so that no shell stands between the caller and the program.
const secondName = `#!/bin/sh
here=$(readlink -f -- "$0") && exec "${here%/*}/` + payload.Launcher + `" "$@"
`

// earliest is the first time that a zip archive can say.
var earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Release gives the wheel. version is by PEP 440, in its normal form.
func Release(r *payload.Release, version string) (name string, data []byte, err error) {
	tags := platforms[r.Arch]
	if tags == nil {
		return "", nil, fmt.Errorf("wheel: no platform tag is known for %s", r.Arch)
	}
	if r.Time.Before(earliest) {
		return "", nil, fmt.Errorf("wheel: a zip archive cannot hold the time %s; SOURCE_DATE_EPOCH must be 1980 or later", r.Time.UTC().Format(time.RFC3339))
	}
	stem := payload.Project + "-" + version
	files := contents(r, version, stem, tags)
	record, err := record(files, stem+".dist-info/RECORD")
	if err != nil {
		return "", nil, fmt.Errorf("wheel: %w", err)
	}
	// RECORD is the last, as the format recommends: it can be read without the rest.
	data, err = archive(append(files, record), r.Time)
	if err != nil {
		return "", nil, fmt.Errorf("wheel: %w", err)
	}
	return stem + "-py3-none-" + strings.Join(tags, ".") + ".whl", data, nil
}

// contents are all files but RECORD.
func contents(r *payload.Release, version, stem string, tags []string) []payload.File {
	scripts, info := stem+".data/scripts/", stem+".dist-info/"
	var files []payload.File
	for _, program := range payload.Programs {
		files = append(files, payload.Executable(scripts+program, r.Programs[program]))
	}
	return append(files,
		payload.Executable(scripts+payload.SecondName, []byte(secondName)),
		payload.Regular(info+"METADATA", metadata(r, version)),
		payload.Regular(info+"WHEEL", wheelFile(tags)),
		// Where PEP 639 and PEP 770 put licences and software bills of materials.
		payload.Regular(info+"licenses/"+payload.LicenceFile, r.Licence),
		payload.Regular(info+"licenses/"+payload.ThirdPartyFile, r.ThirdParty),
		payload.Regular(info+"sboms/"+payload.SBOMFile, r.SBOM),
	)
}

// metadata is the core metadata, version 2.4, with the README as its description. No Python
// version is asked for: nothing here is run by Python.
func metadata(r *payload.Release, version string) []byte {
	var b bytes.Buffer
	for _, field := range [][2]string{
		{"Metadata-Version", "2.4"},
		{"Name", payload.Project},
		{"Version", version},
		{"Summary", payload.Summary},
		{"Project-URL", "Homepage, " + payload.Homepage},
		{"Maintainer-email", payload.Maintainer},
		{"License-Expression", payload.Licences},
		{"License-File", payload.LicenceFile},
		{"License-File", payload.ThirdPartyFile},
		{"Keywords", "opentelemetry,llm,vllm,sglang,inference,tracing,ebpf"},
		{"Classifier", "Environment :: Console"},
		{"Classifier", "Operating System :: POSIX :: Linux"},
		{"Classifier", "Programming Language :: Go"},
		{"Classifier", "Topic :: System :: Monitoring"},
		{"Description-Content-Type", "text/markdown; charset=UTF-8; variant=GFM"},
	} {
		fmt.Fprintf(&b, "%s: %s\n", field[0], field[1])
	}
	b.WriteByte('\n')
	b.Write(r.Readme)
	return b.Bytes()
}

// wheelFile says how to install: not into purelib, since it is made for one architecture.
func wheelFile(tags []string) []byte {
	var b bytes.Buffer
	b.WriteString("Wheel-Version: 1.0\nGenerator: tokenscope-dist\nRoot-Is-Purelib: false\n")
	for _, tag := range tags {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", tag)
	}
	return b.Bytes()
}

// record lists every file with its hash and size, itself with neither.
func record(files []payload.File, name string) (payload.File, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, f := range files {
		sum := sha256.Sum256(f.Data)
		if err := w.Write([]string{f.Path, "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), strconv.Itoa(len(f.Data))}); err != nil {
			return payload.File{}, fmt.Errorf("record %s: %w", f.Path, err)
		}
	}
	if err := w.Write([]string{name, "", ""}); err != nil {
		return payload.File{}, fmt.Errorf("record %s: %w", name, err)
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return payload.File{}, fmt.Errorf("write %s: %w", path.Base(name), err)
	}
	return payload.Regular(name, b.Bytes()), nil
}

// archive makes the zip file.
func archive(files []payload.File, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, f := range files {
		// UTC: the header's first form of the time is a local one.
		h := &zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: at.UTC()}
		h.SetMode(f.Mode)
		out, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.Path, err)
		}
		if _, err := out.Write(f.Data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return b.Bytes(), nil
}
