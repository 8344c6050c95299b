//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// collectorConfig takes OTLP over gRPC at the first address and over HTTP at the second,
// and forwards it to the third.
// No batching and no queue: what the agent was told is accepted has arrived.
const collectorConfig = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q}
      http: {endpoint: %q}
exporters:
  otlp_grpc:
    endpoint: %q
    tls: {insecure: true}
    sending_queue: {enabled: false}
service:
  telemetry:
    metrics: {level: none}
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_grpc]}
`

// collector is a running Collector: the environment that exports to it.
type collector struct{ grpc, http []string }

// startCollector runs the Collector in front of to until the test ends.
func startCollector(t *testing.T, p parts, to *receiver) collector {
	t.Helper()
	grpc, http := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	config := filepath.Join(t.TempDir(), "collector.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, collectorConfig, grpc, http, to.address), 0o644); err != nil {
		t.Fatal(err)
	}
	log := createLog(t, "collector")
	cmd := exec.Command(p.collector, "--config=file:"+config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the collector: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	})
	for _, address := range []string{grpc, http} {
		if !eventually(t, 20*time.Second, "the collector listens on "+address, func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err == nil
		}) {
			t.Fatalf("collector's log:\n%s", readTail(log.Name()))
		}
	}
	return collector{
		// Nothing but the endpoint, as most people set it.
		grpc: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + grpc},
		// The port is not the standard one, which would tell the protocol.
		http: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + http, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			"OTEL_EXPORTER_OTLP_COMPRESSION=gzip"},
	}
}

// createLog makes a log file that is named after the test and what it is of.
func createLog(t *testing.T, what string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(workDir, t.Name()+"-"+what+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func readTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(string(b), 40)
}
