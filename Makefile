# Everything a developer runs, by name. `make` alone lists it.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help book demo demo-edge test soak fuzz lab lab-vnf_cache lab-vnf_cache-short lab-netcache lab-netcache-short lab-switchv2p lab-switchv2p-short lab-annabelladb lab-annabelladb-short lab-dredbox lab-dredbox-short bench-cache bench-compare bench-db bench-fabric bench-keyserver bench-state bench-switch bench-v2p conformance-redis conformance-mongodb conformance-memcached conformance-dynamodb release test-release test-reproducible test-bare deps lint clean

PYTHON := .deps/python/bin/python
DENY := .deps/bin/cargo-deny

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Show the cache at work; needs only Rust and gcc, takes about five minutes the first time
	cargo build --release --locked -p enroute
	@cargo run --release -q --locked -p enroute -- demo

demo-edge: deps ## Show TLS with keys on a key server; first compiles BoringSSL, two minutes
	cargo build --release --locked -p enroute --features edge
	@cargo run --release -q --locked -p enroute --features edge -- demo edge

# The same random cases every time, so that a result depends only on the change; `make soak` uses
# new ones.
test: export PROPTEST_RNG_SEED := 20251121
# Most tests wait for other processes most of the time: four at once on two cores.
test: export RUST_TEST_THREADS := 4
test: deps lint ## Run every check that a change must pass
	cargo test --workspace --features enroute/edge --locked
	@if command -v go >/dev/null; then cd checker && go test ./...; \
	else echo 'SKIPPED: tests of the checker; go is not on PATH'; [ "$(CI)" != true ]; fi
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m unittest discover -s origins/python -p 'test_*.py' && \
	$(PYTHON) -m unittest discover -s lab/tests -t . && \
	$(PYTHON) -m unittest discover -s crates/fabric-python/tests && \
	$(PYTHON) -m unittest conformance.test_comparison examples.test_examples \
	monitoring.test_monitoring docs.test_tutorials; \
	else echo 'SKIPPED: tests with Python clients; $(PYTHON) is absent'; [ "$(CI)" != true ]; fi
	packaging/test-chart.sh
	@$(MAKE) --no-print-directory fuzz SEED=20251121

book: ## Build docs/ as a book with a search, target/book/index.html
	./deps.sh mdbook
	packaging/book.py

# The broken build stores late replies: the same tests must detect it.
soak: deps ## Run the slow tests: long histories, and that they fail with a broken cache
	cargo build --locked -p enroute --target-dir target/broken \
		--config 'build.rustflags=["--cfg", "enroute_broken_lease"]'
	ENROUTE_BROKEN=$(CURDIR)/target/broken/debug/enroute \
		cargo test --locked -p enroute --features edge -- --ignored --nocapture
	cargo test --locked -p testbed --features highs controller
	cargo test --locked -p state --features highs --test plans_are_near_the_optimum -- --nocapture
	cargo test --locked -p state -- --ignored --nocapture
	ORDERS=300000 cargo test --locked -p enroute --test no_thread_sleeps_over_what_it_was_told
	ORDERS=20000 cargo test --locked -p db --test no_two_clients_wait_for_each_others_shards
	cargo test --locked -p store -- --ignored --nocapture
	cargo test --locked -p fabric -- --ignored --nocapture
	cargo test --locked -p switch -- --ignored --nocapture
	cargo test --locked -p wire -p policy -p cache -p keyserver -p store -p switch
	$(MAKE) fuzz SECONDS=300

# The compiler flags of cargo-fuzz without a sanitizer. --target limits them to the fuzzed code:
# build scripts and macros are compiled without them.
FUZZED := --cfg fuzzing -Cdebug-assertions -Ccodegen-units=8 -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
TARGET := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
SECONDS := 10

