#!/usr/bin/env bash
# Installs the dependencies of the tests: those with a lock file under .deps/ in this repository,
# the others as Debian packages. Prints what it is going to install, skips what is up to date, and
# continues without what it cannot install.
#
# Arguments: the pieces to install [default: all that `make test` needs]. The default excludes
# `conformance` and `memcached-tests`, which the targets `make conformance-*` install.
#
# Exit status: 0 if no installation failed (missing pieces are listed), 1 if one failed, or if
# CI=true and a piece is missing.
set -euo pipefail
cd "$(dirname "$0")"
deps=$PWD/.deps

# Command, Debian package, version series that the tests require.
debian_packages="\
redis-server    redis-server 5:7.0.*
redis-cli       redis-tools  5:7.0.*
redis-benchmark redis-tools  5:7.0.*
tclsh           tcl          8.6.*
nutcracker      nutcracker   0.5.*
nft             nftables     1.0.*
ip              iproute2     6.1.*
memcached       memcached    1.6.*
memcslap        libmemcached-tools 1.1.*
clang           clang        1:14.0*
openssl         openssl      3.0.*
promtool        prometheus   2.42.*
shellcheck      shellcheck   0.9.*
yamllint        yamllint     1.29.*
curl            curl         7.88.*
cmake           cmake        3.25.*
c++             g++          4:12.2.*
git             git          1:2.39.*"
# The build of BoringSSL (crates/edge-tls) reads C headers with libclang, which needs these headers.
libclang_headers='/usr/lib/llvm-14/lib/clang/14.*/include/stddef.h'

pieces=${*:-ferretdb mongo-java dynamodb-local python checker redis-tests cargo-deny examples}
cargo_deny_version=0.20.2
mdbook_version=0.5.4
python_requirements=({origins/python,lab,examples/fabric}/requirements.txt packaging/wheel-requirements.txt)

describe() {
    case $1 in
    ferretdb) echo "FerretDB 1.24.0 on SQLite, built from origins/ferretdb (about 70 CPU seconds)" ;;
    mongo-java) echo "mongo-java-server 1.47.0, from origins/mongo-java" ;;
    dynamodb-local) echo "DynamoDB Local 2.5.2, from origins/dynamodb-local" ;;
    redis-tests) echo "Redis's own test suites, from Debian's source package" ;;
    memcached-tests) echo "memcached's own tests, from Debian's source package" ;;
    python) echo "Python libraries in a virtualenv, from ${python_requirements[*]}" ;;
    checker) echo "linearizability checker, built from checker/" ;;
    cargo-deny) echo "cargo-deny $cargo_deny_version, which checks dependencies (about 120 CPU seconds)" ;;
    mdbook) echo "mdBook $mdbook_version, for \`make book\` (about 150 CPU seconds)" ;;
    examples) echo "client libraries of the examples, from the lock files in examples/" ;;
    conformance) echo "test suites of redis-py, PyMongo and aiodynamo, from conformance/*.txt" ;;
    esac
}

# Commands that the installation of a piece needs. They are not installed: the developer chooses
# their versions.
tools() {
    case $1 in
    ferretdb | checker) echo go ;;
    mongo-java) echo mvn java javac ;;
    dynamodb-local) echo mvn java ;;
    redis-tests) echo apt-get tclsh redis-cli ;;
    memcached-tests) echo apt-get perl memcached ;;
    python | conformance) echo python3 ;;
    cargo-deny | mdbook) echo cargo ;;
    examples) echo python3 node npm go mvn java javac ;;
    esac
}

