package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload/payloadtest"
)

// list gives one line an entry and fails if an owner or a time is not the common one.
func list(t *testing.T, archive io.Reader, at time.Time) []string {
	t.Helper()
	var lines []string
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("read archive: %v", err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s belongs to %d:%d (%q:%q); want 0:0 without names", h.Name, h.Uid, h.Gid, h.Uname, h.Gname)
		}
		if !h.ModTime.Equal(at) {
			t.Errorf("%s is of %v; want %v", h.Name, h.ModTime, at)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("read %s: %v", h.Name, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s%s", h.FileInfo().Mode(), h.Name, data, h.Linkname))
	}
}

func TestRelease(t *testing.T) {
	name, data, err := Release(payloadtest.Release("arm64"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if want := "tokenscope-1.2.3-linux-arm64.tar.gz"; name != want {
		t.Errorf("name = %q; want %q", name, want)
	}
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if plain.Name != "" || !plain.ModTime.IsZero() {
		t.Errorf("the gzip header has name %q and time %v; want neither", plain.Name, plain.ModTime)
	}
	const in = "tokenscope-1.2.3-linux-arm64/"
	want := []string{
		"drwxr-xr-x " + in + " ",
		"-rw-r--r-- " + in + "CHANGELOG.md # What changed\n",
		"-rw-r--r-- " + in + "LICENSE our licence\n",
		"-rw-r--r-- " + in + "README.md # Read me\n",
		"-rw-r--r-- " + in + "THIRD_PARTY_LICENSES their licences\n",
		"drwxr-xr-x " + in + "bin/ ",
		"-rwxr-xr-x " + in + "bin/bootstrap program bootstrap for arm64",
		"-rwxr-xr-x " + in + "bin/instrument program instrument for arm64",
		"Lrwxrwxrwx " + in + "bin/tokenscope instrument",
		"-rw-r--r-- " + in + `tokenscope.cdx.json {"bomFormat":"CycloneDX"}`,
	}
	if got := list(t, plain, payloadtest.Time); !slices.Equal(got, want) {
		t.Errorf("entries:\n%q\nwant:\n%q", got, want)
	}
}

func TestReleaseIsReproducible(t *testing.T) {
	_, first, err := Release(payloadtest.Release("amd64"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	// Another time zone is the same moment.
	again := payloadtest.Release("amd64")
	again.Time = again.Time.In(time.FixedZone("elsewhere", 5*3600))
	_, second, err := Release(again, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two archives of one release differ")
	}
}

func TestWrite(t *testing.T) {
	long := string(bytes.Repeat([]byte("d/"), 150)) + "file"
	tests := []struct {
		name string
		file payload.File
		want string // the last entry; "" for an error
	}{
		{"a name past the old form's limit", payload.Regular(long, []byte("x")), "-rw-r--r-- " + long + " x"},
		{"a directory for all", payload.File{Path: "target", Mode: fs.ModeDir | 0o777}, "drwxrwxrwx target/ "},
		{"a sticky directory", payload.File{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777}, "dtrwxrwxrwx tmp/ "},
		{"a device", payload.File{Path: "null", Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := Write([]payload.File{tt.file}, payloadtest.Time)
			if (err != nil) != (tt.want == "") {
				t.Fatalf("Write() error = %v; want an error: %t", err, tt.want == "")
			}
			if err != nil {
				return
			}
			if got := list(t, bytes.NewReader(data), payloadtest.Time); got[len(got)-1] != tt.want {
				t.Errorf("last entry = %q; want %q", got[len(got)-1], tt.want)
			}
		})
	}
}
