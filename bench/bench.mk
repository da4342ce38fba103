# Each target is a benchmark: `make bench NAME=quick` runs `bench-quick`. Their figures go to docs/contributors/benchmarks.md.

# The native module is used only where it is asked for, so that each path has figures of its own.
NATIVELY := SLUICEWAY_NATIVE=$(if $(filter 0,$(NATIVE)),0,1) $(BIN)/python
COMPARE := SLUICEWAY_NATIVE=$(if $(filter 1,$(NATIVE)),1,0) $(BIN)/python -m bench.compare

bench-quick: $(STAMP) #: Ours and Flink on one topic, standard events, two rounds; NATIVE=1 for the module
	@$(COMPARE) --rounds 2 --results bench/results/compare.jsonl

bench-all: $(STAMP) #: The same in three rounds with all kinds of events, and Spark on files; hours
	@$(COMPARE) --rounds 3 --workloads all --engines ours,flink,spark --results bench/results/compare.jsonl
	@$(BIN)/python -m bench.plot bench/results/compare.jsonl docs/contributors/benchmarks.svg

bench-formats: $(STAMP) #: JSON, Debezium, Avro, Protobuf, CSV with the native module, in turn with Flink: SMALL=4000000 LARGE=12000000 ROUNDS=3
	@$(BIN)/python -m bench.formats --small $(or $(SMALL),4000000) --large $(or $(LARGE),12000000) \
	  --rounds $(or $(ROUNDS),3) --results bench/results/compare.jsonl

bench-nexmark: $(STAMP) #: Bids of Nexmark's query 10 into a table with a partition a minute, ours and Flink in turn: SMALL=1000000 LARGE=3000000
	@$(NATIVELY) -m bench.compare --workloads bids --rounds $(or $(ROUNDS),1) --small $(or $(SMALL),1000000) \
	  --large $(or $(LARGE),3000000) --results bench/results/compare.jsonl

bench-taxi: $(STAMP) #: Trips of 29 columns, as OLake publishes them, ours and Flink in turn; records a second a core: SMALL=1000000 LARGE=3000000
	@$(NATIVELY) -m bench.compare --workloads taxi --rounds $(or $(ROUNDS),1) --small $(or $(SMALL),1000000) \
	  --large $(or $(LARGE),3000000) --results bench/results/compare.jsonl

bench-slope: $(STAMP) #: Ours alone: CPU per record and records per second, between 1 M and 4 M events
	@$(COMPARE) --rounds 1 --engines ours --small 1000000 --large 4000000

bench-freshness: $(STAMP) #: From append to a readable row, 20,000 records/s, at 2 s and 0.5 s intervals
	@$(BIN)/python -m bench.freshness --results bench/results/freshness.jsonl

bench-chain-freshness: $(STAMP) #: As bench-freshness, of a second table that is filled from the first: RATE=2000
	@$(BIN)/python -m bench.freshness --chain --rate $(or $(RATE),2000)

bench-shared-topic: $(STAMP) #: Fifty tables of one topic by route_by, against one table: CPU a record, bytes of the broker; NATIVE=1; TROUBLED=400000: routes halt and lag
	@SLUICEWAY_NATIVE=$(if $(filter 1,$(NATIVE)),1,0) PYTHONPATH=tests $(BIN)/python -m bench.shared_topic --small $(or $(SMALL),1000000) \
	  --large $(or $(LARGE),4000000) --rounds $(or $(ROUNDS),1) $(if $(TROUBLED),--troubled $(TROUBLED))

bench-memory: $(STAMP) #: 20,000 records/s for half an hour: how the memory of the whole job grows
	@$(BIN)/python -m bench.freshness --interval 2 --seconds 1800 --results bench/results/freshness.jsonl

bench-commit: $(STAMP) #: What a commit costs the driver at 8 and 500 files an epoch, metastore included
	@$(BIN)/python -m bench.commit_cost

bench-metrics: $(STAMP) #: What metrics cost: one job with and without them, in turn; a record, an epoch, a page: ROUNDS=5
	@$(BIN)/python -m bench.metrics_pair --small $(or $(SMALL),1000000) --large $(or $(LARGE),4000000) \
	  --rounds $(or $(ROUNDS),5)

bench-metrics-share: $(STAMP) #: What share of a task's CPU metrics take, measured inside of it, on both paths: ROUNDS=40
	@$(BIN)/python -m bench.metrics_share --rounds $(or $(ROUNDS),40)
	@SLUICEWAY_NATIVE=0 $(BIN)/python -m bench.metrics_share --rounds $(or $(ROUNDS),40)

bench-reuse: $(STAMP) #: How often a task keeps its consumer: on local, and on two executors
	@$(BIN)/python -m bench.consumer_reuse

bench-takeover: $(STAMP) #: How long a table stands still when its driver hangs, with a standby: TAKEOVERS=20
	@$(BIN)/python -m bench.takeover --takeovers $(or $(TAKEOVERS),20)

