//go:build e2e

package validate

// Parts that the end-to-end tests share: the built programs and the Collector.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const root = "../.."

// scratch is this run's folder.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "tokenscope-validate-"); err != nil {
			fmt.Fprintln(os.Stderr, "set up the tests:", err)
			return 1
		}
		defer os.RemoveAll(scratch)
		// Users without privileges look into it.
		if err := os.Chmod(scratch, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, "set up the tests:", err)
			return 1
		}
		return m.Run()
	}())
}

// cannot skips the test, or fails it in a run that must not skip.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("TOKENSCOPE_E2E_REQUIRE") != "" {
		t.Fatalf("cannot run here: %s", why)
	}
	t.Skipf("cannot run here: %s", why)
}

// programs builds instrument and bootstrap into a folder.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "./cmd/instrument", "./cmd/bootstrap")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

// collector builds the example's Collector by its own script, or finds it.
var collector = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("../collector/run.sh", "--build-only")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the Collector: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

func need(t *testing.T, part func() (string, error)) string {
	t.Helper()
	path, err := part()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func within(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}
