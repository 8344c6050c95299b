package settings

// The table of all settings.

// Kind says how a setting's text is read.
type Kind uint8

// Kinds of settings. The Go type of the value stands behind each.
const (
	KindString     Kind = iota + 1 // string: printable text
	KindToken                      // string: printable ASCII without spaces, fit for a header
	KindSecret                     // Secret: a KindToken that is never shown
	KindBool                       // bool
	KindInt                        // int64 within Min…Max
	KindMillis                     // time.Duration, written as whole milliseconds within Min…Max
	KindRatio                      // float64 within 0…1
	KindEnum                       // string: one of Values
	KindList                       // []string: some of Values, separated by commas
	KindFile                       // string: a path
	KindURL                        // Endpoint
	KindAttributes                 // Attributes: key=value,key=value
	KindHeaders                    // Headers: name=value,name=value
)

// Spec describes one setting.
type Spec struct {
	// Name is how `instrument config` and Settings.Entry call it.
	Name string
	Kind Kind
	// Flag is the flag's name without dashes; "" where there is none.
	Flag string
	// Placeholder stands for the flag's value in help texts.
	Placeholder string
	// Env are the variables, highest precedence first. "VAR[key]" is the value of key
	// in the list of pairs that VAR holds.
	Env []string
	// Default is the default as one would write it; "" means unset, or derived as
	// Derived says.
	Default string
	// Derived tells people where the default comes from when it is not a constant.
	Derived string
	// Values are the choices of KindEnum and KindList.
	Values []string
	// Min and Max bound KindInt and KindMillis.
	Min, Max int64
	// PowerOfTwo says that a KindInt must be one.
	PowerOfTwo bool
	// Help is one sentence without a full stop.
	Help string
}

// TakesValue reports whether the setting's flag is followed by a value.
func (s *Spec) TakesValue() bool { return s.Kind != KindBool }

// secretText reports whether the text of a variable may hold a secret, so that it is
// not repeated in messages.
func (s *Spec) secretText() bool {
	return s.Kind == KindSecret || s.Kind == KindHeaders || s.Kind == KindURL
}

// Names of settings, for Settings.Entry.
const (
	NameServiceName        = "service.name"
	NameResourceAttributes = "resource.attributes"
	NameCloudRegion        = "cloud.region"
	NameWorkspace          = "arms.workspace"
	NameProject            = "arms.project"
	NameLicenseKey         = "arms.license_key"
	NameIsPublic           = "arms.is_public"
	NameEngineHint         = "arms.framework"
	NameAppType            = "arms.app_type"
	NameSDKDisabled        = "sdk.disabled"
	NameLogLevel           = "log.level"
	NameTracesExporter     = "traces.exporter"
	NameOTLPEndpoint       = "otlp.endpoint"
	NameOTLPProtocol       = "otlp.protocol"
	NameOTLPHeaders        = "otlp.headers"
	NameOTLPTimeout        = "otlp.timeout"
	NameOTLPCompression    = "otlp.compression"
	NameOTLPInsecure       = "otlp.insecure"
	NameOTLPCertificate    = "otlp.certificate"
	NameOTLPClientCert     = "otlp.client_certificate"
	NameOTLPClientKey      = "otlp.client_key"
	NamePropagators        = "propagators"
	NameSampler            = "traces.sampler"
	NameSamplerArg         = "traces.sampler_arg"
	NameBSPScheduleDelay   = "bsp.schedule_delay"
	NameBSPExportTimeout   = "bsp.export_timeout"
	NameBSPMaxQueueSize    = "bsp.max_queue_size"
	NameBSPMaxBatchSize    = "bsp.max_export_batch_size"
	NameSpanEventLimit     = "span.event_count_limit"
	NameTracingLevel       = "tracing.level"
	NameDialect            = "dialect"
	NameCapture            = "capture"
	NameFrameBytes         = "capture.frame_bytes"
	NameHeadBytes          = "capture.head_bytes"
	NameTailBytes          = "capture.tail_bytes"
	NameRingBytes          = "capture.ring_bytes"
	NameRecord             = "record"
	NameWithContent        = "record.with_content"
)

