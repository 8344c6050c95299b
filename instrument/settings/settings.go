package settings

// The Settings value itself.

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"
)

// Log levels beside slog's own.
const (
	LevelTrace = slog.LevelDebug - 4
	// LevelOff is above every level that is used.
	LevelOff slog.Level = 1 << 10
)

// Settings holds every setting, ready to use. It does not change after Load.
type Settings struct {
	// ServiceName is "" where nobody set one: the agent then names the service after
	// the engine.
	ServiceName        string
	ResourceAttributes Attributes
	// CloudRegion and the ARMS values are "" where not set.
	CloudRegion   string
	ARMSWorkspace string
	ARMSProject   string
	ARMSLicense   Secret
	// EngineHint is EngineVLLMV0, EngineVLLMV1 or EngineSGLang where the user said so. It
	// stands until an engine is recognised.
	EngineHint string

	SDKDisabled bool
	LogLevel    slog.Level

	// Exporters are ExporterOTLP and ExporterConsole, each at most once; empty: none.
	Exporters []string
	OTLP      OTLP

	// Propagators are PropagatorTraceContext and PropagatorBaggage; empty: none.
	Propagators []string
	// Sampler is a value of OTEL_TRACES_SAMPLER; SamplerArg is the ratio of those that
	// take one, 0 otherwise.
	Sampler    string
	SamplerArg float64
	Batch      Batch

	SpanEventLimit int
	TracingLevel   int    // 0, 1 or 2
	Dialect        string // DialectBoth, DialectOTel or DialectARMS

	Capture                         string // CaptureAuto, CaptureEBPF, CapturePreload or CaptureOff
	HeadBytes, TailBytes, RingBytes int
	FrameBytes                      int
	// Record is the recording's file, "" for none; WithContent keeps it unredacted.
	Record      string
	WithContent bool

	// Warnings are what could not be used as it was set, in the order of the table.
	Warnings []Warning

	entries   []Entry
	agentArgs []string
}

// OTLP says how traces are sent to a collector. The exporters are given all of it, so
// that what they do is what `instrument config` shows.
type OTLP struct {
	// Endpoint is complete: over HTTP it has the path that traces are posted to. It is
	// zero where nothing is sent.
	Endpoint Endpoint
	// Named says that the user named the endpoint, so that ARMS headers may go to it.
	Named       bool
	Protocol    string // ProtocolGRPC or ProtocolHTTPProtobuf
	JSON        bool   // HTTP with JSON instead of protobuf; the SDK's exporter reads this from the variable
	Insecure    bool   // no TLS, as the endpoint's scheme or else OTEL_EXPORTER_OTLP_INSECURE says
	Headers     Headers
	Timeout     time.Duration // 0: no limit
	Compression string        // CompressionNone or CompressionGzip
	// Paths of PEM files, "" where not set.
	Certificate, ClientCertificate, ClientKey string
}

// Batch configures the batch span processor.
type Batch struct {
	ScheduleDelay, ExportTimeout time.Duration // ExportTimeout 0: no limit
	MaxQueueSize, MaxBatchSize   int
}

// Entry is a setting as people are shown it.
type Entry struct {
	Spec *Spec
	// Text is the value in words, "-" where unset; secrets are masked.
	Text string
	// JSON is the value for encoding/json, nil where unset; secrets are masked and
	// durations are milliseconds.
	JSON any
	// Source is SourceDefault, a variable, a flag with its dashes, or words such as
	// "port of OTEL_EXPORTER_OTLP_ENDPOINT".
	Source string
}

// Entries gives every setting in the order of the table.
func (s *Settings) Entries() []Entry { return s.entries }

// Entry gives the setting with this name (one of the Name constants).
func (s *Settings) Entry(name string) Entry {
	for _, e := range s.entries {
		if e.Spec.Name == name {
			return e
		}
	}
	return Entry{}
}

// Source says where the setting with this name came from.
func (s *Settings) Source(name string) string { return s.Entry(name).Source }

// AgentArgs gives the flags that make another process of this program, with the same
// environment, load the same Settings: those that the user gave, each as one word.
// No flag carries a secret.
func (s *Settings) AgentArgs() []string { return slices.Clone(s.agentArgs) }

// TraceContext reports whether a request joins the trace of its caller.
func (s *Settings) TraceContext() bool {
	return slices.Contains(s.Propagators, PropagatorTraceContext)
}

// NoAgentReason says why no agent is needed beside the workload; "" when one is.
func (s *Settings) NoAgentReason() string {
	switch {
	case s.Capture == CaptureOff:
		return "capture is off (" + s.Source(NameCapture) + ")"
	case s.SDKDisabled && s.Record == "":
		return "the SDK is disabled (" + s.Source(NameSDKDisabled) + ")"
	}
	return ""
}

