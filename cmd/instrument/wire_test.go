package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tokenscope/tokenscope/exporters/otlp"
	"github.com/tokenscope/tokenscope/exporters/spantree"
	"github.com/tokenscope/tokenscope/instrument/settings"
)

// TestExport: what the exporters are told is what the settings say, for every field.
func TestExport(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want otlp.Config
	}{
		{"nothing set", nil, otlp.Config{
			Collector: otlp.Collector{Protocol: "grpc", Timeout: 10 * time.Second, Compression: "none"},
			Batch:     otlp.Batch{ScheduleDelay: time.Second, ExportTimeout: 30 * time.Second, MaxQueueSize: 2048, MaxBatchSize: 512},
			Sampler:   "parentbased_always_on", Tree: spantree.Options{Level: 1, EventLimit: 128},
		}},
		{"everything set", map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:4318/base", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
			"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
			"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/cert", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/key",
			"ARMS_LICENSE_KEY": "k", "ARMS_WORKSPACE": "w", "ARMS_PROJECT": "p", "APSARA_APM_MODEL_SERVICE_FRAMEWORK": "vLLM-v1",
			"OTEL_BSP_SCHEDULE_DELAY": "2", "OTEL_BSP_EXPORT_TIMEOUT": "3", "OTEL_BSP_MAX_QUEUE_SIZE": "5", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
			"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
			"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL": "2", "OTEL_SPAN_EVENT_COUNT_LIMIT": "6",
		}, otlp.Config{
			Exporters: []string{"otlp"},
			Collector: otlp.Collector{
				Protocol: "http/protobuf", JSON: true, Endpoint: "https://c:4318/base/v1/traces", Named: true,
				Headers: map[string]string{"a": "b"}, ARMSLicenseKey: "k", ARMSWorkspace: "w", ARMSProject: "p", Timeout: time.Millisecond,
				Compression: "gzip", Certificate: "/ca", ClientCertificate: "/cert", ClientKey: "/key",
			},
			Batch:   otlp.Batch{ScheduleDelay: 2 * time.Millisecond, ExportTimeout: 3 * time.Millisecond, MaxQueueSize: 5, MaxBatchSize: 4},
			Sampler: "traceidratio", SamplerArg: 0.25, Tree: spantree.Options{Level: 2, EventLimit: 6}, EngineHint: "vllm-v1",
		}},
		{"values that would end the SDK", map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "dns:c:4317", "OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_EXPORTER_OTLP_TIMEOUT": "-1",
			"OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1", "OTEL_TRACES_SAMPLER": "x",
		}, otlp.Config{
			Exporters: []string{"otlp"},
			Collector: otlp.Collector{Protocol: "grpc", Endpoint: "dns:///c:4317", Named: true, Insecure: true, Timeout: 10 * time.Second, Compression: "none"},
			Batch:     otlp.Batch{ScheduleDelay: time.Second, ExportTimeout: 30 * time.Second, MaxQueueSize: 2048, MaxBatchSize: 512},
			Sampler:   "parentbased_always_on", Tree: spantree.Options{Level: 1, EventLimit: 128},
		}},
		{"SDK disabled", map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"}, otlp.Config{
			Collector: otlp.Collector{Protocol: "grpc", Timeout: 10 * time.Second, Compression: "none"},
			Batch:     otlp.Batch{ScheduleDelay: time.Second, ExportTimeout: 30 * time.Second, MaxQueueSize: 2048, MaxBatchSize: 512},
			Sampler:   "parentbased_always_on", Tree: spantree.Options{Level: 1, EventLimit: 128},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := settings.Load(settings.Input{Getenv: func(k string) string { return c.env[k] }})
			if err != nil {
				t.Fatal(err)
			}
			got := export(s, "vllm")
			ignore := cmpopts.IgnoreFields(otlp.Config{}, "Resource", "Console", "Log")
			if diff := cmp.Diff(c.want, got, ignore, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("export (-want +got):\n%s", diff)
			}
			if v, _ := got.Resource.Set().Value("service.name"); v.AsString() != "unknown_service:vllm" {
				t.Errorf("export: service.name = %q; want the workload's", v.AsString())
			}
		})
	}
}
