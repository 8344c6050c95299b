package instrument

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/instrument/settings"
	"github.com/tokenscope/tokenscope/probes/capture"
)

var update = flag.Bool("update", false, "write golden files anew")

// call runs an App whose parts write down how they were called.
type call struct {
	code           int
	stdout, stderr string
	// did says which part was called, and with what.
	did string
}

func run(t *testing.T, env map[string]string, args ...string) call {
	t.Helper()
	var stdout, stderr bytes.Buffer
	var c call
	app := &App{
		Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return env[name] },
		Run: func(_ context.Context, o RunOptions) int {
			c.did = fmt.Sprintf("run %q agent %q capture %s", o.Argv, o.AgentArgs, o.Settings.Capture)
			return 42
		},
		Agent: func(_ context.Context, s *settings.Settings, _ string) error {
			c.did = "agent capture " + s.Capture
			return nil
		},
		Doctor: func(_ context.Context, o DoctorOptions) (int, error) {
			c.did = fmt.Sprintf("doctor pid %d json %v capture %s", o.PID, o.JSON, o.Settings.Capture)
			switch o.PID {
			case 1:
				return 1, nil
			case 2:
				return 1, errors.New("look at process 2: no such process")
			}
			return 0, nil
		},
		Replay: func(_ context.Context, o ReplayOptions) error {
			c.did = fmt.Sprintf("replay %s %q level %d", o.Output, o.Paths, o.Settings.TracingLevel)
			if o.Paths[0] == "broken" {
				return errors.New("open recording: broken\nfile")
			}
			return nil
		},
	}
	c.code = app.Main(append([]string{"/usr/bin/instrument"}, args...))
	c.stdout, c.stderr = stdout.String(), stderr.String()
	return c
}

