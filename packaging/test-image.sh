#!/usr/bin/env bash
# Tests the image of target/packages with podman. Needs root; packaging/test.sh runs it, and
# installs podman-compose.
#
# In namespaces of its own, starts packaging/compose.yaml, with this machine's redis-server as the
# image `redis:7`, and `enroute db` with a volume for its data.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-release: $*"; }

for tool in podman runc redis-server redis-cli curl .deps/test-release/bin/podman-compose; do
    command -v "$tool" >/dev/null || { say "expected $tool on PATH: install its package"; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
# runc and cgroupfs also run on machines without systemd. The limits are below those of any shell.
cat >"$work/containers.conf" <<CONF
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[network]
network_config_dir = "$work/networks"
CONF
cat >"$work/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$work/images"
runroot = "$work/run"
CONF
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf

unshare --net --mount --pid --fork --kill-child --mount-proc bash -euo pipefail -s "$work" <<'INSIDE'
work=$1
# Networks and locks of podman are the machine's otherwise.
for directory in /run /var/lib/cni; do mount -t tmpfs tmpfs "$directory"; done
trap 'podman rm --all --force >/dev/null 2>&1 || true' EXIT
within() { local tries; for tries in $(seq 300); do "$@" && return; sleep 0.1; done; podman ps -a; echo "expected: $*"; exit 1; }
answers() { [ "$(redis-cli -p 6380 ping 2>/dev/null)" = PONG ]; }
hits() { curl -sf http://127.0.0.1:9130/stats | grep '"hits": [1-9]' >/dev/null; }
compose() {
    .deps/test-release/bin/podman-compose --podman-run-args=--log-driver=k8s-file -f packaging/compose.yaml "$@" \
        >>"$work/compose.log" 2>&1 || { cat "$work/compose.log"; exit 1; }
}
ip link set lo up

podman load -q -i target/packages/enroute-*-amd64.oci.tar >/dev/null
image=$(podman images --format '{{.Repository}}:{{.Tag}}')

# shellcheck disable=SC2046 # the libraries that it is linked with
tar -c --dereference $(command -v redis-server) $(ldd "$(command -v redis-server)" | grep -o '/[^ ]*') 2>/dev/null |
    podman import -q --change 'ENTRYPOINT ["redis-server", "--protected-mode", "no"]' - redis:7 >/dev/null

compose up -d
within answers
redis-cli -p 6380 set greeting hello >/dev/null
[ "$(printf 'get greeting\nget greeting\nget greeting\n' | redis-cli -p 6380 | sort -u)" = hello ]
hits
cache=$(podman ps --filter "ancestor=$image" --format '{{.ID}}')
status=/proc/$(podman inspect --format '{{.State.Pid}}' "$cache")/status
for line in '^Uid:\s65532\s' '^CapEff:\s0*$' '^CapBnd:\s0*$' '^NoNewPrivs:\s1$'; do
    grep -q "$line" "$status" || { cat "$status"; echo "expected: $line"; exit 1; }
done
[ "$(podman inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$cache")" = true ]
podman stop --time 20 "$cache" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$cache")" = 0 ]
compose down
echo "test-release: image: as in compose.yaml, the cache serves a hit without root and capabilities, and stops"


run_db() {
    podman run -d --name db --read-only --cap-drop all --security-opt no-new-privileges --network host \
        --volume data:/var/lib/enroute "$image" db --dir /var/lib/enroute/db --listen 127.0.0.1:6380 >/dev/null
    within answers
}
run_db
redis-cli -p 6380 set greeting stored >/dev/null
podman stop --time 20 db >/dev/null
podman rm db >/dev/null
run_db
[ "$(redis-cli -p 6380 get greeting)" = stored ]
echo "test-release: image: the database keeps its data in a volume"
INSIDE
