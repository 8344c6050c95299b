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
// # Configuration
//
// Config is the whole of it, and the environment has no say in what it holds: the SDK
// does read OTEL_EXPORTER_OTLP_*, OTEL_BSP_* and OTEL_TRACES_SAMPLER, but is given an
// option for each. What it still takes from there are limits that Config does not have:
// OTEL_SPAN_ATTRIBUTE_*, OTEL_ATTRIBUTE_* and OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT, and the
// proxies of HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
//
// # A collector that is away
//
// An export that may succeed later (no connection, no answer, an answer that asks for
// patience) is tried again with growing pauses until Batch.ExportTimeout. The spans
// behind it wait in bounded queues; what has no room is dropped and counted in whole
// Requests. One line is logged when the collector stops taking spans, one when it takes
// them again. Shutdown ends the waiting.
//
// # Secrets
//
// Headers are never logged. A collector's address is logged as scheme and host alone:
// some vendors put the token into the path. Its answer is logged unless it repeats a part
// of either (secrets.go); then its status is. Redirects are not followed: the headers are
// for the named endpoint alone.
package otlp
