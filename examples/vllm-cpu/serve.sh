#!/usr/bin/env bash
# serve.sh PORT [FLAG…]: serves the tiny model with the vLLM that setup.sh made. FLAGs go to `vllm serve`.
#
# It ends in an exec, so that whoever starts it (a shell, instrument) has vLLM itself as its child.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
'' | *[!0-9]*) echo "usage: serve.sh PORT [vllm serve's flags…]" >&2; exit 2 ;;
esac
port=$1
shift
release=${VLLM_RELEASE:-$DEFAULT_RELEASE}
if ! env_ready "$release" || ! model_ready; then
	echo "serve.sh: vLLM $release is not set up; run $here/setup.sh $release first" >&2
	exit 1
fi

# One thread and a small key-value cache: the model is tiny, and the machine has other work.
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# Nothing is looked up or reported over the network.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1
# The environment's own programs first; a foreign PYTHONPATH could shadow its packages.
unset PYTHONPATH
PATH=$(env_of "$release")/bin:$PATH
export PATH

# VLLM_ENTRY=module starts it by its Python module, as many older scripts do. The caller's
# flags come last, so that they win.
case ${VLLM_ENTRY:-cli} in
module) server=(python -m vllm.entrypoints.openai.api_server --model "$(model_dir)") ;;
*) server=(vllm serve "$(model_dir)") ;;
esac
exec "${server[@]}" --served-model-name tiny --max-model-len 1024 --enforce-eager \
	--host 127.0.0.1 --port "$port" "$@"
