#!/usr/bin/env bash
# Tests the archive of target/packages, and so the program of all packages, in a root directory that
# contains nothing else. Needs root; packaging/test.sh runs it.
#
# The cache finds its origin by name and serves a hit. The data plane, attached without a compiler,
# answers a client of a real memcached.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-release: $*"; }

for tool in readelf redis-server redis-cli memcached curl ip python3; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || { say "expected $tool on PATH: install its package"; exit 1; }
done

root=$(mktemp -d)
chmod 0755 "$root"
trap 'rm -rf --one-file-system "$root"' EXIT
tar -xzf target/packages/enroute-*-x86_64-linux.tar.gz -C "$root" --strip-components 1
for file in enroute LICENSE man/enroute-cache.1.gz completions/_enroute; do [ -e "$root/$file" ]; done
# At an address that changes with each start, and without a dynamic loader.
readelf -hW "$root/enroute" | grep 'Type: *DYN' >/dev/null ||
    { say "expected a position-independent program"; exit 1; }
if readelf -lW "$root/enroute" | grep INTERP >/dev/null; then
    say "expected a static program"
    exit 1
fi
mkdir "$root/etc" "$root/sys"
echo "127.0.0.1 origin.example" >"$root/etc/hosts"

unshare --net --mount bash -euo pipefail -s "$root" <<'INSIDE'
root=$1
PATH=$PATH:/usr/sbin
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait' EXIT
within() { local tries; for tries in $(seq 600); do "$@" && return; sleep 0.1; done; cat "$root"/*.log; echo "expected: $*"; exit 1; }
answers() { [ "$(redis-cli -p "$1" ping 2>/dev/null)" = PONG ]; }
hits() { curl -sf http://127.0.0.1:9130/stats | grep '"hits": [1-9]' >/dev/null; }
start() { # log, command...
    "${@:2}" >"$root/$1.log" 2>&1 &
    started+=($!)
}

ip link set lo up
start redis redis-server --port 6379 --save '' --dir "$root"
within answers 6379
redis-cli set greeting hello >/dev/null
start cache chroot --userspec=65532:65532 "$root" /enroute cache --listen redis://127.0.0.1:6380 \
    --origin redis://origin.example:6379 --admin 127.0.0.1:9130
within answers 6380
[ "$(printf 'get greeting\nget greeting\nget greeting\n' | redis-cli -p 6380 | sort -u)" = hello ]
hits
kill "${started[-1]}"
wait "${started[-1]}"
unset 'started[-1]'
echo "test-release: archive: a static program in an empty root finds its origin by name, serves a hit and stops"

# A client in a network namespace of its own, at the other end of a veth pair.
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs /run
ip netns add client
client() { ip netns exec client "$@"; }
ip link add server type veth peer name client netns client
ip address add 10.0.0.1/24 dev server
ip link set server up
client ip address add 10.0.0.2/24 dev client
client ip link set client up
start memcached memcached -u root -l 10.0.0.1 -U 11211
enroute() { chroot "$root" /enroute switch "$@"; }
start attach enroute attach --interface server --threshold 3 --sampled 65536
attached() { enroute status >/dev/null 2>&1; }
within attached
client chroot "$root" /enroute switch accept --interface client
read_over_udp() { # says whether the kernel has answered
    client python3 - <<'PYTHON' 2>"$root/client.log" || return
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    datagrams.settimeout(5)
    datagrams.connect(("10.0.0.1", 11211))
    for number in range(20):
        head = number.to_bytes(2, "big") + b"\0\0\0\1\0\0"
        datagrams.send(head + b"get greeting\r\n")
        assert datagrams.recv(1500) == head + b"VALUE greeting 0 5\r\nhello\r\nEND\r\n"
PYTHON
    enroute status 2>/dev/null | grep -E '^hit +[1-9]' >/dev/null
}
within python3 -c 'import socket; socket.create_connection(("10.0.0.1", 11211), 5).sendall(b"set greeting 0 0 5 noreply\r\nhello\r\n")' 2>/dev/null
within read_over_udp
enroute detach >/dev/null
echo "test-release: archive: its data plane answers a client of memcached, without a compiler"
INSIDE
