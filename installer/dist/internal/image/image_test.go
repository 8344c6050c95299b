package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload/payloadtest"
	"github.com/tokenscope/tokenscope/installer/dist/internal/version"
)

// makeImage gives the archive of a build behind version 1.2.3.
func makeImage(t *testing.T) (name string, data []byte) {
	t.Helper()
	v, err := version.Parse("v1.2.3-5-gf10bc809632b", 0)
	if err != nil {
		t.Fatal(err)
	}
	name, data, err = Release([]*payload.Release{payloadtest.Release("amd64"), payloadtest.Release("arm64")}, v)
	if err != nil {
		t.Fatal(err)
	}
	return name, data
}

// unpack gives the layout's outer index: the one behind index.json.
func unpack(t *testing.T, data []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "oci-layout")); err != nil || !strings.Contains(string(text), `"imageLayoutVersion"`) {
		t.Fatalf("oci-layout = %q, %v", text, err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// images gives the index of both architectures and the image of each.
func images(t *testing.T, outer v1.ImageIndex) (v1.ImageIndex, map[string]v1.Image) {
	t.Helper()
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("index.json has %d entries; want one, behind which a runtime picks its architecture", len(manifest.Manifests))
	}
	top := manifest.Manifests[0]
	for key, want := range map[string]string{
		"org.opencontainers.image.ref.name": "tokenscope:1.2.3_5.gf10bc809632b",
		"io.containerd.image.name":          "localhost/tokenscope:1.2.3_5.gf10bc809632b",
	} {
		if got := top.Annotations[key]; got != want {
			t.Errorf("annotation %s = %q; want %q", key, got, want)
		}
	}
	index, err := outer.ImageIndex(top.Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, m := range inner.Manifests {
		if m.MediaType != types.OCIManifestSchema1 || m.Platform == nil {
			t.Fatalf("entry %+v; want an OCI manifest with a platform", m)
		}
		if found[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return index, found
}

// Every digest, size and diff id in the layout is that of the bytes.
func TestDigests(t *testing.T) {
	name, data := makeImage(t)
	if want := "tokenscope-1.2.3+5.gf10bc809632b-oci.tar"; name != want {
		t.Errorf("name = %q; want %q", name, want)
	}
	index, found := images(t, unpack(t, data))
	if err := validate.Index(index); err != nil {
		t.Errorf("validate index: %v", err)
	}
	for platform, img := range found {
		if err := validate.Image(img); err != nil {
			t.Errorf("validate image for %s: %v", platform, err)
		}
	}
}

func TestConfiguration(t *testing.T) {
	_, data := makeImage(t)
	_, found := images(t, unpack(t, data))
	for platform, variant := range map[string]string{"linux/amd64": "", "linux/arm64/v8": "v8"} {
		t.Run(platform, func(t *testing.T) {
			img := found[platform]
			if img == nil {
				t.Fatalf("no image for %s", platform)
			}
			c, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if c.Variant != variant || !c.Created.Equal(payloadtest.Time) || c.Config.User != "65532:65532" {
				t.Errorf("variant %q, created %v, user %q", c.Variant, c.Created, c.Config.User)
			}
			got := strings.Join(append(slices.Clone(c.Config.Entrypoint), c.Config.Cmd...), " ")
			if want := "/bin/bootstrap -a install --prefix /target"; got != want {
				t.Errorf("command = %q; want %q", got, want)
			}
			if got := c.Config.Labels["org.opencontainers.image.version"]; got != "1.2.3+5.gf10bc809632b" {
				t.Errorf("version label = %q", got)
			}
		})
	}
}

func TestLayer(t *testing.T) {
	_, data := makeImage(t)
	_, found := images(t, unpack(t, data))
	layers, err := found["linux/arm64/v8"].Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("%d layers; want 1", len(layers))
	}
	if mt, err := layers[0].MediaType(); err != nil || mt != types.OCILayer {
		t.Errorf("media type = %s, %v; want %s", mt, err, types.OCILayer)
	}
	plain, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var got []string
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(payloadtest.Time) {
			t.Errorf("%s: owner %d:%d, time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		got = append(got, fmt.Sprintf("%s %s %s", h.FileInfo().Mode(), h.Name, h.Linkname))
	}
	want := []string{
		"drwxr-xr-x bin/ ", "-rwxr-xr-x bin/bootstrap ", "-rwxr-xr-x bin/instrument ", "Lrwxrwxrwx bin/tokenscope instrument",
		"drwxr-xr-x licenses/ ", "-rw-r--r-- licenses/LICENSE ", "-rw-r--r-- licenses/THIRD_PARTY_LICENSES ",
		"-rw-r--r-- licenses/tokenscope.cdx.json ", "drwxrwxrwx target/ ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("layer:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReleaseIsReproducible(t *testing.T) {
	_, first := makeImage(t)
	// Another time zone is the same moment.
	v, err := version.Parse("v1.2.3-5-gf10bc809632b", 0)
	if err != nil {
		t.Fatal(err)
	}
	var releases []*payload.Release
	for _, arch := range []string{"amd64", "arm64"} {
		r := payloadtest.Release(arch)
		r.Time = r.Time.In(time.FixedZone("elsewhere", 5*3600))
		releases = append(releases, r)
	}
	_, second, err := Release(releases, v)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two images of one release differ")
	}
}
