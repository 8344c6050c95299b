package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrUnavailable is wrapped by Open's error when nothing can be watched here.
var ErrUnavailable = errors.New("ebpf capture is not available")

// Feature is one thing that this package can watch, and whether it does.
type Feature struct {
	// Name is stable and short: "processes", "zmq-send".
	Name string
	// Err is why it is lost; nil when it works.
	Err error
	// Lost says what cannot be seen without it.
	Lost string
}

// The features, in the order in which they are loaded.
const (
	featureProcesses   = "processes"
	featureAdopt       = "adopt"
	featureZMQSend     = "zmq-send"
	featureZMQReceive  = "zmq-receive"
	featureZMQTypes    = "zmq-socket-types"
	featureHTTP        = "http"
	featureHTTPVectors = "http-vectors"
	featureHTTPAccept  = "http-accept"
	featureHTTPClose   = "http-close"
)

// featureSpec names the programs that a feature needs, all of them, and what does
// the same on older kernels.
type featureSpec struct {
	name     string
	programs []string
	older    []string
	lost     string
}

var featureSpecs = []featureSpec{
	{name: featureProcesses, programs: []string{captureProgProcessFork, captureProgProcessExec, captureProgProcessExit},
		lost: "everything: the workload's processes cannot be followed"},
	{name: featureAdopt, programs: []string{captureProgAdopt},
		lost: "everything: the workload's processes cannot be found"},
	{name: featureZMQSend, programs: []string{captureProgZmqSend},
		lost: "engine messages that are sent"},
	{name: featureZMQReceive, programs: []string{captureProgZmqRecv, captureProgZmqRecvReturn},
		lost: "engine messages that are received, and when the server got them"},
	{name: featureZMQTypes, programs: []string{captureProgZmqSocketEnter, captureProgZmqSocketReturn, captureProgZmqClose},
		lost: "the types of ZeroMQ sockets; broadcasts are captured too"},
	{name: featureHTTP, programs: []string{captureProgDoneFlat}, older: []string{captureProgEnterShort, captureProgEnterLong, captureProgLeaveFlat},
		lost: "HTTP requests and most responses"},
	{name: featureHTTPVectors, programs: []string{captureProgDoneVector}, older: []string{captureProgEnterShort, captureProgLeaveVector},
		lost: "HTTP responses that are written from several buffers at once"},
	{name: featureHTTPAccept, programs: []string{captureProgLeaveAccept},
		lost: "the accepting of HTTP connections; they are known from their first request on"},
	{name: featureHTTPClose, programs: []string{captureProgEnterClose, captureProgEnterShutdown},
		lost: "when the server closes a connection"},
}

// rawSpecs are the features when single system calls have no tracepoints.
func rawSpecs() []featureSpec {
	var specs []featureSpec
	for _, f := range featureSpecs {
		if strings.HasPrefix(f.name, featureHTTP) {
			f.programs, f.older = []string{captureProgRawEnter, captureProgRawExit}, nil
		}
		specs = append(specs, f)
	}
	return specs
}

// programsOf names the programs of features, each once: those that are wanted, and
// those to be tried if they are refused.
func programsOf(specs []featureSpec) (want, older []string) {
	for _, f := range specs {
		want = append(want, f.programs...)
		older = append(older, f.older...)
	}
	slices.Sort(want)
	slices.Sort(older)
	return slices.Compact(want), slices.Compact(older)
}

// Cure names, for a reason that a program or an attachment was refused, what
// would help; empty where that is not known.
func Cure(err error) string {
	var verifier *ebpf.VerifierError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		// First: the verifier's refusal is an EACCES as well.
		return "the kernel's verifier refuses the program; please report it with the kernel's version (uname -r)"
	case errors.Is(err, errMemlock):
		return "before Linux 5.11: run with CAP_SYS_RESOURCE besides CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, or raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity)"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if mode := lockdown(); mode == "confidentiality" {
			return "the kernel is locked down (confidentiality): boot with lockdown=integrity or none"
		}
		return "run with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, or with CAP_SYS_ADMIN; in a container the seccomp profile must allow bpf and perf_event_open"
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "btf"), strings.Contains(err.Error(), "no BTF"):
		return "use a kernel with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)"
	case errors.Is(err, ebpf.ErrNotSupported):
		return "use Linux 5.8 or later"
	}
	return ""
}

// lockdown is the kernel's lockdown mode: "none", "integrity", "confidentiality",
// or "" where it has none.
func lockdown() string {
	data, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(data), "[")
	if !ok {
		return ""
	}
	mode, _, _ := strings.Cut(rest, "]")
	return mode
}

// unavailable is the error of Open when feature f, without which nothing works,
// is lost. Cure knows what it says.
func unavailable(f Feature) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, f.Name, f.Err)
}
