package examples

// The service descriptions of examples/pai-eas against the limits that the platform documents.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// easService is the part of EAS' JSON that the examples use; a field that is not here is a
// mistake, or one that its description must first be read for:
// https://www.alibabacloud.com/help/en/pai/user-guide/parameters-of-model-services
type easService struct {
	Metadata struct {
		Name        string `json:"name"`
		Instance    int    `json:"instance"`
		WorkspaceID string `json:"workspace_id"`
		RPC         struct {
			EnableSIGTERM bool `json:"enable_sigterm"`
		} `json:"rpc"`
		EAS struct {
			TerminationGracePeriod int `json:"termination_grace_period"`
		} `json:"eas"`
	} `json:"metadata"`
	Cloud struct {
		Computing struct {
			Instances []struct {
				Type string `json:"type"`
			} `json:"instances"`
		} `json:"computing"`
	} `json:"cloud"`
	Storage []struct {
		MountPath string `json:"mount_path"`
		OSS       struct {
			Path     string `json:"path"`
			ReadOnly bool   `json:"readOnly"`
		} `json:"oss"`
	} `json:"storage"`
	Containers []easContainer `json:"containers"`
}

type easContainer struct {
	Image        string    `json:"image"`
	Port         int       `json:"port"`
	Command      string    `json:"command"`
	Script       string    `json:"script"`
	Env          []easEnv  `json:"env"`
	StartupCheck *easCheck `json:"startup_check"`
	HealthCheck  *easCheck `json:"health_check"`
}

type easEnv struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type easCheck struct {
	HTTPGet struct {
		Path string `json:"path"`
		Port int    `json:"port"`
	} `json:"http_get"`
	InitialDelaySeconds int `json:"initial_delay_seconds"`
	PeriodSeconds       int `json:"period_seconds"`
	TimeoutSeconds      int `json:"timeout_seconds"`
	FailureThreshold    int `json:"failure_threshold"`
}

func readService(t *testing.T, file string) easService {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s easService
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	return s
}

var (
	easName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	portArg = regexp.MustCompile(`--port[ =](\d+)`)
	// EAS' own processes in the instance listen there.
	easPorts = []int{8080, 9090}
	// Folders of the system that a mount would hide.
	systemFolders = []string{"/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/sbin", "/sys", "/tmp", "/usr", "/var"}
	// What stands for something of the reader's own.
	placeholder = regexp.MustCompile(`<[^<>]+>`)
)

// easMistakes lists what the platform would refuse, or would make of the service what nobody wants.
func easMistakes(s easService) (mistakes []string) {
	add := func(format string, a ...any) { mistakes = append(mistakes, fmt.Sprintf(format, a...)) }
	if !easName.MatchString(s.Metadata.Name) {
		add("name %q: lower-case letters, digits and underscores, a letter first", s.Metadata.Name)
	}
	var mounts []string
	for _, m := range s.Storage {
		mounts = append(mounts, path.Clean(m.MountPath))
		if slices.Contains(systemFolders, path.Clean(m.MountPath)) {
			add("mount path %s belongs to the system", m.MountPath)
		}
		if !strings.HasPrefix(m.OSS.Path, "oss://") || !strings.HasSuffix(m.OSS.Path, "/") {
			add("OSS path %q: oss://…/ with a slash at its end", m.OSS.Path)
		}
	}
	for i, a := range mounts {
		for _, b := range mounts[i+1:] {
			if a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") {
				add("mount paths %s and %s overlap", a, b)
			}
		}
	}
	for _, c := range s.Containers {
		if (c.Command == "") == (c.Script == "") {
			add("a container has a command or a script, one of them")
		}
		if slices.Contains(easPorts, c.Port) {
			add("port %d is EAS' own", c.Port)
		}
		arg := portArg.FindStringSubmatch(c.Script + c.Command)
		if arg == nil || arg[1] != fmt.Sprint(c.Port) {
			add("port %d is not the one that the server is told (%v)", c.Port, arg)
		}
		for _, check := range []*easCheck{c.StartupCheck, c.HealthCheck} {
			if check == nil {
				add("a container has no check of its start or health")
			} else if check.HTTPGet.Port != c.Port || check.HTTPGet.Path != "/health" {
				add("a check asks port %d%s, not the server's own /health", check.HTTPGet.Port, check.HTTPGet.Path)
			}
		}
	}
	if len(s.Containers) != 1 {
		add("%d containers", len(s.Containers))
	}
	return mistakes
}

