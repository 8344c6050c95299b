//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nobody is the user that the image names.
const nobody = 65532

// shared makes a folder as an empty volume of Kubernetes is: everyone may write into it.
func shared(t *testing.T) string {
	t.Helper()
	above := t.TempDir()
	dir := filepath.Join(above, "shared")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	// Mkdir obeys the umask; and what the testing package makes above is its owner's alone.
	for d, mode := range map[string]os.FileMode{dir: 0o777, above: 0o755, filepath.Dir(above): 0o755} {
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copied checks what the image's own command left in the shared folder.
func copied(t *testing.T, dir string) {
	t.Helper()
	works(t, func(name string, args ...string) string { return run(t, filepath.Join(dir, "bin", name), args...) })
	info, err := os.Stat(filepath.Join(dir, "bin", "instrument"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != nobody {
		t.Errorf("instrument was installed by user %d; want the image's, %d", got, nobody)
	}
	if info.Mode().Perm()&0o005 != 0o005 {
		t.Errorf("instrument has mode %v; want that the server's user, who is another, may run it", info.Mode())
	}
}

// The image without a runtime: its layer unpacked and mounted read-only, its command run there as
// its user, with the volume bound to /target, all in a mount namespace of its own.
func TestImageByChroot(t *testing.T) {
	need(t, "tar", "chroot", "unshare", "mount")
	needRoot(t)
	root, config := rootfs(t)
	volume := shared(t)
	if config.User != fmt.Sprintf("%d:%d", nobody, nobody) {
		t.Errorf("user = %q; want a number, as runAsNonRoot needs it", config.User)
	}
	// What every runtime mounts, by the OCI runtime specification.
	for _, dir := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const script = `volume=$1 root=$2 user=$3; shift 3
mount --bind "$root" "$root" && mount --bind "$volume" "$root/target" && mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" &&
mount -o remount,bind,ro "$root" && exec chroot --userspec="$user" "$root" "$@"`
	argv := append([]string{"--mount", "--propagation", "private", "sh", "-euc", script, "sh", volume, root, config.User}, config.Entrypoint...)
	run(t, "unshare", append(argv, config.Cmd...)...)
	copied(t, volume)
}

// imageConfig is the part of an image's configuration that says what is run.
type imageConfig struct {
	User            string
	Entrypoint, Cmd []string
}

// rootfs unpacks the image of this architecture as a runtime would: index, index, manifest, layers.
func rootfs(t *testing.T) (string, imageConfig) {
	t.Helper()
	store := t.TempDir()
	run(t, "tar", "-xf", artefact(t, "tokenscope-*-oci.tar"), "-C", store)
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	var document struct {
		Manifests []descriptor
		Layers    []descriptor
		Config    descriptor
	}
	blob := func(d descriptor) string {
		return filepath.Join(store, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	}
	read := func(name string, to any) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	read(filepath.Join(store, "index.json"), &document)
	read(blob(document.Manifests[0]), &document)
	i := slices.IndexFunc(document.Manifests, func(d descriptor) bool {
		return d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		t.Fatalf("no image for linux/%s", runtime.GOARCH)
	}
	read(blob(document.Manifests[i]), &document)
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, layer := range document.Layers {
		run(t, "tar", "-xzpf", blob(layer), "--numeric-owner", "-C", root)
	}
	var config struct{ Config imageConfig }
	read(blob(document.Config), &config)
	return root, config.Config
}

// Podman runs the image straight from the file, with all that a careful cluster asks for: no
// capability, no new privileges, a root file system that cannot be written.
func TestImageByPodman(t *testing.T) {
	need(t, "unshare", "mount", "umount")
	needRoot(t)
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("podman is not installed; TestImageByChroot runs the same command")
	}
	volume, store := shared(t), t.TempDir()
	// Limits that podman sets by itself need CAP_SYS_RESOURCE, which a virtual machine may lack.
	conf := filepath.Join(store, "containers.conf")
	if err := os.WriteFile(conf, []byte("[containers]\ndefault_ulimits = []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	podman := func(args ...string) *exec.Cmd {
		// crun refuses a host with both generations of control groups; this one needs neither.
		script := `umount -R /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup && exec podman "$@"`
		cmd := command(t, "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh",
			"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...)...)
		cmd.Env = append(cmd.Env, "CONTAINERS_CONF="+conf)
		return cmd
	}
	isolated := []string{"run", "--rm", "--network", "none", "--cgroups", "disabled", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"}
	with := func(args ...string) []string { return append(slices.Clone(isolated), args...) }
	image := "oci-archive:" + artefact(t, "tokenscope-*-oci.tar")

	var stderr bytes.Buffer
	first := podman(with("--entrypoint", "/bin/bootstrap", image, "--version")...)
	first.Stderr = &stderr
	if err := first.Run(); err != nil {
		t.Skipf("podman cannot run containers here: %v: %s; TestImageByChroot runs the same command", err, stderr.Bytes())
	}
	t.Run("the image's own command, a volume that anyone may write", func(t *testing.T) {
		runCmd(t, podman(with("--volume", volume+":/target", image)...))
		copied(t, volume)
	})
	t.Run("a second time", func(t *testing.T) {
		runCmd(t, podman(with("--volume", volume+":/target", image)...))
		copied(t, volume)
	})
	t.Run("another prefix, given as arguments", func(t *testing.T) {
		other := shared(t)
		runCmd(t, podman(with("--volume", other+":/tokenscope", image, "-a", "install", "--prefix", "/tokenscope")...))
		copied(t, other)
	})
	t.Run("a named volume takes over the folder's mode", func(t *testing.T) {
		runCmd(t, podman(with("--volume", "fresh:/target", image)...))
		copied(t, filepath.Join(store, "root", "volumes", "fresh", "_data"))
	})
}