// Bounds of settings that size something.
const (
	// maxMillis is a day: no timeout or delay of an exporter is sensibly longer, and
	// sums of it cannot overflow.
	maxMillis = 24 * 60 * 60 * 1000
	// maxQueueSpans bounds the batch processor's memory; a span is about 1 KiB.
	maxQueueSpans = 1 << 17
	// maxSpanEvents bounds what is kept of one request's steps (about 100 bytes each).
	maxSpanEvents = 10_000
	// The kernel program copies at most 64 KiB of one event, head and tail together.
	// Less than 1 KiB of head would cut off the ids that requests are joined by, and a
	// tail there must be.
	minHeadBytes, maxHeadBytes = 1 << 10, 48 << 10
	// The ring must hold several of the largest frames.
	minFrameBytes, maxFrameBytes = 16 << 10, 1 << 20
	minTailBytes, maxTailBytes   = 1, 16 << 10
	// The ring must hold several events of the greatest size, and is kernel memory
	// that nothing else can use.
	minRingBytes, maxRingBytes = 256 << 10, 256 << 20
)

// Choices of settings with a fixed set of values.
const (
	ExporterOTLP    = "otlp"
	ExporterConsole = "console"
	ExporterNone    = "none"

	ProtocolGRPC         = "grpc"
	ProtocolHTTPProtobuf = "http/protobuf"
	ProtocolHTTPJSON     = "http/json"

	CompressionNone = "none"
	CompressionGzip = "gzip"

	PropagatorTraceContext = "tracecontext"
	PropagatorBaggage      = "baggage"
	PropagatorNone         = "none"

	CaptureAuto    = "auto"
	CaptureEBPF    = "ebpf"
	CapturePreload = "preload"
	CaptureOff     = "off"

	DialectBoth = "both"
	DialectOTel = "otel"
	DialectARMS = "arms"

	SamplerTraceIDRatio            = "traceidratio"
	SamplerParentBasedAlwaysOn     = "parentbased_always_on"
	SamplerParentBasedTraceIDRatio = "parentbased_traceidratio"
)

// The variable of ARMS set-ups that names the endpoint. It has no published definition:
// here it is a base address, as OTEL_EXPORTER_OTLP_ENDPOINT is, which beats it.
const envARMSEndpoint = "ARMS_ENDPOINT"

// The engines that APSARA_APM_MODEL_SERVICE_FRAMEWORK names, in the form that the
// resource has them once they are recognised.
const (
	EngineVLLMV0 = "vllm-v0"
	EngineVLLMV1 = "vllm-v1"
	EngineSGLang = "sglang"
)

// otlpEnv gives the two variables of an OTLP setting, the one for traces first.
func otlpEnv(suffix string) []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_" + suffix, "OTEL_EXPORTER_OTLP_" + suffix}
}

