// Package semconv holds every attribute key, span name, event name, provider and
// error type that Tokenscope writes: strings of that kind stand nowhere else.
//
// Keys come from four places, and each says which:
//
//   - OpenTelemetry's stable conventions for HTTP and for resources (stable.go, the
//     only file that imports OpenTelemetry's own semconv package);
//   - OpenTelemetry's GenAI conventions (genai.go). They left the semconv package
//     after version 1.41 and are still in development, so that we own them here;
//   - the inference engines and ARMS (engine.go): the keys that vLLM's and SGLang's
//     own tracing use, and what ARMS documents for both;
//   - Tokenscope itself (tokenscope.go), for what no convention names yet.
//
// A comment gives a key's meaning, then type, unit, stability and an example.
package semconv
