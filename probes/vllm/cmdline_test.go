package vllm

import (
	"strings"
	"testing"
)

func TestServedModel(t *testing.T) {
	for name, c := range map[string]struct{ cmdline, want string }{
		"vllm serve":                  {"/env/bin/python /env/bin/vllm serve Qwen/Qwen3-0.6B --port 8000", "Qwen/Qwen3-0.6B"},
		"with a name":                 {"vllm serve /model_dir --served-model-name qwen other --port 1", "qwen"},
		"with a name behind =":        {"vllm serve /model_dir --served-model-name=qwen", "qwen"},
		"module":                      {"python -m vllm.entrypoints.openai.api_server --model /m", "/m"},
		"model before the subcommand": {"vllm serve --port 8000 --model m", "m"},
		"another program":             {"grep --model x", ""},
		"a worker":                    {"VLLM::EngineCore", ""},
		"no model":                    {"vllm serve", ""},
		"empty":                       {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmdline := []byte(strings.ReplaceAll(c.cmdline, " ", "\x00") + "\x00")
			if got := ServedModel(cmdline); got != c.want {
				t.Errorf("ServedModel(%q) = %q; want %q", cmdline, got, c.want)
			}
		})
	}
}
