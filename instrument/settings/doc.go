// Package settings turns environment variables and flags into one Settings value
// that knows where each of its values came from.
//
// One table (table.go) describes every setting: its name, kind, flag, variables,
// default and help. Flags, help text, shell completion and `instrument config` are
// all made from it.
//
// Precedence, highest first: the flag, the variables in the order of the table, the
// default. Where several variables set the same thing, the specific one comes first
// (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT before OTEL_EXPORTER_OTLP_TIMEOUT).
//
// Variables are read as the OpenTelemetry specification (sdk-environment-variables)
// says: an empty one is unset; names of choices are matched in any case; a boolean is
// true only for "true" in any case; what cannot be understood is a Warning, and the
// next source is used instead. The workload is never refused because of a variable.
// A flag that cannot be understood is an error, since whoever typed it is there to
// correct it.
//
// Secrets (the licence key, header values, credentials within an endpoint) come from
// the environment only, have types that print as a mask, and never appear in
// Warnings, Entries or AgentArgs.
package settings
