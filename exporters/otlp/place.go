package otlp

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/tokenscope/tokenscope/semconv"
)

// Where we run: container and pod, by what the kernel and the environment tell.

// hexID is a container's id, as a whole path element or before ".scope".
var hexID = regexp.MustCompile(`(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?$`)

// mountID is a container's id in the source of a file that Docker or Podman mounts.
var mountID = regexp.MustCompile(`/(?:overlay-)?containers/([0-9a-f]{64})/`)

// containerID reads the container's id from the control group's path (version 1, or the
// host's namespace) or else from the sources of mounted files (version 2). It is ""
// outside of a container and where neither tells.
func containerID(c *ResourceConfig) string {
	if data, err := c.ReadFile("/proc/self/cgroup"); err == nil {
		for line := range bytes.Lines(data) {
			if m := hexID.FindSubmatch(bytes.TrimSpace(line)); m != nil {
				return string(m[1])
			}
		}
	}
	if inKubernetes(c) {
		// There the mounted files are those of the pod's sandbox, whose id is another.
		return ""
	}
	data, err := c.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		// Fields 4 and 5 are the root within the file system and the mount point.
		f := strings.Fields(lines.Text())
		if len(f) < 5 || f[4] != "/etc/hostname" && f[4] != "/etc/hosts" && f[4] != "/etc/resolv.conf" {
			continue
		}
		if m := mountID.FindStringSubmatch(f[3]); m != nil {
			return m[1]
		}
	}
	return ""
}

// namespaceFile is in every pod that has not turned its service account off.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func inKubernetes(c *ResourceConfig) bool { return c.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// kubernetes adds what the downward API was asked to put into the environment, by the
// usual names. Names that say nothing of Kubernetes count only inside of it.
func kubernetes(c *ResourceConfig, values map[attribute.Key]string) {
	for _, k := range []struct {
		key    attribute.Key
		always []string
		inside []string
		inFile string
	}{
		{semconv.K8SPodName, []string{"K8S_POD_NAME", "KUBERNETES_POD_NAME"}, []string{"POD_NAME"}, ""},
		{semconv.K8SPodUID, []string{"K8S_POD_UID", "KUBERNETES_POD_UID"}, []string{"POD_UID"}, ""},
		{semconv.K8SNamespaceName, []string{"K8S_NAMESPACE_NAME", "K8S_POD_NAMESPACE", "K8S_NAMESPACE", "KUBERNETES_NAMESPACE"},
			[]string{"POD_NAMESPACE"}, namespaceFile},
		{semconv.K8SNodeName, []string{"K8S_NODE_NAME", "KUBERNETES_NODE_NAME"}, []string{"NODE_NAME"}, ""},
		{semconv.K8SContainerName, []string{"K8S_CONTAINER_NAME", "KUBERNETES_CONTAINER_NAME"}, []string{"CONTAINER_NAME"}, ""},
	} {
		names := k.always
		if inKubernetes(c) {
			names = append(names, k.inside...)
		}
		for _, n := range names {
			if v := c.Getenv(n); v != "" {
				values[k.key] = v
				break
			}
		}
		if values[k.key] == "" && k.inFile != "" && inKubernetes(c) {
			if data, err := c.ReadFile(k.inFile); err == nil {
				values[k.key] = string(bytes.TrimSpace(data))
			}
		}
	}
}
