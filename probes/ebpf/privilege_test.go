package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// outcome is what tryOpen says, quoted, each in a line of its own.
type outcome struct {
	unavailable bool
	log         string
	err         string
	cure        string
}

// tryOpen opens a Source and prints the outcome.
func tryOpen() error {
	var log bytes.Buffer
	s, err := Open(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err == nil {
		return errors.Join(errors.New("it can be opened"), s.Close())
	}
	_, perr := fmt.Printf("%v %q %q %q\n", errors.Is(err, ErrUnavailable), log.String(), err.Error(), Cure(err))
	return perr
}

// dropCapabilities empties the bounding set, so that not even root gets any at the
// exec that follows. Both are of this thread.
func dropCapabilities(mode string) error {
	runtime.LockOSThread()
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > 0 {
			break // no such capability
		}
		if err != nil {
			return err
		}
	}
	env := []string{childEnv + "=" + mode}
	return syscall.Exec("/proc/self/exe", os.Args[:1], env)
}

// TestWithoutPrivilege wants one clear line, and no word about what would have
// been done.
func TestWithoutPrivilege(t *testing.T) {
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for _, tc := range []struct {
		name string
		attr *syscall.SysProcAttr
		mode string
		args []string
	}{
		{"another user", nobody, "open", nil},
		{"root without capabilities", nil, "bare", []string{"open"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				// This test's own user is one already.
				tc.attr, tc.mode, tc.args = nil, "open", nil
			}
			c := spawn(t, tc.attr, tc.mode, tc.args...)
			line := c.out.next(t)
			var got outcome
			if n, err := fmt.Sscanf(line, "%t %q %q %q", &got.unavailable, &got.log, &got.err, &got.cure); n != 4 {
				t.Fatalf("child says %q: %v", line, err)
			}
			c.finish(t)
			if !got.unavailable || strings.Count(got.err, "\n") != 0 || !strings.Contains(got.err, "operation not permitted") {
				t.Errorf("Open = %q (ErrUnavailable: %v); want it, in one line", got.err, got.unavailable)
			}
			if !strings.Contains(got.cure, "CAP_BPF") {
				t.Errorf("Cure(%q) = %q; want capabilities", got.err, got.cure)
			}
			if got.log != "" {
				t.Errorf("log of a failed Open = %q; want nothing", got.log)
			}
			var u unix.Utsname
			if err := unix.Uname(&u); err != nil {
				t.Fatal(err)
			}
			if before(unix.ByteSliceToString(u.Release[:]), 5, 11) {
				return // the limit matters there
			}
			for _, noise := range []string{"memlock", "rlimit"} {
				if strings.Contains(strings.ToLower(got.err), noise) {
					t.Errorf("Open = %q; want no word of %s", got.err, noise)
				}
			}
		})
	}
}

func TestBefore(t *testing.T) {
	for _, tc := range []struct {
		release string
		want    bool
	}{
		{"5.10.0-28-amd64", true},
		{"5.8.0", true},
		{"4.18.0-553.el8.x86_64", true},
		{"5.11.0", false},
		{"5.15.0-1053-aws", false},
		{"6.1", false},
		{"10.0.1", false},
		{"5", false},
		{"", false},
		{"unknown", false},
	} {
		if got := before(tc.release, 5, 11); got != tc.want {
			t.Errorf("before(%q, 5, 11) = %v; want %v", tc.release, got, tc.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	noisy := fmt.Errorf("map create: %w (MEMLOCK may be too low)", unix.EPERM)
	if got := refusal(noisy); got != error(unix.EPERM) {
		t.Errorf("refusal(%v) = %v; want %v", noisy, got, unix.EPERM)
	}
	other := fmt.Errorf("map create: %w", unix.ENOMEM)
	if got := refusal(other); got != other {
		t.Errorf("refusal(%v) = %v; want it as it is", other, got)
	}
}
