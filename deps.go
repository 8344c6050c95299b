//go:build deps

package deps

import (
	_ "github.com/cilium/ebpf"
	_ "github.com/cilium/ebpf/btf"
	_ "github.com/cilium/ebpf/cmd/bpf2go"
	_ "github.com/creack/pty"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/klauspost/compress/gzip"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/tinylib/msgp/msgp"
	_ "github.com/urfave/cli/v2"
	_ "go.opentelemetry.io/otel"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	_ "go.opentelemetry.io/otel/propagation"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/unix"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/encoding/protojson"
	_ "google.golang.org/protobuf/proto"
)