# Seeds are committed and only read; new inputs are kept in fuzz/corpus. With SEED the mutations are
# the same ones each time, from the committed seeds alone.
fuzz: ## Fuzz all of fuzz/fuzz_targets for 10 s each, or TARGET=elastic_store SECONDS=240
	cd fuzz && RUSTFLAGS='$(FUZZED)' cargo build --release --locked --target host-tuple $(TARGET:%=--bin %)
	@host=$$(rustc --print host-tuple) && cd fuzz && for target in $(TARGET); do \
	corpus=$(if $(SEED),$$(mktemp -d),corpus/$$target) && mkdir -p $$corpus artifacts/$$target && \
	echo "fuzz $$target: $(SECONDS) s" && \
	target/$$host/release/$$target -max_total_time=$(SECONDS) -artifact_prefix=artifacts/$$target/ -verbosity=0 \
	$(SEED:%=-seed=% -reload=0) -print_final_stats=1 $$corpus $$(ls -d seeds/$$target 2>/dev/null) \
	>artifacts/$$target.log 2>&1 || \
	{ tail -n 40 artifacts/$$target.log; echo "fuzz $$target: the failing input is in fuzz/artifacts/$$target"; exit 1; }; \
	grep -E 'number_of_executed_units' artifacts/$$target.log; $(SEED:%=rm -rf $$corpus;) done

lab: lab-vnf_cache lab-netcache lab-switchv2p lab-annabelladb lab-dredbox ## Repeat the experiments of all papers, with a verdict for each table and figure; needs root, takes hours
	$(PYTHON) -m lab

lab-vnf_cache: deps ## Repeat the VNF-Cache paper's tables and figures, for four databases; takes hours
	cargo build --release -p enroute
	$(PYTHON) -m lab.vnf_cache

lab-vnf_cache-short: deps ## The same with fewer batches; takes fifteen minutes
	cargo build --release -p enroute
	$(PYTHON) -m lab.vnf_cache --short

lab-netcache: deps ## Repeat the NetCache paper's figures; needs root, takes 30 minutes
	cargo build --release -p enroute
	$(PYTHON) -m lab.netcache

lab-netcache-short: deps ## The same with shorter runs and fewer points; takes 11 minutes
	cargo build --release -p enroute
	$(PYTHON) -m lab.netcache --short

lab-switchv2p: deps ## Repeat the SwitchV2P paper's figures and tables; takes hours
	cargo build --release -p enroute --features highs
	$(PYTHON) -m lab.switchv2p

lab-switchv2p-short: deps ## The same with shorter traces and fewer cache sizes
	cargo build --release -p enroute --features highs
	$(PYTHON) -m lab.switchv2p --short

lab-annabelladb: deps ## Repeat the AnnaBellaDB paper's figures; needs root, takes two hours
	cargo build --release -p enroute -p bench
	$(PYTHON) -m lab.annabelladb

lab-annabelladb-short: deps ## The same with functions that start and move sooner; takes 17 minutes
	cargo build --release -p enroute -p bench
	$(PYTHON) -m lab.annabelladb --short

lab-dredbox: deps ## Repeat the tables and figures of dReDBox's key server and database
	cargo build --release -p enroute -p bench
	cargo build --release -p store --example elastic_table_5
	$(PYTHON) -m lab.dredbox

lab-dredbox-short: deps ## The same with shorter runs and fewer repetitions; takes two minutes
	cargo build --release -p enroute -p bench
	cargo build --release -p store --example elastic_table_5
	$(PYTHON) -m lab.dredbox --short

bench-cache: deps ## Measure the costs and gains of the cache
	cargo build --release -q -p enroute --bin enroute --example replica
	cargo run --release -q -p bench -- cache
	$(PYTHON) -m lab.bench

bench-compare: deps ## Compare the cost of each operation with that of BASE=COMMIT; needs root, takes 25 minutes
	crates/bench/base.sh "$(BASE)"
	cargo build --release -q -p enroute --features edge
	cargo build --release -q -p switch --example packet_cost
	cargo run --release -q -p bench -- compare $(COMPARE) --base "$$(crates/bench/base.sh "$(BASE)")"

