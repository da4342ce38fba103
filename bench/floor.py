"""The least that the job could cost: its bare parts, one after the other, in one process.

consume  the consumer that the job uses fetches records in batches of 10,000, and Python takes what
         a row needs; with the native module payloads stay in its buffers
decode   the decoder that the job uses, exact types and all, makes columns of those batches
write    pyarrow writes those columns, with the record's own, as one Parquet file with zstd

Each is CPU of the whole process with all its threads, per record, past a warm-up. What the job
does on top is counted against it: epochs, tasks, routing, checksums, commits, the JVM.

`python -m bench.floor JOB_FILE` reads the job's topic and prints one JSON line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from numpy.typing import NDArray

from sluiceway.formats.registry import open_decoder
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.sinks.files.parquet_file import ROW_GROUP_BYTES, dictionary_columns
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.native_consumer import NativeConsumer, native_consumer
from sluiceway.sources.kafka.settings import consumer_settings
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.worker.meta_columns import meta_fields

BATCH = 10_000
REQUEST_TIMEOUT_S = 30.0
WAIT_S = 10.0
WARM_UP_SHARE = 5


@dataclass(frozen=True, slots=True)
class Floor:
    """CPU of each part, µs a record."""

    consume_us: float
    decode_us: float
    write_us: float

    @property
    def cpu_us(self) -> float:
        """Their sum."""
        return self.consume_us + self.decode_us + self.write_us


@dataclass(slots=True)
class _Batch:
    values: Sequence[bytes | None]
    partitions: Sequence[int] | NDArray[np.int32]
    offsets: Sequence[int] | NDArray[np.int64]
    times_ms: Sequence[int | None] | NDArray[np.int64]


def measure_floor(job: Path, records: int) -> Floor:
    """Measure the parts on the topic of a job's only route."""
    route = compile_routes(parse_job(job.read_bytes(), job, {}).spec).routes[0]
    batches, consume_us = _consume(route, records)
    columns, decode_us = _decode(route, batches)
    with tempfile.TemporaryDirectory(prefix="floor-", dir=job.parent) as folder:
        write_us = _write(columns, Path(folder) / "floor.parquet")
    return Floor(round(consume_us, 3), round(decode_us, 3), round(write_us, 3))


def _consume(route: RouteConfig, records: int) -> tuple[list[_Batch], float]:
    options = dict(route.source.options)
    servers = options.pop("bootstrap.servers")
    settings = consumer_settings(servers, {}, _ignore)
    plain = Consumer(settings)
    topic = route.topics[0]
    found = plain.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic].partitions
    consumer = native_consumer(settings) or plain
    consumer.assign([TopicPartition(topic, number, 0) for number in found])
    logs = [SourcePartition(topic, number) for number in found]
    batches: list[_Batch] = []
    taken = counted = 0
    began_s = 0.0
    deadline = time.monotonic() + WAIT_S
    while taken < records and time.monotonic() < deadline:
        if isinstance(consumer, NativeConsumer):
            batch = _fetch_natively(consumer, logs)
        else:
            batch = _fetch(consumer)
        if not len(batch.values):
            continue
        deadline = time.monotonic() + WAIT_S
        batches.append(batch)
        taken += len(batch.values)
        if not began_s and taken >= records // WARM_UP_SHARE:
            began_s, counted = time.process_time(), taken
    spent_s = time.process_time() - began_s
    consumer.close()
    plain.close()
    return batches, spent_s / max(1, taken - counted) * 1e6


def _fetch(consumer: Consumer) -> _Batch:
    messages = [m for m in consumer.consume(BATCH, 1.0) if m.error() is None]
    return _Batch(
        list(map(Message.value, messages)),
        list(map(Message.partition, messages)),
        list(map(Message.offset, messages)),
        [message.timestamp()[1] for message in messages],
    )


def _fetch_natively(consumer: NativeConsumer, logs: Sequence[SourcePartition]) -> _Batch:
    fetched = consumer.fetch(BATCH, 1.0, {log: index for index, log in enumerate(logs)})
    found = [rows.batch(index, logs[index]) for index, rows in fetched.rows]
    sizes = [len(batch.values) for batch in found]
    numbers = np.array([logs[batch.split_index].partition for batch in found], np.int32)
    offsets = [np.asarray(batch.offsets, np.int64) for batch in found]
    return _Batch(
        JoinedPayloads([batch.values for batch in found]),
        np.repeat(numbers, sizes),
        np.concatenate(offsets) if offsets else [],
        np.concatenate([np.asarray(batch.timestamps_ms(), np.int64) for batch in found])
        if found
        else [],
    )


def _ignore(error: KafkaError) -> None:
    del error


def _decode(route: RouteConfig, batches: list[_Batch]) -> tuple[list[pa.RecordBatch], float]:
    assert route.columns is not None  # noqa: S101 - the job file lists the columns
    decoder = open_decoder(route.format, route.columns)
    warm = len(batches) // WARM_UP_SHARE
    schema = pa.schema([*decoder.arrow_schema, *meta_fields(route.meta)])
    began_s = 0.0
    rows, spent_s, columns = 0, 0.0, []
    for number, batch in enumerate(batches):
        began_s = time.process_time()
        decoded = decoder.decode(batch.values)
        if number >= warm:
            spent_s += time.process_time() - began_s
            rows += len(batch.values)
        meta = [array.take(decoded.indices) for array in _meta(route, batch)]
        arrays = [*decoded.rows.columns, *meta]
        columns.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return columns, spent_s / max(1, rows) * 1e6


def _meta(route: RouteConfig, batch: _Batch) -> list[pa.Array]:
    codes = pa.array(np.zeros(len(batch.values), dtype=np.int32))
    made = {
        "topic": lambda: pa.DictionaryArray.from_arrays(codes, pa.array([route.topics[0]])),
        "partition": lambda: pa.array(batch.partitions, pa.int32()),
        "offset": lambda: pa.array(batch.offsets, pa.int64()),
        "timestamp": lambda: pa.array(batch.times_ms, pa.timestamp("ms")).cast(pa.timestamp("us")),
    }
    return [made[column.kind]() for column in route.meta]


def _write(batches: list[pa.RecordBatch], path: Path) -> float:
    rows: int = sum(batch.num_rows for batch in batches)
    if not rows:
        return 0.0
    dictionary = dictionary_columns(pa.Table.from_batches(batches[:1])) or False
    began_s = time.process_time()
    with pq.ParquetWriter(
        path,
        batches[0].schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionary,
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    ) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(one.nbytes for one in waiting) >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    spent_s = time.process_time() - began_s
    return spent_s / rows * 1e6


def main() -> int:
    """Measure once, print the parts and their sum."""
    parser = argparse.ArgumentParser(prog="python -m bench.floor")
    parser.add_argument("job", type=Path)
    parser.add_argument("--records", type=int, default=500_000)
    given = parser.parse_args()
    floor = measure_floor(given.job, given.records)
    print(json.dumps({**asdict(floor), "cpu_us": round(floor.cpu_us, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
