package preload

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

// layouts are the structs of ring.h: size, and where each field lies.
var layouts = []struct {
	c      string
	goType reflect.Type
	size   int
	fields []field
}{
	{"record", reflect.TypeFor[recordHeader](), 64, []field{
		{"position", "Position", 0}, {"size", "Size", 8}, {"state", "State", 12}, {"time_ns", "TimeNs", 16}, {"conn", "Conn", 24},
		{"seq", "Seq", 32}, {"len", "Len", 40}, {"captured", "Captured", 44}, {"pid", "Pid", 48}, {"tid", "Tid", 52},
		{"tail", "Tail", 56}, {"port", "Port", 58}, {"kind", "Kind", 60}, {"socket", "Socket", 61}, {"flags", "Flags", 62}}},
	{"ring_process", reflect.TypeFor[ringProcess](), 64, []field{
		{"pid", "Pid", 0}, {"parent", "Parent", 4}, {"registered_ns", "RegisteredNs", 8}, {"want_receives", "WantReceives", 16}, {"version", "Version", 20}}},
	{"ring_header", reflect.TypeFor[ringHeader](), 1344 + ringProcesses*64, []field{
		{"magic", "Magic", 0}, {"version", "Version", 8}, {"header_bytes", "HeaderBytes", 12}, {"data_bytes", "DataBytes", 16}, {"nonce", "Nonce", 24},
		{"head_bytes", "HeadBytes", 32}, {"tail_bytes", "TailBytes", 36}, {"frame_bytes", "FrameBytes", 40},
		{"epoch", "Epoch", 64}, {"head", "Head", 128}, {"tail", "Tail", 192},
		{"ring_full", "RingFull", 256}, {"table_full", "TableFull", 264}, {"nested", "Nested", 272}, {"tls", "TLS", 280},
		{"http2", "HTTP2", 288}, {"other", "Other", 296}, {"refused", "Refused", 304}, {"unresolved", "Unresolved", 312},
		{"processes", "Processes", 1344}}},
}

type field struct {
	c, goName string
	offset    int
}

// constants are the names of ring.h and what they are here.
var constants = map[string]uint64{
	"RING_MAGIC": ringMagic, "RING_VERSION": ringVersion, "RING_HEADER_BYTES": ringHeaderBytes, "RING_PROCESSES": ringProcesses,
	"RECORD_ALIGN": recordAlign, "RECORD_RESERVED": recordReserved, "RECORD_COMMITTED": recordCommitted,
	"RECORD_MORE": recordMore, "RECORD_PEER": recordPeer, "RECORD_TLS": recordTLS,
	"KIND_EXEC": uint64(capture.KindExec), "KIND_SEND": uint64(capture.KindSend), "KIND_RECV": uint64(capture.KindRecv),
	"KIND_OPEN": uint64(capture.KindOpen), "KIND_READ": uint64(capture.KindRead), "KIND_WRITE": uint64(capture.KindWrite),
	"KIND_CLOSE": uint64(capture.KindClose), "KIND_FORK": uint64(kindFork),
}

func TestLayout(t *testing.T) {
	for _, l := range layouts {
		if got := int(l.goType.Size()); got != l.size {
			t.Errorf("%v has %d bytes; want %d", l.goType, got, l.size)
		}
		named := 0
		for i := range l.goType.NumField() {
			if l.goType.Field(i).Name != "_" {
				named++
			}
		}
		if named != len(l.fields) {
			t.Errorf("%v has %d fields; %d are compared", l.goType, named, len(l.fields))
		}
		for _, f := range l.fields {
			if g, ok := l.goType.FieldByName(f.goName); !ok || int(g.Offset) != f.offset {
				t.Errorf("%v.%s is at %d; want %d", l.goType, f.goName, g.Offset, f.offset)
			}
		}
	}
	if ringHeaderBytes < layouts[2].size || recordHeaderBytes != layouts[0].size {
		t.Error("the header does not fit")
	}
	if kindFork <= capture.KindLost {
		t.Errorf("KIND_FORK = %d is a capture.Kind", kindFork)
	}
}

// TestLayoutInC asks a C compiler, where there is one, what ring.h says.
func TestLayoutInC(t *testing.T) {
	var compiler string
	for _, name := range []string{"cc", "clang", "gcc"} {
		if path, err := exec.LookPath(name); err == nil {
			compiler = path
			break
		}
	}
	if compiler == "" {
		t.Skip("needs a C compiler (cc, clang or gcc)")
	}
	var source, want strings.Builder
	source.WriteString("#include <stdio.h>\n#include <stddef.h>\n#include \"ring.h\"\nint main(void)\n{\n")
	say := func(name string, expression string, value uint64) {
		fmt.Fprintf(&source, "\tprintf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", name, expression)
		fmt.Fprintf(&want, "%s %d\n", name, value)
	}
	for _, l := range layouts {
		say(l.c, "sizeof(struct "+l.c+")", uint64(l.size))
		for _, f := range l.fields {
			say(l.c+"."+f.c, fmt.Sprintf("offsetof(struct %s, %s)", l.c, f.c), uint64(f.offset))
			typ, _ := l.goType.FieldByName(f.goName)
			say(l.c+"."+f.c+".bytes", fmt.Sprintf("sizeof(((struct %s *)0)->%s)", l.c, f.c), uint64(typ.Type.Size()))
		}
	}
	for name, value := range constants {
		say(name, name, value)
	}
	source.WriteString("\treturn 0;\n}\n")
	dir := t.TempDir()
	file, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(file, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-Wno-unknown-pragmas", "-I", "shim", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	got, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	gotLines := strings.Split(string(got), "\n")
	for i, line := range strings.Split(want.String(), "\n") {
		if i >= len(gotLines) || gotLines[i] != line {
			t.Fatalf("ring.h says\n%s\nwant\n%s\nthe first difference is at %q", got, want.String(), line)
		}
	}
}
