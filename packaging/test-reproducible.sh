#!/usr/bin/env bash
# Builds the last commit again, in another folder, and compares every byte with what `make release`
# has built from it: `make test-reproducible`. Takes as long as a release, and needs 10 GB under
# TMPDIR (default /var/tmp).
#
# Arguments: the processors, as for packaging/build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e target/packages/SHA256SUMS ] || { echo "test-reproducible: no packages: run \`make release\` first"; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "test-reproducible: expected no uncommitted changes"; exit 1; }

work=$(mktemp -d "${TMPDIR:-/var/tmp}/enroute-again-XXXXXX")
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Another folder, without Git, with other times of files, time zone and permissions of new files.
git archive HEAD | tar -x -m -C "$work"
ln -s "$PWD/.deps" "$work/.deps"
(umask 077 && TZ=Asia/Kathmandu "$work/packaging/build.sh" "$@" >"$work/log" 2>&1) ||
    { tail -n 20 "$work/log"; exit 1; }
diff -r target/packages "$work/target/packages"
echo "test-reproducible: $(wc -l <target/packages/SHA256SUMS) files are equal"