// Format prints one line for each setting, so that printing a Settings in any way
// shows no secret.
func (s Settings) Format(f fmt.State, _ rune) {
	for _, e := range s.entries {
		io.WriteString(f, e.Spec.Name+"="+e.Text+"\n")
	}
}

// settings fills the value from the results.
func (l *loader) settings() *Settings {
	s := &Settings{
		ServiceName:        get[string](l, NameServiceName),
		ResourceAttributes: get[Attributes](l, NameResourceAttributes),
		CloudRegion:        get[string](l, NameCloudRegion),
		ARMSWorkspace:      get[string](l, NameWorkspace),
		ARMSProject:        get[string](l, NameProject),
		ARMSLicense:        get[Secret](l, NameLicenseKey),
		EngineHint:         get[string](l, NameEngineHint),
		SDKDisabled:        get[bool](l, NameSDKDisabled),
		LogLevel:           logLevel(get[string](l, NameLogLevel)),
		Exporters:          get[[]string](l, NameTracesExporter),
		OTLP: OTLP{
			Endpoint:          get[Endpoint](l, NameOTLPEndpoint),
			Named:             l.source(NameOTLPEndpoint) != SourceDefault && l.results[NameOTLPEndpoint].value != nil,
			Protocol:          transport(get[string](l, NameOTLPProtocol)),
			JSON:              get[string](l, NameOTLPProtocol) == ProtocolHTTPJSON,
			Insecure:          l.insecure(),
			Headers:           get[Headers](l, NameOTLPHeaders),
			Timeout:           get[time.Duration](l, NameOTLPTimeout),
			Compression:       get[string](l, NameOTLPCompression),
			Certificate:       get[string](l, NameOTLPCertificate),
			ClientCertificate: get[string](l, NameOTLPClientCert),
			ClientKey:         get[string](l, NameOTLPClientKey),
		},
		Propagators: get[[]string](l, NamePropagators),
		Sampler:     get[string](l, NameSampler),
		SamplerArg:  get[float64](l, NameSamplerArg),
		Batch: Batch{
			ScheduleDelay: get[time.Duration](l, NameBSPScheduleDelay),
			ExportTimeout: get[time.Duration](l, NameBSPExportTimeout),
			MaxQueueSize:  int(get[int64](l, NameBSPMaxQueueSize)),
			MaxBatchSize:  int(get[int64](l, NameBSPMaxBatchSize)),
		},
		SpanEventLimit: int(get[int64](l, NameSpanEventLimit)),
		TracingLevel:   int(get[int64](l, NameTracingLevel)),
		Dialect:        get[string](l, NameDialect),
		Capture:        get[string](l, NameCapture),
		FrameBytes:     int(get[int64](l, NameFrameBytes)),
		HeadBytes:      int(get[int64](l, NameHeadBytes)),
		TailBytes:      int(get[int64](l, NameTailBytes)),
		RingBytes:      int(get[int64](l, NameRingBytes)),
		Record:         get[string](l, NameRecord),
		WithContent:    get[bool](l, NameWithContent),
		Warnings:       l.warnings(),
	}
	for _, sp := range table {
		r := l.results[sp.Name]
		s.entries = append(s.entries, Entry{Spec: sp, Text: display(r.value), JSON: jsonValue(r.value), Source: r.source})
		if text, given := l.flag(sp); given {
			s.agentArgs = append(s.agentArgs, "--"+sp.Flag+"="+text)
		}
	}
	return s
}

// transport is the protocol without regard to how bodies are encoded.
func transport(protocol string) string {
	if protocol == ProtocolHTTPJSON {
		return ProtocolHTTPProtobuf
	}
	return protocol
}

// jsonValue gives a value that encoding/json writes as people expect and that holds no
// secret.
func jsonValue(value any) any {
	switch v := value.(type) {
	case nil, string, bool, int64, float64, []string:
		return v
	case Headers:
		// Not the Headers: fmt reads unexported fields without asking their types.
		m := make(map[string]string, len(v))
		for name, secret := range v {
			m[name] = secret.String()
		}
		return m
	case time.Duration:
		return v.Milliseconds()
	case Attributes:
		m := make(map[string]string, len(v))
		for _, a := range v {
			m[a.Key] = a.Value
		}
		return m
	case fmt.Stringer:
		return v.String()
	}
	panic(fmt.Sprintf("settings: no JSON for %T", value))
}

// logLevel maps the values of OTEL_LOG_LEVEL.
func logLevel(word string) slog.Level {
	switch word {
	case "trace":
		return LevelTrace
	case "debug":
		return slog.LevelDebug
	case "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "none", "off":
		return LevelOff
	}
	panic("settings: no level for " + strconv.Quote(word))
}
