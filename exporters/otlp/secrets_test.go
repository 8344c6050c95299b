package otlp

// No line of ours repeats what was sent in confidence, whoever says it to us.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
)

func TestCause(t *testing.T) {
	const hidden = "HTTP status 401 Unauthorized, in words that are not shown, as they repeat a secret"
	for _, c := range []struct {
		name string
		cfg  Collector
		text string
		want string
	}{
		{"an answer without a secret", Collector{ARMSLicenseKey: "user@0123abcd"}, "quota is used up", "quota is used up"},
		{"the licence key", Collector{ARMSLicenseKey: "user@0123abcd"}, "unknown key user@0123abcd", hidden},
		{"the licence key in capitals", Collector{ARMSLicenseKey: "user@0123abcd"}, "UNKNOWN KEY USER@0123ABCD", hidden},
		{"a part of the key", Collector{ARMSLicenseKey: "user@0123abcd"}, "key …0123abcd is unknown", hidden},
		{"less than a part of the key", Collector{ARMSLicenseKey: "user@0123abcd"}, "key …123abcd is unknown", "key …123abcd is unknown"},
		{"a header's value", Collector{Headers: map[string]string{"authorization": "Bearer tok-123"}}, "Bearer tok-123 has expired", hidden},
		{"the word for a header's scheme", Collector{Headers: map[string]string{"authorization": "Bearer tok-123"}}, "needs a Bearer token", "needs a Bearer token"},
		{"an encoded password", Collector{Headers: map[string]string{"authorization": "Basic dXNlcjpwYXNzd29yZA=="}}, "password of user is wrong", hidden},
		{"a password in the endpoint", Collector{Endpoint: "https://me:letmein@c:4317"}, "letmein is wrong", hidden},
		{"the same, encoded", Collector{Endpoint: "https://me:letmein@c:4317"}, "got Basic bWU6bGV0bWVpbg==", hidden},
		{"a token in the path", Collector{Endpoint: "http://c/adapt_u@k_u@k/api/otlp/traces"}, "Cannot POST /adapt_u@k_u@k/api/otlp/traces", hidden},
		{"the same, escaped", Collector{Endpoint: "http://c/adapt_u%40k/api"}, "Cannot POST /adapt_u%40k/api", hidden},
		{"the words of a path", Collector{Endpoint: "http://c/apm/trace/opentelemetry"}, "Cannot POST /apm/trace/opentelemetry", "Cannot POST /apm/trace/opentelemetry"},
		{"a token in the query", Collector{Endpoint: "http://c/x?key=0123abcd"}, "bad key=0123abcd", hidden},
		{"the endpoint's address", Collector{Endpoint: "http://c/adapt_u@k"}, "failed to send to http://c/adapt_u@k: 401", "failed to send to http://c 401"},
		{"workspace and project, which are names", Collector{ARMSWorkspace: "my-workspace", ARMSProject: "my-project"}, "no my-workspace in my-project", "no my-workspace in my-project"},
		{"a short header as a word", Collector{Headers: map[string]string{"x-tenant": "ab"}}, "no tenant ab", hidden},
		{"a short header within words", Collector{Headers: map[string]string{"x-tenant": "ab"}}, "unable, absent", "unable, absent"},
		{"a secret behind what is looked at", Collector{ARMSLicenseKey: "user@0123abcd"}, strings.Repeat("a ", maxAnswer) + "user@0123abcd", strings.Repeat("a ", maxCause/2) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.cfg.secrets().cause(c.text, "HTTP status 401 Unauthorized"); got != c.want {
				t.Errorf("cause(%q) = %q; want %q", c.text, got, c.want)
			}
		})
	}
}

// TestProxyThatCannotBeUsed: net/http names it whole.
func TestProxyThatCannotBeUsed(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "me:letmein@proxy:bad port")
	if got := (&Collector{}).secrets().cause(`invalid proxy address "me:letmein@proxy:bad port"`, "no answer"); strings.Contains(got, "letmein") {
		t.Errorf("cause = %q; want no password", got)
	}
}

// TestEchoingCollector: a collector that refuses and says back all that it got.
func TestEchoingCollector(t *testing.T) {
	const canary = "CANARY-5e1f0c"
	secret := Collector{
		Named: true, ARMSLicenseKey: canary + "-key", ARMSWorkspace: "plain-workspace",
		Headers: map[string]string{"Authorization": "Bearer " + canary + "-token"},
	}
	for _, code := range []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprintf("HTTP %d", code), func(t *testing.T) {
			l := listen(t)
			serveHTTPOn(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, "%s %s %v", req.Method, req.URL, req.Header)
			}), l)
			cfg := secret
			cfg.Protocol, cfg.Endpoint = ProtocolHTTP, "http://u:"+canary+"-password@"+l.Addr().String()+"/adapt_"+canary+"/v1/traces?key="+canary
			checkEcho(t, cfg, canary, fmt.Sprint("HTTP status ", code))
		})
	}
	for _, code := range []codes.Code{codes.Unauthenticated, codes.Internal, codes.Unavailable} {
		t.Run("gRPC "+code.String(), func(t *testing.T) {
			l := listen(t)
			serveGRPCOn(t, &receiver{}, l, grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
				md, _ := metadata.FromIncomingContext(ctx)
				return nil, status.Error(code, fmt.Sprint(md))
			}))
			cfg := secret
			cfg.Protocol, cfg.Insecure, cfg.Endpoint = ProtocolGRPC, true, "http://u:"+canary+"-password@"+l.Addr().String()
			checkEcho(t, cfg, canary, "gRPC status "+code.String())
		})
	}
}

func checkEcho(t *testing.T, c Collector, canary, status string) {
	t.Helper()
	var said log
	export(t, Config{Exporters: []string{ExporterOTLP}, Collector: c, Log: said.logger()}, requesttest.Plain())
	text := strings.Join(said.lines(), "\n")
	if strings.Contains(text, canary) || !strings.Contains(text, status) {
		t.Errorf("log = %q; want %s and no secret", text, status)
	}
}

// FuzzCause: whatever stands around a secret, it is not shown.
func FuzzCause(f *testing.F) {
	f.Add("", "")
	f.Add("Cannot POST /", "\n")
	f.Add("http://c/", " x://")
	f.Add(strings.Repeat("é", 200), "\xff")
	f.Fuzz(func(t *testing.T, before, after string) {
		s := (&Collector{ARMSLicenseKey: "user@0123abcd"}).secrets()
		got := s.cause(before+"user@0123abcd"+after, "no answer")
		if strings.Contains(got, "0123abcd") && !strings.Contains(before+after, "0123abcd") {
			t.Errorf("cause(%q, secret, %q) = %q; want no secret", before, after, got)
		}
		if len(got) > maxCause+len("…") {
			t.Errorf("cause is %d bytes; want %d at most", len(got), maxCause)
		}
	})
}
