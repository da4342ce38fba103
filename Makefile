# Everything runs from a virtual environment of the project's own; nothing else is installed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Conformance of what needs no server.
SERVERLESS := $(wildcard tests/contract/test_storage_*.py tests/contract/test_format_*.py) \
  tests/contract/test_example_plugin.py
# About half of what needs servers, by time.
ROUTE_TESTS := $(wildcard tests/integration/test_route*.py)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint unit slow slow-jobs slow-parts slow-routes faults-smoke
.PHONY: faults model sim soak fuzz fuzz-formats types-oracle readiness-oracle partition-values docs e2e-routes
.PHONY: bench bench-quick bench-slope bench-driver bench-freshness bench-memory bench-commit bench-reuse bench-scale
.PHONY: flamegraph
.PHONY: native test-native lock dist clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv and install everything, by version and hash

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or newer is needed, found $$($(PYTHON) --version 2>&1);" \
	  "set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "error: python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing the locked packages into $(VENV) (Spark is large: a minute or two)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## Real Kafka, metastore and Spark: run the main job, kill it once, verify
	@$(BIN)/sluiceway demo

# Four at a time: tests on servers wait more than they compute. Lint first, it is quick.
test: $(STAMP) lint ## Everything that must hold: lint, types, unit, integration, end to end
	@$(MAKE) --no-print-directory -j4 slow-jobs slow-parts slow-routes unit faults-smoke

lint: $(STAMP) ## Style, types, import rules
	@$(BIN)/ruff check --quiet src tests bench examples native
	@$(BIN)/ruff format --check --quiet src tests bench examples native
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >/tmp/lint-imports.$$$$ || { cat /tmp/lint-imports.$$$$; rm /tmp/lint-imports.$$$$; exit 1; }; rm -f /tmp/lint-imports.$$$$

unit: $(STAMP) ## Tests without servers or a JVM
	@$(BIN)/pytest -q tests/unit $(SERVERLESS) tests/properties

slow: slow-jobs slow-parts slow-routes ## Tests on real servers: Kafka, metastore, Spark

slow-jobs: $(STAMP) ## Of these: whole jobs, and what is done to them
	@$(BIN)/pytest -q tests/e2e

slow-parts: $(STAMP) ## Of these: parts of the engine, each with the server that it talks to
	@$(BIN)/pytest -q tests $(addprefix --ignore=,tests/unit tests/properties tests/e2e tests/faults \
	  tests/contract $(ROUTE_TESTS) $(SERVERLESS))

slow-routes: $(STAMP) ## Of these: a route's loop, its faults, contracts of stores, sources, formats
	@$(BIN)/pytest -q $(ROUTE_TESTS) tests/faults tests/contract $(addprefix --ignore=,$(SERVERLESS))

native: $(STAMP) ## Build the optional native module with Rust and install it into .venv
	@command -v cargo >/dev/null || { \
	  echo "error: cargo is not found: the native module needs Rust 1.88 or newer;" \
	  "everything works without it" >&2; exit 1; }
	@$(BIN)/python native/crates_lock.py restore
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "maturin==1.16.0"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --force-reinstall ./native

test-native: native ## Build the native module; its tests, its decoder against the slow path
	@cargo fmt --check --manifest-path native/Cargo.toml
	@cargo clippy --quiet --locked --release --manifest-path native/Cargo.toml -- -D warnings
	@$(BIN)/pytest -q tests/unit/json tests/properties/test_json_decoder_properties.py \
	  tests/contract/test_format_conformance.py tests/contract/test_source_conformance.py \
	  tests/integration/kafka_source
	@cd tests && ../$(BIN)/python -m tools.json_engine_fuzz --payloads 100000

faults-smoke: $(STAMP) ## Crash matrix, a spread: every failpoint is met once, some under Spark
	@cd tests && ../$(BIN)/python -m matrix --smoke

faults: $(STAMP) ## Crash matrix, every cell: failpoints x faults x states; goes on where it stopped
	@cd tests && nice -n 19 ../$(BIN)/python -m matrix

model: $(STAMP) ## Exhaustive models of the commit protocol, large bounds; goes on where it stopped
	@cd tests && nice -n 19 ../$(BIN)/python -m model --large

soak: $(STAMP) ## Kills, zombies, outages under a load that never stops: KILLS=20; adds to the results
	@$(BIN)/python -m bench.soak --kills $(or $(KILLS),20)

fuzz: $(STAMP) ## A million damaged and forged ledger records: each refused, with a typed error
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.record_fuzz --records 1000000 --workers 2

