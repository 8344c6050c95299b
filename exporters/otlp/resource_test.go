package otlp

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tokenscope/tokenscope/semconv"
)

func values(res *resource.Resource) map[string]string {
	m := map[string]string{}
	for _, kv := range res.Attributes() {
		m[string(kv.Key)] = kv.Value.AsString()
	}
	return m
}

// machine is a ResourceConfig that sees only the given variables and files.
func machine(c ResourceConfig, env, files map[string]string) ResourceConfig {
	c.Getenv = func(k string) string { return env[k] }
	c.ReadFile = func(name string) ([]byte, error) {
		if data, ok := files[name]; ok {
			return []byte(data), nil
		}
		return nil, os.ErrNotExist
	}
	return c
}

func TestNewResource(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	sandbox := strings.Repeat("f", 64)
	inside := "KUBERNETES_SERVICE_HOST"
	for _, c := range []struct {
		name       string
		cfg        ResourceConfig
		env, files map[string]string
		want       map[string]string // "" is absent
	}{
		{"bare", ResourceConfig{Version: "1.0.0"}, nil, nil, map[string]string{
			"service.name": "unknown_service", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
			"telemetry.distro.name": "tokenscope", "telemetry.distro.version": "1.0.0", "tokenscope.dialect": "both",
			"container.id": "", "k8s.pod.name": "", "cloud.region": "", "process.pid": "",
		}},
		{"named after the command", ResourceConfig{Executable: "vllm"}, nil, nil, map[string]string{"service.name": "unknown_service:vllm"}},
		{"user's attributes win over what was detected",
			ResourceConfig{Attributes: map[string]string{"service.name": "attr", "service.instance.id": "me", "cloud.region": "eu", "team": "x"}, ARMSRegion: "cn-hangzhou"},
			nil, nil, map[string]string{"service.name": "attr", "service.instance.id": "me", "cloud.region": "eu", "team": "x"}},
		{"service name wins over attributes",
			ResourceConfig{ServiceName: "svc", Attributes: map[string]string{"service.name": "attr"}}, nil, nil,
			map[string]string{"service.name": "svc"}},
		{"ARMS", ResourceConfig{ARMSRegion: "cn-hangzhou", ARMSWorkspace: "w", Dialect: semconv.DialectARMS}, nil, nil,
			map[string]string{"cloud.region": "cn-hangzhou", "acs.cms.workspace": "w", "tokenscope.dialect": "arms"}},
		{"not UTF-8", ResourceConfig{ServiceName: "a\xffb"}, nil, nil, map[string]string{"service.name": "a\ufffdb"}},
		{"pod", ResourceConfig{}, map[string]string{inside: "10.0.0.1", "POD_NAME": "p", "POD_UID": "u", "NODE_NAME": "n", "K8S_CONTAINER_NAME": "c"},
			map[string]string{namespaceFile: "ns\n"}, map[string]string{
				"k8s.pod.name": "p", "k8s.pod.uid": "u", "k8s.node.name": "n", "k8s.namespace.name": "ns", "k8s.container.name": "c"}},
		{"names that say nothing of Kubernetes, outside of it", ResourceConfig{}, map[string]string{"POD_NAME": "p", "NODE_NAME": "n"},
			map[string]string{namespaceFile: "ns"}, map[string]string{"k8s.pod.name": "", "k8s.node.name": "", "k8s.namespace.name": ""}},
		{"control group version 1", ResourceConfig{}, nil, map[string]string{"/proc/self/cgroup": "12:cpu:/docker/" + id + "\n"},
			map[string]string{"container.id": id}},
		{"control group of systemd", ResourceConfig{}, nil,
			map[string]string{"/proc/self/cgroup": "0::/kubepods.slice/cri-containerd-" + id + ".scope\n"}, map[string]string{"container.id": id}},
		{"mounted files of Docker", ResourceConfig{}, nil, map[string]string{
			"/proc/self/cgroup":    "0::/\n",
			"/proc/self/mountinfo": "1 2 8:1 / / rw - ext4 /dev/sda rw\n3 1 8:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
		}, map[string]string{"container.id": id}},
		{"mounted files of a pod's sandbox", ResourceConfig{}, map[string]string{inside: "10.0.0.1"}, map[string]string{
			"/proc/self/cgroup":    "0::/\n",
			"/proc/self/mountinfo": "3 1 8:1 /var/lib/docker/containers/" + sandbox + "/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
		}, map[string]string{"container.id": ""}},
		{"no container", ResourceConfig{}, nil, map[string]string{
			"/proc/self/cgroup": "0::/user.slice/session-1.scope\n", "/proc/self/mountinfo": "garbage\n\n1 2\n",
		}, map[string]string{"container.id": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := values(NewResource(machine(c.cfg, c.env, c.files)))
			for k, v := range c.want {
				if got[k] != v {
					t.Errorf("NewResource: %s = %q; want %q", k, got[k], v)
				}
			}
		})
	}
}

func TestInstanceIDIsUnique(t *testing.T) {
	a, b := InstanceID(NewResource(ResourceConfig{})), InstanceID(NewResource(ResourceConfig{}))
	if a == "" || a == b {
		t.Errorf("InstanceID = %q and %q; want two different ids", a, b)
	}
	if got := InstanceID(resource.Empty()); got != "" {
		t.Errorf("InstanceID(empty) = %q; want none", got)
	}
}

func TestWithEngine(t *testing.T) {
	res := NewResource(ResourceConfig{ServiceName: "svc", Attributes: map[string]string{"tokenscope.engine.model": "mine"}})
	got := values(WithEngine(res, Engine{Name: "vllm-v1", Model: "tiny"}))
	for k, v := range map[string]string{
		"service.name": "svc", "tokenscope.engine.name": "vllm-v1", "tokenscope.engine.version": "", "tokenscope.engine.model": "mine",
	} {
		if got[k] != v {
			t.Errorf("WithEngine: %s = %q; want %q", k, got[k], v)
		}
	}
}

// TestReferenceListsTheResource holds docs/spans.md and the resource together, in both
// directions; exporters/spantree does the same for spans.
func TestReferenceListsTheResource(t *testing.T) {
	data, err := os.ReadFile("../../docs/spans.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n## Resource\n")
	if !ok {
		t.Fatal("docs/spans.md has no section Resource")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| string \\|").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	emitted := map[string]bool{}
	pod := machine(ResourceConfig{Version: "1.0.0", ARMSRegion: "r", ARMSWorkspace: "w"}, map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "p", "POD_UID": "u", "POD_NAMESPACE": "ns", "NODE_NAME": "n", "CONTAINER_NAME": "c",
	}, map[string]string{"/proc/self/cgroup": "0::/cri-containerd-" + strings.Repeat("0123456789abcdef", 4) + ".scope\n"})
	for k := range values(WithEngine(NewResource(pod), Engine{Name: "vllm-v1", Version: "0.32.0", Model: "tiny"})) {
		emitted[k] = true
	}
	if diff := cmp.Diff(emitted, documented); diff != "" {
		t.Errorf("docs/spans.md, Resource (-emitted +documented):\n%s", diff)
	}
}
