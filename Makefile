# Everything runs from a virtual environment of the project's own; nothing else is installed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
STAMP := $(VENV)/.installed
# Where Python is told to keep no compiled modules, each command would compile ours again.
unexport PYTHONDONTWRITEBYTECODE
NATIVE_SOURCES := $(wildcard native/src/*.rs) native/Cargo.toml native/crates.lock native/pyproject.toml

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' Makefile bench/bench.mk tests/proofs.mk 2>/dev/null)

-include bench/bench.mk tests/proofs.mk

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Create .venv and install everything, by version and hash

$(PACKAGES): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Python 3.11 or newer is needed, found $$($(PYTHON) --version 2>&1);" \
	  "set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "error: python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing the locked packages into $(VENV) (Spark is large: a minute or two)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

# The native module is the normal way; where there is no Rust, one line says so and all goes on.
# NATIVE_MODULE=0 leaves it out.
$(STAMP): $(PACKAGES) $(NATIVE_SOURCES) native/install.py
	@test "$(NATIVE_MODULE)" = 0 || $(BIN)/python native/install.py
	@$(BIN)/python -m sluiceway.driver.spark.class_archive
	@touch $@

demo: $(STAMP) ## Real Kafka, metastore and Spark: run the main job, kill it once, verify; STORE=hdfs or s3
	@$(BIN)/sluiceway demo --store $(or $(STORE),local)

# `slow` and the others are marks that tests/tools/test_plan.py gives; docs/contributors/tests.md explains them.
QUICK := (not slow and not stops_servers) or promise
REST := slow and not promise and not stops_servers
UNITS := tests/unit tests/contract/test_storage_conformance.py tests/contract/test_storage_suite_faults.py \
  $(wildcard tests/contract/test_format_*.py tests/contract/test_partitioner_*.py)
GENERATED := tests/properties tests/faults tests/processes
# What talks to servers waits more than it computes, so it runs in three processes.
ROUTES := $(wildcard tests/integration/test_route*.py) tests/integration/kafka_source tests/contract tests/bad
TABLES := tests/integration
SHARED_LAB = cd tests && ../$(BIN)/python -m tools.durations clear && ../$(BIN)/python -m tools.shared_lab \
  $(MAKE) --no-print-directory -C ..
LONGEST = status=$$?; cd tests; ../$(BIN)/python -m tools.durations; exit $$status

test: $(STAMP) ## What must hold, in 8 minutes: lint, types, all quick tests, one longer test for each promise
	@( $(SHARED_LAB) -j6 tables jobs routes units generated lint MARKS='$(QUICK)' ); $(LONGEST)

test-all: ## `make test` and then the rest: slow tests, tests that stop servers, each failpoint once; 25 minutes
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-rest

# What `make test` leaves out, without repeating any of it.
test-rest: $(STAMP)
	@( $(SHARED_LAB) -j7 jobs tables stopping faults-smoke routes generated units MARKS='$(REST)' ); $(LONGEST)

units: $(STAMP)
	@$(BIN)/pytest -q -m '$(MARKS)' $(UNITS)

generated: $(STAMP)
	@$(BIN)/pytest -q -m '$(MARKS)' $(GENERATED)

routes: $(STAMP)
	@$(BIN)/pytest -q -m '$(MARKS)' $(ROUTES) $(addprefix --ignore=,$(filter tests/contract/%,$(UNITS)))

tables: $(STAMP)
	@$(BIN)/pytest -q -m '$(MARKS)' $(TABLES) $(addprefix --ignore=,$(filter tests/integration/%,$(ROUTES)))

jobs: $(STAMP)
	@$(BIN)/pytest -q -m '$(MARKS)' tests/e2e

# They stop servers, so they have a lab of their own.
stopping: $(STAMP)
	@SLUICEWAY_TEST_LAB= $(BIN)/pytest -q -m stops_servers tests/integration

proofs: ## A programme of proofs: NAME=sim, further settings as it says; the list without a name
	@$(call chosen,tests/proofs.mk,,proofs)

bench: ## A benchmark: NAME=quick, further settings as it says; the list without a name
	@$(call chosen,bench/bench.mk,bench-,bench)

# Runs the target of the name, or lists what there is: $(call chosen,file,prefix,verb).
define chosen
if grep -qE '^$(2)$(NAME):.*#: ' $(1); then $(MAKE) --no-print-directory $(2)$(NAME); else \
  test -z '$(NAME)' || echo 'error: no $(3) has the name "$(NAME)"; these exist:' >&2; \
  sed -nE 's/^$(2)([a-z0-9-]+):[^#]*#: (.*)/  NAME=\1 \2/p' $(1) | awk '{n=$$1; $$1=""; printf "  %-24s%s\n", n, $$0}'; test -z '$(NAME)'; fi
endef

lint: $(STAMP) ## Style, types, import rules
	@$(BIN)/ruff check --quiet src tests bench examples native
	@$(BIN)/ruff format --check --quiet src tests bench examples native
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >/tmp/lint-imports.$$$$ || { cat /tmp/lint-imports.$$$$; rm /tmp/lint-imports.$$$$; exit 1; }; rm -f /tmp/lint-imports.$$$$

native: $(PACKAGES) ## Build the native module with Rust and install it into .venv, whatever is there
	@$(BIN)/python native/install.py --needed

house: $(STAMP) ## Count names, rooms, cycles and words that the rules of the house limit
	@cd tests && ../$(BIN)/python -m tools.house

docs: $(STAMP) ## Write docs/reference and what other pages show of data
	@cd tests && ../$(BIN)/python -m tools.type_pages

lock: $(STAMP) ## Resolve the lock again
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --group dev pyproject.toml -o requirements.lock

dist: $(STAMP) ## Wheels and source archives in dist/; each made twice, byte for byte the same
	@rm -rf dist dist-again
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "build==1.6.1"
	@for out in dist dist-again; do \
	  $(BIN)/python -m build --no-isolation --outdir $$out . >/dev/null 2>&1 || exit 1; \
	  $(BIN)/python native/install.py --wheel $$out >/dev/null || exit 1; \
	  $(BIN)/python -m maturin sdist --manifest-path native/Cargo.toml --out $$out 2>/dev/null || exit 1; done
	@diff -r dist dist-again || { echo "error: two builds differ" >&2; exit 1; }
	@rm -rf dist-again; ls -1 dist

clean: ## Remove the environment, caches and the lab's state in this folder, its servers ended
	@for lab in .sluiceway/*/; do \
	  if [ ! -e "$$lab/state.json" ]; then continue; fi; \
	  if [ ! -x $(BIN)/sluiceway ]; then \
	    echo "error: $$lab is a lab whose servers may run; make install, then make clean" >&2; exit 1; fi; \
	  $(BIN)/sluiceway lab down --dir "$$lab" --remove-data --yes || exit 1; \
	done
	@rm -rf .sluiceway
	@rm -rf $(VENV) dist dist-again build native/target native/Cargo.lock .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
