//go:build e2e

package validate

// Podman, by which the end-to-end tests build images and run containers.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needPodman skips where containers cannot run as the examples describe them.
func needPodman(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, "running containers as the examples describe them needs root")
	}
	for _, program := range []string{"podman", "unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			cannot(t, program+" is not installed")
		}
	}
}

// podman is a command of Podman with its storage in dir.
func podman(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("testdata/container.sh", append([]string{"podman", "--root", filepath.Join(dir, "storage"),
		"--runroot", filepath.Join(dir, "run")}, args...)...)
	here, err := os.Getwd()
	if err != nil {
		here = "."
	}
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(here, "testdata", "containers.conf"))
	return cmd
}

// build makes an image of a Dockerfile and a folder.
func build(t *testing.T, dir, name, dockerfile, folder string, args ...string) {
	t.Helper()
	// chroot: nothing is run in these builds, and a sandbox for it cannot be had everywhere.
	args = append([]string{"build", "--quiet", "--isolation", "chroot", "--tag", name, "--file", dockerfile}, append(args, folder)...)
	if out, err := podman(dir, args...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// ourImage is the image of the init container: the one that `make dist` made in the folder
// TOKENSCOPE_DIST, else one of the same form.
func ourImage(t *testing.T, dir string) string {
	t.Helper()
	if dist := os.Getenv("TOKENSCOPE_DIST"); dist != "" {
		archives, err := filepath.Glob(filepath.Join(dist, "*-oci.tar"))
		if err != nil || len(archives) != 1 {
			t.Fatalf("images in %s: %v, %v; want one", dist, archives, err)
		}
		id, err := podman(dir, "pull", "--quiet", "oci-archive:"+archives[0]).Output()
		if err != nil {
			t.Fatalf("load %s: %v", archives[0], err)
		}
		return strings.TrimSpace(string(id))
	}
	const name = "localhost/tokenscope:test"
	file := filepath.Join(t.TempDir(), "Dockerfile")
	write(t, file, "FROM scratch\nCOPY . /bin/\nCOPY . /licenses/\nENV PATH=/bin\nUSER 65532:65532\n"+
		"ENTRYPOINT [\"/bin/bootstrap\"]\nCMD [\"-a\", \"install\", \"--prefix\", \"/target\"]\n")
	build(t, dir, name, file, need(t, programs))
	return name
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
