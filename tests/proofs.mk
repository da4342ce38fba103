# Each target is a programme of proofs: `make proofs NAME=sim` runs `sim`, at the sizes given on the command line.

test-editor: $(STAMP) #: The JSON Schema in a real YAML language server: completion, hover, errors; needs npm
	@command -v npm >/dev/null || { echo "error: npm is missing; on Debian and Ubuntu: apt-get install npm" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/editor yaml-language-server@1.25.0
	@SLUICEWAY_YAML_SERVER=$(VENV)/editor/node_modules/.bin/yaml-language-server \
	  $(BIN)/pytest -q tests/e2e/test_schema_in_an_editor.py

test-stores: $(STAMP) #: Local disk, S3 and HDFS, on real servers of the lab: suite of storages, faults, whole jobs
	@PYTHONPATH=tests $(BIN)/pytest -q tests/stores tests/contract/test_storage_conformance.py -p tools.store_checks

# It needs Debian's prometheus, and says so where that is missing.
test-boards: $(STAMP) #: Boards, alerts and counters against a real Prometheus (apt-get install prometheus)
	@cd tests && ../$(BIN)/python -m tools.boards_check

# Playwright drives the system's Chromium; axe-core looks for barriers.
UI := $(VENV)/ui
test-ui: $(STAMP) #: The page in a real browser: console, barriers, keyboard (apt-get install chromium npm); PICTURES=docs/pictures/page
	@command -v npm >/dev/null || { echo "not run, missing: npm (apt-get install npm)" >&2; exit 1; }
	@test -d $(UI)/python || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --target $(UI)/python -r tests/ui-requirements.lock
	@npm install --silent --no-audit --no-fund --prefix $(UI) axe-core@4.14.1 2>/dev/null
	@cd tests && PYTHONPATH=../$(UI)/python ../$(BIN)/python -m tools.ui_check \
	  --axe ../$(UI)/node_modules/axe-core/axe.min.js $(if $(PICTURES),--pictures ../$(PICTURES))

KRB5 := for each in kinit kadmin.local krb5kdc krb5-config; do \
  PATH=$$PATH:/usr/sbin command -v $$each >/dev/null || { echo "not run, missing: $$each" \
  "(apt-get install gcc krb5-kdc krb5-admin-server krb5-user libkrb5-dev)" >&2; exit 1; }; done; \
  $(BIN)/python -c "import gssapi" 2>/dev/null || $(BIN)/python -m pip install --quiet \
  --disable-pip-version-check --require-hashes -r tests/kerberos-requirements.lock
test-kerberos: $(STAMP) #: Logins, secured HDFS and metastore, on a real KDC (apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev)
	@$(KRB5); $(BIN)/pytest -q tests/kerberos

e2e-kerberos: $(STAMP) #: HDFS and metastore by tickets of 3 minutes, driver killed, KDC away: RENEWALS=5; every row once
	@$(KRB5); $(BIN)/python -m bench.e2e_kerberos --renewals $(or $(RENEWALS),5)

e2e-kerberos-cluster: $(STAMP) #: Executors on secured HDFS without tickets or keytab, tokens of 2 minutes: RENEWALS=8; every row once
	@$(KRB5); PYTHONPATH=tests $(BIN)/python -m bench.e2e_kerberos_cluster --renewals $(or $(RENEWALS),8)

e2e-kerberos-yarn: $(STAMP) #: YARN with Kerberos, cluster mode, past the life of its first tokens; driver and executor killed: RENEWALS=3; every row once
	@$(KRB5); PYTHONPATH=tests $(BIN)/python -m bench.e2e_kerberos_yarn --renewals $(or $(RENEWALS),3)

test-native: native #: Build the native module; its tests, its decoder against the slow path
	@cargo fmt --check --manifest-path native/Cargo.toml
	@cargo clippy --quiet --locked --release --manifest-path native/Cargo.toml -- -D warnings
	@$(BIN)/pytest -q tests/unit/json tests/properties/test_json_decoder_properties.py \
	  tests/contract/test_format_conformance.py tests/contract/test_source_conformance.py \
	  tests/integration/kafka_source
	@cd tests && ../$(BIN)/python -m tools.json_engine_fuzz --payloads 100000

faults-smoke: $(STAMP) #: Crash matrix, a spread: every failpoint is met once, some under Spark
	@cd tests && ../$(BIN)/python -m matrix --smoke

kills: $(STAMP) #: Ten kills of drivers and their JVMs at random moments, under load; `make test` has three
	@SLUICEWAY_TEST_KILLS=10 $(BIN)/pytest -q tests/e2e/test_kills.py

faults: $(STAMP) #: Crash matrix, every cell: failpoints x faults x states; goes on where it stopped: SOURCE=rocketmq for its own
	@cd tests && nice -n 19 ../$(BIN)/python -m matrix $(if $(SOURCE),--source $(SOURCE))

model: $(STAMP) #: Exhaustive models of the commit protocol, large bounds; goes on where it stopped
	@cd tests && nice -n 19 ../$(BIN)/python -m model --large

soak: $(STAMP) #: Kills, zombies, outages under a load that never stops: KILLS=20, STORE=hdfs or s3; adds to the results
	@$(BIN)/python -m bench.soak --kills $(or $(KILLS),20) --store $(or $(STORE),local)

fuzz: $(STAMP) #: A million damaged and forged ledger records: each refused, with a typed error
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.record_fuzz --records 1000000 --workers 2

fuzz-formats: $(STAMP) #: A million damaged payloads for each input format: no crash, no hang, every row accounted
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.format_fuzz --payloads 1000000 --workers 2

fuzz-paths: $(STAMP) #: Payloads of any schema by every path of their format, native, fetched, library: PAYLOADS=300000; no difference
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.path_fuzz --payloads $(or $(PAYLOADS),300000) --workers 2

types-oracle: $(STAMP) #: A million JSON values of every type against exact arithmetic: none changes silently
	@cd tests && nice -n 10 ../$(BIN)/python -m oracle --values 1000000 --workers 2

logical-types: $(STAMP) #: Every logical type of Debezium and Connect: columns added, inferred, declared; JSON, Avro, Protobuf; read by Spark and pyiceberg
	@cd tests && ../$(BIN)/python -m logical_types

real-schemas: $(STAMP) #: 466 .proto and .avsc files that packages ship: each links, or is refused with a reason
	@cd tests && ../$(BIN)/python -m real_schemas

partition-values: $(STAMP) #: A million partition values against Spark's escaping; 5,000 in real tables
	@cd tests && nice -n 10 ../$(BIN)/python -m partition_oracle

readiness-oracle: $(STAMP) #: 100,000 histories of event time against brute force: HISTORIES=2000, or SEED=1234
	@cd tests && nice -n 10 ../$(BIN)/python -m readiness_oracle \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--histories $(or $(HISTORIES),100000))

