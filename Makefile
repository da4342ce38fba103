# Everything runs from a virtual environment of the project's own; nothing else is installed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages
STAMP := $(VENV)/.installed
# Where Python is told to keep no compiled modules, each command would compile ours anew.
unexport PYTHONDONTWRITEBYTECODE
NATIVE_SOURCES := $(wildcard native/src/*.rs) native/Cargo.toml native/crates.lock native/pyproject.toml
# Conformance of what needs no server.
SERVERLESS := $(wildcard tests/contract/test_storage_*.py tests/contract/test_format_*.py) \
  tests/contract/test_example_plugin.py
# They stop servers, so they have a lab of their own; all others share one in `make test`.
BOUNCING := tests/integration/test_lab.py tests/integration/test_route_broker_faults.py \
  tests/integration/test_route_table_faults.py tests/integration/test_hive_table_sink.py \
  tests/integration/test_route_leader_epochs.py \
  tests/integration/kafka_source/test_kafka_connections.py \
  tests/integration/kafka_source/test_leader_epochs.py
# About half of what needs servers, by time.
ROUTE_TESTS := $(filter-out $(BOUNCING),$(wildcard tests/integration/test_route*.py))
# Of the rest that needs servers about half, by time.
TABLE_TESTS := $(filter-out $(BOUNCING),$(foreach what,compact dirty evolved folder garbage iceberg keyed \
  lake late many partition planted table verify,$(wildcard tests/integration/test_$(what)*.py)))

.DEFAULT_GOAL := help
.PHONY: help install demo test test-long lint unit properties slow slow-jobs slow-parts slow-bouncing slow-tables slow-routes faults-smoke
.PHONY: test-groups kills faults model sim mutate soak fuzz fuzz-formats types-oracle readiness-oracle partition-values docs e2e-routes e2e-transactions e2e-cdc test-cdc bench-cdc
.PHONY: bench bench-quick bench-slope bench-driver bench-threads bench-freshness bench-memory bench-commit bench-metrics bench-metrics-share bench-reuse bench-takeover bench-scale bench-growth bench-stores
.PHONY: test-kerberos e2e-kerberos e2e-kerberos-cluster e2e-kerberos-yarn flamegraph test-stores test-boards test-ui test-pack test-k8s e2e-standalone e2e-yarn
.PHONY: native test-native lock dist clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
	@$(BIN)/python -m sluiceway.job.class_archive
	@touch $@

demo: $(STAMP) ## Real Kafka, metastore and Spark: run the main job, kill it once, verify; STORE=hdfs or s3
	@$(BIN)/sluiceway demo --store $(or $(STORE),local)

# Six at a time: tests on servers wait more than they compute. Lint first, it is quick.
test: CHOSEN := -m "not long"
test: $(STAMP) lint ## What must hold, in 20 minutes: lint, types, unit, integration, end to end
	@cd tests && ../$(BIN)/python -m tools.durations clear
	@cd tests && ../$(BIN)/python -m tools.shared_lab $(MAKE) --no-print-directory -C .. -j6 test-groups CHOSEN='$(CHOSEN)'; \
	  status=$$?; ../$(BIN)/python -m tools.durations; \
  echo "not run here: make test-long; make test-boards, which needs prometheus; make test-ui, which needs chromium and npm; make test-editor, which needs npm; make test-kerberos, which needs krb5-kdc krb5-admin-server krb5-user libkrb5-dev; make test-cdc, which needs mariadb-server maven" >&2; exit $$status

# Each names a shorter test that `make test` has.
test-long: $(STAMP) ## Longer tests of what `make test` holds in small: more formats, more faults, whole programmes
	@cd tests && ../$(BIN)/python -m tools.durations clear
	@cd tests && ../$(BIN)/python -m tools.shared_lab $(MAKE) --no-print-directory -C .. -j6 slow unit properties CHOSEN='-m long'; \
	  status=$$?; ../$(BIN)/python -m tools.durations; exit $$status

# The longest first.
test-groups: unit slow-parts properties slow-tables slow-jobs slow-bouncing slow-routes faults-smoke

lint: $(STAMP) ## Style, types, import rules
	@$(BIN)/ruff check --quiet src tests bench examples native
	@$(BIN)/ruff format --check --quiet src tests bench examples native
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >/tmp/lint-imports.$$$$ || { cat /tmp/lint-imports.$$$$; rm /tmp/lint-imports.$$$$; exit 1; }; rm -f /tmp/lint-imports.$$$$

unit: $(STAMP) ## Tests without servers or a JVM
	@$(BIN)/pytest -q $(CHOSEN) tests/unit $(SERVERLESS)

properties: $(STAMP) ## What holds for all values: generated cases, oracles
	@$(BIN)/pytest -q $(CHOSEN) tests/properties

slow: slow-parts slow-tables slow-jobs slow-bouncing slow-routes ## Tests on real servers: Kafka, metastore, Spark

slow-jobs: $(STAMP) ## Of these: whole jobs, and what is done to them
	@$(BIN)/pytest -q $(CHOSEN) tests/e2e

slow-parts: $(STAMP) ## Of these: parts of the engine, each with the server that it talks to
	@$(BIN)/pytest -q $(CHOSEN) tests $(addprefix --ignore=,tests/unit tests/properties tests/e2e tests/faults \
	  tests/stores tests/rocketmq tests/clusters tests/kerberos tests/cdc tests/contract $(ROUTE_TESTS) $(TABLE_TESTS) $(SERVERLESS) $(BOUNCING))

slow-bouncing: $(STAMP) ## Of these: what stops servers and starts them again, with a lab of its own
	@SLUICEWAY_TEST_LAB= $(BIN)/pytest -q $(CHOSEN) $(BOUNCING)

slow-tables: $(STAMP) ## Of these: tables and their upkeep, of Hive, in folders, and of lakes
	@$(BIN)/pytest -q $(CHOSEN) $(TABLE_TESTS)

# Jobs run with the native module where it is installed; routes always take the library's path.
slow-routes: $(STAMP) ## Of these: a route's loop, its faults, contracts of stores, sources, formats
	@SLUICEWAY_NATIVE=0 $(BIN)/pytest -q $(CHOSEN) $(ROUTE_TESTS)
	@$(BIN)/pytest -q $(CHOSEN) tests/faults tests/contract $(addprefix --ignore=,$(SERVERLESS))

test-editor: $(STAMP) ## The JSON Schema in a real YAML language server: completion, hover, errors; needs npm
	@command -v npm >/dev/null || { echo "error: npm is missing; on Debian and Ubuntu: apt-get install npm" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/editor yaml-language-server@1.25.0
	@SLUICEWAY_YAML_SERVER=$(VENV)/editor/node_modules/.bin/yaml-language-server \
	  $(BIN)/pytest -q tests/e2e/test_schema_in_an_editor.py

test-stores: $(STAMP) ## Local disk, S3 and HDFS, on real servers of the lab: suite of storages, faults, whole jobs
	@PYTHONPATH=tests $(BIN)/pytest -q tests/stores tests/contract/test_storage_conformance.py -p tools.store_checks

# In no other target: it needs Debian's prometheus, and says so where that is missing.
test-boards: $(STAMP) ## Boards, alerts and counters against a real Prometheus (apt-get install prometheus)
	@cd tests && ../$(BIN)/python -m tools.boards_check

# In no other target, likewise. Playwright drives the system's Chromium; axe-core looks for barriers.
UI := $(VENV)/ui
test-ui: $(STAMP) ## The page in a real browser: console, barriers, keyboard (apt-get install chromium npm); PICTURES=docs/pictures/page
	@command -v npm >/dev/null || { echo "not run, missing: npm (apt-get install npm)" >&2; exit 1; }
	@test -d $(UI)/python || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --target $(UI)/python -r tests/ui-requirements.lock
	@npm install --silent --no-audit --no-fund --prefix $(UI) axe-core@4.14.1 2>/dev/null
	@cd tests && PYTHONPATH=../$(UI)/python ../$(BIN)/python -m tools.ui_check \
	  --axe ../$(UI)/node_modules/axe-core/axe.min.js $(if $(PICTURES),--pictures ../$(PICTURES))

# In no other target, likewise.
KRB5 := for each in kinit kadmin.local krb5kdc krb5-config; do \
  PATH=$$PATH:/usr/sbin command -v $$each >/dev/null || { echo "not run, missing: $$each" \
  "(apt-get install gcc krb5-kdc krb5-admin-server krb5-user libkrb5-dev)" >&2; exit 1; }; done; \
  $(BIN)/python -c "import gssapi" 2>/dev/null || $(BIN)/python -m pip install --quiet \
  --disable-pip-version-check --require-hashes -r tests/kerberos-requirements.lock
test-kerberos: $(STAMP) ## Logins, secured HDFS and metastore, on a real KDC (apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev)
	@$(KRB5); $(BIN)/pytest -q tests/kerberos

e2e-kerberos: $(STAMP) ## HDFS and metastore by tickets of 3 minutes, driver killed, KDC away: RENEWALS=5; every row once
	@$(KRB5); $(BIN)/python -m bench.e2e_kerberos --renewals $(or $(RENEWALS),5)

e2e-kerberos-cluster: $(STAMP) ## Executors on secured HDFS without tickets or keytab, tokens of 2 minutes: RENEWALS=8; every row once
	@$(KRB5); PYTHONPATH=tests $(BIN)/python -m bench.e2e_kerberos_cluster --renewals $(or $(RENEWALS),8)

e2e-kerberos-yarn: $(STAMP) ## YARN with Kerberos, cluster mode, past the life of its first tokens; driver and executor killed: RENEWALS=3; every row once
	@$(KRB5); PYTHONPATH=tests $(BIN)/python -m bench.e2e_kerberos_yarn --renewals $(or $(RENEWALS),3)

native: $(PACKAGES) ## Build the native module with Rust and install it into .venv, whatever is there
	@$(BIN)/python native/install.py --needed

test-native: native ## Build the native module; its tests, its decoder against the slow path
	@cargo fmt --check --manifest-path native/Cargo.toml
	@cargo clippy --quiet --locked --release --manifest-path native/Cargo.toml -- -D warnings
	@$(BIN)/pytest -q tests/unit/json tests/properties/test_json_decoder_properties.py \
	  tests/contract/test_format_conformance.py tests/contract/test_source_conformance.py \
	  tests/integration/kafka_source
	@cd tests && ../$(BIN)/python -m tools.json_engine_fuzz --payloads 100000

faults-smoke: $(STAMP) ## Crash matrix, a spread: every failpoint is met once, some under Spark
	@cd tests && ../$(BIN)/python -m matrix --smoke

kills: $(STAMP) ## Ten kills of drivers and their JVMs at random moments, under load; `make test` has three
	@SLUICEWAY_TEST_KILLS=10 $(BIN)/pytest -q tests/e2e/test_kills.py

faults: $(STAMP) ## Crash matrix, every cell: failpoints x faults x states; goes on where it stopped: SOURCE=rocketmq for its own
	@cd tests && nice -n 19 ../$(BIN)/python -m matrix $(if $(SOURCE),--source $(SOURCE))

model: $(STAMP) ## Exhaustive models of the commit protocol, large bounds; goes on where it stopped
	@cd tests && nice -n 19 ../$(BIN)/python -m model --large

soak: $(STAMP) ## Kills, zombies, outages under a load that never stops: KILLS=20, STORE=hdfs or s3; adds to the results
	@$(BIN)/python -m bench.soak --kills $(or $(KILLS),20) --store $(or $(STORE),local)

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
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)) $(if $(OFTEN),--often $(OFTEN)),--seeds $(or $(SEEDS),2000))

mutate: $(STAMP) ## Small wrong changes of the code that holds the rules; goes on where it stopped: BUDGET=3600
	@cd tests && nice -n 19 ../$(BIN)/python -m mutate --jobs $(or $(JOBS),1) --seeds $(or $(SEEDS),300) \
	  $(if $(BUDGET),--seconds $(BUDGET)) $(if $(RULES),--rules $(RULES)) $(if $(SERVERS),--servers)

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

bench-metrics: $(STAMP) ## What metrics cost: one job with and without them, in turn; a record, an epoch, a page: ROUNDS=5
	@$(BIN)/python -m bench.metrics_pair --small $(or $(SMALL),1000000) --large $(or $(LARGE),4000000) \
	  --rounds $(or $(ROUNDS),5)

bench-metrics-share: $(STAMP) ## What share of a task's CPU metrics take, measured inside of it, on both paths: ROUNDS=40
	@$(BIN)/python -m bench.metrics_share --rounds $(or $(ROUNDS),40)
	@SLUICEWAY_NATIVE=0 $(BIN)/python -m bench.metrics_share --rounds $(or $(ROUNDS),40)

bench-reuse: $(STAMP) ## How often a task keeps its consumer: on local, and on two executors
	@$(BIN)/python -m bench.consumer_reuse

bench-takeover: $(STAMP) ## How long a table stands still when its driver hangs, with a standby: TAKEOVERS=20
	@$(BIN)/python -m bench.takeover --takeovers $(or $(TAKEOVERS),20)

bench-scale: $(STAMP) ## Driver time by source partitions, routes, length of the ledger; start on 1 M files
	@$(BIN)/python -m bench.scale --results bench/results/scale.jsonl

bench-scaling: $(STAMP) ## Throughput at 1, 2 and all slots, native module; the driver's share at 100 executors: ROUNDS=3
	@$(BIN)/python -m bench.scaling --small $(or $(SMALL),1000000) --large $(or $(LARGE),4000000) \
	  --rounds $(or $(ROUNDS),3)

bench-keys: $(STAMP) ## A keyed lake table of 10 million rows: a publish of 3,000 changes, a cold start: ROWS=10000000 KEY=text
	@$(BIN)/python -m bench.keys --rows $(or $(ROWS),10000000) --key $(or $(KEY),bigint) --results bench/results/keys.jsonl

bench-growth: $(STAMP) ## Two simulated years of 100 compacted partitions an hour: start, commit, side file
	@$(BIN)/python -m bench.growth --results bench/results/growth.jsonl

flamegraph: $(STAMP) ## Where the CPU goes, as an SVG: driver and workers, sampled by py-spy
	@$(BIN)/python -m bench.flamegraph

bench-threads: $(STAMP) ## How many threads a driver has with 1,000 routes: 80 at most
	@$(BIN)/python -m bench.threads

bench-driver: $(STAMP) ## What an epoch costs the driver at 1, 80 and 1,000 mostly idle routes
	@$(BIN)/python -m bench.driver_cost

e2e-routes: $(STAMP) ## 80 routes: poisoned topic, dropped table, new topics, 5 kills; every row once
	@$(BIN)/python -m bench.e2e_routes

e2e-transactions: $(STAMP) ## Three brokers restart in turn for 10 minutes under transactions; 5 kills; every row once
	@$(BIN)/python -m bench.e2e_transactions

e2e-rocketmq: $(STAMP) ## RocketMQ to Hive, brokers bounced, driver killed: MESSAGES=1000000 KILLS=10; every row once
	@$(BIN)/python -m bench.e2e_rocketmq --messages $(or $(MESSAGES),1000000) --kills $(or $(KILLS),10)

e2e-iceberg: $(STAMP) ## Iceberg tables of REST and Hive catalogs under kills and outages: SECONDS=1200 KILLS=50 OUTAGES=10
	@$(BIN)/python -m bench.e2e_iceberg --seconds $(or $(SECONDS),1200) --kills $(or $(KILLS),50) \
	  --outages $(or $(OUTAGES),10) --rate $(or $(RATE),5000)

bench-iceberg: $(STAMP) ## Lake tables: ours, Flink's Iceberg sink and Kafka Connect's on one topic; append to readable: LARGE=1500000
	@$(BIN)/python -m bench.lake_compare --small $(or $(SMALL),300000) --large $(or $(LARGE),1500000) \
	  --results bench/results/lake_compare.jsonl

bench-lake-routes: $(STAMP) ## Many routes to lake tables on one catalog; a commit by snapshots: ROUTES=1000 SNAPSHOTS=10000
	@PYTHONPATH=tests $(BIN)/python -m bench.lake_routes --routes $(or $(ROUTES),1000) \
	  --snapshots $(or $(SNAPSHOTS),10000)

demo-iceberg: $(STAMP) ## A lake table with no server but Kafka: killed once, read by DuckDB and Spark
	@$(BIN)/python -m bench.demo_iceberg

sim-lakes: $(STAMP) ## Publishing to lake tables on a simulated catalog: SEEDS=2000, or SEED=12 [MUTANT=name] [WORLD=keyed]
	@cd tests && nice -n 10 ../$(BIN)/python -m lake_sim $(if $(WORLD),--world $(WORLD)) \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),2000))
e2e-cdc: $(STAMP) ## MariaDB by Debezium into keyed lake tables, driver and Connect killed: SECONDS=60 KILLS=3 TABLES=3 RATE=100
	@$(BIN)/python -m bench.e2e_cdc --seconds $(or $(SECONDS),60) --kills $(or $(KILLS),3) \
	  --tables $(or $(TABLES),3) --rate $(or $(RATE),100)

# In no other target: it needs a database and Maven, and says so where they are missing.
test-cdc: $(STAMP) ## docs/cdc.md on real MariaDB, Debezium and Kafka (apt-get install mariadb-server maven)
	@for each in mariadbd mvn; do PATH=$$PATH:/usr/sbin command -v $$each >/dev/null || { \
	  echo "not run, missing: $$each (apt-get install mariadb-server maven)" >&2; exit 1; }; done
	@PATH=$$PATH:/usr/sbin $(BIN)/pytest -q tests/cdc

bench-cdc: $(STAMP) ## Keyed lake tables: ours and Flink's Iceberg upsert on one stream of changes; scans, bytes: LARGE=1000000 EPOCHS=120 ROWS=300000
	@$(BIN)/python -m bench.cdc_compare --small $(or $(SMALL),200000) --large $(or $(LARGE),1000000) \
	  --epochs $(or $(EPOCHS),120) --rows $(or $(ROWS),300000) --results bench/results/cdc_compare.jsonl

test-rocketmq: $(STAMP) ## The RocketMQ source on real servers of the lab: suite of sources, faults, a whole job
	@$(BIN)/pytest -q tests/rocketmq

bench-rocketmq: $(STAMP) ## CPU of a record from RocketMQ and from Kafka, whole jobs in turn: ROUNDS=3 SMALL=500000 LARGE=2500000, KEEP=1 adds to the results
	@$(BIN)/python -m bench.rocketmq_pair --rounds $(or $(ROUNDS),3) \
	  --small $(or $(SMALL),500000) --large $(or $(LARGE),2500000) $(if $(KEEP),--keep)

bench-stores: $(STAMP) ## One job on local disk, HDFS and S3 in turn: CPU of a record, append to readable: ROUNDS=3, NATIVE=0 by the library, KEEP=1
	@SLUICEWAY_NATIVE=$(if $(filter 0,$(NATIVE)),0,1) $(BIN)/python -m bench.stores --rounds $(or $(ROUNDS),3) \
	  --small $(or $(SMALL),500000) --large $(or $(LARGE),2500000) \
	  --fresh-seconds $(or $(SECONDS),30) $(if $(KEEP),--keep)

fuzz-rocketmq: $(STAMP) ## A million damaged frames and messages of RocketMQ: a typed error each, no hang, no crash
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.rocketmq_fuzz --frames $(or $(FRAMES),1000000)

test-pack: $(STAMP) ## A packed environment: the same bytes twice; runs a task on workers without Python packages
	@$(BIN)/pytest -q tests/clusters/test_packed_environment.py

test-k8s: $(STAMP) ## Manifests of `k8s render` against the schemas of Kubernetes' API; what Spark asks of an API server
	@$(BIN)/python -m pip install --quiet --upgrade --target $(VENV)/k8s "kubernetes-validate==1.37.0"
	@SLUICEWAY_K8S_SCHEMAS=$(VENV)/k8s $(BIN)/pytest -q tests/clusters/test_kubernetes_manifests.py \
	  tests/clusters/test_kubernetes_requests.py

e2e-standalone: $(STAMP) ## Spark standalone: driver and worker killed, one added, slots 1 to 4 to 1: BACKLOG=100000; every row once
	@$(BIN)/python -m bench.e2e_standalone --backlog $(or $(BACKLOG),100000)

e2e-yarn: $(STAMP) ## HDFS and YARN, cluster mode: master killed twice, a node manager once: ROWS=6000; every row once
	@$(BIN)/python -m bench.e2e_yarn --rows $(or $(ROWS),6000)

# In no other target: it needs root, iproute2 and iptables, and says so where they are missing.
e2e-black-hole: $(STAMP) ## Spark standalone: packets of one executor are dropped for 90 s: ROWS=6000; every row once
	@$(BIN)/python -m bench.e2e_black_hole --rows $(or $(ROWS),6000)

e2e-yarn-client: $(STAMP) ## YARN, client mode: resource manager restarted, executor and driver killed: ROWS=6000; every row once
	@$(BIN)/python -m bench.e2e_yarn_client --rows $(or $(ROWS),6000)

docs: $(STAMP) ## Write what pages show of data: types, dirty rows, the crash matrix
	@cd tests && ../$(BIN)/python -m tools.type_pages

lock: $(STAMP) ## Resolve the lock anew
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
