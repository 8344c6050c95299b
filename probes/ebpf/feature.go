package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnavailable is wrapped by the error of Open when nothing can be watched here, and
// by that of SelfTest when what was attached does not see what it should.
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

// unavailable is the error when feature f, without which nothing works, is lost. Cure knows what it says.
func unavailable(f Feature) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, f.Name, f.Err)
}