sim: $(STAMP) #: Driver on simulated stores, brokers, clock: SEEDS=20000, or SEED=1234 to replay
	@cd tests && PYTHONHASHSEED=0 nice -n 10 ../$(BIN)/python -m sim \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)) $(if $(OFTEN),--often $(OFTEN)),--seeds $(or $(SEEDS),2000))

mutate: $(STAMP) #: Small wrong changes of the code that holds the rules; goes on where it stopped: BUDGET=3600
	@cd tests && nice -n 19 ../$(BIN)/python -m mutate --jobs $(or $(JOBS),2) --seeds $(or $(SEEDS),300) \
	  $(if $(BUDGET),--seconds $(BUDGET)) $(if $(RULES),--rules $(RULES)) $(if $(SERVERS),--servers)

e2e-routes: $(STAMP) #: 80 routes: poisoned topic, dropped table, new topics, 5 kills; every row once
	@$(BIN)/python -m bench.e2e_routes

e2e-transactions: $(STAMP) #: Three brokers restart in turn for 10 minutes under transactions; 5 kills; every row once
	@$(BIN)/python -m bench.e2e_transactions

e2e-rocketmq: $(STAMP) #: RocketMQ to Hive, brokers bounced, driver killed: MESSAGES=1000000 KILLS=10; every row once
	@$(BIN)/python -m bench.e2e_rocketmq --messages $(or $(MESSAGES),1000000) --kills $(or $(KILLS),10)

