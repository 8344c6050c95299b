#!/bin/sh
# Builds the library that the workload loads, for each architecture, from shim/. With
# --check it writes nothing, and fails if what is committed is not what the sources give.
# Needs Python with the pinned compiler: pip install ziglang==0.17.1
set -eu
cd "$(dirname "$0")"

# One compiler for all that is generated: what probes/ebpf/gen.sh pins.
pinned=$(sed -n 's/^pinned=//p' ../ebpf/gen.sh)
found=$("${PYTHON:-python3}" -c 'from importlib.metadata import version; print(version("ziglang"))' 2>/dev/null || true)
if [ "$found" != "$pinned" ]; then
	echo "gen.sh: the library is built by ziglang $pinned (found: ${found:-none}); install it with: pip install ziglang==$pinned" >&2
	exit 1
fi

# The same flags for both; shim/README.md says why each is there. The sources are given in
# one order, by names that no directory is in, so that the bytes depend on nothing else.
flags='-O2 -g0 -std=gnu11 -fPIC -fvisibility=hidden -fasynchronous-unwind-tables
	-fno-stack-protector -U_FORTIFY_SOURCE -fno-sanitize=all -D_GNU_SOURCE
	-Wall -Wextra -Wno-unused-parameter -Werror'
link='-shared -s -Wl,-z,now,-z,relro,-z,noexecstack,--as-needed,--build-id=none -Wl,-soname,libtokenscope.so'

generate() (
	LC_ALL=C
	export LC_ALL
	out=$1
	cd shim
	for arch in x86_64:amd64 aarch64:arm64; do
		# shellcheck disable=SC2086 # lists of words
		"${PYTHON:-python3}" -m ziglang cc -target "${arch%%:*}-linux-gnu.2.17" $flags $link \
			-o "$out/libtokenscope_${arch##*:}.so" *.c -ldl
	done
)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
generate "$out"
if [ "${1:-}" = --check ]; then
	stale=
	for f in "$out"/*.so; do
		cmp -s "$f" "$(basename "$f")" || stale="$stale $(basename "$f")"
	done
	if [ -n "$stale" ]; then
		echo "gen.sh: out of date:$stale; run go generate ./probes/preload" >&2
		exit 1
	fi
	exit 0
fi
cp "$out"/*.so .
