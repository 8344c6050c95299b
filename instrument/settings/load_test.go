package settings

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// env makes a Getenv of pairs "NAME=value".
func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func load(t *testing.T, in Input) *Settings {
	t.Helper()
	s, err := Load(in)
	if err != nil {
		t.Fatalf("Load(…) = %v; want settings", err)
	}
	return s
}

func warningLines(s *Settings) []string {
	var lines []string
	for _, w := range s.Warnings {
		lines = append(lines, w.String())
	}
	return lines
}

// TestLoadEntry covers one setting a case: its text, source, and all warnings.
func TestLoadEntry(t *testing.T) {
	tests := []struct {
		name     string
		env      []string
		flags    []Flag
		setting  string
		text     string
		source   string
		warnings []string
	}{
		// Precedence.
		{name: "nothing set", setting: NameTracingLevel, text: "1", source: "default"},
		{name: "variable beats default", env: []string{"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=2"},
			setting: NameTracingLevel, text: "2", source: "OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL"},
		{name: "flag beats variable", env: []string{"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=2"}, flags: []Flag{{"tracing-level", "0"}},
			setting: NameTracingLevel, text: "0", source: "--tracing-level"},
		{name: "flag hides a bad variable", env: []string{"TOKENSCOPE_CAPTURE=x"}, flags: []Flag{{"capture", "off"}},
			setting: NameCapture, text: "off", source: "--capture"},
		{name: "last flag of a name counts", flags: []Flag{{"capture", "ebpf"}, {"capture", "off"}},
			setting: NameCapture, text: "off", source: "--capture"},
		{name: "empty variable is unset", env: []string{"TOKENSCOPE_DIALECT="}, setting: NameDialect, text: "both", source: "default"},
		{name: "blank variable is unset", env: []string{"TOKENSCOPE_DIALECT=  "}, setting: NameDialect, text: "both", source: "default"},
		{name: "spaces around a value", env: []string{"TOKENSCOPE_DIALECT= arms "}, setting: NameDialect, text: "arms", source: "TOKENSCOPE_DIALECT"},
		{name: "variable for traces beats the general one",
			env:     []string{"OTEL_EXPORTER_OTLP_TIMEOUT=1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=2"},
			setting: NameOTLPTimeout, text: "2ms", source: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"},
		{name: "bad variable falls to the next",
			env:     []string{"OTEL_EXPORTER_OTLP_TIMEOUT=7000", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=10s"},
			setting: NameOTLPTimeout, text: "7000ms", source: "OTEL_EXPORTER_OTLP_TIMEOUT",
			warnings: []string{`OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="10s": not a whole number of milliseconds from 0 to 86400000; using 7000ms from OTEL_EXPORTER_OTLP_TIMEOUT`}},

		// Service name and resource.
		{name: "no service name", setting: NameServiceName, text: "-", source: "default"},
		{name: "OTEL_SERVICE_NAME first", env: []string{"OTEL_SERVICE_NAME=a", "OTEL_RESOURCE_ATTRIBUTES=service.name=b", "ARMS_APP_NAME=c"},
			setting: NameServiceName, text: "a", source: "OTEL_SERVICE_NAME"},
		{name: "resource attribute second", env: []string{"OTEL_RESOURCE_ATTRIBUTES=x=y,service.name=b%20c", "ARMS_APP_NAME=c"},
			setting: NameServiceName, text: "b c", source: "OTEL_RESOURCE_ATTRIBUTES[service.name]"},
		{name: "ARMS_APP_NAME third", env: []string{"ARMS_APP_NAME=c"}, setting: NameServiceName, text: "c", source: "ARMS_APP_NAME"},
		{name: "region from ARMS", env: []string{"ARMS_REGION_ID=cn-hangzhou"}, setting: NameCloudRegion, text: "cn-hangzhou", source: "ARMS_REGION_ID",
			warnings: []string{"ARMS_REGION_ID: no endpoint is set, and none is derived from a region; nothing is sent to ARMS; set ARMS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT"}},
		{name: "region of the resource first", env: []string{"ARMS_REGION_ID=a", "OTEL_RESOURCE_ATTRIBUTES=cloud.region=b"},
			setting: NameCloudRegion, text: "b", source: "OTEL_RESOURCE_ATTRIBUTES[cloud.region]"},
		{name: "attributes: later value wins, empty pairs are skipped", env: []string{"OTEL_RESOURCE_ATTRIBUTES=a=1,,b=2,a=3,"},
			setting: NameResourceAttributes, text: "a=3,b=2", source: "OTEL_RESOURCE_ATTRIBUTES"},
		{name: "attributes: one bad pair discards all", env: []string{"OTEL_RESOURCE_ATTRIBUTES=a=1,b"},
			setting: NameResourceAttributes, text: "-", source: "default",
			warnings: []string{`OTEL_RESOURCE_ATTRIBUTES="a=1,b": pair 2 is not key=value, so none is used; it is ignored`}},
		{name: "attributes: bad escape", env: []string{"OTEL_RESOURCE_ATTRIBUTES=a=%zz"},
			setting: NameResourceAttributes, text: "-", source: "default",
			warnings: []string{`OTEL_RESOURCE_ATTRIBUTES="a=%zz": pair 1 has a % that two hexadecimal digits do not follow, so none is used; it is ignored`}},
		{name: "attributes with a line feed are quoted", env: []string{"OTEL_RESOURCE_ATTRIBUTES=a=x%0Ay"},
			setting: NameResourceAttributes, text: `"a=x\ny"`, source: "OTEL_RESOURCE_ATTRIBUTES"},

		// Booleans.
		{name: "TRUE in any case", env: []string{"OTEL_SDK_DISABLED=TrUe"}, setting: NameSDKDisabled, text: "true", source: "OTEL_SDK_DISABLED"},
		{name: "false", env: []string{"OTEL_SDK_DISABLED=false"}, setting: NameSDKDisabled, text: "false", source: "OTEL_SDK_DISABLED"},
		{name: "1 is not true", env: []string{"OTEL_SDK_DISABLED=1"}, setting: NameSDKDisabled, text: "false", source: "OTEL_SDK_DISABLED",
			warnings: []string{`OTEL_SDK_DISABLED="1": neither true nor false; using false`}},

		// Numbers.
		{name: "level too high", env: []string{"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=3"}, setting: NameTracingLevel, text: "1", source: "default",
			warnings: []string{`OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL="3": not a whole number from 0 to 2; using 1 (the default)`}},
		{name: "level not a number", env: []string{"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL=high"}, setting: NameTracingLevel, text: "1", source: "default",
			warnings: []string{`OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL="high": not a whole number from 0 to 2; using 1 (the default)`}},
		{name: "event limit 0", env: []string{"OTEL_SPAN_EVENT_COUNT_LIMIT=0"}, setting: NameSpanEventLimit, text: "0", source: "OTEL_SPAN_EVENT_COUNT_LIMIT"},
		{name: "event limit negative", env: []string{"OTEL_SPAN_EVENT_COUNT_LIMIT=-1"}, setting: NameSpanEventLimit, text: "128", source: "default",
			warnings: []string{`OTEL_SPAN_EVENT_COUNT_LIMIT="-1": not a whole number from 0 to 10000; using 128 (the default)`}},
		{name: "number beyond 64 bits", env: []string{"OTEL_BSP_MAX_QUEUE_SIZE=99999999999999999999"}, setting: NameBSPMaxQueueSize, text: "2048", source: "default",
			warnings: []string{`OTEL_BSP_MAX_QUEUE_SIZE="99999999999999999999": not a whole number from 1 to 131072; using 2048 (the default)`}},
		{name: "queue of 0", env: []string{"OTEL_BSP_MAX_QUEUE_SIZE=0"}, setting: NameBSPMaxQueueSize, text: "2048", source: "default",
			warnings: []string{`OTEL_BSP_MAX_QUEUE_SIZE="0": not a whole number from 1 to 131072; using 2048 (the default)`}},
		{name: "ring not a power of two", env: []string{"TOKENSCOPE_RING_BYTES=1000000"}, setting: NameRingBytes, text: "8388608", source: "default",
			warnings: []string{`TOKENSCOPE_RING_BYTES="1000000": not a power of two; using 8388608 (the default)`}},
		{name: "ring", env: []string{"TOKENSCOPE_RING_BYTES=1048576"}, setting: NameRingBytes, text: "1048576", source: "TOKENSCOPE_RING_BYTES"},
		{name: "head at its bound", env: []string{"TOKENSCOPE_CAPTURE_HEAD_BYTES=49152"}, setting: NameHeadBytes, text: "49152", source: "TOKENSCOPE_CAPTURE_HEAD_BYTES"},
		{name: "head beyond its bound", env: []string{"TOKENSCOPE_CAPTURE_HEAD_BYTES=49153"}, setting: NameHeadBytes, text: "16384", source: "default",
			warnings: []string{`TOKENSCOPE_CAPTURE_HEAD_BYTES="49153": not a whole number from 1024 to 49152; using 16384 (the default)`}},
		{name: "tail 0", env: []string{"TOKENSCOPE_CAPTURE_TAIL_BYTES=0"}, setting: NameTailBytes, text: "4096", source: "default",
			warnings: []string{`TOKENSCOPE_CAPTURE_TAIL_BYTES="0": not a whole number from 1 to 16384; using 4096 (the default)`}},
		{name: "batch larger than the queue", env: []string{"OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=200"},
			setting: NameBSPMaxBatchSize, text: "100", source: "OTEL_BSP_MAX_QUEUE_SIZE",
			warnings: []string{`OTEL_BSP_MAX_EXPORT_BATCH_SIZE: more than the queue holds; using 100, the size of the queue`}},
		{name: "queue smaller than the default batch", env: []string{"OTEL_BSP_MAX_QUEUE_SIZE=100"},
			setting: NameBSPMaxBatchSize, text: "100", source: "OTEL_BSP_MAX_QUEUE_SIZE"},

		// Choices.
		{name: "choice in any case", env: []string{"TOKENSCOPE_CAPTURE=EBPF"}, setting: NameCapture, text: "ebpf", source: "TOKENSCOPE_CAPTURE"},
		{name: "unknown choice", env: []string{"TOKENSCOPE_CAPTURE=magic"}, setting: NameCapture, text: "auto", source: "default",
			warnings: []string{`TOKENSCOPE_CAPTURE="magic": not one of auto, ebpf, preload, off; using auto (the default)`}},
		{name: "unknown sampler", env: []string{"OTEL_TRACES_SAMPLER=jaeger_remote"}, setting: NameSampler, text: "parentbased_always_on", source: "default",
			warnings: []string{`OTEL_TRACES_SAMPLER="jaeger_remote": not one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio; using parentbased_always_on (the default)`}},
		{name: "ratio", env: []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"}, setting: NameSamplerArg, text: "0.25", source: "OTEL_TRACES_SAMPLER_ARG"},
		{name: "ratio not given", env: []string{"OTEL_TRACES_SAMPLER=traceidratio"}, setting: NameSamplerArg, text: "1", source: "default"},
		{name: "ratio beyond 1", env: []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=1.5"}, setting: NameSamplerArg, text: "1", source: "default",
			warnings: []string{`OTEL_TRACES_SAMPLER_ARG="1.5": not a number from 0 to 1; using 1 (the default)`}},
		{name: "ratio NaN", env: []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=NaN"}, setting: NameSamplerArg, text: "1", source: "default",
			warnings: []string{`OTEL_TRACES_SAMPLER_ARG="NaN": not a number from 0 to 1; using 1 (the default)`}},
		{name: "argument for a sampler that takes none", env: []string{"OTEL_TRACES_SAMPLER_ARG=0.5"}, setting: NameSamplerArg, text: "-", source: "default",
			warnings: []string{`OTEL_TRACES_SAMPLER_ARG: the sampler parentbased_always_on takes no argument; it is ignored`}},

		// Lists.
		{name: "list, any case, each once", env: []string{"OTEL_TRACES_EXPORTER=Console, otlp,console"}, setting: NameTracesExporter, text: "console,otlp", source: "OTEL_TRACES_EXPORTER"},
		{name: "list with an unknown part", env: []string{"OTEL_TRACES_EXPORTER=zipkin,console"}, setting: NameTracesExporter, text: "console", source: "OTEL_TRACES_EXPORTER",
			warnings: []string{`OTEL_TRACES_EXPORTER="zipkin,console": has a part that is not one of otlp, console, none; using console`}},
		{name: "list of unknown parts", env: []string{"OTEL_TRACES_EXPORTER=zipkin"}, setting: NameTracesExporter, text: "none", source: "default",
			warnings: []string{`OTEL_TRACES_EXPORTER="zipkin": has a part that is not one of otlp, console, none; using none (the default)`}},
		{name: "none beside others", env: []string{"OTEL_TRACES_EXPORTER=otlp,none"}, setting: NameTracesExporter, text: "none", source: "OTEL_TRACES_EXPORTER",
			warnings: []string{`OTEL_TRACES_EXPORTER="otlp,none": names others beside none; using none`}},
		{name: "list of nothing", env: []string{"OTEL_TRACES_EXPORTER=,"}, setting: NameTracesExporter, text: "none", source: "default",
			warnings: []string{`OTEL_TRACES_EXPORTER=",": names nothing; using none (the default)`}},
		{name: "propagator that we do not have", env: []string{"OTEL_PROPAGATORS=b3,tracecontext"}, setting: NamePropagators, text: "tracecontext", source: "OTEL_PROPAGATORS",
			warnings: []string{`OTEL_PROPAGATORS="b3,tracecontext": has a part that is not one of tracecontext, baggage, none; using tracecontext`}},

		// Files, and settings that need each other.
		{name: "record", flags: []Flag{{"record", "/tmp/run 1.rec"}}, setting: NameRecord, text: "/tmp/run 1.rec", source: "--record"},
		{name: "content without a recording", flags: []Flag{{"with-content", "true"}}, setting: NameWithContent, text: "true", source: "--with-content",
			warnings: []string{`--with-content: there is no recording; give --record FILE as well`}},
		{name: "recording without capture", env: []string{"TOKENSCOPE_RECORD=x"}, flags: []Flag{{"capture", "off"}}, setting: NameRecord, text: "x", source: "TOKENSCOPE_RECORD",
			warnings: []string{`TOKENSCOPE_RECORD: capture is off (--capture); nothing is recorded`}},
		{name: "client key without certificate", env: []string{"OTEL_EXPORTER_OTLP_CLIENT_KEY=/k"}, setting: NameOTLPClientKey, text: "/k", source: "OTEL_EXPORTER_OTLP_CLIENT_KEY",
			warnings: []string{`OTEL_EXPORTER_OTLP_CLIENT_KEY: there is no client certificate beside it; no client certificate is shown; set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE as well`}},
		{name: "client certificate without key", env: []string{"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE=/c"}, setting: NameOTLPClientCert, text: "/c", source: "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
			warnings: []string{`OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: there is no client key beside it; no client certificate is shown; set OTEL_EXPORTER_OTLP_CLIENT_KEY as well`}},

		// Headers and secrets.
		{name: "headers", env: []string{"OTEL_EXPORTER_OTLP_HEADERS=b=2,a=x%20y"}, setting: NameOTLPHeaders, text: "a=****,b=****", source: "OTEL_EXPORTER_OTLP_HEADERS"},
		{name: "headers with a bad pair", env: []string{"OTEL_EXPORTER_OTLP_HEADERS=Authorization: Bearer x,a=1"}, setting: NameOTLPHeaders, text: "a=****", source: "OTEL_EXPORTER_OTLP_HEADERS",
			warnings: []string{`OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value and is left out; using a=****`}},
		{name: "headers without a good pair", env: []string{"OTEL_EXPORTER_OTLP_HEADERS=a"}, setting: NameOTLPHeaders, text: "-", source: "default",
			warnings: []string{`OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value and is left out; it is ignored`}},
		{name: "header value with a line feed", env: []string{"OTEL_EXPORTER_OTLP_HEADERS=a=x%0Ay"}, setting: NameOTLPHeaders, text: "-", source: "default",
			warnings: []string{`OTEL_EXPORTER_OTLP_HEADERS: pair 1 is not name=value and is left out; it is ignored`}},
		{name: "licence key", env: []string{"ARMS_LICENSE_KEY=u@k"}, setting: NameLicenseKey, text: "****", source: "ARMS_LICENSE_KEY",
			warnings: []string{"ARMS_LICENSE_KEY: no endpoint is set, and none is derived from a region; nothing is sent to ARMS; set ARMS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT"}},
		{name: "project", env: []string{"ARMS_PROJECT=p", "ARMS_ENDPOINT=http://c"}, setting: NameProject, text: "p", source: "ARMS_PROJECT"},
		{name: "public or not", env: []string{"ARMS_IS_PUBLIC=1", "ARMS_ENDPOINT=http://c"}, setting: NameIsPublic, text: "1", source: "ARMS_IS_PUBLIC"},
		{name: "framework in its published spelling", env: []string{"APSARA_APM_MODEL_SERVICE_FRAMEWORK=vLLM-v0"},
			setting: NameEngineHint, text: "vllm-v0", source: "APSARA_APM_MODEL_SERVICE_FRAMEWORK"},
		{name: "unknown framework", env: []string{"APSARA_APM_MODEL_SERVICE_FRAMEWORK=TGI"}, setting: NameEngineHint, text: "-", source: "default",
			warnings: []string{`APSARA_APM_MODEL_SERVICE_FRAMEWORK="TGI": not one of vllm-v0, vllm-v1, sglang; it is ignored`}},
		{name: "type of the application", env: []string{"APSARA_APM_APP_TYPE=microservice"}, setting: NameAppType, text: "microservice", source: "APSARA_APM_APP_TYPE"},
		{name: "licence key with a space", env: []string{"ARMS_LICENSE_KEY=u k"}, setting: NameLicenseKey, text: "-", source: "default",
			warnings: []string{`ARMS_LICENSE_KEY: has a space or a character that is not printable ASCII; it is ignored`}},

		// Long and hostile text in warnings.
		{name: "long value is shortened at a rune", env: []string{"TOKENSCOPE_DIALECT=" + strings.Repeat("é", 40)}, setting: NameDialect, text: "both", source: "default",
			warnings: []string{`TOKENSCOPE_DIALECT="` + strings.Repeat("é", 32) + `"…: not one of both, otel, arms; using both (the default)`}},
		{name: "control characters are escaped", env: []string{"TOKENSCOPE_DIALECT=\x1b[2Jx"}, setting: NameDialect, text: "both", source: "default",
			warnings: []string{`TOKENSCOPE_DIALECT="\x1b[2Jx": not one of both, otel, arms; using both (the default)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, Input{Getenv: env(tt.env...), Flags: tt.flags})
			e := s.Entry(tt.setting)
			if e.Text != tt.text || e.Source != tt.source {
				t.Errorf("Load(%q, %v): %s = %q from %q; want %q from %q", tt.env, tt.flags, tt.setting, e.Text, e.Source, tt.text, tt.source)
			}
			if diff := cmp.Diff(tt.warnings, warningLines(s)); diff != "" {
				t.Errorf("Load(%q, %v) warnings (-want +got):\n%s", tt.env, tt.flags, diff)
			}
		})
	}
}

func TestLoadFlagErrors(t *testing.T) {
	tests := []struct {
		name string
		flag Flag
		want string
	}{
		{"unknown choice", Flag{"capture", "magic"}, `--capture="magic": not one of auto, ebpf, preload, off`},
		{"empty value", Flag{"record", ""}, `--record="": needs a value`},
		{"bad number", Flag{"tracing-level", "9"}, `--tracing-level="9": not a whole number from 0 to 2`},
		{"list with an unknown part", Flag{"traces-exporter", "otlp,x"}, `--traces-exporter="otlp,x": has a part that is not one of otlp, console, none`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Input{Flags: []Flag{tt.flag}})
			var flagErr *FlagError
			if !errors.As(err, &flagErr) || err.Error() != tt.want {
				t.Errorf("Load(%v) = %v; want the FlagError %s", tt.flag, err, tt.want)
			}
		})
	}
}

// TestLoadDefaults pins the whole value that holds when nothing is set.
func TestLoadDefaults(t *testing.T) {
	got := load(t, Input{})
	want := &Settings{
		LogLevel:  slog.LevelInfo,
		Exporters: []string{},
		OTLP: OTLP{
			Protocol: "grpc", Timeout: 10 * time.Second, Compression: "none",
		},
		Propagators: []string{"tracecontext", "baggage"},
		Sampler:     "parentbased_always_on",
		Batch: Batch{
			ScheduleDelay: time.Second, ExportTimeout: 30 * time.Second,
			MaxQueueSize: 2048, MaxBatchSize: 512,
		},
		SpanEventLimit: 128,
		TracingLevel:   1,
		Dialect:        "both",
		Capture:        "auto",
		FrameBytes:     262144,
		HeadBytes:      16384, TailBytes: 4096, RingBytes: 8 << 20,
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		f, ok := p.Last().(cmp.StructField)
		return ok && (f.Name() == "entries" || f.Name() == "agentArgs")
	}, cmp.Ignore())
	if diff := cmp.Diff(want, got, ignore, cmp.AllowUnexported(Settings{}, Endpoint{})); diff != "" {
		t.Errorf("Load(nothing) (-want +got):\n%s", diff)
	}
}

func TestLogLevels(t *testing.T) {
	want := map[string]slog.Level{
		"trace": -8, "debug": -4, "info": 0, "warn": 4, "error": 8, "none": LevelOff, "off": LevelOff, "WARN": 4,
	}
	for word, level := range want {
		if got := load(t, Input{Getenv: env("OTEL_LOG_LEVEL=" + word)}).LogLevel; got != level {
			t.Errorf("Load(OTEL_LOG_LEVEL=%s).LogLevel = %d; want %d", word, got, level)
		}
	}
}

func TestNoAgentReason(t *testing.T) {
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{"nothing set", Input{}, ""},
		{"capture off", Input{Flags: []Flag{{"capture", "off"}}}, "capture is off (--capture)"},
		{"SDK disabled", Input{Getenv: env("OTEL_SDK_DISABLED=true")}, "the SDK is disabled (OTEL_SDK_DISABLED)"},
		{"SDK disabled but recording", Input{Getenv: env("OTEL_SDK_DISABLED=true"), Flags: []Flag{{"record", "x"}}}, ""},
	}
	for _, tt := range tests {
		if got := load(t, tt.in).NoAgentReason(); got != tt.want {
			t.Errorf("%s: NoAgentReason() = %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestTraceContext(t *testing.T) {
	for propagators, want := range map[string]bool{"": true, "none": false, "baggage": false, "baggage,tracecontext": true} {
		if got := load(t, Input{Getenv: env("OTEL_PROPAGATORS=" + propagators)}).TraceContext(); got != want {
			t.Errorf("TraceContext() with OTEL_PROPAGATORS=%q = %t; want %t", propagators, got, want)
		}
	}
}

// TestAgentArgsRoundTrip: another process with those flags has the same settings.
func TestAgentArgsRoundTrip(t *testing.T) {
	in := Input{
		Getenv: env("OTEL_TRACES_EXPORTER=console", "TOKENSCOPE_DIALECT=otel"),
		Flags:  []Flag{{"record", "a b=c"}, {"with-content", "true"}, {"capture", "off"}, {"capture", "ebpf"}, {"traces-exporter", "OTLP"}},
	}
	first := load(t, in)
	want := []string{"--traces-exporter=OTLP", "--capture=ebpf", "--record=a b=c", "--with-content=true"}
	args := first.AgentArgs()
	if diff := cmp.Diff(want, args); diff != "" {
		t.Fatalf("AgentArgs() (-want +got):\n%s", diff)
	}
	again := Input{Getenv: in.Getenv}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		again.Flags = append(again.Flags, Flag{name, value})
	}
	if diff := cmp.Diff(first, load(t, again), cmp.AllowUnexported(Settings{}, Endpoint{})); diff != "" {
		t.Errorf("settings of the agent (-launcher +agent):\n%s", diff)
	}
}
