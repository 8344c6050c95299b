package backend

import (
	"os"
	"slices"
	"testing"
)

func TestDefaultWantReceives(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Process
		want bool
	}{
		{"vllm serve", Process{Cmdline: []string{"/venv/bin/python3", "/venv/bin/vllm", "serve", "m"}}, true},
		{"python -m", Process{Cmdline: []string{"python", "-m", "vllm.entrypoints.openai.api_server"}}, true},
		{"title", Process{Comm: "VLLM::EngineCor", Cmdline: []string{"VLLM::EngineCore"}}, true},
		{"rust front-end", Process{Cmdline: []string{"/x/vllm-rs", "frontend"}}, true},
		{"child of vllm", Process{Cmdline: []string{"python", "-c", "from multiprocessing.spawn import spawn_main"}, ParentWanted: true}, true},
		{"other python", Process{Cmdline: []string{"python", "serve.py"}}, false},
		{"shell", Process{Cmdline: []string{"sh", "start.sh"}}, false},
		{"nothing known", Process{}, false},
		{"sglang", Process{Cmdline: []string{"python", "-m", "sglang.launch_server"}}, false},
		{"sglang with a vllm in its words", Process{Cmdline: []string{"python", "-m", "sglang.launch_server", "--model", "vllm-model"}}, false},
		{"sglang scheduler, child of something wanted", Process{Cmdline: []string{"sglang::scheduler"}, ParentWanted: true}, false},
		{"vllm only in a flag's value far back", Process{Cmdline: []string{"python", "a", "b", "c", "d", "e", "vllm"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := DefaultWantReceives(tc.p); got != tc.want {
				t.Errorf("DefaultWantReceives(%+v) = %v; want %v", tc.p, got, tc.want)
			}
		})
	}
}

func TestSplitCmdline(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      []string
	}{
		{"nothing", "", nil},
		{"one", "a\x00", []string{"a"}},
		{"empty argument", "a\x00\x00", []string{"a", ""}},
		{"cut by the limit", "a\x00b", []string{"a", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := SplitCmdline([]byte(tc.raw)); !slices.Equal(got, tc.want) {
				t.Errorf("SplitCmdline(%q) = %q; want %q", tc.raw, got, tc.want)
			}
		})
	}
}

func TestReadCmdline(t *testing.T) {
	if got, want := SplitCmdline(ReadCmdline(uint32(os.Getpid()))), os.Args; !slices.Equal(got, want) {
		t.Errorf("command line = %q; want %q", got, want)
	}
	if got := ReadCmdline(0); got != nil {
		t.Errorf("command line of no process = %q", got)
	}
}