bench-start: $(STAMP) #: How long commands take on a filled table, and a run to its first commit: ROUNDS=5 RUNS=3
	@$(BIN)/python -m bench.start --rounds $(or $(ROUNDS),5) --runs $(or $(RUNS),3)

bench-scale: $(STAMP) #: Driver time by source partitions, routes, length of the ledger; start on 1 M files
	@$(BIN)/python -m bench.scale --results bench/results/scale.jsonl

bench-scaling: $(STAMP) #: Throughput at 1, 2 and all slots, native module; the driver's share at 100 executors: ROUNDS=3
	@$(BIN)/python -m bench.scaling --small $(or $(SMALL),1000000) --large $(or $(LARGE),4000000) \
	  --rounds $(or $(ROUNDS),3)

bench-keys: $(STAMP) #: A keyed lake table of 10 million rows: a publish of 3,000 changes, a cold start: ROWS=10000000 KEY=text
	@$(BIN)/python -m bench.keys --rows $(or $(ROWS),10000000) --key $(or $(KEY),bigint) --results bench/results/keys.jsonl

bench-growth: $(STAMP) #: Two simulated years of 100 compacted partitions an hour: start, commit, side file
	@$(BIN)/python -m bench.growth --results bench/results/growth.jsonl

bench-flamegraph: $(STAMP) #: Where the CPU goes, as an SVG: driver and workers, sampled by py-spy
	@$(BIN)/python -m bench.flamegraph

bench-threads: $(STAMP) #: How many threads a driver has with 1,000 routes: 80 at most
	@$(BIN)/python -m bench.threads

bench-driver: $(STAMP) #: What an epoch costs the driver at 1, 80 and 1,000 mostly idle routes
	@$(BIN)/python -m bench.driver_cost

bench-iceberg: $(STAMP) #: Lake tables: ours, Flink's Iceberg sink and Kafka Connect's on one topic; append to readable: LARGE=1500000
	@$(BIN)/python -m bench.lake_compare --small $(or $(SMALL),300000) --large $(or $(LARGE),1500000) \
	  --results bench/results/lake_compare.jsonl

bench-lake-routes: $(STAMP) #: Many routes to lake tables on one catalog; a commit by snapshots: ROUTES=1000 SNAPSHOTS=10000
	@PYTHONPATH=tests $(BIN)/python -m bench.lake_routes --routes $(or $(ROUTES),1000) \
	  --snapshots $(or $(SNAPSHOTS),10000)

bench-cdc: $(STAMP) #: Keyed lake tables: ours and Flink's Iceberg upsert on one stream of changes; scans, bytes: LARGE=1000000 EPOCHS=120 ROWS=300000
	@$(BIN)/python -m bench.cdc_compare --small $(or $(SMALL),200000) --large $(or $(LARGE),1000000) \
	  --epochs $(or $(EPOCHS),120) --rows $(or $(ROWS),300000) --results bench/results/cdc_compare.jsonl

bench-rocketmq: $(STAMP) #: CPU of a record from RocketMQ and from Kafka, whole jobs in turn: ROUNDS=3 SMALL=500000 LARGE=2500000, KEEP=1 adds to the results
	@$(BIN)/python -m bench.rocketmq_pair --rounds $(or $(ROUNDS),3) \
	  --small $(or $(SMALL),500000) --large $(or $(LARGE),2500000) $(if $(KEEP),--keep)

bench-stores: $(STAMP) #: One job on local disk, HDFS and S3 in turn: CPU of a record, append to readable: ROUNDS=3, NATIVE=0 by the library, KEEP=1
	@SLUICEWAY_NATIVE=$(if $(filter 0,$(NATIVE)),0,1) $(BIN)/python -m bench.stores --rounds $(or $(ROUNDS),3) \
	  --small $(or $(SMALL),500000) --large $(or $(LARGE),2500000) \
	  --fresh-seconds $(or $(SECONDS),30) $(if $(KEEP),--keep)

bench-sql: $(STAMP) #: SQL on a route: CPU a record over the same route without it, of an epoch of ten rows, of a unit; Flink SQL and Spark streaming: RECORDS=100000 ROUNDS=3 UNIT=3600000 OTHERS=5000000
	@PYTHONPATH=tests $(BIN)/python -m bench.sql --records $(or $(RECORDS),100000) --rounds $(or $(ROUNDS),3) \
	  --unit-rows $(or $(UNIT),3600000) --other-records $(or $(OTHERS),5000000)

bench-rooms-mapping: $(STAMP) #: Where committed ends resume in a mirrored topic, on two brokers: PARTITIONS=1000 ROUNDS=3
	@$(BIN)/python -m bench.rooms_mapping --partitions $(or $(PARTITIONS),1000) --rounds $(or $(ROUNDS),3)

bench-shapes: $(STAMP) #: Decoding alone, microseconds a record by format and shape, with and without the native module: RECORDS=4000 ROUNDS=3
	@$(BIN)/python -m bench.shapes --records $(or $(RECORDS),4000) --rounds $(or $(ROUNDS),3)

# The name of earlier versions.
flamegraph: bench-flamegraph
