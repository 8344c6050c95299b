package validate

// examples/docker by Compose's and BuildKit's own parsers.

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker/compose.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatalf("load compose.yaml: %v", err)
	}
	return project
}

func TestComposeServerSendsToTheCollector(t *testing.T) {
	p := compose(t)
	vllm, collector := p.Services["vllm"], p.Services["collector"]
	if vllm.Build == nil || collector.Image == "" || len(p.Services) != 2 {
		t.Fatalf("services: %v", p.ServiceNames())
	}
	endpoint := vllm.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]
	if endpoint == nil || *endpoint != "http://collector:4317" {
		t.Errorf("endpoint = %v", endpoint)
	}
	if !slices.Equal(vllm.CapDrop, []string{"ALL"}) || len(vllm.CapAdd) > 0 || vllm.Privileged {
		t.Errorf("the server has capabilities: -%v +%v", vllm.CapDrop, vllm.CapAdd)
	}
	// Loopback of the machine, and the server's port alone.
	if len(vllm.Ports) != 1 || vllm.Ports[0].HostIP != "127.0.0.1" || len(collector.Ports) != 0 {
		t.Errorf("ports: %+v, collector %+v", vllm.Ports, collector.Ports)
	}
	// The list form: no shell between Docker and instrument, nor in the check.
	if vllm.HealthCheck == nil || vllm.HealthCheck.Test[0] != "CMD" || !strings.Contains(vllm.HealthCheck.Test[3], "127.0.0.1:8000/health") {
		t.Errorf("health check: %+v", vllm.HealthCheck)
	}
	for _, v := range collector.Volumes {
		if v.Type == types.VolumeTypeBind {
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("collector: %v", err)
			}
			if want := "--config=file:" + v.Target; !slices.Contains(collector.Command, want) {
				t.Errorf("collector runs %v; want %s", collector.Command, want)
			}
		}
	}
}

// dockerfile parses the file and returns its stages; warnings of BuildKit's linter are errors.
func dockerfile(t *testing.T) (stages []instructions.Stage, args []instructions.ArgCommand) {
	t.Helper()
	text, err := os.ReadFile("../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("parse Dockerfile: %v", err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("Dockerfile: %s", w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, description, _, message string, _ []parser.Range) {
		t.Errorf("Dockerfile: %s: %s (%s)", rule, message, description)
	}})
	stages, args, err = instructions.Parse(parsed.AST, lint)
	if err != nil {
		t.Fatalf("read Dockerfile: %v", err)
	}
	return stages, args
}

func TestDockerfileStartsTheServerThroughInstrument(t *testing.T) {
	stages, args := dockerfile(t)
	if len(stages) != 2 || stages[0].Name != "tokenscope" {
		t.Fatalf("stages: %+v", stages)
	}
	var entry, copied []string
	for _, c := range stages[1].Commands {
		switch c := c.(type) {
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				t.Error("the entrypoint is a shell's: signals would end there")
			}
			entry = c.CmdLine
		case *instructions.CopyCommand:
			if c.From != "tokenscope" {
				t.Errorf("copied from %q", c.From)
			}
			copied = append(copied, c.SourcePaths...)
		}
	}
	if len(entry) < 2 || entry[0] != "instrument" {
		t.Errorf("entrypoint = %v", entry)
	}
	if !slices.Contains(copied, "/bin/instrument") {
		t.Errorf("copied: %v", copied)
	}
	// The compose file sets the arguments that there are.
	var known []string
	for _, a := range args {
		for _, pair := range a.Args {
			known = append(known, pair.Key)
		}
	}
	for name := range compose(t).Services["vllm"].Build.Args {
		if !slices.Contains(known, name) {
			t.Errorf("compose.yaml sets build argument %s; the Dockerfile has %v", name, known)
		}
	}
}
