#!/bin/sh
# The compiler of the BPF objects, for bpf2go's -cc: clang as the pinned PyPI
# package ziglang carries it. bpf2go asks for -target bpfel; zig wants an
# operating system named as well.
set -eu
for arg do
	[ "$arg" = bpfel ] && arg=bpfel-freestanding
	set -- "$@" "$arg"
	shift
done
exec "${PYTHON:-python3}" -m ziglang cc "$@"
