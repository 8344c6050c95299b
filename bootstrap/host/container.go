package host

// Which container this is, and whether libraries can be put into programs there.

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// Container names what runs this process in a container, as far as it has left its
// mark: "Kubernetes", "Docker", "Podman", a name that the variable container gives, ""
// where there is no sign of one.
func (v View) Container(getenv func(string) string) string {
	switch {
	case getenv("KUBERNETES_SERVICE_HOST") != "":
		return "Kubernetes"
	case v.exists("/.dockerenv"):
		return "Docker"
	case v.exists("/run/.containerenv"):
		return "Podman"
	}
	// systemd's convention for what starts containers.
	return getenv("container")
}

// Libc is the C library that dynamically linked programs get.
type Libc struct {
	Name    string // "glibc", "musl"
	Version string // "" where the file does not tell
	Loader  string
}

// The places of dynamic loaders and of glibc, by the ABIs and by distributions.
var (
	glibcLoaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-aarch64.so.1"}
	glibcFiles   = []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/aarch64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/usr/lib/libc.so.6",
	}
	muslLoaders = "/lib/ld-musl-*.so.1"
)

// maxLibcBytes is more than any C library has; glibc 2.41 has two megabytes.
const maxLibcBytes = 16 << 20

// glibcBanner is what glibc prints when it is run, a constant of its file.
var glibcBanner = regexp.MustCompile(`GNU C Library [^\n]* version (\d+\.\d+)`)

// Libcs lists the C libraries of the machine: none in a distroless image of static
// programs, two where musl was added to a distribution.
func (v View) Libcs() []Libc {
	var found []Libc
	for _, loader := range glibcLoaders {
		if !v.exists(loader) {
			continue
		}
		found = append(found, Libc{Name: "glibc", Version: v.glibcVersion(), Loader: loader})
		break
	}
	// The pattern is well-formed: the only error that Glob has.
	loaders, _ := filepath.Glob(v.path(muslLoaders))
	for _, loader := range loaders {
		found = append(found, Libc{Name: "musl", Loader: v.unpath(loader)})
	}
	return found
}

func (v View) glibcVersion() string {
	for _, name := range glibcFiles {
		data, err := readLimited(v.path(name), maxLibcBytes)
		if err != nil {
			continue
		}
		if at := bytes.Index(data, []byte("GNU C Library ")); at >= 0 {
			if m := glibcBanner.FindSubmatch(data[at:min(at+512, len(data))]); m != nil {
				return string(m[1])
			}
		}
	}
	return ""
}

// Memfd tries to make a file in memory, as the ring is: seccomp profiles may forbid it.
func Memfd() error {
	fd, err := unix.MemfdCreate("tokenscope-check", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	return unix.Close(fd)
}

// Dumpable reports whether others of the same user may look into this process through
// proc. A program that may be run but not read, or that changed its user, is not.
func Dumpable() (bool, error) {
	n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return false, os.NewSyscallError("prctl", err)
	}
	return n == 1, nil
}
