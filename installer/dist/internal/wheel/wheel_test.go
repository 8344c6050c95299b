package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"io"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/installer/dist/internal/payload"
	"github.com/tokenscope/tokenscope/installer/dist/internal/payload/payloadtest"
)

// open makes the wheel of version 1.2.3 and gives its files by name.
func open(t *testing.T, arch string) (name string, archive *zip.Reader, files map[string][]byte) {
	t.Helper()
	name, data, err := Release(payloadtest.Release(arch), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	archive, err = zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return name, archive, files
}

func TestContents(t *testing.T) {
	name, archive, files := open(t, "amd64")
	if want := "tokenscope-1.2.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"; name != want {
		t.Errorf("name = %q; want %q", name, want)
	}
	want := []string{
		"-rwxr-xr-x tokenscope-1.2.3.data/scripts/instrument",
		"-rwxr-xr-x tokenscope-1.2.3.data/scripts/bootstrap",
		"-rwxr-xr-x tokenscope-1.2.3.data/scripts/tokenscope",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/METADATA",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/WHEEL",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/licenses/LICENSE",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/licenses/THIRD_PARTY_LICENSES",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/sboms/tokenscope.cdx.json",
		"-rw-r--r-- tokenscope-1.2.3.dist-info/RECORD", // the last
	}
	var got []string
	for _, f := range archive.File {
		got = append(got, f.Mode().String()+" "+f.Name)
		if !f.Modified.Equal(payloadtest.Time) {
			t.Errorf("%s is of %v; want %v", f.Name, f.Modified, payloadtest.Time)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := string(files["tokenscope-1.2.3.data/scripts/instrument"]); got != "program instrument for amd64" {
		t.Errorf("instrument = %q", got)
	}
}

// RECORD is what uninstalling goes by: it must name every file, with its true hash and size.
func TestRecord(t *testing.T) {
	const name = "tokenscope-1.2.3.dist-info/RECORD"
	_, _, files := open(t, "arm64")
	rows, err := csv.NewReader(bytes.NewReader(files[name])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[0]] = true
		data, ok := files[row[0]]
		if !ok {
			t.Errorf("RECORD names %s, which is not in the wheel", row[0])
			continue
		}
		if row[0] == name {
			if row[1] != "" || row[2] != "" {
				t.Errorf("RECORD has a hash of itself: %q", row)
			}
			continue
		}
		sum := sha256.Sum256(data)
		if want := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]); row[1] != want {
			t.Errorf("hash of %s = %s; want %s", row[0], row[1], want)
		}
		if want := strconv.Itoa(len(data)); row[2] != want {
			t.Errorf("size of %s = %s; want %s", row[0], row[2], want)
		}
	}
	for file := range files {
		if !listed[file] {
			t.Errorf("RECORD leaves out %s", file)
		}
	}
}

func TestMetadata(t *testing.T) {
	_, _, files := open(t, "arm64")
	// The same form as that of a mail, with the description as its body.
	m, err := mail.ReadMessage(bytes.NewReader(files["tokenscope-1.2.3.dist-info/METADATA"]))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string][]string{
		"Metadata-Version":   {"2.4"},
		"Name":               {"tokenscope"},
		"Version":            {"1.2.3"},
		"License-Expression": {"Apache-2.0 AND (MIT OR GPL-2.0-only)"},
		"License-File":       {"LICENSE", "THIRD_PARTY_LICENSES"},
		// Nothing that pip would fetch, and no Python that it would refuse.
		"Requires-Dist":   nil,
		"Requires-Python": nil,
	} {
		if got := m.Header[field]; !slices.Equal(got, want) {
			t.Errorf("%s = %q; want %q", field, got, want)
		}
	}
	if body, err := io.ReadAll(m.Body); err != nil || string(body) != "# Read me\n" {
		t.Errorf("description = %q, %v", body, err)
	}
}

// The tags in WHEEL are those of the name, one a line.
func TestTags(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			name, _, files := open(t, arch)
			parts := strings.Split(strings.TrimSuffix(name, ".whl"), "-")
			var want []string
			for _, platform := range strings.Split(parts[4], ".") {
				want = append(want, parts[2]+"-"+parts[3]+"-"+platform)
			}
			var got []string
			for line := range strings.Lines(string(files["tokenscope-1.2.3.dist-info/WHEEL"])) {
				if tag, ok := strings.CutPrefix(line, "Tag: "); ok {
					got = append(got, strings.TrimSpace(tag))
				}
			}
			if !slices.Equal(got, want) || len(got) < 3 {
				t.Errorf("tags = %q; want %q", got, want)
			}
		})
	}
}

func TestReleaseIsReproducible(t *testing.T) {
	_, first, err := Release(payloadtest.Release("amd64"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	again := payloadtest.Release("amd64")
	again.Time = again.Time.In(time.FixedZone("elsewhere", -8*3600)) // zip's first form of a time is a local one
	_, second, err := Release(again, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two wheels of one release differ")
	}
}

func TestReleaseRefuses(t *testing.T) {
	old := payloadtest.Release("amd64")
	old.Time = time.Unix(0, 0)
	for name, r := range map[string]*payload.Release{
		"an architecture without a tag": payloadtest.Release("riscv64"),
		"a time before zip's first":     old,
	} {
		t.Run(name, func(t *testing.T) {
			if name, _, err := Release(r, "1.2.3"); err == nil {
				t.Errorf("Release() = %q; want an error", name)
			}
		})
	}
}

// The second name starts the instrument beside it, however it is reached, and changes nothing:
// neither words nor exit status.
func TestSecondName(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell here")
	}
	dir := filepath.Join(t.TempDir(), "a folder with blanks")
	elsewhere := t.TempDir()
	for _, d := range []string{dir, elsewhere} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fake := "#!" + shell + "\nprintf '<%s>' \"$@\"\nexit 37\n"
	for name, text := range map[string]string{payload.SecondName: secondName, payload.Launcher: fake} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(elsewhere, "ts")
	if err := os.Symlink(filepath.Join(dir, payload.SecondName), link); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, command, cwd string }{
		{"by its path", filepath.Join(dir, payload.SecondName), elsewhere},
		{"from its own folder", "./" + payload.SecondName, dir},
		{"by a link from elsewhere", link, elsewhere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(tt.command, "--flag", "two words", "", "*")
			cmd.Dir = tt.cwd
			out, _ := cmd.Output() // an exit status of 37 is an error here
			if want := "<--flag><two words><><*>"; string(out) != want {
				t.Errorf("output = %q; want %q", out, want)
			}
			if got := cmd.ProcessState.ExitCode(); got != 37 {
				t.Errorf("exit status = %d; want 37", got)
			}
		})
	}
}
