#!/usr/bin/env bash
# Builds a release into target/packages: `make release`. Needs Rust with rustup, Go, Python 3 and
# what the build of the edge needs (cmake, a C++ compiler, clang).
#
# Arguments: the processors, of x86_64 and aarch64 [default: x86_64].
#
# The programs are static: they run on any Linux for their processor, also in an empty image. Zig
# brings musl and a linker for them. The wheel of the fabric simulator runs with CPython 3.10 and
# later on Linux with glibc 2.17 and later. Times in the artefacts are the time of the commit, or
# SOURCE_DATE_EPOCH, and they contain no path of this machine; packaging/test-reproducible.sh
# compares two builds in different folders.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
out=$PWD/target/packages stage=$PWD/target/packages/stage tools=$PWD/.deps/release
cyclonedx_version=0.5.9
machines=${*:-x86_64}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
VERSION=$(cargo pkgid --locked -p enroute)
VERSION=${VERSION##*[#@]}
export SOURCE_DATE_EPOCH VERSION

install_tools() {
    local machine
    for machine in $machines; do
        rustup -q target add "$machine-unknown-linux-musl" "$machine-unknown-linux-gnu"
    done
    [ -x "$tools/bin/python" ] || python3 -m venv "$tools"
    "$tools/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r packaging/requirements.txt
    "$tools/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes \
        -r packaging/wheel-requirements.txt
    if [ "$("$tools/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null)" != "cargo-cyclonedx-cyclonedx $cyclonedx_version" ]; then
        cargo install -q --locked --debug --root "$tools" --target-dir "$tools/work" "cargo-cyclonedx@$cyclonedx_version"
        rm -rf "$tools/work"
    fi
    (cd packaging && GOBIN=$tools/bin CGO_ENABLED=0 go install -trimpath github.com/goreleaser/nfpm/v2/cmd/nfpm \
        github.com/opencontainers/umoci/cmd/umoci)
    PATH=$tools/bin:$PATH
}

# Runs a build whose products contain no path of this machine and no symbols.
without_paths() { # command...
    local maps="-ffile-prefix-map=$PWD=/enroute -ffile-prefix-map=$cargo_home=/cargo -g0"
    env TARGET_CFLAGS="$maps" TARGET_CXXFLAGS="$maps" \
        RUSTFLAGS="--remap-path-prefix=$PWD=/enroute --remap-path-prefix=$cargo_home=/cargo" \
        CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=symbols "$@"
}

build_program() { # machine
    local triple=$1-unknown-linux-musl zig headers directory
    zig=$("$tools/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')
    # bindgen reads BoringSSL's headers with libclang, which does not know the options of Zig's
    # newer clang.
    headers="-isystem $(clang -print-resource-dir)/include"
    for directory in $1-linux-musl generic-musl $1-linux-any any-linux-any; do
        headers+=" -isystem $zig/lib/libc/include/$directory"
    done
    without_paths env "BINDGEN_EXTRA_CLANG_ARGS_$triple=$headers" cargo-zigbuild rustc \
        --release --locked -p enroute --bin enroute --features edge \
        --target "$triple" --target-dir target/packaged -- -C link-arg=-pie
    mkdir "$stage/$1"
    cp "target/packaged/$triple/release/enroute" "$stage/$1/enroute"
}

build_wheel() { # machine
    local triple=$1-unknown-linux-gnu
    list_dependencies fabric-python "$triple" >"$stage/enroute-fabric.cdx.json"
    without_paths maturin build --quiet --release --locked --zig --compatibility manylinux2014 \
        --auditwheel check --manifest-path crates/fabric-python/Cargo.toml --target "$triple" \
        --target-dir target/packaged --sbom-include "$stage/enroute-fabric.cdx.json" --out "$out"
}

# Tar files whose bytes depend only on the names and the contents of the files.
pack() { # directory, name in it
    tar -C "$1" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --mtime="@$SOURCE_DATE_EPOCH" -cf - "$2"
}

pack_archive() { # machine
    local name=enroute-$VERSION-$1-linux
    mkdir -p "$stage/$name/completions" "$stage/$name/monitoring"
    cp -r "$stage/$1/enroute" "$stage/man" LICENSE "$stage/$name"
    cp monitoring/enroute.{rules.yml,dashboard.json} "$stage/$name/monitoring"
    cp "$stage"/{bash,fish,zsh}/* "$stage/$name/completions"
    pack "$stage" "$name" | gzip -n9 >"$out/$name.tar.gz"
}

# Without the links to files of the repository.
pack_chart() {
    mkdir "$stage/chart"
    cp -rL packaging/helm/enroute "$stage/chart"
    pack "$stage/chart" enroute | gzip -n9 >"$out/enroute-$VERSION.tgz"
}

list_dependencies() { # crate, target, its features...
    cargo cyclonedx -q --manifest-path "crates/$1/Cargo.toml" "${@:3}" --no-build-deps \
        --target "$2" --format json --spec-version 1.5 --override-filename release-sbom
    python3 packaging/sbom.py "crates/$1/release-sbom.json" "$2"
    # The tool writes one for each crate.
    rm crates/*/release-sbom.json
}

# An image of the program alone, and a directory for data that belongs to its user.
pack_image() { # machine, its name in images
    local layout=$stage/image-$1 root=$stage/root-$1 created image
    created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    mkdir -p "$root/data"
    cp "$stage/$1/enroute" "$root/enroute"
    find "$root" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
    umoci init --layout "$layout"
    umoci new --image "$layout:enroute:$VERSION"
    image=(--image "$layout:enroute:$VERSION" --history.created "$created")
    umoci insert "${image[@]}" --uid-map "0:$(id -u):1" --gid-map "0:$(id -g):1" "$root/enroute" /usr/bin/enroute
    umoci insert "${image[@]}" --uid-map "65532:$(id -u):1" --gid-map "65532:$(id -g):1" \
        "$root/data" /var/lib/enroute
    umoci config "${image[@]}" --created "$created" --os linux --architecture "$2" \
        --config.user 65532:65532 --config.entrypoint /usr/bin/enroute --config.cmd --help \
        --config.volume /var/lib/enroute --config.label org.opencontainers.image.title=enroute \
        --config.label "org.opencontainers.image.version=$VERSION" \
        --config.label org.opencontainers.image.licenses=Apache-2.0
    umoci gc --layout "$layout"
    pack "$layout" . >"$out/enroute-$VERSION-$2.oci.tar"
}

install_tools
rm -rf "$out" && mkdir -p "$stage"
cargo run -q --locked -p enroute --features edge --example manuals -- "$stage"
gzip -n9 "$stage"/man/*.1
pack_chart
for machine in $machines; do
    case $machine in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
    build_program "$machine"
    build_wheel "$machine"
    pack_archive "$machine"
    list_dependencies enroute "$machine-unknown-linux-musl" --features edge \
        >"$out/enroute-$VERSION-$machine-linux.cdx.json"
    pack_image "$machine" "$arch"
    for format in deb rpm; do
        (cd packaging && MACHINE=$machine ARCH=$arch nfpm package --config nfpm.yaml --packager "$format" --target "$out")
    done
done
rm -rf "$stage"
(cd "$out" && sha256sum -- *.* >SHA256SUMS && cat SHA256SUMS)
