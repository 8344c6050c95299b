package payload

import (
	"io/fs"
	"slices"
	"testing"
)

func TestWithParents(t *testing.T) {
	list := []File{
		Regular("usr/share/doc/x", nil),
		Executable("usr/bin/a", nil),
		Symlink("usr/bin/b", "a"),
		{Path: "target", Mode: fs.ModeDir | 0o777},
		Regular("target/file", nil),
	}
	want := []string{
		"drwxrwxrwx target", "-rw-r--r-- target/file", "drwxr-xr-x usr", "drwxr-xr-x usr/bin", "-rwxr-xr-x usr/bin/a",
		"Lrwxrwxrwx usr/bin/b", "drwxr-xr-x usr/share", "drwxr-xr-x usr/share/doc", "-rw-r--r-- usr/share/doc/x",
	}
	var got []string
	for _, f := range WithParents(list) {
		got = append(got, f.Mode.String()+" "+f.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("WithParents() = %q; want %q", got, want)
	}
}

func TestCommands(t *testing.T) {
	r := &Release{Programs: map[string][]byte{Launcher: []byte("l"), Bootstrap: []byte("b")}}
	var got []string
	for _, f := range r.Commands("usr/bin") {
		got = append(got, f.Mode.String()+" "+f.Path+" "+string(f.Data)+f.Link)
	}
	want := []string{"-rwxr-xr-x usr/bin/instrument l", "-rwxr-xr-x usr/bin/bootstrap b", "Lrwxrwxrwx usr/bin/tokenscope instrument"}
	if !slices.Equal(got, want) {
		t.Errorf("Commands(usr/bin) = %q; want %q", got, want)
	}
}