func TestMainDispatch(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		code   int
		did    string
		stderr string // whole, unless it ends in "…"
	}{
		{"workload", "vllm serve --port 1", 42, `run ["vllm" "serve" "--port" "1"] agent ["agent" "--" "vllm"] capture auto`, ""},
		{"workload with our flags", "--capture off vllm -v", 42, `run ["vllm" "-v"] agent ["--capture=off" "agent" "--" "vllm"] capture off`, ""},
		{"workload with help of its own", "vllm --help", 42, `run ["vllm" "--help"] agent ["agent" "--" "vllm"] capture auto`, ""},
		{"workload with an empty argument", "vllm _ x", 42, `run ["vllm" "" "x"] agent ["agent" "--" "vllm"] capture auto`, ""},
		{"double dash", "--capture=ebpf -- python -m x", 42, `run ["python" "-m" "x"] agent ["--capture=ebpf" "agent" "--" "python"] capture ebpf`, ""},
		{"reserved word behind the double dash", "-- doctor", 42, `run ["doctor"] agent ["agent" "--" "doctor"] capture auto`, ""},
		{"subcommand behind the double dash", "-- config --json", 42, `run ["config" "--json"] agent ["agent" "--" "config"] capture auto`, ""},
		{"subcommand as an argument", "vllm config", 42, `run ["vllm" "config"] agent ["agent" "--" "vllm"] capture auto`, ""},
		{"every flag at once", "--with-content --record f --log-level error x", 42, `run ["x"] agent ["--log-level=error" "--record=f" "--with-content=true" "agent" "--" "x"] capture auto`, ""},
		{"boolean set to false", "--with-content=false x", 42, `run ["x"] agent ["--with-content=false" "agent" "--" "x"] capture auto`, ""},

		{"replay", "replay a b", 0, `replay summary ["a" "b"] level 1`, ""},
		{"replay, flags behind", "replay a --output spans", 0, `replay spans ["a"] level 1`, ""},
		{"replay, our flags before", "--tracing-level 2 replay a", 0, `replay summary ["a"] level 2`, ""},
		{"replay, our flags behind", "replay a --tracing-level=2", 0, `replay summary ["a"] level 2`, ""},
		{"replay of files with the names of words", "replay --output spans help output json", 0, `replay spans ["help" "output" "json"] level 1`, ""},
		{"replay of a file that looks like a flag", "replay -- --output", 0, `replay summary ["--output"] level 1`, ""},
		{"replay fails", "replay broken", 1, `replay summary ["broken"] level 1`, "instrument: open recording: broken\\nfile\n"},
		{"agent", "--capture=ebpf agent", 0, "agent capture ebpf", ""},
		{"doctor", "doctor", 0, "doctor pid 0 json false capture auto", ""},
		{"doctor with flags", "--capture ebpf doctor --pid 7 --json", 0, "doctor pid 7 json true capture ebpf", ""},
		{"doctor finds nothing that works", "doctor --pid 1", 1, "doctor pid 1 json false capture auto", ""},
		{"doctor fails", "doctor --pid 2", 1, "doctor pid 2 json false capture auto", "instrument: look at process 2: no such process\n"},

		{"replay of nothing", "replay", 2, "", "instrument: replay needs a recording: instrument replay FILE|DIR...\n…"},
		{"replay, unknown output", "replay --output xml a", 2, "", "instrument: --output=xml: not one of summary, requests, spans, trees\n…"},
		{"replay, unknown flag", "replay --outputs xml a", 2, "", "instrument: unknown flag --outputs\n…"},
		{"agent with two arguments", "agent x y", 2, "", "instrument: agent takes the name of the workload's program, nothing else\n…"},
		{"config with arguments", "config x", 2, "", "instrument: config takes no arguments\n…"},
		{"version with arguments", "version x", 2, "", "instrument: version takes no arguments\n…"},
		{"completion without a shell", "completion", 2, "", "instrument: completion needs one shell: bash, zsh, fish\n…"},
		{"completion for an unknown shell", "completion tcsh", 2, "", "instrument: completion needs one shell: bash, zsh, fish\n…"},
		{"help for nothing known", "help me", 2, "", "instrument: there is no command me\n…"},
		{"help for too much", "help config replay", 2, "", "instrument: help takes one command\n…"},
		{"doctor with arguments", "doctor x", 2, "", "instrument: doctor takes no arguments\n…"},
		{"doctor of no process", "doctor --pid 0", 2, "", "instrument: --pid=0: not the number of a process\n…"},
		{"doctor of no number", "doctor --pid x", 2, "", "instrument: invalid value \"x\" for flag -pid: parse error\n…"},
		{"reserved, not there yet", "ledger", 2, "", "instrument: ledger is reserved for a command that this version does not have; to run a program of that name: instrument -- ledger\n…"},
		{"reserved behind flags", "--capture off ctl status", 2, "", "instrument: ctl is reserved for a command that this version does not have; to run a program of that name: instrument -- ctl\n…"},
		{"help for a reserved word", "help ledger", 2, "", "instrument: ledger is reserved for a command that this version does not have; to run a program of that name: instrument -- ledger\n…"},
		{"unknown flag", "--nope x", 2, "", "instrument: unknown flag --nope\nusage: instrument [flags] COMMAND [ARG...]\n       instrument --help tells the rest\n"},
		{"bad value of a flag", "--capture magic x", 2, "", "instrument: --capture=\"magic\": not one of auto, ebpf, preload, off\n…"},
		{"bad value of a boolean", "--with-content=maybe x", 2, "", "instrument: invalid boolean value…"},
		{"empty value of a flag", "--record= x", 2, "", "instrument: --record=\"\": needs a value\n…"},
		{"flags and no program", "--capture off", 2, "", "instrument: no command to run; put it behind the flags, as in: instrument vllm serve MODEL\n…"},
		{"double dash and no program", "--", 2, "", "instrument: no command to run; …"},
		{"empty program", "_", 2, "", "instrument: no command to run; …"},
		{"nothing at all", "", 2, "", "instrument runs an LLM inference server …"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, nil, words(tt.args)...)
			if got.code != tt.code || got.did != tt.did {
				t.Errorf("Main(%s) = %d, did %s; want %d, %s", tt.args, got.code, got.did, tt.code, tt.did)
			}
			prefix, cut := strings.CutSuffix(tt.stderr, "…")
			if got.stderr != tt.stderr && !(cut && strings.HasPrefix(got.stderr, prefix)) {
				t.Errorf("Main(%s) stderr = %q; want %q", tt.args, got.stderr, tt.stderr)
			}
			if got.stdout != "" {
				t.Errorf("Main(%s) stdout = %q; want nothing", tt.args, got.stdout)
			}
		})
	}
}

// TestMainPrints covers what is printed on request: stdout, status 0, nothing else.
func TestMainPrints(t *testing.T) {
	help := helpText()
	tests := []struct{ args, want string }{
		{"--help", help},
		{"-h", help},
		{"help", help},
		{"help help", help},
		{"--help vllm serve", help},
		{"--capture magic --help", help},
		{"--version", "instrument version " + Version() + "\n"},
		{"-v", "instrument version " + Version() + "\n"},
		{"version", "instrument version " + Version() + "\n"},
		{"-v vllm", "instrument version " + Version() + "\n"},
	}
	for _, tt := range tests {
		got := run(t, nil, words(tt.args)...)
		if want := (call{stdout: tt.want}); got != want {
			t.Errorf("Main(%s) = %+v; want %+v", tt.args, got, want)
		}
	}
}

