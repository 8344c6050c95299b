package ebpf

// What programs on tracepoints of system calls are given.

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// TestTracepointContext wants the number of a system call read as the four bytes that
// the kernel promises: what lies behind them is undefined (see bpf/kernel.h), and read
// as well it made HTTP invisible now and then.
func TestTracepointContext(t *testing.T) {
	spec, err := loadCapture()
	if err != nil {
		t.Fatal(err)
	}
	for name, fields := range map[string]map[string]uint32{
		"sys_enter": {"number": 8, "args": 16},
		"sys_exit":  {"number": 8, "ret": 16},
	} {
		var st *btf.Struct
		if err := spec.Types.TypeByName(name, &st); err != nil {
			t.Fatal(err)
		}
		for _, m := range st.Members {
			if at, ok := fields[m.Name]; ok && m.Offset.Bytes() != at {
				t.Errorf("%s.%s is at %d; want %d", name, m.Name, m.Offset.Bytes(), at)
			}
			if size, err := btf.Sizeof(m.Type); m.Name == "number" && (err != nil || size != 4) {
				t.Errorf("%s.number has %d bytes, %v; want 4", name, size, err)
			}
		}
	}

	needPrivileges(t)
	fs, err := openTracefs()
	if err != nil {
		t.Skip("needs tracefs: ", err)
	}
	defer fs.Close()
	for _, name := range []string{"sys_enter_read", "sys_exit_read"} {
		fd, err := unix.Openat(int(fs.dir.Fd()), "events/syscalls/"+name+"/format", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		format, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("int __syscall_nr;\toffset:%d;\tsize:%d;", 8, 4); !strings.Contains(string(format), want) {
			t.Errorf("format of %s is\n%s\nwant %q in it", name, format, want)
		}
	}
}
