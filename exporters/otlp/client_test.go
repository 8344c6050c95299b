package otlp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tokenscope/tokenscope/exporters/internal/requesttest"
)

// TestEnvironmentHasNoSay sets every variable that the SDK reads to something else than
// the Config, or to something that harms.
func TestEnvironmentHasNoSay(t *testing.T) {
	files := newAuthority(t)
	var elsewhere receiver
	hostile := map[string]string{
		"OTEL_BSP_SCHEDULE_DELAY": "-1", "OTEL_BSP_EXPORT_TIMEOUT": "1",
		"OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1",
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_TRACES_SAMPLER_ARG": "x",
		"OTEL_SPAN_EVENT_COUNT_LIMIT": "0", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other", "OTEL_SERVICE_NAME": "other",
	}
	for k, v := range map[string]string{
		"ENDPOINT": strings.TrimSuffix(serveHTTP(t, &elsewhere).Endpoint, "/v1/traces"), "PROTOCOL": "http/json", "INSECURE": "false",
		"HEADERS": "x-other=1", "COMPRESSION": "gzip", "TIMEOUT": "1",
		"CERTIFICATE": files.cert, "CLIENT_CERTIFICATE": files.cert, "CLIENT_KEY": files.key,
	} {
		hostile["OTEL_EXPORTER_OTLP_"+k], hostile["OTEL_EXPORTER_OTLP_TRACES_"+k] = v, v
	}
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range hostile {
				t.Setenv(k, v)
			}
			var said log
			SetLog(said.logger())
			defer SetLog(slog.New(slog.DiscardHandler))
			var r receiver
			cfg := Config{
				Exporters: []string{ExporterOTLP}, Collector: c.serve(t, &r), Log: said.logger(),
				Tree: level1, Resource: NewResource(ResourceConfig{ServiceName: "svc"}),
			}
			cfg.Tree.Level = 2
			cfg.Collector.Headers = map[string]string{"x-mine": "1"}
			if s := export(t, cfg, requesttest.Plain()); s.Exported != 6 {
				t.Errorf("Stats = %+v; want 6 spans exported", s)
			}
			events := 0
			for _, s := range r.got() {
				events += len(s.GetEvents())
			}
			if events != 5 {
				t.Errorf("%d events arrived; want 5", events)
			}
			if r.headers["x-mine"] != "1" || r.headers["x-other"] != "" {
				t.Errorf("headers = %q; want x-mine alone", r.headers)
			}
			if r.json || r.compression == "gzip" {
				t.Errorf("JSON %v, compression %q; want neither", r.json, r.compression)
			}
			if r.resource["service.name"] != "svc" {
				t.Errorf("service.name = %q; want svc", r.resource["service.name"])
			}
			if lines := said.lines(); lines != nil {
				t.Errorf("log = %q; want nothing", lines)
			}
		})
	}
	if n := len(elsewhere.got()); n != 0 {
		t.Errorf("%d spans went to the environment's endpoint; want none", n)
	}
}

func TestEnvironmentDoesNotWithholdTLS(t *testing.T) {
	a := newAuthority(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true")
	var r receiver
	c := serveGRPCWithTLS(t, &r, a)
	c.Certificate = a.cert
	if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: c}, requesttest.Plain()); s.Exported != 3 {
		t.Errorf("Stats = %+v; want 3 spans exported over TLS", s)
	}
}

func TestCompression(t *testing.T) {
	for _, c := range protocols {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			cfg := c.serve(t, &r)
			cfg.Compression = CompressionGzip
			if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg}, requesttest.Plain()); s.Exported != 3 {
				t.Errorf("Stats = %+v; want 3 spans exported", s)
			}
			if r.compression != "gzip" || len(r.got()) != 3 {
				t.Errorf("compression %q, %d spans; want gzip, 3", r.compression, len(r.got()))
			}
		})
	}
}

func TestJSON(t *testing.T) {
	var r receiver
	c := serveHTTP(t, &r)
	c.JSON = true
	if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: c}, requesttest.Plain()); s.Exported != 3 {
		t.Errorf("Stats = %+v; want 3 spans exported", s)
	}
	// OTLP leaves the digits' case open.
	if !r.json || !bytes.Contains(bytes.ToLower(r.body), []byte(`"traceid":"4bf92f3577b34da6a3ce929d0e0e4736"`)) {
		t.Errorf("JSON %v, body %.200s; want JSON with the trace id in hexadecimal", r.json, r.body)
	}
}

