#!/bin/sh
# base.sh COMMIT: builds what `make bench-compare` runs of an earlier commit, and prints its
# directory, target/base/<commit>. What was built once is used again; the source tree is removed.
set -eu
[ -n "${1:-}" ] || { echo "expected the commit to compare with: make bench-compare BASE=COMMIT" >&2; exit 2; }
cd "$(dirname "$0")/../.."
commit=$(git rev-parse --verify "$1^{commit}")
programs=target/base/$commit
if [ ! -x "$programs/enroute" ]; then
    tree=target/base/tree
    git worktree remove --force "$tree" 2>/dev/null || rm -rf "$tree"
    git worktree prune
    git worktree add --quiet --detach "$tree" "$commit"
    trap 'git worktree remove --force "$tree"' EXIT
    # A target directory of its own: cargo takes crates of one name in two trees for the same, and
    # the sources of an old commit for unchanged. What an earlier base left of them is removed.
    build() { (cd "$tree" && cargo build --release --quiet --locked --target-dir ../build "$@" >&2); }
    (cd "$tree" && for crate in crates/*/; do
        cargo clean --release --quiet --locked --target-dir ../build -p "$(basename "$crate")" || true
    done)
    build -p enroute --features edge
    mkdir -p "$programs/examples" "$tree/crates/switch/examples"
    # A commit older than this file, or than what it needs, has no lines for packets.
    cp crates/switch/examples/packet_cost.rs "$tree/crates/switch/examples/"
    if build -p switch --example packet_cost; then
        cp target/base/build/release/examples/packet_cost "$programs/examples/"
    fi
    # The last one: a build that was stopped leaves nothing that looks complete.
    cp target/base/build/release/enroute "$programs/"
fi
echo "$programs"
