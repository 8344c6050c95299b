// Package request is the domain: a Request that reached an inference server, its
// timeline, and the Tracker that joins what the HTTP side and the engine side
// each saw of it.
//
// Decoders (probes/...) turn bytes into the inputs of this package (Exchange,
// Add, Step, Abort, Ready); exporters turn its Requests into spans, lines and
// metrics. The package knows neither bytes nor spans, and reads no clock: every
// input carries its time.
//
// Two clocks occur. Captured times are int64 nanoseconds of CLOCK_MONOTONIC.
// Times that an engine sent stay the float64 seconds that were on the wire, and
// their names end in S; differences are taken on those floats with the engine's
// own expression, so that they equal the engine's numbers to the last bit.
package request