fuzz-formats: $(STAMP) ## A million damaged payloads for each input format: no crash, no hang, every row accounted
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.format_fuzz --payloads 1000000 --workers 2

types-oracle: $(STAMP) ## A million JSON values of every type against exact arithmetic: none changes silently
	@cd tests && nice -n 10 ../$(BIN)/python -m oracle --values 1000000 --workers 2

partition-values: $(STAMP) ## A million partition values against Spark's escaping; 5,000 in real tables
	@cd tests && nice -n 10 ../$(BIN)/python -m partition_oracle

readiness-oracle: $(STAMP) ## 100,000 histories of event time against brute force: HISTORIES=2000, or SEED=1234
	@cd tests && nice -n 10 ../$(BIN)/python -m readiness_oracle \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--histories $(or $(HISTORIES),100000))

sim: $(STAMP) ## Driver on simulated stores, brokers, clock: SEEDS=20000, or SEED=1234 to replay
	@cd tests && PYTHONHASHSEED=0 nice -n 10 ../$(BIN)/python -m sim \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),2000))

# The native module is used only where it is asked for, so that each path has figures of its own.
COMPARE := SLUICEWAY_NATIVE=$(if $(filter 1,$(NATIVE)),1,0) $(BIN)/python -m bench.compare

bench-quick: $(STAMP) ## Ours and Flink on one topic, standard events, two rounds; NATIVE=1 for the module
	@$(COMPARE) --rounds 2 --results bench/results/compare.jsonl

bench: $(STAMP) ## The same in three rounds with all kinds of events, and Spark on files; hours
	@$(COMPARE) --rounds 3 --workloads all --engines ours,flink,spark --results bench/results/compare.jsonl
	@$(BIN)/python -m bench.plot bench/results/compare.jsonl docs/benchmarks.svg

bench-slope: $(STAMP) ## Ours alone: CPU per record and records per second, between 1 M and 4 M events
	@$(COMPARE) --rounds 1 --engines ours --small 1000000 --large 4000000

bench-freshness: $(STAMP) ## From append to a readable row, 20,000 records/s, at 2 s and 0.5 s intervals
	@$(BIN)/python -m bench.freshness --results bench/results/freshness.jsonl

bench-memory: $(STAMP) ## 20,000 records/s for half an hour: how the memory of the whole job grows
	@$(BIN)/python -m bench.freshness --interval 2 --seconds 1800 --results bench/results/freshness.jsonl

bench-commit: $(STAMP) ## What a commit costs the driver at 8 and 500 files an epoch, metastore included
	@$(BIN)/python -m bench.commit_cost

bench-reuse: $(STAMP) ## How often a task keeps its consumer: on local, and on two executors
	@$(BIN)/python -m bench.consumer_reuse

bench-scale: $(STAMP) ## Driver time by source partitions, routes, length of the ledger; start on 1 M files
	@$(BIN)/python -m bench.scale --results bench/results/scale.jsonl

flamegraph: $(STAMP) ## Where the CPU goes, as an SVG: driver and workers, sampled by py-spy
	@$(BIN)/python -m bench.flamegraph

bench-driver: $(STAMP) ## What an epoch costs the driver at 1, 80 and 1,000 mostly idle routes
	@$(BIN)/python -m bench.driver_cost

e2e-routes: $(STAMP) ## 80 routes: poisoned topic, dropped table, new topics, 5 kills; every row once
	@$(BIN)/python -m bench.e2e_routes

docs: $(STAMP) ## Write the tables of docs/types.md and docs/dirty.md from the data they show
	@cd tests && ../$(BIN)/python -m tools.type_pages

lock: $(STAMP) ## Resolve the lock anew
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --group dev pyproject.toml -o requirements.lock

dist: $(STAMP) ## Wheel and source archive in dist/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	@$(BIN)/python -m build --no-isolation --outdir dist .

clean: ## Remove the environment, caches and the lab's state in this folder, its servers ended
	@for lab in .sluiceway/*/; do \
	  if [ ! -e "$$lab/state.json" ]; then continue; fi; \
	  if [ ! -x $(BIN)/sluiceway ]; then \
	    echo "error: $$lab is a lab whose servers may run; make install, then make clean" >&2; exit 1; fi; \
	  $(BIN)/sluiceway lab down --dir "$$lab" --remove-data --yes || exit 1; \
	done
	@rm -rf .sluiceway
	@rm -rf $(VENV) dist build native/target native/Cargo.lock .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
