package redact

import (
	"bytes"
	"strings"
)

// A command line may hold keys (--api-key), templates and private paths, so only the
// names of well-known programs and flags stay, and such values as say how the server
// was set up.

const (
	// maxProgram and maxFlagValue are the longest names and values that stay.
	maxProgram   = 32
	maxFlagValue = 128
)

// argumentWords are arguments that stay as they are.
var argumentWords = wordsOf(`
	serve vllm sglang python python3 -m -u -c
	vllm.entrypoints.openai.api_server vllm.entrypoints.cli.main vllm.entrypoints.api_server
	sglang.launch_server frontend spawn_main --multiprocessing-fork
`)

// valueFlags are flags whose value stays; switches have none.
var (
	valueFlags = wordsOf(`
		port served-model-name tensor-parallel-size tp tp-size pipeline-parallel-size pp
		data-parallel-size dp dp-size data-parallel-rank api-server-count max-model-len
		context-length max-num-seqs max-num-batched-tokens max-running-requests
		chunked-prefill-size gpu-memory-utilization mem-fraction-static block-size dtype
		kv-cache-dtype quantization load-format device seed stream-interval task runner
		convert num-gpu-blocks-override swap-space nnodes node-rank
		tokenizer-worker-num per-request-spec-decode-metrics scheduling-policy
		schedule-policy tool-call-parser reasoning-parser uvicorn-log-level log-level
		max-loras max-lora-rank max-logprobs rpc-timeout
	`)
	switches = wordsOf(`
		disable-log-stats disable-log-requests enable-per-request-metrics enforce-eager
		enable-prefix-caching no-enable-prefix-caching enable-chunked-prefill
		no-enable-chunked-prefill enable-lora enable-request-id-headers
		enable-force-include-usage enable-auto-tool-choice trust-remote-code
		async-scheduling no-async-scheduling enable-metrics enable-trace
		skip-tokenizer-init is-embedding enable-expert-parallel headless
		disable-frontend-multiprocessing enable-server-load-tracking
	`)
)

// redactArgv overwrites a command line, arguments ended by NUL. The last argument is
// taken for incomplete if no NUL follows and the line was cut.
func redactArgv(p []byte, cut bool) {
	value := false // the next argument belongs to a flag of valueFlags
	for n := 0; len(p) > 0; n++ {
		arg, rest, ended := bytes.Cut(p, []byte{0})
		p = rest
		switch {
		case !ended && cut:
			fill(arg, 'x')
		case value && (len(arg) == 0 || arg[0] != '-'):
			redactValue(arg)
			value = false
		case n == 0:
			redactProgram(arg, func(base string) bool { return len(base) <= maxProgram && isProgram(base) })
		case len(arg) > 2 && arg[0] == '-' && arg[1] == '-' && !argumentWords.has(string(arg)):
			value = redactFlag(arg)
		default:
			value = false
			redactProgram(arg, argumentWords.has)
		}
	}
}

// redactProgram keeps the last element of a path if it may stay, and nothing else.
func redactProgram(arg []byte, stays func(string) bool) {
	slash := bytes.LastIndexByte(arg, '/') + 1
	if stays(string(arg[slash:])) {
		arg = arg[:slash]
	}
	for i := range arg {
		if arg[i] != '/' {
			arg[i] = 'x'
		}
	}
}

func isProgram(s string) bool {
	for i := range len(s) {
		if !isIdentByte(s[i]) && s[i] != ':' {
			return false
		}
	}
	return true
}

// redactFlag redacts "--flag" or "--flag=value" and reports whether the value is the
// next argument and may stay.
func redactFlag(arg []byte) bool {
	name, value, joined := bytes.Cut(arg[2:], []byte("="))
	flag := strings.ReplaceAll(string(name), "_", "-")
	keeps := valueFlags.has(flag)
	switch {
	case !keeps && !switches.has(flag):
		fill(arg[2:], 'x')
	case !keeps:
		fill(value, 'x')
	case joined:
		redactValue(value)
	}
	return keeps && !joined
}

func redactValue(value []byte) {
	if len(value) > maxFlagValue || !isValue(value) {
		fill(value, 'x')
	}
}

func isValue(value []byte) bool {
	for _, b := range value {
		if !isIDByte(b) {
			return false
		}
	}
	return true
}
