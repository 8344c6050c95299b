//go:build e2e

package validate

// The pods of examples/kubernetes, run by Podman from the rendered manifests: their commands,
// users, capabilities, seccomp profiles, volumes and variables. The server's image is this
// machine's own root, read-only, with testdata/engine in it; the Collector of examples/collector
// stands in the pod's network namespace.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// engineAt is where the engine is in the server's container.
	engineAt = "/opt/engine"
	podName  = "vllm-5d4f8-abcde"
	nodeName = "node-1"
	// stepLimit is for one step of a pod: start, export, end.
	stepLimit = 30 * time.Second
	// engineStatus is how testdata/engine ends by SIGTERM.
	engineStatus = 42
)

func TestPodsRun(t *testing.T) {
	needPodman(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		cannot(t, "there is no /usr/bin/python3 for the engine")
	}
	for _, c := range []struct {
		folder, watching string
		status           []string // of the engine's process
	}{
		{"base", "watching by the preloaded library", []string{
			"Uid: 65532 65532 65532 65532", "CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"}},
		// CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF: bits 19, 38 and 39.
		{"ebpf", "watching by eBPF", []string{
			"Uid: 0 0 0 0", "CapEff: 000000c000080000", "CapBnd: 000000c000080000", "NoNewPrivs: 1", "Seccomp: 0"}},
	} {
		t.Run(c.folder, func(t *testing.T) { runPod(t, c.folder, c.watching, c.status) })
	}
}

