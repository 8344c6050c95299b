package redact

import (
	"strings"
	"testing"

	"github.com/tokenscope/tokenscope/probes/capture"
)

func TestArgv(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"vllm serve", "/env/bin/python3.11 /env/bin/vllm serve org/secret --port 8000 --api-key sk-1 --served-model-name tiny --enforce-eager",
			"/xxx/xxx/python3.11 /xxx/xxx/vllm serve xxx/xxxxxx --port 8000 --xxxxxxx xxxx --served-model-name tiny --enforce-eager"},
		{"joined values", "vllm serve --tensor_parallel_size=2 --api-key=sk-1 --chat-template=/a/b --enforce-eager=sk", "vllm serve --tensor_parallel_size=2 --xxxxxxxxxxxx --xxxxxxxxxxxxxxxxxx --enforce-eager=xx"},
		{"module", "python3 -m vllm.entrypoints.openai.api_server --model /m", "python3 -m vllm.entrypoints.openai.api_server --xxxxx /x"},
		{"code", "python3 -c print('secret')", "python3 -c xxxxxxxxxxxxxxx"},
		{"title", "VLLM::EngineCore", "VLLM::EngineCore"},
		{"title with a key", "nginx:;sk-1", "xxxxxxxxxxx"},
		{"long program", strings.Repeat("s", 40), strings.Repeat("x", 40)},
		{"flag instead of a value", "vllm --port --api-key sk-1", "vllm --port --xxxxxxx xxxx"},
		{"value that is no name", "vllm --port a;b", "vllm --port xxx"},
		{"value at the end", "vllm --port", "vllm --port"},
		{"secret that looks like a flag", "vllm --api-key --sk-1", "vllm --xxxxxxx --xxxx"},
		{"dashes", "vllm - -- -x", "vllm x xx xx"},
	}
	for _, tt := range tests {
		in := strings.ReplaceAll(tt.in, " ", "\x00") + "\x00"
		e := &capture.Event{Kind: capture.KindExec, Len: len(in), Data: []byte(in)}
		got := strings.TrimSuffix(strings.ReplaceAll(string(New().Event(e).Data), "\x00", " "), " ")
		if got != tt.want {
			t.Errorf("%s: Event(%q) =\n%q; want\n%q", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestArgvCut(t *testing.T) {
	in := "vllm\x00serve\x00--port\x0080\x00--po" + "rt\x0080\x00"
	e := &capture.Event{Kind: capture.KindExec, Len: len(in) + 9, Data: []byte(in), Tail: 6}
	want := "vllm\x00serve\x00--port\x0080\x00xxxx" + "xxxxxx"
	if got := string(New().Event(e).Data); got != want {
		t.Errorf("Event(%q) = %q; want %q", in, got, want)
	}
}

func FuzzArgv(f *testing.F) {
	f.Add("vllm\x00serve\x00--port\x008000\x00", "sk-1", false)
	f.Add("/a/b/python\x00-c\x00", "--x=y", true)
	f.Fuzz(func(t *testing.T, line, key string, cut bool) {
		p := []byte(line)
		redactArgv(p, cut)
		if len(p) != len(line) || strings.Count(string(p), "\x00") != strings.Count(line, "\x00") {
			t.Fatalf("redactArgv(%q) = %q; want the same arguments", line, p)
		}
		key = "canary" + strings.ReplaceAll(key, "\x00", "")
		p = []byte("vllm\x00serve\x00--api-key\x00" + key + "\x00--api-key=" + key + "\x00")
		redactArgv(p, cut)
		if strings.Contains(string(p), "canary") {
			t.Fatalf("redactArgv with key %q = %q; has the key", key, p)
		}
	})
}
