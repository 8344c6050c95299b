#!/bin/sh
# Generates the Go loaders and the BPF objects from bpf/. With --check it writes
# nothing, and fails if what is committed is not what the sources give.
# Needs Python with the pinned compiler: pip install ziglang==0.17.1
set -eu
cd "$(dirname "$0")"

pinned=0.17.1
found=$("${PYTHON:-python3}" -c 'from importlib.metadata import version; print(version("ziglang"))' 2>/dev/null || true)
if [ "$found" != "$pinned" ]; then
	echo "gen.sh: the BPF objects are built by ziglang $pinned (found: ${found:-none}); install it with: pip install ziglang==$pinned" >&2
	exit 1
fi

generate() {
	# -mcpu=v3: 32-bit operations, Linux 5.1 and later. No unwind tables, which
	# would only be relocations that nobody reads.
	GOPACKAGE=ebpf BPF2GO_STRIP="$PWD/strip.sh" \
		go run github.com/cilium/ebpf/cmd/bpf2go \
		-cc "$PWD/zigcc.sh" -target amd64,arm64 -output-dir "$1" -go-package ebpf \
		-cflags "-O2 -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -fno-asynchronous-unwind-tables" \
		-no-global-types -type event -type counters -type adopted -type event_kind \
		-type fd_key -type socket_key \
		capture bpf/capture.bpf.c
}

if [ "${1:-}" = --check ]; then
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	generate "$out" >/dev/null
	stale=
	for f in "$out"/*; do
		cmp -s "$f" "$(basename "$f")" || stale="$stale $(basename "$f")"
	done
	if [ -n "$stale" ]; then
		echo "gen.sh: out of date:$stale; run go generate ./probes/ebpf" >&2
		exit 1
	fi
	exit 0
fi
generate .
