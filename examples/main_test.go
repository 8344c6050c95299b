//go:build e2e

package examples

// Parts that the end-to-end tests share: the built instrument, and the roles that this test
// program plays when it is started as something else.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable makes this program play another part; see roles.
const roleVariable = "TOKENSCOPE_EXAMPLES_ROLE"

var roles = map[string]func(args []string) error{"engine": engine, "get": get}

// engineStatus is how the engine ends after SIGTERM: a number that nothing else ends with.
const engineStatus = 42

var (
	scratch    string // of this run
	instrument string // the built program
)

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "tokenscope-examples-"); err == nil {
			defer os.RemoveAll(scratch)
			instrument, err = buildInstrument()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "set up the tests:", err)
			return 1
		}
		return m.Run()
	}())
}

// buildInstrument builds the program, or takes the one that TOKENSCOPE_E2E_INSTRUMENT names.
func buildInstrument() (string, error) {
	if path := os.Getenv("TOKENSCOPE_E2E_INSTRUMENT"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(scratch, "instrument")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/instrument")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build instrument: %w\n%s", err, out)
	}
	return path, nil
}

// cannot skips the test, or fails it in a run that must not skip.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("TOKENSCOPE_E2E_REQUIRE") != "" {
		t.Fatalf("cannot run here: %s", why)
	}
	t.Skipf("cannot run here: %s", why)
}

// engine serves /health at the port that its arguments name, as `vllm serve` would, and says on
// standard output what happens to it.
func engine(args []string) error {
	port := portArg.FindStringSubmatch(strings.Join(args, " "))
	if port == nil {
		return errors.New("no --port")
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	address := "127.0.0.1:" + port[1]
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		return fmt.Errorf("somebody answers at %s before the engine does", address)
	}
	listener, err := net.Listen("tcp", ":"+port[1])
	if err != nil {
		return err
	}
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "engine")
	})
	go http.Serve(listener, nil)
	fmt.Println("engine: ready, argv", strings.Join(args, " "))
	<-ctx.Done()
	fmt.Println("engine: SIGTERM")
	os.Exit(engineStatus)
	return nil
}

// raiseLoopback brings lo up, which is down in a new network namespace.
func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	return nil
}

// get asks for a page and says who answered what.
func get(args []string) error {
	client := http.Client{Timeout: 5 * time.Second}
	r, err := client.Get(args[0])
	if err != nil {
		return err
	}
	r.Body.Close()
	fmt.Println(r.StatusCode, r.Header.Get("Server"))
	return nil
}
