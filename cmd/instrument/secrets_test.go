package main

// A marked secret goes into everything that takes one, and the binary through everything
// that it can do: the mark must come out nowhere but at the collector.

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	mark = "cAnArY7f3a"
	// patience bounds each wait of these tests; nothing should come near it.
	patience = 30 * time.Second
)

// secretEnv has a marked secret in every variable that takes one. host is the
// collector's; with "" no endpoint is named.
func secretEnv(host, scheme string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent",
		"ARMS_APP_NAME=app", "ARMS_REGION_ID=cn-hangzhou", "ARMS_WORKSPACE=workspace", "ARMS_PROJECT=project",
		"ARMS_LICENSE_KEY=user@" + mark + "license",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + mark + "header",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=Bearer%20" + mark + "traces,x-token=" + mark,
		"OTEL_LOG_LEVEL=trace",
		// What makes Go programs and gRPC talk.
		"GODEBUG=http2debug=2", "GOTRACEBACK=crash", "GRPC_GO_LOG_SEVERITY_LEVEL=info", "GRPC_GO_LOG_VERBOSITY_LEVEL=99",
	}
	if host != "" {
		for _, name := range []string{"ARMS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
			env = append(env, name+"="+scheme+"://u:"+mark+"password@"+host+"/adapt_u@"+mark+"/api/otlp/traces?key="+mark)
		}
	}
	return env
}

// marks are the forms in which a secret could show.
func marks() []string {
	all := []string{mark, fmt.Sprintf("%x", mark), base64.StdEncoding.EncodeToString([]byte("u:" + mark + "password"))}
	return append(all, strings.ToLower(mark), strings.ToUpper(mark))
}

func checkClean(t *testing.T, what string, data []byte) {
	t.Helper()
	for _, m := range marks() {
		if i := bytes.Index(data, []byte(m)); i >= 0 {
			t.Errorf("%s shows a secret: %q", what, data[max(i-200, 0):min(i+100, len(data))])
		}
	}
}

