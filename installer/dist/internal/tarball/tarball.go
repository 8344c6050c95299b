// Package tarball writes tar archives whose bytes depend on nothing but the files: owner root,
// one time for all, no names of users, no time in the gzip header.
package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
)

// Write gives an uncompressed archive of the files and the directories above them, sorted.
func Write(list []payload.File, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range payload.WithParents(list) {
		h := &tar.Header{
			Name: f.Path, Mode: int64(f.Mode.Perm()), ModTime: at, Size: int64(len(f.Data)),
			Typeflag: tar.TypeReg, Linkname: f.Link,
			// PAX only where a name is too long for the old form; never the GNU form.
			Format: tar.FormatUnknown,
		}
		if f.Mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		switch f.Mode.Type() {
		case fs.ModeDir:
			h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(f.Path, "/")+"/"
		case fs.ModeSymlink:
			h.Typeflag = tar.TypeSymlink
		case 0:
		default:
			return nil, fmt.Errorf("archive %s: a file of type %v has no place here", f.Path, f.Mode.Type())
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.Path, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return b.Bytes(), nil
}

// WriteGzip is Write, compressed.
func WriteGzip(list []payload.File, at time.Time) ([]byte, error) {
	plain, err := Write(list, at)
	if err != nil {
		return nil, err
	}
	return Gzip(plain)
}

// Gzip compresses. The header has no name and no time: both would tell of the machine.
func Gzip(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return b.Bytes(), nil
}

// Release gives the archive for people who unpack it themselves: one folder, with bin in it.
func Release(r *payload.Release, semantic string) (name string, data []byte, err error) {
	folder := fmt.Sprintf("%s-%s-linux-%s", payload.Project, semantic, r.Arch)
	files := append(r.Commands(folder+"/bin"), r.Documents(folder)...)
	files = append(files,
		payload.Regular(folder+"/README.md", r.Readme),
		payload.Regular(folder+"/CHANGELOG.md", r.Changelog))
	data, err = WriteGzip(files, r.Time)
	if err != nil {
		return "", nil, fmt.Errorf("tar.gz for %s: %w", r.Arch, err)
	}
	return folder + ".tar.gz", data, nil
}