// table holds every setting, in the order in which people read them.
var table = []*Spec{
	{Name: NameServiceName, Kind: KindString, Flag: "service-name", Placeholder: "NAME",
		Env:     []string{"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES[service.name]", "ARMS_APP_NAME"},
		Derived: "unknown_service:PROGRAM of the workload",
		Help:    "name of the service that spans are reported for"},
	{Name: NameResourceAttributes, Kind: KindAttributes, Env: []string{"OTEL_RESOURCE_ATTRIBUTES"},
		Help: "attributes of the resource, key=value,key=value"},
	{Name: NameCloudRegion, Kind: KindString,
		Env:  []string{"OTEL_RESOURCE_ATTRIBUTES[cloud.region]", "ARMS_REGION_ID"},
		Help: "region that the service runs in"},
	{Name: NameWorkspace, Kind: KindToken, Env: []string{"ARMS_WORKSPACE"},
		Help: "ARMS workspace, sent only to an endpoint that you named"},
	{Name: NameProject, Kind: KindToken, Env: []string{"ARMS_PROJECT"},
		Help: "ARMS project, sent only to an endpoint that you named"},
	{Name: NameLicenseKey, Kind: KindSecret, Env: []string{"ARMS_LICENSE_KEY"},
		Help: "ARMS licence key, sent only to an endpoint that you named"},
	{Name: NameIsPublic, Kind: KindString, Env: []string{"ARMS_IS_PUBLIC"},
		Help: "no effect: the endpoint says whether it is public"},
	{Name: NameEngineHint, Kind: KindEnum, Env: []string{"APSARA_APM_MODEL_SERVICE_FRAMEWORK"},
		Values: []string{EngineVLLMV0, EngineVLLMV1, EngineSGLang},
		Help:   "engine that is reported until one is recognised"},
	{Name: NameAppType, Kind: KindString, Env: []string{"APSARA_APM_APP_TYPE"},
		Help: "no effect: every workload is observed as a model service"},

	{Name: NameSDKDisabled, Kind: KindBool, Env: []string{"OTEL_SDK_DISABLED"}, Default: "false",
		Help: "run the workload and observe nothing"},
	{Name: NameLogLevel, Kind: KindEnum, Flag: "log-level", Placeholder: "LEVEL",
		Env: []string{"OTEL_LOG_LEVEL"}, Default: "info",
		Values: []string{"trace", "debug", "info", "warn", "error", "none", "off"},
		Help:   "how much instrument itself says on stderr"},

	{Name: NameTracesExporter, Kind: KindList, Flag: "traces-exporter", Placeholder: "LIST",
		Env: []string{"OTEL_TRACES_EXPORTER"}, Values: []string{ExporterOTLP, ExporterConsole, ExporterNone},
		Derived: "otlp if an endpoint is set",
		Help:    "where spans go: a list of otlp, console, none"},
	{Name: NameOTLPEndpoint, Kind: KindURL, Env: append(otlpEnv("ENDPOINT"), envARMSEndpoint),
		Derived: "localhost, and only when otlp is asked for by name",
		Help:    "collector that OTLP is sent to"},
	{Name: NameOTLPProtocol, Kind: KindEnum, Env: otlpEnv("PROTOCOL"),
		Values:  []string{ProtocolGRPC, ProtocolHTTPProtobuf, ProtocolHTTPJSON},
		Derived: "http/protobuf for port 4318 or an endpoint with a path, else grpc",
		Help:    "form of OTLP"},
	{Name: NameOTLPHeaders, Kind: KindHeaders, Env: otlpEnv("HEADERS"),
		Help: "headers of each export, name=value,name=value"},
	{Name: NameOTLPTimeout, Kind: KindMillis, Env: otlpEnv("TIMEOUT"), Default: "10000", Max: maxMillis,
		Help: "longest time for one export, in milliseconds (0: no limit)"},
	{Name: NameOTLPCompression, Kind: KindEnum, Env: otlpEnv("COMPRESSION"), Default: CompressionNone,
		Values: []string{CompressionNone, CompressionGzip},
		Help:   "compression of exports"},
	{Name: NameOTLPInsecure, Kind: KindBool, Env: otlpEnv("INSECURE"), Default: "false",
		Help: "no TLS to an endpoint whose scheme does not say (http:// and https:// do)"},
	{Name: NameOTLPCertificate, Kind: KindFile, Env: otlpEnv("CERTIFICATE"),
		Help: "PEM file of the authorities that sign the collector's certificate"},
	{Name: NameOTLPClientCert, Kind: KindFile, Env: otlpEnv("CLIENT_CERTIFICATE"),
		Help: "PEM file of the certificate that we show to the collector"},
	{Name: NameOTLPClientKey, Kind: KindFile, Env: otlpEnv("CLIENT_KEY"),
		Help: "PEM file of that certificate's private key"},

	{Name: NamePropagators, Kind: KindList, Env: []string{"OTEL_PROPAGATORS"},
		Default: PropagatorTraceContext + "," + PropagatorBaggage,
		Values:  []string{PropagatorTraceContext, PropagatorBaggage, PropagatorNone},
		Help:    "headers that join a request to its caller's trace; without tracecontext each starts its own"},
	{Name: NameSampler, Kind: KindEnum, Env: []string{"OTEL_TRACES_SAMPLER"}, Default: SamplerParentBasedAlwaysOn,
		Values: []string{"always_on", "always_off", SamplerTraceIDRatio, SamplerParentBasedAlwaysOn,
			"parentbased_always_off", SamplerParentBasedTraceIDRatio},
		Help: "which traces are kept"},
	{Name: NameSamplerArg, Kind: KindRatio, Env: []string{"OTEL_TRACES_SAMPLER_ARG"},
		Derived: "1 for the ratio samplers",
		Help:    "share of traces that a ratio sampler keeps, 0 to 1"},
	{Name: NameBSPScheduleDelay, Kind: KindMillis, Env: []string{"OTEL_BSP_SCHEDULE_DELAY"}, Default: "1000", Min: 1, Max: maxMillis,
		Help: "time between two exports, in milliseconds"},
	{Name: NameBSPExportTimeout, Kind: KindMillis, Env: []string{"OTEL_BSP_EXPORT_TIMEOUT"}, Default: "30000", Max: maxMillis,
		Help: "longest time for one export with its retries, in milliseconds (0: no limit)"},
	{Name: NameBSPMaxQueueSize, Kind: KindInt, Env: []string{"OTEL_BSP_MAX_QUEUE_SIZE"}, Default: "2048", Min: 1, Max: maxQueueSpans,
		Help: "spans that may wait for export"},
	{Name: NameBSPMaxBatchSize, Kind: KindInt, Env: []string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}, Default: "512", Min: 1, Max: maxQueueSpans,
		Help: "spans in one export"},
	{Name: NameSpanEventLimit, Kind: KindInt, Env: []string{"OTEL_SPAN_EVENT_COUNT_LIMIT"}, Default: "128", Max: maxSpanEvents,
		Help: "token events on one span at tracing level 2"},
	{Name: NameTracingLevel, Kind: KindInt, Flag: "tracing-level", Placeholder: "0|1|2",
		Env: []string{"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL"}, Default: "1", Max: 2,
		Help: "0: requests, 1: with wait, prefill and decode, 2: with token events"},
	{Name: NameDialect, Kind: KindEnum, Flag: "dialect", Placeholder: "both|otel|arms",
		Env: []string{"TOKENSCOPE_DIALECT"}, Default: DialectBoth,
		Values: []string{DialectBoth, DialectOTel, DialectARMS},
		Help:   "names and units of what is reported"},

	{Name: NameCapture, Kind: KindEnum, Flag: "capture", Placeholder: "auto|ebpf|preload|off",
		Env: []string{"TOKENSCOPE_CAPTURE"}, Default: CaptureAuto,
		Values: []string{CaptureAuto, CaptureEBPF, CapturePreload, CaptureOff},
		Help:   "how the workload is observed"},
	{Name: NameHeadBytes, Kind: KindInt, Flag: "capture-head-bytes", Placeholder: "N",
		Env: []string{"TOKENSCOPE_CAPTURE_HEAD_BYTES"}, Default: "16384", Min: minHeadBytes, Max: maxHeadBytes,
		Help: "bytes captured from the start of each HTTP segment or longer message"},
	{Name: NameTailBytes, Kind: KindInt, Flag: "capture-tail-bytes", Placeholder: "N",
		Env: []string{"TOKENSCOPE_CAPTURE_TAIL_BYTES"}, Default: "4096", Min: minTailBytes, Max: maxTailBytes,
		Help: "bytes captured from its end when it is longer"},
	{Name: NameFrameBytes, Kind: KindInt, Flag: "capture-frame-bytes", Placeholder: "N",
		Env: []string{"TOKENSCOPE_CAPTURE_FRAME_BYTES"}, Default: "262144", Min: minFrameBytes, Max: maxFrameBytes,
		Help: "engine messages are captured whole up to this length"},
	{Name: NameRingBytes, Kind: KindInt, Flag: "capture-ring-bytes", Placeholder: "N",
		Env: []string{"TOKENSCOPE_RING_BYTES"}, Default: "8388608", Min: minRingBytes, Max: maxRingBytes, PowerOfTwo: true,
		Help: "size of the buffer between kernel and agent, a power of two"},
	{Name: NameRecord, Kind: KindFile, Flag: "record", Placeholder: "FILE",
		Env:  []string{"TOKENSCOPE_RECORD"},
		Help: "keep what was captured in FILE, redacted, for instrument replay"},
	{Name: NameWithContent, Kind: KindBool, Flag: "with-content", Default: "false",
		Help: "do not redact the recording: keep prompts and answers"},
}

// Specs gives every setting in the order of the table. Callers do not change them.
func Specs() []*Spec { return table }
