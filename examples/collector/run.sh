#!/usr/bin/env bash
# run.sh [--build-only] [arms]: runs a Collector with config.yaml, and with arms.yaml over it if
# asked for. The first time it builds that Collector (needs Go; a minute or two), into
# $TOKENSCOPE_CACHE (default ~/.cache/tokenscope). --build-only prints where it is instead.
#
#   OTELCOL=/path/to/otelcol   takes that Collector; any distribution with the OTLP receiver will do
set -euo pipefail

builder=go.opentelemetry.io/collector/cmd/builder@v0.165.0 # the release that builder.yaml names
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TOKENSCOPE_CACHE:-${HOME:?set HOME or TOKENSCOPE_CACHE}/.cache/tokenscope}

# build DIR: builds the Collector into DIR, unless it is there.
build() {
	local dir=$1
	mkdir -p "$(dirname "$dir")"
	exec 9>"$dir.lock"
	flock 9 # two at a time must not build into one folder
	if [ ! -x "$dir/otelcol" ]; then
		echo "run.sh: building a Collector in $dir (a minute or two, once)" >&2
		rm -rf "$dir" "$dir.new"
		# The builder takes its output folder from the file only.
		sed "s|^dist:|dist:\n  output_path: $dir.new|" "$here/builder.yaml" >"$dir.yaml"
		# Outside this module, whose settings are not its own.
		(cd "${TMPDIR:-/tmp}" && CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off \
			go run "$builder" --config="$dir.yaml") >"$dir.log" 2>&1 || {
			echo "run.sh: building the Collector failed; the end of $dir.log:" >&2
			tail -n 20 "$dir.log" >&2
			exit 1
		}
		mv "$dir.new" "$dir"
	fi
	exec 9>&-
}

build_only=
[ "${1:-}" != --build-only ] || { build_only=yes; shift; }
configs=(--config="file:$here/config.yaml")
case ${1:-} in
'') ;;
arms)
	: "${ARMS_ENDPOINT:?name the endpoint of your CloudMonitor workspace}" "${ARMS_LICENSE_KEY:?set it to the licence key}"
	export ARMS_PROJECT=${ARMS_PROJECT:-} ARMS_WORKSPACE=${ARMS_WORKSPACE:-}
	configs+=(--config="file:$here/arms.yaml")
	;;
*) echo "usage: run.sh [--build-only] [arms]" >&2; exit 2 ;;
esac

if [ -z "${OTELCOL:-}" ]; then
	dir=$cache/collector-example-$(cat "$here/builder.yaml" "${BASH_SOURCE[0]}" | cksum | cut -d' ' -f1)
	build "$dir"
	OTELCOL=$dir/otelcol
fi
if [ -n "$build_only" ]; then
	echo "$OTELCOL"
	exit
fi
exec "$OTELCOL" "${configs[@]}"
