// Package image writes the container image from which an init container copies the programs into
// a volume that it shares with the server. There is no shell in it and nothing but our files:
//
//	/bin/{instrument,bootstrap,tokenscope}   /licenses/   /target (writable for all)
//
// Its command is `bootstrap -a install --prefix /target`. An empty volume that is mounted there
// takes over the folder's mode (Docker and Podman do so), so that it works for every user.
//
// The form is an OCI image layout in a tar file, with both architectures behind one name.
package image

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	gcrtarball "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/tarball"
	"github.com/tokenscope/tokenscope/installer/dist/internal/version"
)

// Target is the folder that the image's own command installs into.
const Target = "/target"

// user is a number, since Kubernetes' runAsNonRoot can check only numbers; it is the one that
// distroless images use for nobody in particular.
const user = "65532:65532"

// variants name the level of an architecture where the registry's clients compare it.
var variants = map[string]string{"arm64": "v8"}

// Release gives the layout of an image with all releases, one an architecture.
func Release(releases []*payload.Release, v version.Version) (name string, data []byte, err error) {
	scratch, err := os.MkdirTemp("", "tokenscope-image-")
	if err != nil {
		return "", nil, fmt.Errorf("image: %w", err)
	}
	defer os.RemoveAll(scratch)

	var index v1.ImageIndex = empty.Index
	for _, r := range releases {
		img, err := build(r, v)
		if err != nil {
			return "", nil, fmt.Errorf("image for %s: %w", r.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: r.Arch, Variant: variants[r.Arch]},
		}})
	}
	folder, err := layout.Write(filepath.Join(scratch, "layout"), empty.Index)
	if err != nil {
		return "", nil, fmt.Errorf("image: %w", err)
	}
	if err := folder.AppendIndex(index, layout.WithAnnotations(map[string]string{
		// The first is the specification's; containerd's import reads the second.
		"org.opencontainers.image.ref.name": payload.Project + ":" + v.Tag(),
		"io.containerd.image.name":          "localhost/" + payload.Project + ":" + v.Tag(),
	})); err != nil {
		return "", nil, fmt.Errorf("image: %w", err)
	}
	files, err := read(string(folder))
	if err != nil {
		return "", nil, fmt.Errorf("image: %w", err)
	}
	data, err = tarball.Write(files, releases[0].Time)
	if err != nil {
		return "", nil, fmt.Errorf("image: %w", err)
	}
	return fmt.Sprintf("%s-%s-oci.tar", payload.Project, v.Semantic()), data, nil
}

// build makes the image of one architecture.
func build(r *payload.Release, v version.Version) (v1.Image, error) {
	files := append(r.Commands("bin"), r.Documents("licenses")...)
	files = append(files, payload.File{Path: Target[1:], Mode: fs.ModeDir | 0o777})
	packed, err := tarball.WriteGzip(files, r.Time)
	if err != nil {
		return nil, err
	}
	// The opener gives bytes that are compressed already: they are taken as they are.
	layer, err := gcrtarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	}, gcrtarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	created := v1.Time{Time: r.Time.UTC()} // the zone would be written as well
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: r.Arch, Variant: variants[r.Arch], Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, WorkingDir: "/", Env: []string{"PATH=/bin"},
			Entrypoint: []string{"/bin/" + payload.Bootstrap},
			Cmd:        []string{"-a", "install", "--prefix", Target},
			Labels: map[string]string{
				"org.opencontainers.image.title":       payload.Project,
				"org.opencontainers.image.description": payload.Summary,
				"org.opencontainers.image.version":     v.Semantic(),
				"org.opencontainers.image.licenses":    payload.Licences,
				"org.opencontainers.image.source":      payload.Homepage,
				"org.opencontainers.image.created":     r.Time.UTC().Format(time.RFC3339),
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make configuration: %w", err)
	}
	img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: created, CreatedBy: "make dist", Comment: "static programs and their licences"},
	})
	if err != nil {
		return nil, fmt.Errorf("add layer: %w", err)
	}
	return img, nil
}

// read gives the files of a folder.
func read(folder string) ([]payload.File, error) {
	var list []payload.File
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		list = append(list, payload.Regular(filepath.ToSlash(inside), data))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	return list, nil
}
