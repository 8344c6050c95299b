//go:build e2e

package validate

// The Dockerfile of examples/docker, built and run.

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestImageStartsTheServerThroughInstrument(t *testing.T) {
	needPodman(t)
	dir := filepath.Join(scratch, "docker")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	static := t.TempDir()
	compile := exec.Command("go", "build", "-o", filepath.Join(static, "vllm"), "testdata/static/main.go")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "Dockerfile")
	write(t, file, "FROM scratch\nCOPY vllm /usr/bin/vllm\nENV PATH=/usr/local/bin:/usr/bin\n")
	const server, observed = "localhost/server:test", "localhost/observed:test"
	build(t, dir, server, file, static)
	build(t, dir, observed, "../docker/Dockerfile", "../docker",
		"--build-arg", "TOKENSCOPE="+ourImage(t, dir), "--build-arg", "SERVER="+server)

	out, err := podman(dir, "run", "--rm", "--network", "none", "--cap-drop", "all", "--security-opt", "no-new-privileges",
		observed, "--model", "Qwen/Qwen3-0.6B").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != engineStatus {
		t.Errorf("run: %v; want the server's status %d\n%s", err, engineStatus, out)
	}
	// The server is started by the name under which it was called.
	if want := `["vllm" "serve" "--model" "Qwen/Qwen3-0.6B"]`; !strings.Contains(string(out), want) {
		t.Errorf("the server was not started as %s:\n%s", want, out)
	}
}
