package instrument

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

// TestCompletionMentionsAll: scripts come from the table, so nothing is missing.
func TestCompletionMentionsAll(t *testing.T) {
	for _, shell := range shells {
		got := run(t, nil, "completion", shell)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("completion %s = %d, %q; want a script", shell, got.code, got.stderr)
		}
		for _, sp := range settings.Specs() {
			if sp.Flag != "" && !strings.Contains(got.stdout, sp.Flag) {
				t.Errorf("completion %s does not mention --%s", shell, sp.Flag)
			}
		}
	}
}

// TestCompletionParses lets each shell that is there read its script.
func TestCompletionParses(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			path := shellPath(t, shell)
			out, err := exec.Command(path, "-n", writeScript(t, shell)).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v\n%s", shell, err, out)
			}
		})
	}
}

func shellPath(t *testing.T, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed", shell)
	}
	return path
}

func writeScript(t *testing.T, shell string) string {
	t.Helper()
	script, _ := completionScript(shell)
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// completionCases are common to the shells whose completion can be asked without a
// terminal. The last word of line is being typed.
var completionCases = []struct {
	name   string
	line   string
	want   []string // offered
	absent []string // not offered
}{
	{"flags", "instrument --cap", []string{"--capture"}, []string{"--record"}},
	{"choices of a flag", "instrument --capture ", []string{"auto", "ebpf", "off"}, []string{"replay"}},
	{"choices of a number", "instrument --tracing-level ", []string{"0", "1", "2"}, nil},
	{"commands", "instrument re", []string{"replay"}, []string{"config"}},
	{"commands behind flags", "instrument --capture off comp", []string{"completion"}, nil},
	{"flags of a command", "instrument config --j", []string{"--json"}, nil},
	{"flags of the doctor", "instrument doctor --p", []string{"--pid"}, []string{"--json"}},
	{"choices of a command", "instrument completion ", []string{"bash", "fish", "zsh"}, nil},
	{"choices of a command's flag", "instrument replay --output s", []string{"spans", "summary"}, []string{"requests"}},
}

func checkOffered(t *testing.T, shell, line string, got, want, absent []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s offers %q for %q; want %q among them", shell, got, line, w)
		}
	}
	for _, w := range absent {
		if slices.Contains(got, w) {
			t.Errorf("%s offers %q for %q; want no %q", shell, got, line, w)
		}
	}
}

func TestBashCompletion(t *testing.T) {
	bash := shellPath(t, "bash")
	script := writeScript(t, "bash")
	complete := func(line string) []string {
		fields := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			fields = append(fields, "")
		}
		for i, f := range fields {
			fields[i] = "'" + f + "'"
		}
		program := fmt.Sprintf("source %s; COMP_WORDS=(%s); COMP_CWORD=%d; _instrument; printf '%%s\\n' \"${COMPREPLY[@]}\"",
			script, strings.Join(fields, " "), len(fields)-1)
		out, err := exec.Command(bash, "--norc", "-c", program).CombinedOutput()
		if err != nil {
			t.Fatalf("bash: %v\n%s", err, out)
		}
		return strings.Fields(string(out))
	}
	for _, tt := range completionCases {
		t.Run(tt.name, func(t *testing.T) {
			checkOffered(t, "bash", tt.line, complete(tt.line), tt.want, tt.absent)
		})
	}
	t.Run("value behind =", func(t *testing.T) {
		// bash makes three words of it.
		checkOffered(t, "bash", "instrument --capture=e", complete("instrument --capture = e"), []string{"ebpf"}, []string{"auto"})
		checkOffered(t, "bash", "instrument --capture=", complete("instrument --capture ="), []string{"ebpf", "auto"}, nil)
	})
	t.Run("workload behind --", func(t *testing.T) {
		checkOffered(t, "bash", "instrument -- bas", complete("instrument -- bas"), []string{"bash"}, nil)
	})
}

func TestFishCompletion(t *testing.T) {
	fish := shellPath(t, "fish")
	script := writeScript(t, "fish")
	for _, tt := range completionCases {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(fish, "--no-config", "-c", fmt.Sprintf("source %s; complete -C '%s'", script, tt.line))
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("fish: %v\n%s", err, out)
			}
			var got []string
			for line := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				got = append(got, word)
			}
			checkOffered(t, "fish", tt.line, got, tt.want, tt.absent)
		})
	}
}
