#!/usr/bin/env bash
# Tests what `make release` has built: `make test-release`. Needs root. Installation, services and
# removal of the package in a new Debian root are tested here, the archives and the image by the
# scripts beside this one.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-release: $*"; }

for tool in debootstrap redis-cli curl systemd-socket-activate; do
    command -v "$tool" >/dev/null || { say "expected $tool on PATH: install its package"; exit 1; }
done
package=$(ls target/packages/enroute_*_amd64.deb) || { say "no package: run \`make release\` first"; exit 1; }

for unit in packaging/systemd/*.service; do
    systemd-analyze security --offline=true --threshold=20 --no-pager "$unit" >/dev/null ||
        { say "$unit: expected an exposure of at most 2.0"; exit 1; }
done
say "units: exposure at most 2.0"
(cd target/packages && sha256sum --quiet --strict -c SHA256SUMS)
[ "$(cut -d ' ' -f 3 target/packages/SHA256SUMS)" = "$(cd target/packages && ls -- *.*)" ]

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
tar -xzf target/packages/enroute-*-x86_64-linux.tar.gz -C "$unpacked" --strip-components 1
tar -xzf target/packages/enroute-[0-9]*.tgz -C "$unpacked" --transform 's|^|chart/|'
ENROUTE=$unpacked/enroute CHART=$unpacked/chart/enroute packaging/test-chart.sh
say "chart: Kubernetes and the program accept what it renders"

# The wheel needs no library of Python, and gives the bytes of the program.
python3 -m venv "$unpacked/python"
"$unpacked/python/bin/pip" install -q --disable-pip-version-check --no-index --no-deps target/packages/*_x86_64.whl
[ "$("$unpacked/python/bin/python" -c 'import enroute_fabric; print(enroute_fabric.run("incast").to_json())')" = \
    "$("$unpacked/enroute" fabric run --trace incast --json 2>/dev/null)" ]
say "wheel: $(basename target/packages/*_x86_64.whl) gives the results of enroute fabric run"

.deps/test-release/bin/python packaging/check_sbom.py target/packages/*.cdx.json \
    "$unpacked"/python/lib/python3*/site-packages/enroute_fabric-*.dist-info/sboms/*.cdx.json
packaging/test-archive.sh
packaging/test-image.sh
if ls target/packages/enroute_*_arm64.deb >/dev/null 2>&1; then packaging/test-arm64.sh; fi

root=$(mktemp -d)
chmod 0755 "$root"
trap 'rm -rf --one-file-system "$root" "$unpacked"' EXIT
# shellcheck disable=SC2016 # apt-get replaces it
mirror=$(apt-get indextargets --format '$(SITE)' | head -n 1)
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log"; exit 1; }
rm -f "$root.log"
cp "$package" "$root/enroute.deb"
chroot "$root" dpkg -i /enroute.deb >/dev/null
chroot "$root" getent passwd enroute >/dev/null
chroot "$root" enroute config check /etc/enroute/cache.toml
[ -e "$root/usr/share/man/man1/enroute-cache.1.gz" ]
for file in enroute.rules.yml enroute.dashboard.json; do
    cmp "$root/usr/share/enroute/monitoring/$file" "monitoring/$file"
done
[ "$(stat -c %a "$root/etc/enroute/cache.toml")" = 644 ]
say "installed: $(chroot "$root" enroute --version)"

# Runs the services with the configuration of the package, as their user, in a network namespace.
unshare --net bash -euo pipefail -s "$root" <<'INSIDE'
root=$1
ip link set lo up
exec_of() { sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/enroute-$1.service"; }
within() { local tries; for tries in $(seq 100); do "$@" && return; sleep 0.1; done; cat "$root"/*.log; exit 1; }
answers() { [ "$(redis-cli -p "$1" ping 2>/dev/null)" = PONG ]; }
start() { # service, command that runs it...
    . "$root/etc/default/enroute"
    local line; line=$(eval "echo \"$(exec_of "$1")\"")
    "${@:2}" chroot --userspec=enroute:enroute "$root" $line >"$root/$1.log" 2>&1 &
    started+=($!)
}
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait' EXIT
mkdir -p "$root/var/lib/enroute"
chroot "$root" chown enroute:enroute /var/lib/enroute
# The database is handed the socket of its .socket unit; the cache makes its own.
start db systemd-socket-activate -l "$(sed -n 's/^ListenStream=//p' "$root/lib/systemd/system/enroute-db.socket")"
within answers 6379
start cache
within answers 6380
redis-cli -p 6380 set greeting hello >/dev/null
for _ in 1 2; do [ "$(redis-cli -p 6380 get greeting)" = hello ]; done
curl -sf http://127.0.0.1:9130/stats | grep '"hits":' >/dev/null
for process in "${started[@]}"; do kill "$process"; wait "$process"; done
started=()
INSIDE
say "enroute-db and enroute-cache serve with the package's configuration and stop"

chroot "$root" dpkg -r enroute >/dev/null
[ ! -e "$root/usr/bin/enroute" ] && [ -e "$root/etc/enroute/cache.toml" ] && [ -d "$root/var/lib/enroute/db" ]
chroot "$root" dpkg -P enroute >/dev/null
[ ! -e "$root/etc/enroute/cache.toml" ]
say "removed: configuration stays until purge, data stays"