// TestEndpointIsUsedAsItStands: vendors' endpoints have tokens with escapes, and queries.
func TestEndpointIsUsedAsItStands(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"plain", "/v1/traces", "/v1/traces"},
		{"root", "/", "/"},
		{"no path", "", "/"},
		{"escapes", "/adapt_a@b%2Fc/api", "/adapt_a@b%2Fc/api"},
		{"query", "/v1/traces?key=a%26b&c=d", "/v1/traces?key=a%26b&c=d"},
		{"slash at the end", "/otlp/", "/otlp/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			cfg := serveHTTP(t, &r)
			cfg.Endpoint = strings.TrimSuffix(cfg.Endpoint, "/v1/traces") + c.path
			cfg.ARMSLicenseKey = "key"
			if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg}, requesttest.Plain()); s.Exported != 3 {
				t.Errorf("Stats = %+v; want 3 spans exported", s)
			}
			if r.path != c.want || r.headers["x-arms-license-key"] != "key" {
				t.Errorf("path %q, key %q; want %q, key", r.path, r.headers["x-arms-license-key"], c.want)
			}
		})
	}
}

func TestUserInfoBecomesAHeader(t *testing.T) {
	for _, c := range protocols {
		var r receiver
		cfg := c.serve(t, &r)
		cfg.Endpoint = strings.Replace(cfg.Endpoint, "http://", "http://u:p@", 1)
		export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg}, requesttest.Plain())
		if got := r.headers["authorization"]; got != "Basic dTpw" {
			t.Errorf("%s: authorization = %q; want Basic dTpw", c.name, got)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var other receiver
	elsewhere := serveHTTP(t, &other).Endpoint
	l := listen(t)
	serveHTTPOn(t, http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect), l)
	var said log
	cfg := collector(ProtocolHTTP, "http://"+l.Addr().String()+"/v1/traces")
	cfg.ARMSLicenseKey = "key"
	s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg, Log: said.logger()}, requesttest.Plain())
	if s.Failed != 3 || other.headers != nil {
		t.Errorf("Stats = %+v, the other collector got headers %q; want 3 spans failed, nothing there", s, other.headers)
	}
	if lines := said.lines(); len(lines) != 1 || !strings.Contains(lines[0], "307") {
		t.Errorf("log = %q; want one line with 307", lines)
	}
}

func TestGRPCNames(t *testing.T) {
	for _, c := range []struct {
		name   string
		listen func(*testing.T) net.Listener
		target func(net.Addr) string
	}{
		{"unix", func(t *testing.T) net.Listener {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "c.sock"))
			if err != nil {
				t.Fatal(err)
			}
			return l
		}, func(a net.Addr) string { return "unix://" + a.String() }},
		{"dns", listen, func(a net.Addr) string { return "dns:///" + a.String() }},
		{"passthrough", listen, func(a net.Addr) string { return "passthrough:///" + a.String() }},
		{"URL with a path", listen, func(a net.Addr) string { return "http://" + a.String() + "/v1/traces" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r receiver
			l := c.listen(t)
			serveGRPCOn(t, &r, l)
			s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: collector(ProtocolGRPC, c.target(l.Addr()))}, requesttest.Plain())
			if s.Exported != 3 {
				t.Errorf("Stats = %+v; want 3 spans exported", s)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	for _, p := range []struct {
		name  string
		serve func(*testing.T, *receiver, *authority) Collector
	}{
		{ProtocolGRPC, serveGRPCWithTLS},
		{ProtocolHTTP, serveHTTPWithTLS},
	} {
		for _, c := range []struct {
			name string
			edit func(*Collector)
			want int64
		}{
			{"authority and client certificate", func(c *Collector) {
				c.Certificate, c.ClientCertificate, c.ClientKey = a.cert, a.cert, a.key
			}, 3},
			{"no client certificate", func(c *Collector) { c.Certificate = a.cert }, 0},
			{"authority not known", func(c *Collector) { c.ClientCertificate, c.ClientKey = a.cert, a.key }, 0},
			{"certificate without its key", func(c *Collector) { c.Certificate, c.ClientCertificate = a.cert, a.cert }, 0},
		} {
			t.Run(p.name+", "+c.name, func(t *testing.T) {
				var r receiver
				asking := *a
				asking.askClient = true
				cfg := p.serve(t, &r, &asking)
				c.edit(&cfg)
				s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg}, requesttest.Plain())
				if s.Exported != c.want || s.Failed != 3-c.want {
					t.Errorf("Stats = %+v; want %d spans exported, %d failed", s, c.want, 3-c.want)
				}
			})
		}
	}
}