# Inputs of an installation: a piece is up to date while their hash is unchanged.
inputs() {
    case $1 in
    ferretdb) cat origins/ferretdb/{main.go,go.mod,go.sum} && go version ;;
    mongo-java) cat origins/mongo-java/{pom.xml,jars.sha256,MongoJava.java} ;;
    dynamodb-local) cat origins/dynamodb-local/{pom.xml,jars.sha256} ;;
    redis-tests) redis-cli --version ;;
    memcached-tests) memcached --version ;;
    python) cat "${python_requirements[@]}" && python3 --version ;;
    checker) cat checker/*.go checker/go.{mod,sum} && go version ;;
    cargo-deny) echo "$cargo_deny_version" ;;
    mdbook) echo "$mdbook_version" ;;
    examples)
        cat examples/python/requirements.txt examples/node/*.json examples/java/{pom.xml,jars.sha256} \
            examples/go/go.{mod,sum} examples/go/*/*.go &&
            python3 --version && node --version && go version
        ;;
    conformance) cat conformance/*.txt && python3 --version ;;
    esac
}

product() {
    case $1 in
    ferretdb | checker | cargo-deny | mdbook) echo "$deps/bin/$1" ;;
    mongo-java) echo "$deps/mongo-java/MongoJava.class" ;;
    dynamodb-local) echo "$deps/dynamodb-local/DynamoDBLocal-2.5.2.jar" ;;
    redis-tests) echo "$deps/redis-tests/runtest" ;;
    memcached-tests) echo "$deps/memcached-tests/t/getset.t" ;;
    python) echo "$deps/python/bin/python" ;;
    examples) echo examples/node/node_modules/.package-lock.json ;;
    conformance) echo "$deps/conformance/python/bin/pytest" ;;
    esac
}

install() {
    case $1 in
    ferretdb) build_go origins/ferretdb ferretdb ;;
    checker) build_go checker checker ;;
    mongo-java) install_mongo_java ;;
    dynamodb-local) install_dynamodb_local ;;
    redis-tests) install_redis_tests ;;
    memcached-tests) install_memcached_tests ;;
    python) install_python ;;
    cargo-deny) install_crate "cargo-deny@$cargo_deny_version" ;;
    mdbook) install_crate "mdbook@$mdbook_version" --features search ;;
    examples) install_examples ;;
    conformance) install_conformance ;;
    esac
}

build_go() { # directory, name
    mkdir -p "$deps/bin" &&
        (cd "$1" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$deps/bin/$2" .)
}

copy_jars() { # directory with pom.xml and jars.sha256, target
    local sums=$PWD/$1/jars.sha256
    mvn -q -B -Dstyle.color=never -f "$1/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$2" </dev/null &&
        (cd "$2" && sha256sum --quiet --strict -c "$sums")
}

install_mongo_java() {
    local target=$deps/mongo-java
    rm -rf "$target" &&
        mkdir -p "$target/lib" &&
        copy_jars origins/mongo-java "$target/lib" &&
        javac -cp "$target/lib/*" -d "$target" origins/mongo-java/MongoJava.java
}

# Tests run it and nothing else does: its licence does not allow redistribution.
install_dynamodb_local() {
    local target=$deps/dynamodb-local
    rm -rf "$target" && mkdir -p "$target" && copy_jars origins/dynamodb-local "$target"
}

# Node.js looks for modules beside the program, so its libraries are installed in examples/node.
install_examples() {
    local target=$deps/examples
    rm -rf "$target" &&
        mkdir -p "$target"/{go,java} &&
        python3 -m venv "$target/python" &&
        "$target/python/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
            --require-hashes -r examples/python/requirements.txt &&
        (cd examples/node && npm ci --silent --ignore-scripts --no-audit --no-fund </dev/null) &&
        (cd examples/go && CGO_ENABLED=0 go build -trimpath -o "$target/go/" ./redis ./mongodb) &&
        copy_jars examples/java "$target/java"
}

install_conformance() {
    local target=$deps/conformance
    rm -rf "$target" &&
        mkdir -p "$target/archives" &&
        python3 -m venv "$target/python" &&
        "$target/python/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
            -r conformance/requirements.txt &&
        "$target/python/bin/python" -m pip download -q --disable-pip-version-check --no-deps \
            --no-binary :all: --require-hashes -r conformance/suites.txt -d "$target/archives" &&
        unpack_suite redis tests && unpack_suite pymongo test && unpack_suite aiodynamo tests
}

# Unpacks only the tests, so that they import the installed libraries.
unpack_suite() { # library, folder of its tests
    local target=$deps/conformance
    mkdir "$target/$1" &&
        tar -xzf "$target/archives/$1"-*.tar.gz -C "$target/$1" --strip-components 1 --wildcards \
            "*/$2/*" '*/pyproject.toml'
}

# Without optimization: they build in a third of the time and run for seconds.
install_crate() { # crate@version, options
    local target=$deps/${1%@*}.work
    cargo install --quiet --locked --debug --root "$deps" --target-dir "$target" \
        --no-default-features "$@" </dev/null &&
        rm -rf "$target"
}

install_python() {
    rm -rf "$deps/python" &&
        python3 -m venv "$deps/python" &&
        "$deps/python/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
            -r origins/python/requirements.txt &&
        "$deps/python/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
            --require-hashes -r lab/requirements.txt -r examples/fabric/requirements.txt \
            -r packaging/wheel-requirements.txt
}

