package semconv

import "strings"

// Dialect says under whose names values are reported where OpenTelemetry's and ARMS'
// differ (TOKENSCOPE_DIALECT). The zero value is DialectBoth, the default.
type Dialect uint8

const (
	// DialectBoth reports under both names, latencies in seconds.
	DialectBoth Dialect = iota
	// DialectOTel reports under OpenTelemetry's names alone.
	DialectOTel
	// DialectARMS reports under ARMS' names alone and, as ARMS stores them, latencies of
	// vLLM V1 in nanoseconds.
	DialectARMS
)

// ParseDialect reads a Dialect's name, in any case; ok is false for an unknown one.
func ParseDialect(s string) (d Dialect, ok bool) {
	for _, d := range []Dialect{DialectBoth, DialectOTel, DialectARMS} {
		if strings.EqualFold(s, d.String()) {
			return d, true
		}
	}
	return DialectBoth, false
}

// String is the name that ParseDialect reads.
func (d Dialect) String() string {
	switch d {
	case DialectOTel:
		return "otel"
	case DialectARMS:
		return "arms"
	default:
		return "both"
	}
}

// OTel reports whether OpenTelemetry's names are used.
func (d Dialect) OTel() bool { return d != DialectARMS }

// ARMS reports whether ARMS' names are used.
func (d Dialect) ARMS() bool { return d != DialectOTel }
