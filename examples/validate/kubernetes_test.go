package validate

// examples/kubernetes by kustomize, the API's own types and the Pod Security Standards.

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	shared    = "tokenscope"  // the volume with our programs
	installed = "/tokenscope" // where it is mounted
	server    = "vllm"        // the server's container
)

// render gives what `kubectl apply -k` would send: the deployment and the service.
func render(t *testing.T, folder string) (d appsv1.Deployment, s corev1.Service) {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path.Join("../kubernetes", folder))
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	for _, o := range objects.Resources() {
		text, err := o.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch kind := o.GetKind(); kind {
		case "Deployment":
			// Strict: a field that the API does not know, or one named twice, is an error.
			err = yaml.UnmarshalStrict(text, &d)
		case "Service":
			err = yaml.UnmarshalStrict(text, &s)
		default:
			t.Errorf("%s: an object of kind %s, which no test looks at", folder, kind)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", folder, err, text)
		}
	}
	if d.Name == "" || s.Name == "" {
		t.Fatalf("%s: deployment %q, service %q", folder, d.Name, s.Name)
	}
	return d, s
}

func container(t *testing.T, list []corev1.Container, name string) *corev1.Container {
	t.Helper()
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

// refusals are what an admission controller of that level says.
func refusals(t *testing.T, pod *corev1.PodTemplateSpec, level api.Level) (all []string) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			all = append(all, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	return all
}

func TestBaseIsRestricted(t *testing.T) {
	d, _ := render(t, "base")
	for _, r := range refusals(t, &d.Spec.Template, api.LevelRestricted) {
		t.Error(r)
	}
	for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
		if ro := c.SecurityContext.ReadOnlyRootFilesystem; ro == nil || !*ro {
			t.Errorf("%s: its root file system is not read-only", c.Name)
		}
	}
}

// The eBPF variant asks for the three capabilities that README.md names, and says so by being
// refused at "baseline".
func TestEBPFAsksForNoMoreThanItNeeds(t *testing.T) {
	d, _ := render(t, "ebpf")
	spec := &d.Spec.Template.Spec
	c := container(t, spec.Containers, server)
	want := []corev1.Capability{"BPF", "PERFMON", "SYS_PTRACE"}
	if got := c.SecurityContext.Capabilities.Add; !slices.Equal(got, want) {
		t.Errorf("capabilities added: %v; want %v", got, want)
	}
	if got := c.SecurityContext.Capabilities.Drop; !slices.Equal(got, []corev1.Capability{"ALL"}) {
		t.Errorf("capabilities dropped: %v; want ALL", got)
	}
	if p := c.SecurityContext.Privileged; p != nil && *p {
		t.Error("it is privileged")
	}
	if e := c.SecurityContext.AllowPrivilegeEscalation; e == nil || *e {
		t.Error("it may gain privileges")
	}
	// No other user gets added capabilities.
	if *spec.SecurityContext.RunAsUser != 0 {
		t.Error("it does not run as root")
	}
	if len(container(t, spec.InitContainers, shared).SecurityContext.Capabilities.Add) > 0 {
		t.Error("the init container has capabilities")
	}
	got := strings.Join(refusals(t, &d.Spec.Template, api.LevelBaseline), "\n")
	for _, reason := range []string{"BPF", "hostPath"} {
		if !strings.Contains(got, reason) {
			t.Errorf("baseline refuses %q; want %s among it, as README.md says", got, reason)
		}
	}
	base, _ := render(t, "base")
	for _, field := range []struct{ name, base, ebpf string }{
		{"command", strings.Join(container(t, base.Spec.Template.Spec.Containers, server).Command, " "), strings.Join(c.Command, " ")},
		{"args", strings.Join(container(t, base.Spec.Template.Spec.Containers, server).Args, " "), strings.Join(c.Args, " ")},
	} {
		if field.base != field.ebpf {
			t.Errorf("%s is %q; base has %q", field.name, field.ebpf, field.base)
		}
	}
}

