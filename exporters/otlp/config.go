package otlp

import (
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tokenscope/tokenscope/exporters/spantree"
)

// Exporter names, as in OTEL_TRACES_EXPORTER.
const (
	ExporterOTLP    = "otlp"
	ExporterConsole = "console"
	ExporterNone    = "none"
)

// Protocols, as in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	ProtocolGRPC = "grpc"
	ProtocolHTTP = "http/protobuf"
)

const (
	// DefaultQueueRequests bounds the Requests that wait for the SDK: some seconds of a
	// busy server's, so that a collector may restart.
	DefaultQueueRequests = 4096
	// DefaultQueueBytes bounds the memory that they hold, a quarter of the agent's budget.
	DefaultQueueBytes = 16 << 20
)

// Config says what to export and where to. Nothing is read from the environment but what
// the package's comment lists.
type Config struct {
	// Exporters are exporter names; none (or only "none") makes a Pipeline that does
	// nothing.
	Exporters []string

	// Protocol is ProtocolGRPC (also for "") or ProtocolHTTP.
	Protocol string
	// Endpoint is the traces endpoint in full, for HTTP with its path. Where it is "", the
	// SDK takes it from the environment.
	Endpoint string
	// EndpointNamed says that the user named an endpoint, in Endpoint or in the
	// environment. Without one the target is localhost, and ARMS' keys stay here.
	EndpointNamed bool
	// Headers replace those of OTEL_EXPORTER_OTLP_[TRACES_]HEADERS where they are not nil.
	Headers map[string]string
	// ARMSLicenseKey and ARMSWorkspace become headers toward an endpoint that the user
	// named, unless the user's headers have them already.
	ARMSLicenseKey, ARMSWorkspace string

	// Tree says how much of a Request is exported.
	Tree spantree.Options
	// Resource is what NewResource returned; nil is an empty one.
	Resource *resource.Resource
	// Console is where the console exporter prints; nil is standard error.
	Console io.Writer

	// QueueRequests and QueueBytes bound the queue; 0 takes the defaults.
	QueueRequests int
	QueueBytes    int64

	// Log gets a line when the collector's state changes; nil discards it.
	Log *slog.Logger
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Resource == nil {
		d.Resource = resource.Empty()
	}
	if d.Console == nil {
		d.Console = os.Stderr
	}
	if d.QueueRequests <= 0 {
		d.QueueRequests = DefaultQueueRequests
	}
	if d.QueueBytes <= 0 {
		d.QueueBytes = DefaultQueueBytes
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d
}