func runPod(t *testing.T, folder, watching string, status []string) {
	d, _ := render(t, folder)
	p := newPod(t, &d.Spec.Template.Spec)
	spec := p.spec

	init := container(t, spec.InitContainers, shared)
	args := append(p.flags(t, init), "--entrypoint", `["/bin/bootstrap"]`, ourImage(t, p.dir))
	if out, err := p.podman(append(args, init.Args...)...).CombinedOutput(); err != nil {
		t.Fatalf("init container: %v\n%s", err, out)
	}

	spans := startCollector(t, p)
	main := container(t, spec.Containers, server)
	log, err := os.Create(filepath.Join(p.dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	engine, err := filepath.Abs("testdata/engine")
	if err != nil {
		t.Fatal(err)
	}
	args = append(p.flags(t, main), "--volume", engine+":"+engineAt+":ro", "--name", "server", "--entrypoint", `["`+main.Command[0]+`"]`, "--rootfs", "/:O")
	cmd := p.podman(append(args, main.Args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its state is looked at below
		close(ended)
	}()
	t.Cleanup(func() {
		_ = p.podman("kill", "server").Run() // it is gone already, unless the test failed
		<-ended
	})
	said := func() string { return read(t, log.Name()) }
	up := func() bool { return strings.Contains(said(), "engine: ready") && strings.Contains(said(), watching) }
	if !within(stepLimit, func() bool { return up() || isClosed(ended) }) || !up() {
		t.Fatalf("the server does not come up, %s:\n%s", watching, said())
	}
	for _, line := range status {
		if !strings.Contains(said(), "engine: "+line+"\n") {
			t.Errorf("the engine's process has no %q:\n%s", line, said())
		}
	}

	// What a probe sees, and a request.
	client := p.client()
	port := fmt.Sprintf("http://127.0.0.1:%d", main.Ports[0].ContainerPort)
	if got := ask(t, client, http.MethodGet, port+main.ReadinessProbe.HTTPGet.Path, ""); !strings.HasPrefix(got, "engine") {
		t.Errorf("the probe is answered by %q; want the engine", got)
	}
	ask(t, client, http.MethodPost, port+"/v1/chat/completions", `{"model":"Qwen3-8B","messages":[{"role":"user","content":"Why?"}]}`)
	for _, want := range []string{
		"Name           : POST /v1/chat/completions", "service.name: Str(qwen3-8b)", "k8s.pod.name: Str(" + podName + ")",
		"k8s.node.name: Str(" + nodeName + ")", "k8s.namespace.name: Str(default)", "gen_ai.usage.input_tokens: Int(7)",
	} {
		if !within(stepLimit, func() bool { return strings.Contains(read(t, spans), want) }) {
			t.Fatalf("the Collector was not told %q:\n%s\nthe server said:\n%s", want, read(t, spans), said())
		}
	}

	// The kubelet's first signal.
	if out, err := p.podman("kill", "--signal", "TERM", "server").CombinedOutput(); err != nil {
		t.Fatalf("send SIGTERM: %v\n%s", err, out)
	}
	select {
	case <-ended:
	case <-time.After(stepLimit):
		t.Fatalf("still running after SIGTERM:\n%s", said())
	}
	if got := cmd.ProcessState.ExitCode(); got != engineStatus || !strings.Contains(said(), "engine: SIGTERM") {
		t.Errorf("exit status %d; want the engine's own, %d, after its SIGTERM:\n%s", got, engineStatus, said())
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pod is what containers of a pod share.
type pod struct {
	spec    *corev1.PodSpec
	dir     string // its volumes and Podman's storage
	network *exec.Cmd
}

// newPod makes the pod's network namespace, held by a process that does nothing.
func newPod(t *testing.T, spec *corev1.PodSpec) *pod {
	t.Helper()
	p := &pod{spec: spec, dir: filepath.Join(scratch, filepath.Base(t.Name()))}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.network = exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
	p.network.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := p.network.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.network.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.network.Process.Kill()
		p.network.Wait()
	})
	if said, err := io.ReadAll(io.LimitReader(out, 3)); err != nil || string(said) != "up\n" {
		t.Fatalf("make a network namespace: %q, %v (is iproute2 installed?)", said, err)
	}
	return p
}

func (p *pod) namespace() string { return fmt.Sprintf("/proc/%d/ns/net", p.network.Process.Pid) }

func (p *pod) podman(args ...string) *exec.Cmd { return podman(p.dir, args...) }

// flags are those of `podman run` that say what the manifest says.
func (p *pod) flags(t *testing.T, c *corev1.Container) []string {
	t.Helper()
	own, all := c.SecurityContext, p.spec.SecurityContext
	flags := []string{"run", "--rm", "--network", "ns:" + p.namespace(), "--user", fmt.Sprintf("%d:%d", *all.RunAsUser, *all.RunAsGroup)}
	if *own.ReadOnlyRootFilesystem {
		flags = append(flags, "--read-only", "--read-only-tmpfs=false")
	}
	if !*own.AllowPrivilegeEscalation {
		flags = append(flags, "--security-opt", "no-new-privileges")
	}
	for _, capability := range own.Capabilities.Drop {
		flags = append(flags, "--cap-drop", string(capability))
	}
	for _, capability := range own.Capabilities.Add {
		flags = append(flags, "--cap-add", string(capability))
	}
	profile := all.SeccompProfile
	if own.SeccompProfile != nil {
		profile = own.SeccompProfile
	}
	if profile.Type == corev1.SeccompProfileTypeUnconfined { // RuntimeDefault is Podman's default as well
		flags = append(flags, "--security-opt", "seccomp=unconfined")
	}
	for _, m := range c.VolumeMounts {
		v := p.volume(t, m.Name) + ":" + m.MountPath
		if m.ReadOnly {
			v += ":ro"
		}
		flags = append(flags, "--volume", v)
	}
	for _, pair := range p.environment(t, c) {
		flags = append(flags, "--env", pair)
	}
	return flags
}

// volume gives the folder of a volume; an emptyDir is one that everybody may write to, as the
// kubelet makes it.
func (p *pod) volume(t *testing.T, name string) string {
	t.Helper()
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if h := p.spec.Volumes[i].HostPath; h != nil {
		return h.Path
	}
	dir := filepath.Join(p.dir, "volume-"+name)
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // past the umask
		t.Fatal(err)
	}
	return dir
}

// environment is what the kubelet would set, with the secret that README.md makes. PATH leads to
// the engine.
func (p *pod) environment(t *testing.T, c *corev1.Container) []string {
	t.Helper()
	fields := map[string]string{"metadata.name": podName, "metadata.namespace": "default",
		"metadata.uid": "0f1e2d3c-0000-4000-8000-000000000000", "spec.nodeName": nodeName}
	var env, known []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
			if value == "" {
				t.Errorf("%s: field %s is not known", e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
		}
		value = strings.NewReplacer(known...).Replace(value)
		known = append(known, "$("+e.Name+")", value)
		env = append(env, e.Name+"="+value)
	}
	if len(c.EnvFrom) > 0 {
		env = append(env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "PATH="+engineAt+":/usr/bin:/bin")
	}
	return env
}

// startCollector runs the example's Collector in the pod's network and says where it writes.
func startCollector(t *testing.T, p *pod) string {
	t.Helper()
	spans := filepath.Join(p.dir, "spans.txt")
	cmd := exec.Command("nsenter", "--net="+p.namespace(), "../collector/run.sh")
	cmd.Env = append(os.Environ(), "OTELCOL="+need(t, collector), "COLLECTOR_VERBOSITY=detailed", "COLLECTOR_OUTPUT="+spans)
	log, err := os.Create(filepath.Join(p.dir, "collector.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	})
	if !within(stepLimit, func() bool { return strings.Contains(read(t, log.Name()), "Everything is ready") }) {
		t.Fatalf("the Collector does not come up:\n%s", read(t, log.Name()))
	}
	return spans
}

// client speaks HTTP inside the pod's network.
func (p *pod) client() *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		// The thread goes back to its own network afterwards. Were it ended instead, whatever it
		// had started would end with it (Pdeathsig is by thread).
		runtime.LockOSThread()
		ours, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return nil, err
		}
		defer ours.Close()
		pods, err := os.Open(p.namespace())
		if err != nil {
			return nil, err
		}
		defer pods.Close()
		if err := unix.Setns(int(pods.Fd()), unix.CLONE_NEWNET); err != nil {
			return nil, fmt.Errorf("enter the network namespace: %w", err)
		}
		defer func() {
			if unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &http.Client{Timeout: stepLimit, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// ask sends a request and gives the Server header and the body.
func ask(t *testing.T, client *http.Client, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s: status %d, %v", method, url, answer.StatusCode, err)
	}
	return answer.Header.Get("Server") + " " + string(text)
}

// read gives a file's text; none where it is not there yet.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