func TestEASServicesKeepTheLimits(t *testing.T) {
	for _, file := range []string{"before.json", "service.json"} {
		t.Run(file, func(t *testing.T) {
			for _, m := range easMistakes(readService(t, "pai-eas/"+file)) {
				t.Error(m)
			}
		})
	}
}

// A check that cannot fail would prove nothing of the files.
func TestEASMistakesAreFound(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*easService)
	}{
		{"name of a host", "lower-case", func(s *easService) { s.Metadata.Name = "qwen3.8b" }},
		{"EAS' port", "EAS' own", func(s *easService) { s.Containers[0].Port = 8080 }},
		{"port that nobody listens on", "is told", func(s *easService) { s.Containers[0].Port = 8001 }},
		{"check of another port", "/health", func(s *easService) { s.Containers[0].HealthCheck.HTTPGet.Port = 9464 }},
		{"no check", "no check", func(s *easService) { s.Containers[0].StartupCheck = nil }},
		{"command and script", "one of them", func(s *easService) { s.Containers[0].Command = "vllm" }},
		{"mount over the system", "system", func(s *easService) { s.Storage[0].MountPath = "/usr/" }},
		{"mount in a mount", "overlap", func(s *easService) { s.Storage[1].MountPath = "/model_dir/tokenscope" }},
		{"OSS path of a file", "slash", func(s *easService) { s.Storage[0].OSS.Path = "oss://bucket/model" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := readService(t, "pai-eas/service.json")
			c.change(&s)
			if got := strings.Join(easMistakes(s), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("mistakes = %q; want one with %q", got, c.want)
			}
		})
	}
}

// What the example changes is what its README lists, and nothing else.
func TestEASServiceIsBeforeWithFourChanges(t *testing.T) {
	before, after := readService(t, "pai-eas/before.json"), readService(t, "pai-eas/service.json")
	if !after.Metadata.RPC.EnableSIGTERM || after.Metadata.EAS.TerminationGracePeriod <= 0 {
		t.Error("no SIGTERM is asked for, or no time for it")
	}
	after.Metadata.RPC.EnableSIGTERM, after.Metadata.EAS.TerminationGracePeriod = false, 0

	mount := after.Storage[len(after.Storage)-1]
	if mount.MountPath != "/mnt/tokenscope" || !mount.OSS.ReadOnly {
		t.Errorf("last mount = %+v; want /mnt/tokenscope, read-only", mount)
	}
	after.Storage = after.Storage[:len(after.Storage)-1]

	for _, e := range after.Containers[0].Env {
		if strings.Contains(e.Name, "KEY") && !placeholder.MatchString(e.Value) {
			t.Errorf("%s has a value in the example", e.Name)
		}
	}
	after.Containers[0].Env = nil

	gpus, server, ok := strings.Cut(before.Containers[0].Script, "; ")
	install, wrapped, ok2 := strings.Cut(strings.TrimPrefix(after.Containers[0].Script, gpus+"; "), "exec $(command -v instrument) ")
	if !ok || !ok2 || wrapped != server || !strings.HasSuffix(install, "bootstrap -a install; ") {
		t.Errorf("script = %q; want %q, the install, and exec $(command -v instrument) before %q", after.Containers[0].Script, gpus, server)
	}
	if strings.Contains(after.Containers[0].Script, "ARMS_") {
		t.Error("the script names a variable of ARMS: what is in it can be read in the list of processes")
	}
	after.Containers[0].Script = before.Containers[0].Script
	if !reflect.DeepEqual(before, after) {
		t.Errorf("the rest is different:\nbefore %+v\nafter  %+v", before, after)
	}
}

// The README shows both scripts as run commands, word for word.
func TestEASReadmeShowsTheScripts(t *testing.T) {
	readme, err := os.ReadFile("pai-eas/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"before.json", "service.json"} {
		script := readService(t, "pai-eas/"+file).Containers[0].Script
		if want := "```\n" + runCommand(script) + "\n```"; !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not show the script of %s:\n%s", file, want)
		}
	}
}

// runCommand writes a script as the README does: a command a line.
func runCommand(script string) string { return strings.ReplaceAll(script, "; ", ";\n") }
