package preload

// Why a process is not seen, and what would help.

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	whyUser      = "it runs as another user, who may not open what instrument has; put instrument behind what changes the user (setpriv, su, gosu), not before it"
	whyPID       = "it has a PID namespace of its own, where it goes by another number: what is seen of it, if anything, is taken for another process's; start instrument inside of it"
	whyMounts    = "it has a mount namespace of its own, where the library or /proc is not what it is outside; start instrument inside of it"
	whyStatic    = "its program is statically linked, so that no dynamic loader reads LD_PRELOAD; only eBPF sees it (--capture ebpf)"
	whyCleaned   = "it was started with another environment; pass on LD_PRELOAD and " + EnvRing
	whyElsewhere = "the loader has not found the library, or ignores LD_PRELOAD as it does for set-user-ID programs"
	whyUnknown   = "it runs as another user, in namespaces of its own, with a cleaned environment, or is statically linked"
)

// maxEnvironBytes bounds what is read of a process's environment.
const maxEnvironBytes = 4 << 20

// whyUncovered looks at a process that did not register. What it may not look at says
// nothing; then all reasons are named that there can be.
func whyUncovered(pid uint32) string {
	status, err := readSome(procPath(pid, "status"), make([]byte, 4096))
	if err != nil {
		return whyUnknown
	}
	// Uid: real, effective, saved, file system. NSpid (Linux 4.1): the pid in each PID
	// namespace from ours to its own.
	if ids := statusField(status, "Uid"); len(ids) > 1 && ids[1] != strconv.Itoa(os.Geteuid()) {
		return whyUser
	}
	if len(statusField(status, "NSpid")) > 1 {
		return whyPID
	}
	if other, known := otherNamespace(pid, "mnt"); known && other {
		return whyMounts
	}
	if static, known := isStatic(procPath(pid, "exe")); known && static {
		return whyStatic
	}
	env, err := readEnviron(pid)
	switch {
	case err != nil:
		return whyUnknown
	case !carries(env):
		return whyCleaned
	}
	return whyElsewhere
}

// hasLeft reports whether a process that had registered runs a program now that has not
// found the ring: as another user (setpriv changes the user and then calls exec), without
// a dynamic loader, or without the environment. Nothing tells of that, as the pid stays.
func hasLeft(pid uint32) bool {
	status, err := readSome(procPath(pid, "status"), make([]byte, 4096))
	if err != nil {
		return false
	}
	ids := statusField(status, "Uid")
	otherUser := len(ids) > 1 && ids[1] != strconv.Itoa(os.Geteuid())
	static, _ := isStatic(procPath(pid, "exe"))
	if !static && !otherUser {
		env, err := readEnviron(pid)
		if err != nil || carries(env) {
			return false
		}
	}
	// It may have changed its user without exec, or written a title over its environment.
	// Only now are its mappings looked at: that takes a lock of its memory.
	mappings, err := os.ReadFile(procPath(pid, "maps"))
	return err != nil || !bytes.Contains(mappings, []byte(ringName))
}

// readEnviron reads the environment with which a process was started. An empty one is no
// error.
func readEnviron(pid uint32) ([]byte, error) {
	env, err := readSome(procPath(pid, "environ"), make([]byte, maxEnvironBytes))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return env, err
}

// statusField returns the words of a line of /proc/PID/status.
func statusField(status []byte, name string) []string {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return strings.Fields(string(rest))
		}
	}
	return nil
}

// otherNamespace compares a process's namespace with ours.
func otherNamespace(pid uint32, kind string) (other, known bool) {
	theirs, err := os.Readlink(procPath(pid, "ns/"+kind))
	if err != nil {
		return false, false
	}
	own, err := os.Readlink("/proc/self/ns/" + kind)
	return theirs != own, err == nil
}

// isStatic reports whether a program names no dynamic loader.
func isStatic(path string) (static, known bool) {
	f, err := elf.Open(path)
	if err != nil {
		return false, false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, true
		}
	}
	return true, true
}

// carries reports whether an environment has what Inject puts in.
func carries(env []byte) bool {
	library, ring := false, false
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := strings.Cut(string(kv), "=")
		switch name {
		case EnvRing:
			ring = true
		case envPreload:
			for _, entry := range strings.FieldsFunc(value, func(c rune) bool { return c == ':' || c == ' ' }) {
				library = library || isShim(entry)
			}
		}
	}
	return library && ring
}
