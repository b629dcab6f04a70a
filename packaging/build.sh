#!/usr/bin/env bash
# Builds the packages into target/packages: `make release`.
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/packages stage=target/packages/stage

# Removes the paths of this machine from the binary.
RUSTFLAGS="--remap-path-prefix=$PWD=/enroute --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    cargo build --release --locked -p enroute --features edge --target-dir target/packaged
rm -rf "$out" && mkdir -p "$stage"
cp target/packaged/release/enroute "$stage/enroute"
strip "$stage/enroute"
cargo run -q --locked -p enroute --features edge --example manuals -- "$stage"
gzip -n9 "$stage"/man/*.1
mkdir -p .deps/bin
(cd packaging && CGO_ENABLED=0 go build -trimpath -o ../.deps/bin/nfpm \
    github.com/goreleaser/nfpm/v2/cmd/nfpm)

VERSION=$("$stage/enroute" --version | cut -d ' ' -f 2)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION SOURCE_DATE_EPOCH
for format in deb rpm; do
    (cd packaging && ../.deps/bin/nfpm package --config nfpm.yaml --packager "$format" --target "../$out")
done
rm -rf "$stage"
(cd "$out" && sha256sum -- *.deb *.rpm >SHA256SUMS && cat SHA256SUMS)