e2e-iceberg: $(STAMP) #: Iceberg tables of REST and Hive catalogs under kills and outages: SECONDS=1200 KILLS=50 OUTAGES=10
	@$(BIN)/python -m bench.e2e_iceberg --seconds $(or $(SECONDS),1200) --kills $(or $(KILLS),50) \
	  --outages $(or $(OUTAGES),10) --rate $(or $(RATE),5000)

demo-iceberg: $(STAMP) #: A lake table with no server but Kafka: killed once, read by DuckDB and Spark
	@$(BIN)/python -m bench.demo_iceberg

sim-lakes: $(STAMP) #: Publishing to lake tables on a simulated catalog: SEEDS=2000, or SEED=12 [MUTANT=name] [WORLD=keyed]
	@cd tests && nice -n 10 ../$(BIN)/python -m lake_sim $(if $(WORLD),--world $(WORLD)) \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),2000))

e2e-cdc: $(STAMP) #: MariaDB by Debezium into keyed lake tables, driver and Connect killed: SECONDS=60 KILLS=3 TABLES=3 RATE=100
	@$(BIN)/python -m bench.e2e_cdc --seconds $(or $(SECONDS),60) --kills $(or $(KILLS),3) \
	  --tables $(or $(TABLES),3) --rate $(or $(RATE),100)

# It needs a database and Maven, and says so where they are missing.
test-cdc: $(STAMP) #: docs/guides/keyed-tables.md on real MariaDB, Debezium and Kafka (apt-get install mariadb-server maven)
	@for each in mariadbd mvn; do PATH=$$PATH:/usr/sbin command -v $$each >/dev/null || { \
	  echo "not run, missing: $$each (apt-get install mariadb-server maven)" >&2; exit 1; }; done
	@PATH=$$PATH:/usr/sbin $(BIN)/pytest -q tests/cdc

test-rocketmq: $(STAMP) #: The RocketMQ source on real servers of the lab: suite of sources, faults, a whole job
	@$(BIN)/pytest -q tests/rocketmq

fuzz-rocketmq: $(STAMP) #: A million damaged frames and messages of RocketMQ: a typed error each, no hang, no crash
	@cd tests && nice -n 19 ../$(BIN)/python -m tools.rocketmq_fuzz --frames $(or $(FRAMES),1000000)

# Its packages lie apart from the product's. dbt-core 1.12 and later need a download that is no package.
test-dbt: $(STAMP) #: dbt-spark and Declarative Pipelines, as docs/guides/chains.md has them, on the lab's metastore
	@test -d $(VENV)/dbt || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --target $(VENV)/dbt "dbt-spark==1.11.0" "dbt-core==1.11.16"
	@test -d $(VENV)/pipelines || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --target $(VENV)/pipelines "grpcio-status==1.85.3"
	@SLUICEWAY_DBT=$(CURDIR)/$(VENV)/dbt SLUICEWAY_PIPELINES=$(CURDIR)/$(VENV)/pipelines $(BIN)/pytest -q tests/e2e/test_chain_clients.py

test-pack: $(STAMP) #: A packed environment: the same bytes twice; runs a task on workers without Python packages
	@$(BIN)/pytest -q tests/clusters/test_packed_environment.py

