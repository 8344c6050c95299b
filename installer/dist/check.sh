#!/usr/bin/env bash
# check.sh: are the artefacts reproducible? Makes them out of two clones of HEAD, as `make dist`
# does, under circumstances that differ in everything that must not matter (path, time zone,
# umask, locale, go env), the second time with an empty build cache, so that every package is
# compiled anew; and compares them byte by byte. What is not committed is not looked at.
# Four minutes on two idle cores.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[ -z "$(git -C "$root" status --porcelain)" ] || echo "check.sh: note: uncommitted changes are not part of this" >&2
first=$scratch/first second="$scratch/second, elsewhere/and deeper"
mkdir -p "${second%/*}"
for clone in "$first" "$second"; do
	git clone --quiet --no-hardlinks "$root" "$clone"
done

(umask 022 && TZ=UTC LC_ALL=C make --no-print-directory -C "$first" dist)
(umask 077 && TZ=Asia/Shanghai LC_ALL=C.UTF-8 GOFLAGS=-tags=elsewhere GOCACHE=$scratch/cache \
	make --no-print-directory -C "$second" dist)

status=0
for folder in "$first" "$second"; do (cd "$folder/dist" && ls) >"$scratch/names.${#folder}"; done
cmp "$scratch"/names.* || { echo "check.sh: the two releases have other files" >&2; status=1; }
[ -n "$(ls "$first/dist")" ] || { echo "check.sh: there are no files to compare" >&2; exit 1; }
for file in "$first"/dist/*; do
	cmp "$file" "$second/dist/$(basename "$file")" || status=1
done
if [ $status = 0 ]; then
	echo "check.sh: two clones gave the same bytes: $(ls "$first/dist" | wc -l) files"
else
	echo "check.sh: the release is not reproducible: two clones of one commit gave other bytes (above)" >&2
fi
exit $status
