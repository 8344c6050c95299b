package preload

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCarries(t *testing.T) {
	const library = "/x/libtokenscope-0123456789abcdef.so"
	for _, tc := range []struct {
		name string
		env  []string
		want bool
	}{
		{"both", []string{"A=1", EnvRing + "=/r", "LD_PRELOAD=" + library}, true},
		{"behind another", []string{"LD_PRELOAD=/a.so:" + library, EnvRing + "=/r"}, true},
		{"library in memory", []string{"LD_PRELOAD=/proc/7/fd/9 /a.so", EnvRing + "=/r"}, true},
		{"empty", nil, false},
		{"no ring", []string{"LD_PRELOAD=" + library}, false},
		{"no library", []string{EnvRing + "=/r"}, false},
		{"another library", []string{"LD_PRELOAD=/a.so", EnvRing + "=/r"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := carries([]byte(strings.Join(tc.env, "\x00"))); got != tc.want {
				t.Errorf("carries(%q) = %v; want %v", tc.env, got, tc.want)
			}
		})
	}
}

func TestStatusField(t *testing.T) {
	const status = "Name:\tUid:\nUid:\t1\t2\t3\t4\nNSpid:\t70\t1\n"
	for name, want := range map[string]string{"Uid": "1 2 3 4", "NSpid": "70 1", "Gid": ""} {
		if got := strings.Join(statusField([]byte(status), name), " "); got != want {
			t.Errorf("statusField(%q) = %q; want %q", name, got, want)
		}
	}
}

func TestIsStatic(t *testing.T) {
	for path, want := range map[string][2]bool{"/bin/sh": {false, true}, "/etc/passwd": {false, false}, "/nonexistent": {false, false}} {
		if static, known := isStatic(path); static != want[0] || known != want[1] {
			t.Errorf("isStatic(%s) = %v, %v; want %v", path, static, known, want)
		}
	}
}

// TestWhyUncovered asks about real processes; those that need more than a test may do are
// in cmd/instrument.
func TestWhyUncovered(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  []string
		want string
	}{
		{"another environment", []string{"A=1"}, whyCleaned},
		{"all that is needed", []string{"LD_PRELOAD=/proc/1/fd/9999", EnvRing + "=/nonexistent"}, whyElsewhere},
		{"no environment at all", []string{}, whyCleaned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sleep, err := exec.LookPath("sleep")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(sleep, "60")
			cmd.Env = tc.env
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			if got := whyUncovered(uint32(cmd.Process.Pid)); got != tc.want {
				t.Errorf("whyUncovered = %q; want %q", got, tc.want)
			}
		})
	}
	if got := whyUncovered(0); got != whyUnknown {
		t.Errorf("of no process = %q; want %q", got, whyUnknown)
	}
}