func TestMainWarnings(t *testing.T) {
	env := map[string]string{"TOKENSCOPE_DIALECT": "x", "OTEL_SDK_DISABLED": "1"}
	want := "instrument: warning: OTEL_SDK_DISABLED=\"1\": neither true nor false; using false\n" +
		"instrument: warning: TOKENSCOPE_DIALECT=\"x\": not one of both, otel, arms; using both (the default)\n"
	tests := []struct{ name, args, want string }{
		{"run", "vllm", want},
		{"replay", "replay a", want},
		{"config", "config", want},
		{"config has no log level", "--log-level off config", want},
		{"agent: the launcher has said it", "agent", ""},
		{"log off", "--log-level off vllm", ""},
		{"config --json has them in the JSON", "config --json", ""},
	}
	for _, tt := range tests {
		if got := run(t, env, words(tt.args)...).stderr; got != tt.want {
			t.Errorf("%s: Main(%s) stderr = %q; want %q", tt.name, tt.args, got, tt.want)
		}
	}
}

// TestMainNotLinked: a part that is missing is an error, not a crash.
func TestMainNotLinked(t *testing.T) {
	for _, args := range []string{"vllm", "agent", "replay x", "doctor"} {
		var stdout, stderr bytes.Buffer
		app := &App{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}
		code := app.Main(append([]string{Name}, words(args)...))
		if code != 1 || !strings.Contains(stderr.String(), "is not part of this build") {
			t.Errorf("Main(%s) without parts = %d, %q; want 1 and the reason", args, code, stderr.String())
		}
	}
}

// hostileEnv sets something of every kind, secrets and mistakes included.
var hostileEnv = map[string]string{
	"ARMS_APP_NAME":                           "shop",
	"ARMS_REGION_ID":                          "cn-hangzhou",
	"ARMS_LICENSE_KEY":                        "CANARY-licence",
	"OTEL_RESOURCE_ATTRIBUTES":                "team=a%20b,deployment.environment.name=test",
	"OTEL_EXPORTER_OTLP_ENDPOINT":             "http://u:CANARY-password@collector:4318/adapt_CANARY-token/otlp",
	"OTEL_EXPORTER_OTLP_HEADERS":              "authorization=Bearer%20CANARY-header,x-tenant=CANARY-tenant",
	"OTEL_EXPORTER_OTLP_TIMEOUT":              "10s",
	"OTEL_TRACES_SAMPLER":                     "traceidratio",
	"OTEL_TRACES_SAMPLER_ARG":                 "0.5",
	"OTEL_INSTRUMENTATION_VLLM_TRACING_LEVEL": "7",
}

// TestGolden compares whole outputs with files; -update writes them anew.
func TestGolden(t *testing.T) {
	tests := []struct {
		file string
		env  map[string]string
		args string
	}{
		{"help.txt", nil, "--help"},
		{"help-replay.txt", nil, "help replay"},
		{"help-config.txt", nil, "config --help"},
		{"help-doctor.txt", nil, "doctor --help"},
		{"help-completion.txt", nil, "completion -h"},
		{"config-default.txt", nil, "config"},
		{"config.txt", hostileEnv, "--capture ebpf config --dialect arms"},
		{"config.json", hostileEnv, "config --json --capture=ebpf"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got := run(t, tt.env, words(tt.args)...)
			if got.code != 0 {
				t.Fatalf("Main(%s) = %d, %s; want 0", tt.args, got.code, got.stderr)
			}
			if strings.Contains(got.stdout+got.stderr, "CANARY") {
				t.Errorf("Main(%s) shows a secret:\n%s%s", tt.args, got.stdout, got.stderr)
			}
			path := filepath.Join("testdata", tt.file)
			if *update {
				if err := os.WriteFile(path, []byte(got.stdout), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.stdout); diff != "" {
				t.Errorf("Main(%s) differs from %s (-want +got):\n%s", tt.args, path, diff)
			}
		})
	}
}

// TestHelpNamesRecordings: replay finds the recordings of a directory by their extension,
// so that those of the examples must have it.
func TestHelpNamesRecordings(t *testing.T) {
	examples := regexp.MustCompile(`(?m)^  instrument (?:--record (\S+) .*|replay .* (\S+))$`).FindAllStringSubmatch(helpText(), -1)
	if len(examples) != 2 {
		t.Fatalf("help has %d examples with a recording; want 2", len(examples))
	}
	for _, m := range examples {
		if file := m[1] + m[2]; filepath.Ext(file) != capture.RecordingExt {
			t.Errorf("help has an example with the recording %s; want it to end in %s", file, capture.RecordingExt)
		}
	}
}

// TestHelpFits keeps help within a terminal of 100 columns.
func TestHelpFits(t *testing.T) {
	for line := range strings.SplitSeq(helpText(), "\n") {
		if len(line) > 100 {
			t.Errorf("help has a line of %d bytes: %s", len(line), line)
		}
	}
}
