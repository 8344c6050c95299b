package preload

// What the committed libraries ask of the system they are loaded into, and what they
// stand in front of. What they do is tested in library_test.go and stress_test.go.

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wrapped is all that the library exports: each name takes the place of libc's, libzmq's
// or OpenSSL's for the whole program, so none may be there by accident.
var wrapped = []string{
	"SSL_free", "SSL_read", "SSL_read_ex", "SSL_shutdown", "SSL_write", "SSL_write_ex",
	"__read_chk", "__recv_chk", "__recvfrom_chk",
	"accept", "accept4", "close", "close_range", "dup2", "dup3",
	"execv", "execve", "execvp", "execvpe", "fexecve", "fork", "posix_spawn", "posix_spawnp",
	"read", "readv", "recv", "recvfrom", "recvmmsg", "recvmsg",
	"send", "sendmmsg", "sendmsg", "sendto", "shutdown", "syscall", "write", "writev",
	"zmq_close", "zmq_msg_recv", "zmq_msg_send",
}

// committed opens a library.
func committed(t *testing.T, arch string) *elf.File {
	t.Helper()
	f, err := elf.Open("libtokenscope_" + arch + ".so")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCommittedLibraries(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			f := committed(t, arch)
			if f.Machine != machine || f.Type != elf.ET_DYN {
				t.Errorf("it is %v of %v; want %v of %v", f.Type, f.Machine, elf.ET_DYN, machine)
			}
			t.Run("needs libc alone", func(t *testing.T) {
				needed, err := f.ImportedLibraries()
				slices.Sort(needed)
				// libdl is part of libc from glibc 2.34 on, and always in musl.
				if want := []string{"libc.so.6", "libdl.so.2"}; err != nil || !slices.Equal(needed, want) {
					t.Errorf("ImportedLibraries() = %v, %v; want %v", needed, err, want)
				}
			})
			t.Run("imports are of glibc 2.17 at most", func(t *testing.T) { checkImports(t, f) })
			t.Run("exports are what is wrapped", func(t *testing.T) {
				if got := exported(t, f); !slices.Equal(got, wrapped) {
					t.Errorf("exports %v; want %v", got, wrapped)
				}
			})
			t.Run("is loaded safely", func(t *testing.T) { checkSegments(t, f) })
			t.Run("names no place where it was built", func(t *testing.T) { checkPaths(t, arch) })
		})
	}
}

// checkImports: manylinux_2_17 is the oldest that wheels of today are made for.
func checkImports(t *testing.T, f *elf.File) {
	imports, err := f.ImportedSymbols()
	if err != nil || len(imports) == 0 {
		t.Fatalf("ImportedSymbols() = %v, %v", imports, err)
	}
	for _, s := range imports {
		if s.Version == "" {
			t.Errorf("%s has no version", s.Name)
			continue
		}
		number, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
		minor, _, _ := strings.Cut(number, ".")
		if n, err := strconv.Atoi(minor); !ok || err != nil || n > 17 {
			t.Errorf("%s needs %s; want GLIBC_2.17 or older", s.Name, s.Version)
		}
	}
}

func exported(t *testing.T, f *elf.File) (names []string) {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func checkSegments(t *testing.T, f *elf.File) {
	stack, relro := false, false
	// Where pages have 64 KiB, segments that lie closer cannot be mapped.
	page := uint64(4096)
	if f.Machine == elf.EM_AARCH64 {
		page = 65536
	}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_GNU_STACK:
			stack = true
			if p.Flags&elf.PF_X != 0 {
				t.Error("it makes the program's stacks executable")
			}
		case elf.PT_GNU_RELRO:
			relro = true
		case elf.PT_LOAD:
			if p.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X {
				t.Error("a segment is writable and executable")
			}
			if p.Align%page != 0 {
				t.Errorf("a segment is aligned to %d; want a multiple of %d", p.Align, page)
			}
		}
	}
	if !stack || !relro {
		t.Errorf("says that its stack is not executable: %v, that its relocations become read-only: %v", stack, relro)
	}
	if values, err := f.DynValue(elf.DT_TEXTREL); err != nil || len(values) > 0 {
		t.Errorf("DT_TEXTREL = %v, %v; want none: it would need writable code", values, err)
	}
	flags, err := f.DynValue(elf.DT_FLAGS)
	if err != nil || len(flags) != 1 {
		t.Fatalf("DT_FLAGS = %v, %v", flags, err)
	}
	// Lazy binding would take the loader's locks in signal handlers.
	if want := elf.DF_BIND_NOW; elf.DynFlag(flags[0])&want == 0 || elf.DynFlag(flags[0])&elf.DF_TEXTREL != 0 {
		t.Errorf("DT_FLAGS = %v; want %v and not %v", elf.DynFlag(flags[0]), want, elf.DF_TEXTREL)
	}
	// A thread that is cancelled in read is unwound through the library.
	if f.Section(".eh_frame") == nil {
		t.Error("it has no .eh_frame: cancelling a thread would end the program")
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
		t.Error("it is not stripped")
	}
}

func checkPaths(t *testing.T, arch string) {
	b, err := os.ReadFile("libtokenscope_" + arch + ".so")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"/home/", "/root/", "/tmp/", "/build/", "connection.c"} {
		if strings.Contains(string(b), part) {
			t.Errorf("it contains %q: other builders would get other bytes", part)
		}
	}
}

// TestGenerated holds that the committed libraries are what their sources give, where the
// pinned compiler is at hand; make check-generated brings it along.
func TestGenerated(t *testing.T) {
	out, err := exec.Command("./gen.sh", "--check").CombinedOutput()
	if strings.Contains(string(out), "pip install ziglang") {
		t.Skip(strings.TrimSpace(string(out)))
	}
	if err != nil {
		t.Errorf("gen.sh --check: %v\n%s", err, out)
	}
}