test-k8s: $(STAMP) #: Manifests of `k8s render` against the schemas of Kubernetes' API; what Spark asks of an API server
	@$(BIN)/python -m pip install --quiet --upgrade --target $(VENV)/k8s "kubernetes-validate==1.37.0"
	@SLUICEWAY_K8S_SCHEMAS=$(VENV)/k8s $(BIN)/pytest -q tests/clusters/test_kubernetes_manifests.py \
	  tests/clusters/test_kubernetes_requests.py

e2e-standalone: $(STAMP) #: Spark standalone: driver and worker killed, one added, slots 1 to 4 to 1: BACKLOG=100000; every row once
	@$(BIN)/python -m bench.e2e_standalone --backlog $(or $(BACKLOG),100000)

e2e-yarn: $(STAMP) #: HDFS and YARN, cluster mode: master killed twice, a node manager once: ROWS=6000 SQL=1; every row once
	@$(BIN)/python -m bench.e2e_yarn --rows $(or $(ROWS),6000) $(if $(SQL),--sql)

# It needs root, iproute2 and iptables, and says so where they are missing.
e2e-black-hole: $(STAMP) #: Spark standalone: packets of one executor are dropped for 90 s: ROWS=6000; every row once
	@$(BIN)/python -m bench.e2e_black_hole --rows $(or $(ROWS),6000)

e2e-yarn-client: $(STAMP) #: YARN, client mode: resource manager restarted, executor and driver killed: ROWS=6000; every row once
	@$(BIN)/python -m bench.e2e_yarn_client --rows $(or $(ROWS),6000)

spark-source: $(STAMP) #: A stream of the Spark data source under compaction and kills, batches at random slots: KILLS=100 POINTS=200 MINUTES=inf
	@cd tests && ../$(BIN)/python -m tools.spark_source_proof --kills $(or $(KILLS),100) --points $(or $(POINTS),200) --minutes $(or $(MINUTES),inf)

bootstrap: $(STAMP) #: Routes that read a table and then its topics, killed around the hand-over: POINTS=50
	@cd tests && ../$(BIN)/python -m tools.bootstrap_proof --points $(or $(POINTS),50)

sim-chains: $(STAMP) #: A route that reads a table and hands over to its topic, from seeds: SEEDS=500, or SEED=12 [MUTANT=name]; UNITS=1: that computes units; LAKES=1: that reads an Iceberg table; CORRECTIONS=1: two that follow corrections
	@cd tests && nice -n 10 ../$(BIN)/python -m chain_sim $(if $(UNITS),--units) $(if $(LAKES),--lakes) $(if $(CORRECTIONS),--corrections) \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),500))

sim-shared: $(STAMP) #: Routes of one topic that share its reading, and tables by value, from seeds: SEEDS=500, or SEED=12 [MUTANT=name]; ROOMS=lost or back: two rooms and a mirror
	@cd tests && PYTHONHASHSEED=0 nice -n 10 ../$(BIN)/python -m shared_sim $(if $(ROOMS),--rooms $(ROOMS)) \
	  $(if $(SEED),--seed $(SEED) $(if $(MUTANT),--mutant $(MUTANT)),--seeds $(or $(SEEDS),500))

sql-oracle: $(STAMP) #: SQL of a route against plain Spark SQL, row by row, random queries: CHECKED=10000
	@cd tests && ../$(BIN)/python -m tools.sql_oracle --checked $(or $(CHECKED),10000)

rooms: $(STAMP) #: A room is killed, stopped or cut under load, in network namespaces (root, iproute2, iptables): CASE=stretched, mirrored, mirrored-by-tail or copied DRILLS=20
	@cd tests && ../$(BIN)/python -m rooms --case $(or $(CASE),stretched) --drills $(or $(DRILLS),20)

chain-faults: $(STAMP) #: A chain of three tables under kills, late rows, compaction and backfills: ROWS=1000000 KILLS=60 BACKFILLS=10
	@cd tests && ../$(BIN)/python -m tools.chain_proof --rows $(or $(ROWS),1000000) --kills $(or $(KILLS),60) --backfills $(or $(BACKFILLS),10)
