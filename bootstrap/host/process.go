package host

// A running process: what it has mapped, and whether it may be looked at.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is what is found of one that runs.
type Process struct {
	PID  int
	Comm string
	Exe  Reading
	Privileges
	// Maps is why the mappings could not be read; nil where they were.
	Maps      error
	Libraries []Library
	// Launcher is the nearest instrument among its ancestors, 0 where there is none.
	Launcher int
	// Preload is LD_PRELOAD and Ring TOKENSCOPE_PRELOAD, as it was started with.
	Preload, Ring Reading
}

// ErrNoProcess is wrapped where there is no such process, or proc hides it.
var ErrNoProcess = errors.New("no such process")

// Process looks at one. What it may not see is said in the fields.
func (v View) Process(pid int) (Process, error) {
	folder := "/proc/" + strconv.Itoa(pid)
	p := Process{PID: pid}
	comm := v.read(folder + "/comm")
	if comm.Err != nil {
		return p, fmt.Errorf("look at process %d: %w (or proc is mounted with hidepid)", pid, ErrNoProcess)
	}
	p.Comm = comm.Text
	p.Privileges = v.Privileges(strconv.Itoa(pid))
	exe, err := os.Readlink(v.path(folder + "/exe"))
	p.Exe = Reading{exe, err}
	p.Preload, p.Ring = v.environment(folder)
	p.Libraries, p.Maps = v.libraries(folder)
	p.Launcher = v.launcher(p.Parent)
	return p, nil
}

// maxAncestors bounds the way up: parents change while it is gone.
const maxAncestors = 256

// launcherNames are those of our own program, as its file may be called.
var launcherNames = []string{"instrument", "tokenscope"}

// launcher finds the nearest one from a process on upward.
func (v View) launcher(pid int) int {
	for range maxAncestors {
		if pid <= 0 {
			return 0
		}
		folder := "/proc/" + strconv.Itoa(pid)
		if exe, err := os.Readlink(v.path(folder + "/exe")); err == nil && slices.Contains(launcherNames, filepath.Base(strings.TrimSuffix(exe, deletedMark))) {
			return pid
		}
		pid = v.Privileges(strconv.Itoa(pid)).Parent
	}
	return 0
}

// Carries reports whether the process has our library mapped.
func (p *Process) Carries() bool { return len(p.Of(LibShim)) > 0 }

// Of lists the mapped libraries of a kind.
func (p *Process) Of(kind LibraryKind) []Library {
	var found []Library
	for _, l := range p.Libraries {
		if l.Kind == kind {
			found = append(found, l)
		}
	}
	return found
}

// maxEnviron bounds what is read of an environment: the kernel lets a program start
// with a quarter of its stack limit, two megabytes as a rule.
const maxEnviron = 8 << 20

// environment reads two variables of a process's start and nothing else: the others may
// be secrets.
func (v View) environment(folder string) (preload, ring Reading) {
	data, err := readLimited(v.path(folder+"/environ"), maxEnviron)
	if err != nil {
		return Reading{Err: err}, Reading{Err: err}
	}
	value := func(name string) Reading {
		for entry := range bytes.SplitSeq(data, []byte{0}) {
			if rest, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
				return Reading{Text: string(rest)}
			}
		}
		return Reading{}
	}
	return value("LD_PRELOAD"), value("TOKENSCOPE_PRELOAD")
}

// Bounds of one look at mappings: servers with thousands of them have some hundred
// kilobytes, and a path is at most 4096 bytes behind eighty others.
const (
	maxMapsBytes = 16 << 20
	maxMapsLine  = 8 << 10
	maxLibraries = 64
)

// deletedMark is what the kernel adds to the path of a file that is gone.
const deletedMark = " (deleted)"

// libraries lists the known ones that are mapped, each file once.
func (v View) libraries(folder string) ([]Library, error) {
	f, err := os.Open(v.path(folder + "/maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []Library
	scanner := bufio.NewScanner(io.LimitReader(f, maxMapsBytes))
	scanner.Buffer(make([]byte, 0, 4096), maxMapsLine)
	for scanner.Scan() && len(found) < maxLibraries {
		addresses, path, ok := mapping(scanner.Text())
		if !ok {
			continue
		}
		kind, ok := libraryKind(filepath.Base(strings.TrimSuffix(path, deletedMark)))
		if !ok {
			continue
		}
		l := Library{Kind: kind}
		l.Path, l.Deleted = strings.CutSuffix(path, deletedMark)
		if slices.ContainsFunc(found, func(o Library) bool { return o.Path == l.Path && o.Deleted == l.Deleted }) {
			continue
		}
		// The mapping itself finds a deleted file as well, but needs CAP_SYS_ADMIN or
		// CAP_CHECKPOINT_RESTORE; else the path as the process sees it.
		paths := []string{v.path(folder + "/map_files/" + addresses)}
		if !l.Deleted {
			paths = append(paths, v.path(folder+"/root"+l.Path))
		}
		l.inspect(paths...)
		found = append(found, l)
	}
	if err := scanner.Err(); err != nil {
		return found, fmt.Errorf("read %s/maps: %w", folder, err)
	}
	return found, nil
}

// mapping reads one line of maps: addresses, permissions, offset, device, inode, path.
// Only files have a path that begins with a slash.
func mapping(line string) (addresses, path string, ok bool) {
	rest := line
	for field := range 5 {
		rest = strings.TrimLeft(rest, " ")
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			return "", "", false
		}
		if field == 0 {
			addresses = rest[:end]
		}
		rest = rest[end:]
	}
	path = strings.TrimLeft(rest, " ")
	if !strings.HasPrefix(path, "/") {
		return "", "", false
	}
	// map_files has the addresses without leading zeros.
	from, to, ok := strings.Cut(addresses, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0"), path, ok
}

// maxProcesses bounds the search for servers.
const maxProcesses = 1 << 16

// Servers lists the processes that have libzmq mapped, as engines do, in the order of
// their ids; unseen counts those whose mappings may not be read.
func (v View) Servers() (servers []Process, unseen int, err error) {
	entries, err := os.ReadDir(v.path("/proc"))
	if err != nil {
		return nil, 0, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && len(pids) < maxProcesses {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		maps, err := readLimited(v.path("/proc/"+strconv.Itoa(pid)+"/maps"), maxMapsBytes)
		switch {
		case errors.Is(err, fs.ErrPermission):
			unseen++
			continue
		case err != nil || !bytes.Contains(maps, []byte("zmq")):
			continue
		}
		p, err := v.Process(pid)
		if err == nil && len(p.Of(LibZMQ))+len(p.Of(ModuleZMQ)) > 0 {
			servers = append(servers, p)
		}
	}
	return servers, unseen, nil
}