func TestPodsStartTheServerThroughTheVolume(t *testing.T) {
	for _, folder := range []string{"base", "ebpf"} {
		t.Run(folder, func(t *testing.T) {
			d, s := render(t, folder)
			spec := &d.Spec.Template.Spec
			init, main := container(t, spec.InitContainers, shared), container(t, spec.Containers, server)

			if got := strings.Join(init.Args, " "); got != "-a install --prefix "+installed || init.Command != nil {
				t.Errorf("the init container runs %v %q", init.Command, got)
			}
			if !slices.Equal(main.Command, []string{installed + "/bin/instrument"}) || len(main.Args) == 0 || strings.HasPrefix(main.Args[0], "-") {
				t.Errorf("the server is started by %v %v", main.Command, main.Args)
			}
			if m := mountAt(init, installed); m == nil || m.Name != shared || m.ReadOnly {
				t.Errorf("init container: mount at %s = %+v", installed, m)
			}
			if m := mountAt(main, installed); m == nil || m.Name != shared || !m.ReadOnly {
				t.Errorf("server: mount at %s = %+v; want it read-only", installed, m)
			}
			for _, m := range main.VolumeMounts {
				if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
					t.Errorf("no volume %s", m.Name)
				}
			}

			// One port, the server's, and each probe asks there.
			if len(main.Ports) != 1 || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].TargetPort.String() != main.Ports[0].Name {
				t.Fatalf("ports %+v, of the service %+v", main.Ports, s.Spec.Ports)
			}
			port := strconv.Itoa(int(main.Ports[0].ContainerPort))
			if i := slices.Index(main.Args, "--port"); i < 0 || main.Args[i+1] != port {
				t.Errorf("the server is told %v; want port %s", main.Args, port)
			}
			for name, p := range map[string]*corev1.Probe{"startup": main.StartupProbe, "readiness": main.ReadinessProbe, "liveness": main.LivenessProbe} {
				if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != "/health" || p.HTTPGet.Port.String() != main.Ports[0].Name {
					t.Errorf("%s probe = %+v", name, p)
				}
			}
			for key, value := range s.Spec.Selector {
				if d.Spec.Template.Labels[key] != value || d.Spec.Selector.MatchLabels[key] != value {
					t.Errorf("label %s=%s of the service is not the pods'", key, value)
				}
			}
		})
	}
}

// A key comes from a secret, and from nowhere else.
func TestKeysComeFromASecret(t *testing.T) {
	d, _ := render(t, "base")
	main := container(t, d.Spec.Template.Spec.Containers, server)
	if len(main.EnvFrom) != 1 || main.EnvFrom[0].SecretRef == nil || !*main.EnvFrom[0].SecretRef.Optional {
		t.Errorf("envFrom = %+v; want one optional secret", main.EnvFrom)
	}
	for _, e := range main.Env {
		if strings.HasPrefix(e.Name, "ARMS_") || strings.Contains(e.Name, "HEADERS") {
			t.Errorf("%s is in the manifest", e.Name)
		}
	}
	if args := strings.Join(slices.Concat(main.Command, main.Args), " "); strings.Contains(args, "$(") {
		t.Errorf("arguments %q hold a variable: a secret's value would be seen in the list of processes", args)
	}
}

// Kubernetes puts in only variables that stand further up; another is left as it is written.
func TestResourceAttributesAreFilledIn(t *testing.T) {
	d, _ := render(t, "base")
	main := container(t, d.Spec.Template.Spec.Containers, server)
	known := map[string]bool{}
	for _, e := range main.Env {
		for rest := e.Value; ; {
			_, after, ok := strings.Cut(rest, "$(")
			if !ok {
				break
			}
			name, tail, ok := strings.Cut(after, ")")
			if !ok || !known[name] {
				t.Errorf("%s names $(%s, which does not stand before it", e.Name, name)
			}
			rest = tail
		}
		known[e.Name] = true
		if e.Name == "OTEL_RESOURCE_ATTRIBUTES" {
			for pair := range strings.SplitSeq(e.Value, ",") {
				key, value, ok := strings.Cut(pair, "=")
				if !ok || !strings.HasPrefix(key, "k8s.") || value == "" || strings.ContainsAny(pair, " \\\n") {
					t.Errorf("OTEL_RESOURCE_ATTRIBUTES has %q", pair)
				}
			}
		}
	}
	if !known["OTEL_RESOURCE_ATTRIBUTES"] {
		t.Error("there is no OTEL_RESOURCE_ATTRIBUTES")
	}
}

func mountAt(c *corev1.Container, where string) *corev1.VolumeMount {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == where {
			return &c.VolumeMounts[i]
		}
	}
	return nil
}