bench-db: deps ## Measure the elastic database beside redis-server, RocksDB and the paper
	cargo build --release -q -p enroute
	cargo build --release -q -p store --example elastic_lookups --example elastic_table_5
	cargo run --release -q -p bench -- db

bench-fabric: deps ## Measure the fabric simulator beside ns-3
	cargo build --release -q -p enroute --features highs
	cargo run --release -q -p bench -- fabric

bench-keyserver: deps ## Measure signatures, key server requests and edge handshakes
	cargo build --release -q -p enroute --features edge
	cargo run --release -q -p bench -- keyserver

bench-state: deps ## Measure the state agent, the planner and moving state; needs root
	cargo build --release -q -p enroute
	cargo build --release -q -p state --example plan --example simulation
	cargo run --release -q -p bench -- state

bench-switch: deps ## Measure the XDP data plane beside memcached and a minimal responder; needs root
	cargo build --release -q -p enroute
	cargo run --release -q -p bench -- switch

bench-v2p: ## Measure a SwitchV2P switch beside the smallest encapsulating forwarder; needs root
	cargo build --release -q -p enroute
	cargo run --release -q -p bench -- v2p

conformance-redis: deps ## Run the suites of redis-py and Redis directly and through the cache, and compare
	./deps.sh conformance
	cargo build --locked -p enroute
	$(PYTHON) -m conformance redis

conformance-mongodb: deps ## The same with the suite of PyMongo
	./deps.sh conformance
	cargo build --locked -p enroute
	$(PYTHON) -m conformance mongodb

conformance-memcached: deps ## The same with memcached's own tests
	./deps.sh memcached-tests
	cargo build --locked -p enroute
	$(PYTHON) -m conformance memcached

conformance-dynamodb: deps ## The same with the suite of aiodynamo
	./deps.sh conformance
	cargo build --locked -p enroute
	$(PYTHON) -m conformance dynamodb

release: ## Build packages, an archive, an image and a wheel in target/packages; needs rustup, Go
	packaging/build.sh

test-release: ## Use what target/packages holds, in new roots and containers; needs root, debootstrap, podman, qemu-user-static
	packaging/test.sh

test-reproducible: ## Build the release again in another folder and compare every byte; needs make release
	packaging/test-reproducible.sh

test-bare: ## Type the README's commands in a new Debian root; needs root, debootstrap, Go, Node.js, two hours
	packaging/bare.sh

deps: ## Install the servers and clients that the tests need, mostly under .deps/
	@./deps.sh

lint: ## Check formatting, lints, shell scripts, YAML files and dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features enroute/edge --locked -- -D warnings
	@if command -v go >/dev/null; then \
	unformatted=$$(gofmt -l checker origins examples) && \
	{ [ -z "$$unformatted" ] || { echo "gofmt would change $$unformatted"; exit 1; }; } && \
	cd checker && go vet ./...; \
	fi
	@if command -v shellcheck >/dev/null; then shellcheck $$(git ls-files '*.sh' .ci/run); \
	else echo 'SKIPPED: checks of shell scripts; shellcheck is absent'; [ "$(CI)" != true ]; fi
	@if command -v yamllint >/dev/null; then yamllint --strict .github monitoring packaging; \
	else echo 'SKIPPED: checks of YAML files; yamllint is absent'; [ "$(CI)" != true ]; fi
	@if [ -x $(DENY) ]; then $(DENY) --log-level error --locked check bans licenses sources && \
	if $(DENY) --log-level off fetch db 2>/dev/null; then $(DENY) --log-level error --locked check advisories; \
	else echo 'SKIPPED: advisories; their database cannot be fetched'; fi; \
	else echo 'SKIPPED: checks of dependencies; $(DENY) is absent'; [ "$(CI)" != true ]; fi

clean: ## Remove target/ and .deps/
	cargo clean
	rm -rf .deps examples/node/node_modules
