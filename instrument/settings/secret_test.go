package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// canary is in every secret of these tests and must not come out anywhere.
const canary = "CANARY7f3a"

// everything renders a Settings in each way that a program might by accident.
func everything(s *Settings) string {
	var b bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&b, format+"\n", s)
		fmt.Fprintf(&b, format+"\n", *s)
		fmt.Fprintf(&b, format+"\n", s.OTLP)
		fmt.Fprintf(&b, format+"\n", s.ARMSLicense)
		fmt.Fprintf(&b, format+"\n", s.OTLP.Headers)
		fmt.Fprintf(&b, format+"\n", s.OTLP.Endpoint)
		fmt.Fprintf(&b, format+"\n", s.Entries())
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("settings", "s", s, "key", s.ARMSLicense, "headers", s.OTLP.Headers, "endpoint", s.OTLP.Endpoint)
	}
	json.NewEncoder(&b).Encode(s)
	for _, e := range s.Entries() {
		fmt.Fprintln(&b, e.Text, e.Source)
		json.NewEncoder(&b).Encode(e.JSON)
	}
	fmt.Fprintln(&b, warningLines(s), s.AgentArgs())
	return b.String()
}

func TestSecretsNeverShow(t *testing.T) {
	tests := []struct{ name, variable, value string }{
		{"licence key", "ARMS_LICENSE_KEY", canary},
		{"licence key with a bad character", "ARMS_LICENSE_KEY", canary + " x"},
		{"header value", "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20" + canary},
		{"header for traces", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=" + canary},
		{"header with a colon", "OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer " + canary},
		{"header without a name", "OTEL_EXPORTER_OTLP_HEADERS", canary},
		{"base64 without a name", "OTEL_EXPORTER_OTLP_HEADERS", canary + "="},
		{"base64 without a name, two fill characters", "OTEL_EXPORTER_OTLP_HEADERS", canary + "=="},
		{"header with a bad escape", "OTEL_EXPORTER_OTLP_HEADERS", "a=%zz" + canary},
		{"password in an endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:" + canary + "@c:4317"},
		{"password in a malformed endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:" + canary + "/x@c:4317"},
		{"token in a path", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/adapt_u@" + canary + "_u@" + canary + "/api/otlp/traces"},
		{"token in ARMS' endpoint", "ARMS_ENDPOINT", "http://c/adapt_u@" + canary + "/api/otlp/traces"},
		{"password in ARMS' endpoint", "ARMS_ENDPOINT", "https://u:" + canary + "@c"},
		{"token in ARMS' malformed endpoint", "ARMS_ENDPOINT", "http:c/adapt_" + canary},
		{"long token in a path", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/" + canary + canary},
		{"token in a query", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/x?key=" + canary},
		{"token in a fragment", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/x#" + canary},
		{"token in a gRPC name's query", "OTEL_EXPORTER_OTLP_ENDPOINT", "dns:///c:4317?key=" + canary},
		{"token where a scheme belongs", "OTEL_EXPORTER_OTLP_ENDPOINT", canary + "://c"},
		{"private key instead of its file", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "-----BEGIN PRIVATE KEY-----\n" + canary},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := load(t, Input{Getenv: env(tt.variable + "=" + tt.value)})
			out := everything(s)
			for _, secret := range []string{canary, strings.ToLower(canary), fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
				if strings.Contains(out, secret) {
					t.Errorf("%s=%s: a secret shows:\n%s", tt.variable, tt.value, out)
				}
			}
		})
	}
}

// TestSecretsArriveWhole: masking is for people, not for the collector.
func TestSecretsArriveWhole(t *testing.T) {
	s := load(t, Input{Getenv: env("ARMS_LICENSE_KEY=u@k", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20x==,b=2",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:p@c:4318/adapt_t@k?q=1")})
	if got := s.ARMSLicense.Reveal(); got != "u@k" {
		t.Errorf("ARMSLicense.Reveal() = %q; want %q", got, "u@k")
	}
	headers := s.OTLP.Headers.Reveal()
	if len(headers) != 2 || headers["Authorization"] != "Bearer x==" || headers["b"] != "2" {
		t.Errorf("Headers.Reveal() = %q; want Authorization: Bearer x== and b: 2", headers)
	}
	if got, want := s.OTLP.Endpoint.URL(), "http://u:p@c:4318/adapt_t@k/v1/traces?q=1"; got != want {
		t.Errorf("Endpoint.URL() = %q; want %q", got, want)
	}
}

func TestEndpointString(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "http://c:4317", "http://c:4317"},
		{"known words", "https://c/apm/trace/opentelemetry/v1/traces", "https://c/apm/trace/opentelemetry/v1/traces"},
		{"token", "http://c/adapt_u@k/api/otlp/traces", "http://c/****/api/otlp/traces"},
		{"user", "http://u@c:1/", "http://****@c:1/"},
		{"query and fragment", "http://c/x?y#z", "http://c/x?****#****"},
		{"IPv6", "http://[::1]:4317", "http://[::1]:4317"},
		{"unix", "unix:///run/a_b.sock", "unix:///run/a_b.sock"},
		{"dns", "dns:c:4317", "dns:///c:4317"},
	}
	for _, tt := range tests {
		a, problem := parseEndpoint(tt.in, false)
		if problem != "" {
			t.Errorf("%s: parseEndpoint(%q) = %s; want a URL", tt.name, tt.in, problem)
			continue
		}
		if got := (Endpoint{a.url}).String(); got != tt.want {
			t.Errorf("%s: Endpoint(%q).String() = %q; want %q", tt.name, tt.in, got, tt.want)
		}
	}
	if got := (Endpoint{}).String() + (Endpoint{}).URL() + (Endpoint{}).Host() + (Endpoint{}).Scheme(); got != "" {
		t.Errorf("zero Endpoint shows %q; want nothing", got)
	}
}

// FuzzLoad gives every variable hostile text: nothing panics, every value stays within
// its bounds, no message breaks its line.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", " ", "true", "1", "-1", "9223372036854775808", "0.5", "NaN", "otlp,none", "grpc", "a=1,b=%zz", "a=1,,a=2",
		"http://u:p@[::1]:4318/x?y#z", "unix:/x", "dns:c", "c:4317", "::", "http://c:", "%", "\x00\xff\n", "x://y",
		"-----BEGIN", strings.Repeat("é", 100),
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		for _, sp := range table {
			for _, variable := range sp.Env {
				getenv := func(name string) string {
					if name == variable {
						return text
					}
					if strings.HasSuffix(name, "_PROTOCOL") || strings.HasSuffix(name, "_SAMPLER") || name == "OTEL_RESOURCE_ATTRIBUTES" {
						return other
					}
					return ""
				}
				s, err := Load(Input{Getenv: getenv})
				if err != nil {
					t.Fatalf("Load(%s=%q) = %v; want no refusal", variable, text, err)
				}
				for _, w := range append(warningLines(s), strings.Split(strings.TrimSuffix(fmt.Sprint(s), "\n"), "\n")...) {
					if strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r == 0x7f }) {
						t.Errorf("Load(%s=%q): line with a control character: %q", variable, text, w)
					}
				}
				if n := len(strings.Split(strings.TrimSuffix(fmt.Sprint(s), "\n"), "\n")); n != len(table) {
					t.Errorf("Load(%s=%q): %d lines; want %d", variable, text, n, len(table))
				}
				if s.Batch.MaxBatchSize > s.Batch.MaxQueueSize || s.Batch.MaxBatchSize < 1 || s.RingBytes < minRingBytes ||
					s.HeadBytes+s.TailBytes > 64<<10 || s.TracingLevel < 0 || s.TracingLevel > 2 {
					t.Errorf("Load(%s=%q) is out of bounds: %v", variable, text, s)
				}
			}
			if sp.Flag != "" {
				if s, err := Load(Input{Flags: []Flag{{sp.Flag, text}}}); (s == nil) == (err == nil) {
					t.Errorf("Load(--%s=%q) = %v, %v; want one of the two", sp.Flag, text, s, err)
				}
			}
		}
	})
}
