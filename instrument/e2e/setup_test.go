//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// collectorRelease is the release of the builder; the components in
// testdata/collector-builder.yaml are of the same one.
const collectorRelease = "v0.165.0"

// root is the repository's root, seen from this package.
const root = "../.."

// Building and fetching may take long the first time; never longer than this.
const (
	vllmLimit      = 20 * time.Minute
	collectorLimit = 10 * time.Minute
)

// parts are what all tests use and nobody changes.
type parts struct {
	instrument string // the built binary
	serve      string // examples/vllm-cpu/serve.sh
	collector  string // the built Collector
}

var needParts = sync.OnceValues(func() (parts, error) {
	instrument, err := buildInstrument()
	if err != nil {
		return parts{}, err
	}
	serve, err := setUpVLLM()
	if err != nil {
		return parts{}, err
	}
	collector, err := buildCollector()
	return parts{instrument, serve, collector}, err
})

// need returns the parts, or skips (or fails, where the run must not skip) with the reason.
func need(t *testing.T) parts {
	t.Helper()
	if why := unprivileged(); why != "" {
		if os.Getenv("TOKENSCOPE_E2E_REQUIRE") != "" {
			t.Fatalf("cannot run here: %s", why)
		}
		t.Skipf("cannot run here: %s", why)
	}
	p, err := needParts()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unprivileged says what the machine lacks for eBPF capture, "" if nothing.
func unprivileged() string {
	if os.Geteuid() != 0 {
		return "eBPF capture needs root (run with sudo)"
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return "the kernel has no BTF (/sys/kernel/btf/vmlinux)"
	}
	return ""
}

// buildInstrument builds the binary under test, or takes the one that
// TOKENSCOPE_E2E_INSTRUMENT names.
func buildInstrument() (string, error) {
	if path := os.Getenv("TOKENSCOPE_E2E_INSTRUMENT"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(workDir, "instrument")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/instrument")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return path, runLogged(cmd, 5*time.Minute)
}

// setUpVLLM makes the environment and the model where they are missing.
func setUpVLLM() (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "examples", "vllm-cpu"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(dir, "setup.sh"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return filepath.Join(dir, "serve.sh"), runLogged(cmd, vllmLimit)
}

// buildCollector builds the Collector once per builder release and component list.
func buildCollector() (string, error) {
	config, err := os.ReadFile("testdata/collector-builder.yaml")
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(config, collectorRelease...))
	dir := filepath.Join(cache, "collector-"+hex.EncodeToString(sum[:6]))
	binary := filepath.Join(dir, "otelcol")

	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Two runs at a time must not build into one folder.
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}

	fmt.Fprintf(os.Stderr, "building an OpenTelemetry Collector %s in %s (a minute or two, once)\n", collectorRelease, dir)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	building := dir + ".new"
	// The builder takes its output folder from the file only.
	file := building + ".yaml"
	config = bytes.Replace(config, []byte("dist:\n"), []byte("dist:\n  output_path: "+building+"\n"), 1)
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "run", "go.opentelemetry.io/collector/cmd/builder@"+collectorRelease, "--config="+file)
	cmd.Dir = os.TempDir() // outside this module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	if err := runLogged(cmd, collectorLimit); err != nil {
		return "", err
	}
	return binary, os.Rename(building, dir)
}

func cacheDir() (string, error) {
	if dir := os.Getenv("TOKENSCOPE_CACHE"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set TOKENSCOPE_CACHE): %w", err)
	}
	return filepath.Join(home, ".cache", "tokenscope"), nil
}

// runLogged runs cmd with a limit; its error has the end of what it printed, unless that
// went somewhere already. cmd is ended with its process group.
func runLogged(cmd *exec.Cmd, limit time.Duration) error {
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &out, &out
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, fmt.Errorf("not done after %v", limit))
		}
		return fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, tail(out.String(), 30))
	}
	return nil
}

// tail is the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// workDir holds the binary, logs and recordings of this run.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		keep := os.Getenv("TOKENSCOPE_E2E_KEEP")
		var err error
		if workDir = keep; keep == "" {
			workDir, err = os.MkdirTemp("", "tokenscope-e2e-")
			defer os.RemoveAll(workDir)
		} else if err = os.MkdirAll(keep, 0o755); err == nil {
			workDir, err = filepath.Abs(keep)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "make the work folder:", err)
			return 1
		}
		return m.Run()
	}())
}
