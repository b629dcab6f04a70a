# Everything a developer runs, by name. `make` alone lists it.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test soak lab lab-short bench-cache bench-switch deps lint clean

PYTHON := .deps/python/bin/python
ENROUTE := cargo run --release -q -p enroute --

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## See it work; needs nothing but Rust
	@$(ENROUTE) demo

test: deps lint ## Everything a change must pass
	cargo test --workspace --locked
	@if command -v go >/dev/null; then cd checker && go test ./...; \
	else echo 'SKIPPED: tests of the checker; go is not on PATH'; [ "$(CI)" != true ]; fi
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m unittest discover -s origins/python -p 'test_*.py' && \
	$(PYTHON) -m unittest discover -s lab/tests -t .; \
	else echo 'SKIPPED: tests with Python clients; $(PYTHON) is absent'; [ "$(CI)" != true ]; fi

# The broken build answers late replies from storage: the same test has to find it out.
soak: deps ## The slow proofs: long histories, and that a broken cache fails them
	cargo build --locked -p enroute --target-dir target/broken \
		--config 'build.rustflags=["--cfg", "enroute_broken_lease"]'
	ENROUTE_BROKEN=$(CURDIR)/target/broken/debug/enroute \
		cargo test --locked -p enroute -- --ignored --nocapture

lab: deps ## Repeat the papers' experiments and draw their figures: hours
	cargo build --release -p enroute
	$(PYTHON) -m lab

lab-short: deps ## The same with fewer batches: ten minutes
	cargo build --release -p enroute
	$(PYTHON) -m lab --short

bench-cache: deps ## Measure what the cache costs and saves
	cargo build --release -q -p enroute
	cargo run --release -q -p bench -- cache

bench-switch: ## Measure what a packet costs in the kernel's data plane; needs root and clang
	cargo build --release -q -p enroute
	cargo run --release -q -p bench -- switch

deps: ## Install the servers and clients the tests need, mostly under .deps/
	@./deps.sh

lint: ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@if command -v go >/dev/null; then \
	unformatted=$$(gofmt -l checker origins) && \
	{ [ -z "$$unformatted" ] || { echo "gofmt would change $$unformatted"; exit 1; }; } && \
	cd checker && go vet ./...; \
	fi

clean: ## Remove what was built and installed here
	cargo clean
	rm -rf .deps
