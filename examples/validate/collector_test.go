//go:build e2e

package validate

// examples/collector by the Collector itself.

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestCollectorTakesItsConfigurations(t *testing.T) {
	otelcol := need(t, collector)
	for _, c := range []struct {
		name, want string // what its error says; "" for none
		configs    []string
		env        []string
	}{
		{name: "config.yaml", configs: []string{"config.yaml"}},
		{name: "config.yaml with its variables", configs: []string{"config.yaml"},
			env: []string{"COLLECTOR_HOST=0.0.0.0", "COLLECTOR_VERBOSITY=detailed", "COLLECTOR_OUTPUT=/tmp/spans.txt"}},
		{name: "config.yaml with another verbosity", configs: []string{"config.yaml"}, want: "verbosity",
			env: []string{"COLLECTOR_VERBOSITY=loud"}},
		{name: "arms.yaml over it", configs: []string{"config.yaml", "arms.yaml"},
			env: []string{"ARMS_ENDPOINT=https://collector.example/apm/trace/opentelemetry", "ARMS_LICENSE_KEY=k", "ARMS_PROJECT=", "ARMS_WORKSPACE=w"}},
		{name: "arms.yaml without an endpoint", configs: []string{"config.yaml", "arms.yaml"}, want: "endpoint",
			env: []string{"ARMS_LICENSE_KEY=k", "ARMS_PROJECT=", "ARMS_WORKSPACE="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"validate"}
			for _, file := range c.configs {
				args = append(args, "--config=file:../collector/"+file)
			}
			cmd := exec.Command(otelcol, args...)
			cmd.Env = c.env
			out, err := cmd.CombinedOutput()
			if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) {
				t.Errorf("otelcol validate: %v\n%swant %q", err, out, c.want)
			}
		})
	}
}

// run.sh asks for what arms.yaml needs, and never repeats a key.
func TestCollectorScriptAsksForTheEndpoint(t *testing.T) {
	cmd := exec.Command("../collector/run.sh", "--build-only", "arms")
	cmd.Env = append(os.Environ(), "ARMS_ENDPOINT=", "ARMS_LICENSE_KEY=canary")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ARMS_ENDPOINT") || strings.Contains(string(out), "canary") {
		t.Errorf("run.sh arms without an endpoint: %v\n%s", err, out)
	}
}