# Downloads the source package of a Debian package in its newest version, from the package sources
# in the configuration of apt.
download_source() { # package, directory for it and for the lists of packages
    local work=$2 file
    rm -rf "$work" && mkdir -p "$work"/{lists/partial,sources}
    for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list; do
        [ -f "$file" ] || continue
        sed -e 's/^Types: deb$/Types: deb-src/' -e 's/^deb /deb-src /' "$file" \
            >"$work/sources/${file##*/}"
    done
    local apt=(apt-get -q -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$work/sources"
        -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
    (cd "$work" && "${apt[@]}" update && "${apt[@]}" source --download-only "$1") \
        >"$work.log" 2>&1 || { tail -n 5 "$work.log" >&2; return 1; }
}

install_redis_tests() {
    local work=$deps/redis-tests.work target=$deps/redis-tests
    rm -rf "$target" && mkdir -p "$target/src" && download_source redis "$work" &&
        tar -xzf "$work"/redis_*.orig.tar.gz -C "$target" --strip-components 1 \
            --wildcards '*/runtest' '*/tests/*' &&
        ln -s "$(command -v redis-server)" "$(command -v redis-cli)" \
            "$(command -v redis-benchmark)" "$target/src/" &&
        rm -rf "$work" "$work.log"
}

install_memcached_tests() {
    local work=$deps/memcached-tests.work target=$deps/memcached-tests
    rm -rf "$target" && mkdir -p "$target" && download_source memcached "$work" &&
        tar -xJf "$work"/memcached_*.orig.tar.xz -C "$target" --strip-components 1 \
            --wildcards '*/t/*' &&
        rm -rf "$work" "$work.log"
}

hash_of() { inputs "$1" 2>&1 | sha256sum | cut -d' ' -f1; }

is_current() {
    [ -x "$(product "$1")" ] || [ -f "$(product "$1")" ] || return 1
    [ "$(cat "$deps/stamps/$1" 2>/dev/null)" = "$(hash_of "$1")" ]
}

# Commands of a piece that are absent and that none of the Debian packages to be installed provides.
# Arguments: name of the piece, Debian packages.
missing_tools() {
    local tool package
    for tool in $(tools "$1"); do
        package=$(awk -v tool="$tool" '$1 == tool { print $2 "=" $3 }' <<<"$debian_packages")
        case " $2 " in
        *" ${package:-none} "*) ;;
        *) command -v "$tool" >/dev/null || echo "$tool" ;;
        esac
    done
}

# The Debian packages whose commands are absent, as arguments of apt-get.
missing_packages() {
    {
        while read -r tool package series; do
            PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || echo "$package=$series"
        done <<<"$debian_packages"
        # A library without a command: `make bench-fabric` compiles its peer with it.
        [ -d /usr/include/ns3 ] || echo "libns3-dev=3.37-*"
        # The same for `make bench-db`.
        [ -d /usr/include/rocksdb ] || echo "librocksdb-dev=7.8.*"
        # shellcheck disable=SC2086 # a pattern
        ls $libclang_headers >/dev/null 2>&1 || echo libclang-common-14-dev libclang1-14
        # On Debian, python3 does not include the modules for virtual environments.
        if command -v python3 >/dev/null && ! python3 -c 'import ensurepip' 2>/dev/null; then
            echo python3-venv
        fi
    } | sort -u
}

# Prevents the installed services from starting, both now and at the next boot.
install_packages() {
    local guard=/usr/sbin/policy-rc.d guarded='' status=0
    if [ ! -e "$guard" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$guard"
        chmod 755 "$guard"
        guarded=yes
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } \
        </dev/null >"$deps/apt.log" 2>&1 || status=$?
    if [ -n "$guarded" ]; then
        rm -f "$guard"
        trap - EXIT
    fi
    [ "$status" = 0 ] || { tail -n 20 "$deps/apt.log" >&2; return "$status"; }
    local service
    for service in redis-server nutcracker memcached prometheus; do
        case " $* " in
        *" $service="*)
            [ ! -d /run/systemd/system ] || systemctl disable --now --quiet "$service" || true
            update-rc.d "$service" disable >/dev/null 2>&1 || true
            ;;
        esac
    done
}

mkdir -p "$deps/stamps"
exec 9>"$deps/lock"
flock 9

absent=()
plan=()
packages=$(missing_packages | tr '\n' ' ')
if [ -n "$packages" ]; then
    if ! command -v apt-get >/dev/null; then
        absent+=("apt-get not found; install manually: $packages")
        packages=''
    elif [ "$(id -u)" != 0 ]; then
        absent+=("not running as root; run: apt-get install $packages")
        packages=''
    fi
fi
for piece in $pieces; do
    lacking=$(missing_tools "$piece" "$packages" | tr '\n' ' ')
    if [ -n "$lacking" ]; then
        absent+=("$(describe "$piece"): needs ${lacking% }, not found")
    elif ! is_current "$piece"; then
        plan+=("$piece")
    fi
done

if [ -z "$packages" ] && [ ${#plan[@]} = 0 ]; then
    echo "deps: nothing to install"
else
    echo "deps: installing"
    [ -z "$packages" ] || echo "  Debian packages (no service is started): $packages"
    for piece in ${plan[@]+"${plan[@]}"}; do
        echo "  $(describe "$piece") -> .deps/"
    done
fi

failed=()
step() { # name, command...
    local name=$1 started=$SECONDS
    shift
    if "$@"; then
        echo "deps: $name: done in $((SECONDS - started)) s"
    else
        echo "deps: $name: FAILED after $((SECONDS - started)) s" >&2
        failed+=("$name")
        return 1
    fi
}

if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # a list of words
    step "Debian packages" install_packages $packages || true
fi
for piece in ${plan[@]+"${plan[@]}"}; do
    rm -f "$deps/stamps/$piece"
    if step "$piece" install "$piece"; then
        hash_of "$piece" >"$deps/stamps/$piece"
    fi
done

for line in ${absent[@]+"${absent[@]}"}; do
    echo "deps: MISSING, tests that need it are skipped: $line" >&2
done
[ ${#failed[@]} = 0 ] || exit 1
[ ${#absent[@]} = 0 ] || [ "${CI:-}" != true ] || exit 1
