// Package otlp exports Requests as spans: over OTLP (gRPC or HTTP), to the console, or
// both, through OpenTelemetry's SDK, so that samplers, span limits and the exporters'
// own variables mean what its documentation says.
//
//	Enqueue ─► queue ─► emitter ─► TracerProvider ─► batch processor ─► watch ─► OTLP
//	           bounded  one        sampler, limits   blocking           counts, says once
//	           counted  goroutine                                       that it fails
//
// Enqueue never waits: when the queue is full the Request is dropped and counted. The
// goroutine behind it may wait, for a collector that is slow or away, since the batch
// processor blocks when its own queue is full. So all loss but that of a failed export
// happens in one place, in whole Requests.
//
// # Environment
//
// The SDK reads these itself, when the Pipeline is built: OTEL_TRACES_SAMPLER(_ARG),
// OTEL_BSP_*, OTEL_SPAN_ATTRIBUTE_* and OTEL_EVENT_* limits, OTEL_EXPORTER_OTLP_* and
// OTEL_EXPORTER_OTLP_TRACES_* (endpoint, headers, timeout, compression, certificates).
// Three things differ from its defaults: spans are flushed every second unless
// OTEL_BSP_SCHEDULE_DELAY says otherwise; without an endpoint the target is plain-text
// localhost, as OpenTelemetry's specification has it (Go's exporter would use TLS); and
// the number of events per span is Config.Tree.EventLimit.
//
// # Secrets
//
// Headers are never logged. A collector's address is logged as scheme and host alone:
// some vendors put the token into the path.
package otlp
