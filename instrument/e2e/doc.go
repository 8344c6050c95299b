// Package e2e tests the built `instrument` from outside, with real parts on both sides: a
// real vLLM on the CPU as the workload and a real OpenTelemetry Collector as the backend.
//
//	client ──► vLLM under instrument ──OTLP──► Collector ──OTLP──► receiver in the test
//	           │                gRPC or HTTP
//	           └─ its own tracing, in one run ──OTLP──► a second receiver
//
// Everything is in test files under the build tag e2e; run it with
//
//	make e2e            # or: go test -tags e2e -timeout 25m -v ./instrument/e2e
//
// It needs root (eBPF), Linux with BTF, Go and Python; what it does not find it makes once,
// in the cache folder (TOKENSCOPE_CACHE, default ~/.cache/tokenscope): the Python environment
// and the tiny model of examples/vllm-cpu (6 GB, half a minute to ten) and the Collector
// (a minute or two). The tests themselves start vLLM four times and take four to eight minutes.
//
// Where it cannot run the tests skip and say why; TOKENSCOPE_E2E_REQUIRE=1 makes that a
// failure. TOKENSCOPE_E2E_KEEP=DIR keeps the servers' logs and the recordings there.
package e2e
