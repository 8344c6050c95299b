package otlp

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

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

// Compressions, as in OTEL_EXPORTER_OTLP_COMPRESSION.
const (
	CompressionNone = "none"
	CompressionGzip = "gzip"
)

const (
	// DefaultQueueRequests bounds the Requests that wait for the SDK: some seconds of a
	// busy server's, so that a collector may restart.
	DefaultQueueRequests = 4096
	// DefaultQueueBytes bounds the memory that they hold, a quarter of the agent's budget.
	DefaultQueueBytes = 16 << 20

	// DefaultScheduleDelay is shorter than the SDK's 5 s: containers are killed without a
	// SIGTERM on some platforms, and what was not sent by then is lost.
	DefaultScheduleDelay = time.Second
	// DefaultMaxQueueSize and DefaultMaxBatchSize are the SDK's.
	DefaultMaxQueueSize = sdktrace.DefaultMaxQueueSize
	DefaultMaxBatchSize = sdktrace.DefaultMaxExportBatchSize
)

// Config says what to export and where to. It is the whole of it: the package's comment
// names the little that is still read from the environment.
type Config struct {
	// Exporters are exporter names; none (or only "none") makes a Pipeline that does
	// nothing.
	Exporters []string
	// Collector is where ExporterOTLP sends to.
	Collector Collector
	Batch     Batch
	// Sampler is a value of OTEL_TRACES_SAMPLER, "" for parentbased_always_on; SamplerArg
	// is the share that those with "traceidratio" keep.
	Sampler    string
	SamplerArg float64

	// Tree says how much of a Request is exported.
	Tree spantree.Options
	// Resource is what NewResource returned; nil is an empty one.
	Resource *resource.Resource
	// EngineHint is the engine that the user says it is, "" where nobody did: its name on
	// the resource until one is recognised. What is recognised counts, and a difference is
	// logged once.
	EngineHint string
	// Console is where the console exporter prints; nil is standard error.
	Console io.Writer

	// QueueRequests and QueueBytes bound the queue; 0 takes the defaults.
	QueueRequests int
	QueueBytes    int64

	// Log gets a line when the collector's state changes; nil discards it.
	Log *slog.Logger
}

// Collector says where OTLP is sent and how. The zero value is a collector on this
// machine, over gRPC and without TLS.
type Collector struct {
	// Protocol is ProtocolGRPC (also for "") or ProtocolHTTP.
	Protocol string
	// JSON makes HTTP bodies JSON instead of protobuf; over gRPC it has no meaning.
	JSON bool
	// Endpoint is, over HTTP, the URL that traces are posted to, path included. Over gRPC
	// it is a URL of http or https, of which host and port count, or a name for gRPC's
	// resolvers ("dns:///c:4317", "unix:///run/c.sock"). A user and password in it become
	// an Authorization header. "" is the standard place on this machine.
	Endpoint string
	// Named says that the user named the endpoint. ARMS' keys go to no other.
	Named bool
	// Insecure says that gRPC goes without TLS. Over HTTP the URL's scheme says it.
	Insecure bool
	// Headers go with each export.
	Headers map[string]string
	// ARMSLicenseKey, ARMSWorkspace and ARMSProject become headers toward an endpoint that
	// the user named, unless Headers has them already.
	ARMSLicenseKey, ARMSWorkspace, ARMSProject string
	// Timeout bounds one attempt at an export; 0: no limit.
	Timeout time.Duration
	// Compression is CompressionNone (also for "") or CompressionGzip.
	Compression string
	// Certificate is a PEM file of the authorities to trust; "" for the system's.
	Certificate string
	// ClientCertificate and ClientKey are PEM files of what is shown to the collector;
	// both or neither.
	ClientCertificate, ClientKey string
}

// Batch says how spans are put together for an export.
type Batch struct {
	// ScheduleDelay is the time between exports; 0 takes the default.
	ScheduleDelay time.Duration
	// ExportTimeout bounds one export with all its attempts; 0: no limit.
	ExportTimeout time.Duration
	// MaxQueueSize and MaxBatchSize count spans: those that wait, and those in one
	// export. 0 takes the defaults; a batch is never larger than the queue.
	MaxQueueSize, MaxBatchSize int
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
	// The SDK makes a channel of what it is given, and panics where that is negative.
	b := &d.Batch
	if b.ScheduleDelay <= 0 {
		b.ScheduleDelay = DefaultScheduleDelay
	}
	if b.MaxQueueSize <= 0 {
		b.MaxQueueSize = DefaultMaxQueueSize
	}
	if b.MaxBatchSize <= 0 {
		b.MaxBatchSize = DefaultMaxBatchSize
	}
	b.MaxBatchSize = min(b.MaxBatchSize, b.MaxQueueSize)
	return d
}

// options are the batch processor's. It blocks where its queue is full, so that drops
// happen, and are counted, in our own.
func (b *Batch) options() []sdktrace.BatchSpanProcessorOption {
	return []sdktrace.BatchSpanProcessorOption{
		sdktrace.WithBlocking(),
		sdktrace.WithBatchTimeout(b.ScheduleDelay),
		sdktrace.WithExportTimeout(b.ExportTimeout),
		sdktrace.WithMaxQueueSize(b.MaxQueueSize),
		sdktrace.WithMaxExportBatchSize(b.MaxBatchSize),
	}
}

// sampler makes the sampler. With an error it is the default.
func (c *Config) sampler() (sdktrace.Sampler, error) {
	switch c.Sampler {
	case "", "parentbased_always_on":
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(c.SamplerArg), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.SamplerArg)), nil
	default:
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), fmt.Errorf("unknown sampler %q", c.Sampler)
	}
	return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
}