func TestCertificatesWithoutTLSAreMentioned(t *testing.T) {
	for _, c := range protocols {
		var r receiver
		var said log
		cfg := c.serve(t, &r)
		cfg.Certificate = "no-such-file"
		if s := export(t, Config{Exporters: []string{ExporterOTLP}, Collector: cfg, Log: said.logger()}, requesttest.Plain()); s.Exported != 3 {
			t.Errorf("%s: Stats = %+v; want 3 spans exported", c.name, s)
		}
		if lines := said.lines(); len(lines) != 1 || !strings.Contains(lines[0], "no effect") {
			t.Errorf("%s: log = %q; want one line", c.name, lines)
		}
	}
}

// FuzzEndpoint: whatever stands in an endpoint, there is an exporter or an error, and
// neither the error nor the log shows a password.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		"", "http://c:4317", "https://u:p@[::1]:4318/a%2Fb?c#d", "unix:///run/c.sock", "unix:c", "dns:///c", "passthrough:///c", "c:4317",
		"://", "A:%", "http://%zz", "http://", "xds:///c", "dns:///[", "\x00", "http://c:99999999", "//c", "http:c",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, endpoint string, insecure bool) {
		for _, p := range protocols {
			c := Collector{Protocol: p.name, Endpoint: endpoint, Named: true, Insecure: insecure, ARMSLicenseKey: "key"}
			e, err := newClient(t.Context(), &c, slog.New(slog.DiscardHandler))
			if (e == nil) == (err == nil) {
				t.Fatalf("newClient(%q) = %v, %v; want one of the two", endpoint, e, err)
			}
			if u, perr := url.Parse(endpoint); perr == nil && u.User != nil && u.Host != "" {
				if password, _ := u.User.Password(); len(password) > 8 && !strings.Contains(u.Host+u.Path, password) && strings.Contains(c.shownTarget(), password) {
					t.Errorf("shownTarget(%q) = %q; want no password", endpoint, c.shownTarget())
				}
			}
			if e != nil {
				if err := e.Shutdown(t.Context()); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			}
		}
	})
}

// authority is a certificate that signs itself, for server and client alike.
type authority struct {
	cert, key string // PEM files
	pair      tls.Certificate
	pool      *x509.CertPool
	askClient bool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := &authority{cert: write("cert.pem", "CERTIFICATE", der), key: write("key.pem", "PRIVATE KEY", keyDER), pool: x509.NewCertPool()}
	if a.pair, err = tls.LoadX509KeyPair(a.cert, a.key); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.pair.Leaf)
	return a
}

func (a *authority) server() *tls.Config {
	cfg := &tls.Config{Certificates: []tls.Certificate{a.pair}, ClientCAs: a.pool}
	if a.askClient {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg
}

func serveGRPCWithTLS(t *testing.T, r *receiver, a *authority) Collector {
	t.Helper()
	l := listen(t)
	serveGRPCOn(t, r, l, grpc.Creds(credentials.NewTLS(a.server())))
	return Collector{Protocol: ProtocolGRPC, Endpoint: "https://" + l.Addr().String(), Named: true}
}

func serveHTTPWithTLS(t *testing.T, r *receiver, a *authority) Collector {
	t.Helper()
	s := httptest.NewUnstartedServer(r)
	s.TLS = a.server()
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return Collector{Protocol: ProtocolHTTP, Endpoint: s.URL + "/v1/traces", Named: true}
}
