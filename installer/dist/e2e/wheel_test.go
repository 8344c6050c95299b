//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// pip puts the programs into an environment and takes them away again; bootstrap, in between,
// installs what pip brought somewhere else, which stays when pip's is gone.
func TestWheel(t *testing.T) {
	need(t, "python3", "sh")
	env := filepath.Join(t.TempDir(), "a venv with blanks")
	run(t, "python3", "-m", "venv", env)
	bin := func(name string) string { return filepath.Join(env, "bin", name) }
	pip := func(args ...string) string {
		return run(t, bin("python"), append([]string{"-m", "pip", "--disable-pip-version-check", "--no-input"}, args...)...)
	}
	pip("check") // pip compiles itself at its first run: what that leaves is not ours
	pip("uninstall", "--yes", "tokenscope")
	before := listing(t, env)

	pip("install", "--no-index", "--no-compile", artefact(t, "tokenscope-*_"+machine()+".whl"))
	pip("check")
	works(t, func(name string, args ...string) string { return run(t, bin(name), args...) })

	prefix := filepath.Join(t.TempDir(), "prefix")
	run(t, bin("bootstrap"), "-a", "install", "--prefix", prefix)

	pip("uninstall", "--yes", "tokenscope")
	unchanged(t, env, before)
	works(t, func(name string, args ...string) string { return run(t, filepath.Join(prefix, "bin", name), args...) })
	run(t, filepath.Join(prefix, "bin", "bootstrap"), "-a", "uninstall", "--prefix", prefix)
	if entries, err := os.ReadDir(prefix); err == nil && len(entries) > 0 {
		t.Errorf("bootstrap left %v in its prefix", entries)
	}
}

// A wheel of the other architecture is refused, not installed and then found not to run.
func TestWheelOfAnotherMachine(t *testing.T) {
	need(t, "python3")
	other := map[string]string{"x86_64": "aarch64", "aarch64": "x86_64"}[machine()]
	env := filepath.Join(t.TempDir(), "venv")
	run(t, "python3", "-m", "venv", env)
	cmd := command(t, filepath.Join(env, "bin", "python"), "-m", "pip", "install", "--no-index", artefact(t, "tokenscope-*_"+other+".whl"))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("pip installed a wheel for %s: %s", other, out)
	}
}
