package bootstrap

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMainUsage(t *testing.T) {
	for _, c := range []struct {
		name, args string
		want       string // the first line of standard error
	}{
		{"action without its flag", "install", "install is an action: bootstrap -a install"},
		{"unknown word", "now", "bootstrap takes flags only, not now"},
		{"unknown action", "-a reinstall", "-a reinstall: not one of requirements, install, uninstall, check"},
		{"unknown flag", "--nope", "flag provided but not defined: -nope"},
		{"flag without its value", "-a", "flag needs an argument: -a"},
		{"empty prefix", "-a install --prefix=", "--prefix needs a folder"},
		{"process that is none", "-a check --pid 0", "--pid 0: not the number of a process"},
		{"number that is none", "-a check --pid x", `invalid value "x" for flag -pid: parse error`},
		{"flag of another action", "-a install --pid 3", "--pid has no meaning for install, only for check"},
		{"prefix for check", "-a check --prefix /x", "--prefix has no meaning for check, only for requirements, install, uninstall"},
		{"completion without a shell", "completion", "completion needs one shell: bash, zsh, fish"},
		{"completion for an unknown shell", "completion tcsh", "completion needs one shell: bash, zsh, fish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			code, stdout, stderr := w.run(strings.Fields(c.args)...)
			if want := "bootstrap: " + c.want + "\n" + shortUsage; code != 2 || stdout != "" || stderr != want {
				t.Errorf("%s = %d, %q, %q; want 2, %q", c.args, code, stdout, stderr, want)
			}
		})
	}
}

func TestMainPrints(t *testing.T) {
	w := newWorld(t)
	for args, want := range map[string]string{
		"--help":            helpText,
		"-h":                helpText,
		"-a install --help": helpText,
		"completion --help": helpText,
		"--version":         "bootstrap version v1.2.3\n",
		"completion fish":   completionScripts["fish"],
	} {
		if code, stdout, stderr := w.run(strings.Fields(args)...); code != 0 || stdout != want || stderr != "" {
			t.Errorf("%s = %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
}

// TestHelpMentionsAll: each flag is in the help and in every script.
func TestHelpMentionsAll(t *testing.T) {
	for _, f := range cliFlags() {
		name := f.Names()[0]
		if !strings.Contains(helpText, "--"+name) {
			t.Errorf("the help does not mention --%s", name)
		}
		for _, shell := range shells {
			if !strings.Contains(completionScripts[shell], name) {
				t.Errorf("the script for %s does not mention --%s", shell, name)
			}
		}
	}
}

// TestCompletionParses lets each shell that is there read its script.
func TestCompletionParses(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed", shell)
			}
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte(completionScripts[shell]), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "-n", script).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v\n%s", shell, err, out)
			}
		})
	}
}

func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	for _, c := range []struct{ words, want, absent string }{
		{"bootstrap --pre", "--prefix", "--json"},
		{"bootstrap -a ", "uninstall", "--json"},
		{"bootstrap --action = ins", "install", "check"},
		{"bootstrap --action =", "requirements", "--json"},
		{"bootstrap -a install --dry", "--dry-run", "--json"},
		{"bootstrap comp", "completion", "-a"},
		{"bootstrap completion f", "fish", "bash"},
	} {
		fields := strings.Fields(c.words)
		if strings.HasSuffix(c.words, " ") {
			fields = append(fields, "")
		}
		var words bytes.Buffer
		for _, f := range fields {
			words.WriteString("'" + f + "' ")
		}
		script := completionScripts["bash"] + "\nCOMP_WORDS=(" + words.String() + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _bootstrap; printf '%s\\n' \"${COMPREPLY[@]}\""
		out, err := exec.Command(bash, "--norc", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("bash: %v\n%s", err, out)
		}
		got := strings.Fields(string(out))
		if !slices.Contains(got, c.want) || slices.Contains(got, c.absent) {
			t.Errorf("%q offers %q; want %s among them and no %s", c.words, got, c.want, c.absent)
		}
	}
}
