# Everything runs from a virtual environment of the project's own; nothing else is installed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Conformance of what needs no server.
SERVERLESS := $(wildcard tests/contract/test_storage_*.py tests/contract/test_format_*.py) \
  tests/contract/test_example_plugin.py

.DEFAULT_GOAL := help
.PHONY: help install demo test lint unit slow faults-smoke faults model sim soak fuzz types-oracle docs lock bench-slope \
  bench-driver e2e-routes dist \
  clean

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

test: $(STAMP) lint unit slow faults-smoke ## Everything that must hold: lint, types, unit, integration, end to end

lint: $(STAMP) ## Style, types, import rules
	@$(BIN)/ruff check --quiet src tests bench examples
	@$(BIN)/ruff format --check --quiet src tests bench examples
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >/tmp/lint-imports.$$$$ || { cat /tmp/lint-imports.$$$$; rm /tmp/lint-imports.$$$$; exit 1; }; rm -f /tmp/lint-imports.$$$$

unit: $(STAMP) ## Tests without servers or a JVM
	@$(BIN)/pytest -q tests/unit $(SERVERLESS) tests/properties

slow: $(STAMP) ## Tests on real servers: Kafka, metastore, Spark
	@$(BIN)/pytest -q tests --ignore=tests/unit --ignore=tests/properties \
	  $(addprefix --ignore=,$(SERVERLESS))

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

types-oracle: $(STAMP) ## A million JSON values of every type against exact arithmetic: none changes silently
	@cd tests && nice -n 10 ../$(BIN)/python -m oracle --values 1000000 --workers 2

sim: $(STAMP) ## Driver on simulated stores, brokers, clock: SEEDS=20000, or SEED=1234 to replay
	@cd tests && PYTHONHASHSEED=0 nice -n 10 ../$(BIN)/python -m sim \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),2000))

bench-slope: $(STAMP) ## CPU per record and records per second, between 1 M and 4 M standard events
	@$(BIN)/python -m bench.ingest_slope

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
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
