#!/usr/bin/env bash
# Runs the README's commands in a new Debian 12 root that has only what the README requires:
# `make test-bare`. Needs root, debootstrap, and Rust, Go and Node.js on this machine; takes two
# hours.
#
# Arguments: the steps to run [default: all]. They run in this order:
#   demo   make demo, before anything is installed
#   clang  a build made without clang warns; the first build after `make deps` has the data plane
#   test   make test
#   ci     .ci/run, which fails if a test is skipped
#
# The root is under TMPDIR (default /var/tmp), needs 25 GB, and is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "test-bare: $*"; }

bootstrap() { # root
    local root=$1 mirror
    # shellcheck disable=SC2016 # apt-get replaces it
    mirror=$(apt-get indextargets --format '$(SITE)' | head -n 1)
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log"; return 1; }
}

prepare() { # root
    local root=$1 file
    # Configuration with which this machine accesses package registries.
    rm "$root/etc/apt/sources.list"
    for file in /etc/apt/{sources.list,sources.list.d,auth.conf.d,apt.conf.d} /etc/{resolv,pip}.conf /root/.npmrc \
        /etc/maven/settings.xml /root/.m2/settings.xml /root/.config/{go,pip} \
        /root/.cargo/config.toml /usr/local/share/ca-certificates; do
        [ -e "$file" ] || continue
        mkdir -p "$root${file%/*}"
        cp -aLT "$file" "$root$file"
    done
    chroot "$root" update-ca-certificates >/dev/null 2>&1
    # As written by the Debian installer.
    echo "127.0.0.1 localhost" >"$root/etc/hosts"
    # Debian packages that the README requires. Keeps the configuration of Maven from above.
    {
        chroot "$root" apt-get update -qq &&
            chroot "$root" apt-get install -y -qq --no-install-recommends \
                -o Dpkg::Options::=--force-confold \
                make gcc libc6-dev git python3 maven openjdk-17-jdk-headless
    } </dev/null >"$root.log" 2>&1 || { tail -n 20 "$root.log"; return 1; }
    git clone -q --no-local . "$root/root/enroute"
    say "Debian root: done in $SECONDS s; commit $(git rev-parse --short HEAD)"
}

# Mounts the toolchains read-only, without the caches of this machine.
attach() { # root
    local root=$1 tree
    # Processes can create mount namespaces only if their root directory is a mount point.
    mount --bind "$root" "$root"
    mkdir -p "$root"/opt/{rust,go,node/bin,node/lib}
    mount --bind "$(rustc --print sysroot)" "$root/opt/rust"
    mount --bind "$(go env GOROOT)" "$root/opt/go"
    for tree in rust go; do mount -o remount,bind,ro "$root/opt/$tree"; done
    # Debian's Node.js is too old for the examples. Only its program and npm are copied: its
    # installation directory may be /usr.
    cp -L "$(command -v node)" "$root/opt/node/bin/"
    cp -a "$(npm root -g)/npm" "$root/opt/node/lib/"
    ln -s ../lib/npm/bin/npm-cli.js "$root/opt/node/bin/npm"
    for tree in dev sys; do mount --rbind "/$tree" "$root/$tree"; done
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/run"
}

# Runs the steps; executed by a shell in the new root.
newcomer() { # step...
    say() { echo "test-bare: $*"; }
    asked() { [[ " $steps " == *" $1 "* ]]; }
    timed() { # command...
        local started=$SECONDS
        "$@" </dev/null || { say "$*: FAILED after $((SECONDS - started)) s"; return 1; }
        say "$*: done in $((SECONDS - started)) s"
    }
    data_planes() { find target/debug/build -path '*/switch-*/out/switch.bpf.o' | wc -l; }
    expect() { # sentence, command...
        local sentence=$1
        shift
        "$@" || { say "expected: $sentence"; return 1; }
        say "holds: $sentence"
    }
    steps=$*
    if asked demo; then timed make demo; fi
    if asked clang; then
        cargo build --locked -p switch </dev/null 2>&1 | tee /tmp/without-clang
        expect "a build without clang warns" grep -q 'clang is not installed' /tmp/without-clang
        expect "it has no data plane" [ "$(data_planes)" = 0 ]
        timed make deps
        cargo build --locked -p switch </dev/null
        expect "the first build with clang has the data plane" [ "$(data_planes)" = 1 ]
        expect "Redis's own suites are installed" [ -x .deps/redis-tests/runtest ]
    fi
    if asked test; then timed make test; fi
    if asked ci; then timed .ci/run; fi
}

# Second invocation, in the namespaces created below.
if [ "${1:-}" = --in ]; then
    root=$2
    shift 2
    unset TMPDIR
    bootstrap "$root"
    attach "$root" # before the installation of packages: Java's packages read /proc
    prepare "$root"
    variables=()
    for name in $(compgen -e | grep -E '(_proxy|_PROXY|CA_BUNDLE|CAINFO|CA_CERTS)$|^(PIP_CERT|SSL_CERT_FILE|GOPROXY)$'); do
        variables+=("$name=${!name}")
    done
    # Not chroot: a process that enters a mount namespace made in the root would get the root of
    # this machine.
    mkdir "$root/mnt/outside"
    cd "$root"
    pivot_root . mnt/outside
    umount --lazy /mnt/outside && rmdir /mnt/outside
    exec env -i HOME=/root LANG=C.UTF-8 ${variables[@]+"${variables[@]}"} \
        PATH=/opt/rust/bin:/opt/go/bin:/opt/node/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -euo pipefail -c "cd /root/enroute; $(declare -f newcomer); newcomer $*"
fi

[ "$(id -u)" = 0 ] || { say "expected root: mounts and chroot need it"; exit 1; }
for tool in debootstrap rustc go node npm unshare; do
    command -v "$tool" >/dev/null || { say "expected $tool on PATH: install it"; exit 1; }
done
[ $# -gt 0 ] || set -- demo clang test ci
root=$(mktemp -d -p "${TMPDIR:-/var/tmp}" enroute-bare.XXXXXX)
chmod 0755 "$root"
# All processes and mounts belong to namespaces, which disappear when their first process ends.
unshare --mount --pid --fork --kill-child --mount-proc "$0" --in "$root" "$@" &
namespaces=$!
end() {
    kill -KILL "$namespaces" 2>/dev/null || true
    wait "$namespaces" 2>/dev/null || true
    rm -rf --one-file-system "$root" "$root.log"
}
trap end EXIT
trap 'exit 1' INT TERM
wait "$namespaces"
say "done after $SECONDS s"
