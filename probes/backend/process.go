package backend

// What is known of a process of the workload, and whether its receives are wanted.

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of the workload, as WantReceives is asked about it.
type Process struct {
	// PID and Parent are numbers in the agent's PID namespace; Parent is 0 where
	// it is not known.
	PID, Parent uint32
	// Comm is the name of its main thread.
	Comm string
	// Cmdline is its command line, empty where it could not be read.
	Cmdline []string
	// ParentWanted is the answer that was given for its parent.
	ParentWanted bool
}

// maxInspectedArgs bounds how many arguments say what a program is: interpreter,
// its flags, -m, module or script, sub-command. Later ones are the user's words.
const maxInspectedArgs = 6

// DefaultWantReceives is true for processes of vLLM and their children. It is
// false for SGLang, whose scheduler polls its sockets twenty to two hundred
// thousand times a second.
func DefaultWantReceives(p Process) bool {
	vllm := strings.HasPrefix(p.Comm, EngineNamePrefix)
	for _, arg := range p.Cmdline[:min(len(p.Cmdline), maxInspectedArgs)] {
		// "-m vllm.entrypoints…" has no slash and is its own base name; so is "VLLM::…".
		name := strings.ToLower(filepath.Base(arg))
		if strings.HasPrefix(name, "sglang") {
			return false
		}
		if strings.Contains(name, "vllm") && !strings.HasPrefix(arg, "-") {
			vllm = true
		}
	}
	return vllm || p.ParentWanted
}

// EngineNamePrefix begins the names that vLLM gives its processes when they begin to
// work (VLLM::EngineCore), whatever they were started as.
const EngineNamePrefix = "VLLM::"

// MaxProcesses bounds how many processes of a workload a backend remembers.
const MaxProcesses = 8192

// maxCmdlineBytes bounds what is kept of a command line. The Rust front-end of
// vLLM gets all settings as one JSON argument of some kilobytes.
const maxCmdlineBytes = 32 << 10

// ReadCmdline returns the raw command line of a process, its arguments ended by
// NUL; nil if it cannot be read.
func ReadCmdline(pid uint32) []byte {
	f, err := os.Open("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/cmdline")
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCmdlineBytes))
	if err != nil {
		return nil
	}
	return data
}

// SplitCmdline splits what ReadCmdline returned into its arguments.
func SplitCmdline(raw []byte) []string {
	if len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}
