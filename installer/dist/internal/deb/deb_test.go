package deb

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload/payloadtest"
)

// entry is one file of a tar archive.
type entry struct {
	header *tar.Header
	data   []byte
}

// open makes the package and gives its members by name, in order, and the two archives in it.
func open(t *testing.T) (members []string, control, data []entry) {
	t.Helper()
	name, pkg, err := Release(payloadtest.Release("arm64"), "1.3.0~rc.2")
	if err != nil {
		t.Fatal(err)
	}
	if want := "tokenscope_1.3.0~rc.2_arm64.deb"; name != want {
		t.Errorf("name = %q; want %q", name, want)
	}
	for r := ar.NewReader(bytes.NewReader(pkg)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return members, control, data
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(payloadtest.Time) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("member %s: time %v, owner %d:%d; want %v, 0:0", h.Name, h.ModTime, h.Uid, h.Gid, payloadtest.Time)
		}
		members = append(members, h.Name)
		switch h.Name {
		case "control.tar.gz":
			plain, err := gzip.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			control = read(t, plain)
		case "data.tar.xz":
			plain, err := xz.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			data = read(t, plain)
		}
	}
}

func read(t *testing.T, archive io.Reader) []entry {
	t.Helper()
	var list []entry
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{h, data})
	}
}

func TestMembers(t *testing.T) {
	members, control, _ := open(t)
	if want := []string{"debian-binary", "control.tar.gz", "data.tar.xz"}; !slices.Equal(members, want) {
		t.Errorf("members = %q; want %q", members, want)
	}
	// No maintainer scripts: unpacking is all that happens.
	var names []string
	for _, e := range control {
		names = append(names, e.header.Name)
	}
	if want := []string{"./control", "./md5sums"}; !slices.Equal(names, want) {
		t.Errorf("control archive = %q; want %q", names, want)
	}
}

func TestControl(t *testing.T) {
	_, control, _ := open(t)
	// textproto wants a blank line behind the fields.
	fields, err := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(control[0].data), strings.NewReader("\n")))).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"Package": "tokenscope", "Version": "1.3.0~rc.2", "Architecture": "arm64", "Section": "admin", "Priority": "optional",
		"Maintainer": "Tokenscope maintainers <tokenscope@users.noreply.github.com>",
		"Depends":    "", "Pre-Depends": "", "Essential": "", // static: nothing is needed
	} {
		if got := fields.Get(field); got != want {
			t.Errorf("%s = %q; want %q", field, got, want)
		}
	}
	if got := fields.Get("Description"); !strings.HasPrefix(got, "OpenTelemetry agent and launcher for LLM inference servers") {
		t.Errorf("Description = %q", got)
	}
}

func TestFiles(t *testing.T) {
	_, _, data := open(t)
	var got []string
	for _, e := range data {
		h := e.header
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || h.Gname != "root" || !h.ModTime.Equal(payloadtest.Time) {
			t.Errorf("%s: owner %d:%d (%s:%s), time %v; want root and %v", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime, payloadtest.Time)
		}
		got = append(got, fmt.Sprintf("%s %s %s", h.FileInfo().Mode(), h.Name, h.Linkname))
	}
	want := []string{
		"drwxr-xr-x ./usr/ ",
		"drwxr-xr-x ./usr/bin/ ",
		"-rwxr-xr-x ./usr/bin/bootstrap ",
		"-rwxr-xr-x ./usr/bin/instrument ",
		"Lrwxrwxrwx ./usr/bin/tokenscope instrument",
		"drwxr-xr-x ./usr/share/ ",
		"drwxr-xr-x ./usr/share/doc/ ",
		"drwxr-xr-x ./usr/share/doc/tokenscope/ ",
		"-rw-r--r-- ./usr/share/doc/tokenscope/THIRD_PARTY_LICENSES ",
		"-rw-r--r-- ./usr/share/doc/tokenscope/changelog.gz ",
		"-rw-r--r-- ./usr/share/doc/tokenscope/copyright ",
		"-rw-r--r-- ./usr/share/doc/tokenscope/tokenscope.cdx.json ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// md5sums is what `dpkg --verify` goes by.
func TestSums(t *testing.T) {
	_, control, data := open(t)
	var want []string
	for _, e := range data {
		if e.header.Typeflag == tar.TypeReg {
			want = append(want, fmt.Sprintf("%x  %s", md5.Sum(e.data), strings.TrimPrefix(e.header.Name, "./")))
		}
	}
	got := strings.Split(strings.TrimSpace(string(control[1].data)), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("md5sums:\n%q\nwant:\n%q", got, want)
	}
}

func TestCopyright(t *testing.T) {
	text := string(copyright(payloadtest.Release("amd64")))
	for _, part := range []string{"https://github.com/tokenscope/tokenscope", "Apache-2.0 AND (MIT OR GPL-2.0-only)", "our licence\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("copyright lacks %q:\n%s", part, text)
		}
	}
}

func TestReleaseIsReproducible(t *testing.T) {
	_, first, err := Release(payloadtest.Release("amd64"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := Release(payloadtest.Release("amd64"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two packages of one release differ")
	}
}
