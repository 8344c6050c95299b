package main

// Servers that encrypt by themselves: what they say is seen as it is before that.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

const certificateName = "server.test"

// A certificate is one that signs itself, as files for a server and for its clients.
type certificate struct {
	file, key string
	pool      *x509.CertPool
}

func newCertificate(t *testing.T) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: certificateName}, DNSNames: []string{certificateName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	c := &certificate{file: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	c.pool.AddCert(parsed)
	for name, block := range map[string]*pem.Block{c.file: {Type: "CERTIFICATE", Bytes: der}, c.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestEncrypted watches servers over TLS, by OpenSSL on a socket (threads) and in memory
// (asyncio): small and large requests and answers on one connection.
func TestEncrypted(t *testing.T) {
	for _, form := range []string{"threads", "asyncio"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			v := place{form: form, cert: newCertificate(t)}.start(t, true)
			for _, r := range []struct {
				path    string
				padding int
			}{{"/v1/chat/completions", 0}, {"/v1/chat/completions", 300_000}, {"/v1/chat/completions", 10}} {
				if err := v.post(r.path, r.padding); err != nil {
					t.Fatal(err)
				}
				v.asked++
			}
			if n := len(v.get("/large")); n != 1<<20 {
				t.Errorf("/large has %d bytes; want 1 MiB", n)
			}
			v.ask(1)
			o := v.end()
			o.says(t)
			v.saw(4)
			plain := 0
			for _, e := range v.events() {
				if e.Kind != capture.KindRead && e.Kind != capture.KindWrite {
					continue
				}
				if !e.TLS {
					t.Errorf("%v of %d bytes without the mark of TLS: %.40q", e.Kind, e.Len, e.Data)
				}
				if strings.HasPrefix(string(e.Data), "POST /v1/chat/completions HTTP/1.1\r\n") {
					plain++
				}
			}
			if plain != 4 {
				t.Errorf("%d heads of requests in plain text; want 4", plain)
			}
			for _, line := range v.requests() {
				if !strings.Contains(line, `"incomplete":["engine:not_captured"]`) || !strings.Contains(line, `"status":200`) {
					t.Errorf("request line = %s; want status 200, and only the engine missing", line)
				}
			}
			spans, err := exec.Command(binary, "replay", "--output", "spans", v.recording).Output()
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(spans), `"url.scheme":"https"`); n != 4 {
				t.Errorf("%d spans with url.scheme=https; want 4\n%s", n, spans)
			}
		})
	}
}
