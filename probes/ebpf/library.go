package ebpf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// maxLibraries bounds how many different builds of libzmq are probed: one per
// Python environment of the workload.
const maxLibraries = 16

// fileID names a file whatever path leads to it.
type fileID struct {
	dev, inode uint64
}

// library is one build of libzmq. Its probes for sending are on the file, so that
// they hold for every process that maps it, now or later; the programs let go at
// once of processes that are not the workload's.
type library struct {
	path   string // as its first user saw it; for the log
	file   *os.File
	exe    *link.Executable
	probes []io.Closer
	// offsets are where its functions lie in the file; nil: its symbols tell.
	offsets map[string]uint64
}

func (l *library) Close() error {
	var errs []error
	for _, p := range l.probes {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, l.file.Close())...)
}

// probe is a program on a function.
type probe struct {
	symbol  string
	program string
	ret     bool
}

// The probes, by feature. Those for receiving are attached per process.
var (
	sendProbes = []probe{{"zmq_msg_send", captureProgZmqSend, false}}
	typeProbes = []probe{
		{"zmq_socket", captureProgZmqSocketEnter, false},
		{"zmq_socket", captureProgZmqSocketReturn, true},
		{"zmq_close", captureProgZmqClose, false},
	}
	receiveProbes = []probe{
		{"zmq_msg_recv", captureProgZmqRecv, false},
		{"zmq_msg_recv", captureProgZmqRecvReturn, true},
	}
)

// attach puts probes on the library, for one process or (pid 0) for all.
func (l *library) attach(probes []probe, kernel *loaded, pid uint32) ([]io.Closer, error) {
	var links []io.Closer
	for _, p := range probes {
		lnk, err := l.attachOne(p, kernel, pid)
		if err != nil {
			for _, c := range links {
				c.Close()
			}
			return nil, fmt.Errorf("attach %s: %w", p.symbol, err)
		}
		links = append(links, lnk)
	}
	return links, nil
}

func (l *library) attachOne(p probe, kernel *loaded, pid uint32) (link.Link, error) {
	prog := kernel.programs[p.program]
	symbols, multi := []string{p.symbol}, &link.UprobeMultiOptions{PID: pid}
	one := &link.UprobeOptions{PID: int(pid)}
	if offset, ok := l.offsets[p.symbol]; ok {
		symbols, multi.Addresses, one.Address = nil, []uint64{offset}, offset
	}
	switch {
	case kernel.multi && p.ret:
		return l.exe.UretprobeMulti(symbols, prog, multi)
	case kernel.multi:
		return l.exe.UprobeMulti(symbols, prog, multi)
	case p.ret:
		return l.exe.Uretprobe(p.symbol, prog, one)
	}
	return l.exe.Uprobe(p.symbol, prog, one)
}

// openLibrary opens path and reads its symbols through a descriptor that is kept:
// the process whose /proc entry led to it may be gone when it is needed again.
func openLibrary(path, shown string) (*library, fileID, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fileID{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, fileID{}, errors.Join(err, file.Close())
	}
	exe, err := link.OpenExecutable(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return nil, fileID{}, errors.Join(err, file.Close())
	}
	return &library{path: shown, file: file, exe: exe}, fileID{uint64(st.Dev), st.Ino}, nil
}

// mapping is a line of /proc/PID/maps that may hold libzmq.
type mapping struct {
	addresses string // as map_files names it
	path      string
	// static says that the file is pyzmq's own module, which holds libzmq if it was
	// built without the shared library.
	static bool
}

// maxMapsBytes bounds one scan. Servers with thousands of mappings have some
// hundred kilobytes.
const maxMapsBytes = 16 << 20

// zmqMappings finds libzmq in the text of a maps file, each file once. Shared
// libraries come before pyzmq's module.
func zmqMappings(maps io.Reader) ([]mapping, error) {
	var shared, static []mapping
	seen := map[string]bool{}
	r := bufio.NewReaderSize(io.LimitReader(maps, maxMapsBytes), 64<<10)
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			// No path is that long; what comes next begins within it and is no mapping.
			continue
		}
		if m, ok := zmqMapping(line); ok && !seen[m.path] {
			seen[m.path] = true
			if m.static {
				static = append(static, m)
			} else {
				shared = append(shared, m)
			}
		}
		if errors.Is(err, io.EOF) {
			return append(shared, static...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// zmqMapping reads one line: addresses, permissions, offset, device, inode, path.
func zmqMapping(line []byte) (mapping, bool) {
	if !bytes.Contains(line, []byte("zmq")) {
		return mapping{}, false
	}
	rest := bytes.TrimRight(line, "\n")
	var addresses []byte
	for field := range 5 {
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexByte(rest, ' ')
		if end < 0 {
			return mapping{}, false
		}
		if field == 0 {
			addresses = rest[:end]
		}
		rest = rest[end:]
	}
	path := string(bytes.TrimLeft(rest, " "))
	if !strings.HasPrefix(path, "/") {
		return mapping{}, false
	}
	name := filepath.Base(strings.TrimSuffix(path, " (deleted)"))
	m := mapping{path: path}
	switch {
	case isSharedZMQ(name):
	case strings.HasPrefix(name, "_zmq") && strings.HasSuffix(name, ".so"):
		m.static = true
	default:
		return mapping{}, false
	}
	from, to, ok := strings.Cut(string(addresses), "-")
	if !ok {
		return mapping{}, false
	}
	m.addresses = strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
	return m, true
}

// isSharedZMQ reports whether a file name is libzmq's: libzmq.so.5,
// libzmq-<hash>.so.5.2.5, libzmq.so.
func isSharedZMQ(name string) bool {
	return strings.HasPrefix(name, "libzmq") && (strings.HasSuffix(name, ".so") || strings.Contains(name, ".so."))
}

// mappedFile is how to open a mapped file of a process, best first: the mapping
// itself (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, finds deleted files as
// well), or its path as the process sees it.
func mappedFile(pid uint32, m mapping) []string {
	return []string{
		fmt.Sprintf("/proc/%d/map_files/%s", pid, m.addresses),
		fmt.Sprintf("/proc/%d/root%s", pid, m.path),
	}
}

// installedZMQ finds the libzmq that a Python process will load if it uses
// pyzmq, before it does: the one of the environment that its interpreter belongs
// to. Paths are as the agent opens them.
func installedZMQ(pid uint32, cmdline []string) []string {
	root := fmt.Sprintf("/proc/%d/root", pid)
	var prefixes []string
	// A virtual environment's interpreter is a link out of it: only the path
	// that was typed, or that a script's first line names, leads back.
	if len(cmdline) > 0 && strings.Contains(filepath.Base(cmdline[0]), "python") && strings.Contains(cmdline[0], "/") {
		path := cmdline[0]
		if !filepath.IsAbs(path) {
			if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
				path = filepath.Join(cwd, path)
			}
		}
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(path)))
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.Contains(filepath.Base(exe), "python") {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(exe)))
	}
	var found []string
	for _, prefix := range prefixes {
		if !filepath.IsAbs(prefix) || strings.ContainsAny(prefix, `*?[\`) {
			continue
		}
		for _, lib := range []string{"lib", "lib64"} {
			// The pattern is well-formed: the only error that Glob has.
			matches, _ := filepath.Glob(filepath.Join(root, prefix, lib, "python3*/site-packages/pyzmq.libs/libzmq*.so*"))
			found = append(found, matches...)
		}
	}
	return found
}
