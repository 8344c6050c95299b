package ebpf

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
	vllm := strings.HasPrefix(p.Comm, "VLLM::")
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

// process is what the source remembers of a process.
type process struct {
	Process
	wanted bool
	// expected says that the libzmq which it will probably load is known and probed
	// already; settled, that it has been seen in its maps: nothing is looked for
	// any more.
	expected, settled bool
	since             int64 // CLOCK_MONOTONIC of its exec
	next              int64 // when its maps are looked at again
	looks             int
	// receives are the probes on zmq_msg_recv for this process, by library.
	receives map[*library]*attachment
}

// detach gives up the probes for receiving, beside the goroutine that empties the
// ring: the kernel takes a tenth of a second for each, and others wait meanwhile.
func (s *Source) detach(p *process) {
	for _, a := range p.receives {
		s.aside.Go(func() {
			<-a.done
			s.detaching <- struct{}{}
			defer func() { <-s.detaching }()
			// A probe on a process that is gone is gone as well: no error matters.
			closeAll(a.links)
		})
	}
	p.receives = nil
}

// maxProcesses bounds the agent's table, as the kernel's table is bounded.
const maxProcesses = 8192

// maxCmdlineBytes bounds what is kept of a command line. The Rust front-end of
// vLLM gets all settings as one JSON argument of some kilobytes.
const maxCmdlineBytes = 32 << 10

// readCmdline returns the raw command line of a process, its arguments ended by
// NUL; nil if it cannot be read.
func readCmdline(pid uint32) []byte {
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

func splitCmdline(raw []byte) []string {
	if len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

// lookDelay is how long to wait before maps are looked at again. A server imports
// pyzmq seconds to a minute after its start; looking costs the agent about a
// millisecond on a large process.
func lookDelay(looks int, age time.Duration) time.Duration {
	switch {
	case looks < 6:
		return 20 * time.Millisecond << looks // 20 ms … 640 ms
	case age < 3*time.Minute:
		return time.Second
	case age < 15*time.Minute:
		return 10 * time.Second
	default:
		return time.Minute
	}
}