// TestCommandsShowNoSecret runs what ends by itself.
func TestCommandsShowNoSecret(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "run.tsrec")
	if err := os.WriteFile(recording, []byte(`{"tokenscope_recording":1,"tool":"test","seed":"`+strings.Repeat("0", 64)+`","content":false,"resource":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	named, malformed := secretEnv("collector:4318", "https"), secretEnv("", "")
	for _, name := range []string{"ARMS_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_CLIENT_KEY"} {
		malformed = append(malformed, name+"=-----BEGIN "+mark+" ://"+mark)
	}
	malformed = append(malformed, "ARMS_LICENSE_KEY="+mark+" x")
	for _, env := range []struct {
		name string
		env  []string
	}{{"named", named}, {"no endpoint", secretEnv("", "")}, {"malformed", malformed}} {
		for _, args := range [][]string{
			{}, {"--help"}, {"help", "config"}, {"help", "replay"}, {"help", "completion"}, {"help", "agent"}, {"version"},
			{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"},
			{"config"}, {"config", "--json"}, {"agent"},
			{"replay", recording}, {"replay", "--output", "requests", recording}, {"replay", "--output", "spans", recording}, {"replay", "--output", "trees", recording},
			{"--exporter_otlp_headers", "authorization=" + mark, "true"}, {"--exporter_otlp_headers=authorization=" + mark, "true"},
			{"--log-level", "--exporter_otlp_headers=" + mark, "true"},
			{"--capture", "off", "true"}, {"no-such-program"}, {"/dev/null"},
		} {
			t.Run(env.name+"/"+strings.ReplaceAll(strings.Join(args, " "), mark, "…"), func(t *testing.T) {
				cmd := exec.Command(binary, args...)
				cmd.Dir, cmd.Env = t.TempDir(), env.env
				out, err := cmd.CombinedOutput() // many of them fail
				if cmd.ProcessState == nil {
					t.Fatalf("start: %v", err)
				}
				checkClean(t, "output", out)
			})
		}
	}
}

// echo refuses every export and says back all that it got.
func echo(code int, asked *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, req.Body)
		for name, values := range req.Header {
			w.Header()["Echo-"+name] = values
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, "%s %s %v", req.Method, req.URL, req.Header)
	})
}

// TestExportsShowNoSecret watches a server with every exporter, and collectors that do
// what could make us talk.
func TestExportsShowNoSecret(t *testing.T) {
	var asked atomic.Int64
	listen := func(t *testing.T, code int) string {
		t.Helper()
		s := httptest.NewServer(echo(code, &asked))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	for _, c := range []struct {
		name string
		env  func(*testing.T) []string
		want string // a part of what we say, once it is asked
	}{
		{"console", func(t *testing.T) []string {
			return append(secretEnv("collector:4318", "https"), "OTEL_TRACES_EXPORTER=console")
		}, "POST /v1/chat/completions"},
		{"no endpoint", func(*testing.T) []string { return secretEnv("", "") }, "no endpoint is set"},
		{"HTTP 401", func(t *testing.T) []string { return secretEnv(listen(t, 401), "http") }, "HTTP status 401"},
		{"HTTP 500", func(t *testing.T) []string { return secretEnv(listen(t, 500), "http") }, "HTTP status 500"},
		{"HTTP 503", func(t *testing.T) []string { return secretEnv(listen(t, 503), "http") }, "HTTP status 503"},
		{"HTTP/2 with TLS, 401", func(t *testing.T) []string {
			s := httptest.NewUnstartedServer(echo(401, &asked))
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			ca := filepath.Join(t.TempDir(), "ca.pem")
			writePEM(t, ca, s.Certificate().Raw)
			return append(secretEnv(strings.TrimPrefix(s.URL, "https://"), "https"), "OTEL_EXPORTER_OTLP_CERTIFICATE="+ca)
		}, "HTTP status 401"},
		{"TLS that is not trusted", func(t *testing.T) []string {
			s := httptest.NewUnstartedServer(echo(401, &asked))
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the client hangs up
			s.StartTLS()
			t.Cleanup(s.Close)
			return secretEnv(strings.TrimPrefix(s.URL, "https://"), "https")
		}, "certificate"},
		{"gRPC, refused", func(t *testing.T) []string {
			return append(secretEnv(echoGRPC(t, &asked), "http"), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		}, "gRPC status Unauthenticated"},
		{"HTTP to a name that does not resolve", func(*testing.T) []string { return secretEnv("collector.invalid:4318", "http") }, "collector does not take spans"},
		{"gRPC to a name that does not resolve", func(*testing.T) []string {
			return append(secretEnv("collector.invalid:4317", "http"), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		}, "collector does not take spans"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, c.env(t), "--record", "run.tsrec")
			r.checkArguments()
			before := asked.Load()
			r.ask()
			r.stop()
			if !strings.Contains(r.said(), c.want) {
				t.Errorf("instrument says\n%s\nwant %q in it (the collector was asked %d times)", r.said(), c.want, asked.Load()-before)
			}
			if !exists(filepath.Join(r.dir, "run.tsrec")) {
				t.Error("there is no recording")
			}
			r.check()
		})
	}
}

// TestDyingAgentShowsNoSecret ends the agent in the ways that leave traces.
func TestDyingAgentShowsNoSecret(t *testing.T) {
	cores := dumpsCores(t)
	for _, sig := range []unix.Signal{unix.SIGQUIT, unix.SIGABRT, unix.SIGSEGV, unix.SIGSYS, unix.SIGKILL} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			r := start(t, secretEnv("collector.invalid:4318", "http"))
			r.ask()
			agent := r.agent()
			if err := unix.Kill(agent, sig); err != nil {
				t.Fatal(err)
			}
			r.wait("the agent dies", func() bool { return unix.Kill(agent, 0) != nil })
			r.wait("the next agent is ready", func() bool { return strings.Contains(r.said(), "start=2") })
			r.checkArguments()
			r.stop()
			r.check()
		})
	}
	if !cores {
		t.Log("core files are not written here (core_pattern, or the hard limit): their absence shows nothing")
	}
}

// TestPreloadShowsNoSecret: what the workload gets for the library is no secret.
func TestPreloadShowsNoSecret(t *testing.T) {
	r := start(t, secretEnv("collector.invalid:4318", "http"), "--capture", "preload")
	r.checkArguments()
	r.stop()
	r.check()
}

// TestPrivateProcess asks the kernel what keepToOurselves has come to.
func TestPrivateProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, rolePrivate).CombinedOutput()
	if want := "dumpable 0, core limit 0 of 0"; err != nil || string(out) != want {
		t.Errorf("keepToOurselves: %q, %v; want %q", out, err, want)
	}
}

// TestCoreLimits: the agent has none, and the workload what it was given.
func TestCoreLimits(t *testing.T) {
	r := start(t, secretEnv("collector.invalid:4318", "http"))
	agent := r.agent()
	for _, pid := range r.processes()[1:] {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit); err != nil {
			t.Skipf("read the core limit of another process: %v", err)
		}
		var mine unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &mine); err != nil {
			t.Fatal(err)
		}
		want := unix.Rlimit{Cur: mine.Max, Max: mine.Max} // start raised it
		if pid == agent {
			want = unix.Rlimit{}
		}
		if limit != want {
			t.Errorf("core limit of %d (agent: %v) = %+v; want %+v", pid, pid == agent, limit, want)
		}
	}
	r.stop()
	r.check()
}

// dumpsCores says whether a process with our limits that dies here leaves a file.
func dumpsCores(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "ulimit -c unlimited && kill -ABRT $$")
	cmd.Dir = t.TempDir()
	_ = cmd.Run() // it dies, or may not set its limit
	files, err := filepath.Glob(filepath.Join(cmd.Dir, "core*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) > 0
}

// echoGRPC is echo over gRPC.
func echoGRPC(t *testing.T, asked *atomic.Int64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		asked.Add(1)
		md, _ := metadata.FromIncomingContext(stream.Context())
		stream.SetTrailer(md)
		return status.Error(codes.Unauthenticated, fmt.Sprint(md))
	}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func writePEM(t *testing.T, path string, certificate []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
