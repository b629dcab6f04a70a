#!/usr/bin/env bash
# Tests what target/packages has for arm64, on a machine for x86-64 with qemu-user-static: the
# program starts and serves a hit, and all packages contain it. packaging/test.sh runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-release: $*"; }

for tool in qemu-aarch64-static readelf dpkg-deb redis-server redis-cli curl .deps/release/bin/umoci; do
    command -v "$tool" >/dev/null || { say "expected $tool on PATH: install its package"; exit 1; }
done

work=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf --one-file-system "$work"' EXIT
mkdir "$work/archive" "$work/deb"
tar -xzf target/packages/enroute-*-aarch64-linux.tar.gz -C "$work/archive" --strip-components 1
program=$work/archive/enroute
readelf -hW "$program" | grep 'Machine: *AArch64' >/dev/null || { say "expected a program for arm64"; exit 1; }
if readelf -lW "$program" | grep INTERP >/dev/null; then
    say "expected a static program"
    exit 1
fi

dpkg-deb -x target/packages/enroute_*_arm64.deb "$work/deb"
[ "$(dpkg-deb -f target/packages/enroute_*_arm64.deb Architecture)" = arm64 ]
cmp "$work/deb/usr/bin/enroute" "$program"
# Lead and headers of an RPM name the architecture; its contents are those of the deb.
head -c 4096 target/packages/enroute-*.aarch64.rpm | grep -a aarch64 >/dev/null
mkdir "$work/layout"
tar -xf target/packages/enroute-*-arm64.oci.tar -C "$work/layout"
tag=$(.deps/release/bin/umoci list --layout "$work/layout")
.deps/release/bin/umoci unpack --rootless --image "$work/layout:$tag" "$work/image"
cmp "$work/image/rootfs/usr/bin/enroute" "$program"
grep -l '"architecture":"arm64"' "$work"/layout/blobs/sha256/* >/dev/null
say "arm64: deb, rpm, archive and image contain the same static program"

within() { for _ in $(seq 600); do "$@" && return; sleep 0.1; done; cat "$work"/*.log; echo "expected: $*"; exit 1; }
free_port() { python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'; }
origin=$(free_port) port=$(free_port) admin=$(free_port)
answers() { [ "$(redis-cli -p "$1" ping 2>/dev/null)" = PONG ]; }
hits() { curl -sf "http://127.0.0.1:$admin/stats" | grep '"hits": [1-9]' >/dev/null; }
qemu-aarch64-static "$program" --version
redis-server --bind 127.0.0.1 --port "$origin" --save '' --dir "$work" >"$work/redis.log" 2>&1 &
started+=($!)
within answers "$origin"
redis-cli -p "$origin" set greeting hello >/dev/null
qemu-aarch64-static "$program" cache --listen "redis://127.0.0.1:$port" --origin "redis://127.0.0.1:$origin" \
    --admin "127.0.0.1:$admin" >"$work/cache.log" 2>&1 &
started+=($!)
within answers "$port"
[ "$(printf 'get greeting\nget greeting\nget greeting\n' | redis-cli -p "$port" | sort -u)" = hello ]
hits
kill "${started[-1]}"
wait "${started[-1]}"
unset 'started[-1]'
say "arm64: under qemu the cache serves a hit and stops"
