"""The scene of RocketMQ: queues of two brokers go into an hourly table, and a driver dies.

Topics are found by a pattern; reading begins at a group's offsets, which there are none of, or by
a time before all messages. The driver behind the fault finds a second topic. One process has
written all, into queues that were empty, so that a message's offset is its place among those of
its queue. Files are read by pyarrow; nothing here is the product's.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq

from sluiceway.lab.lab import LabEndpoints
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.independent_reader import Report, TableView
from tools.job_files import COLUMNS, event
from tools.rocketmq_writer import RocketMqWriter

FIRST = "faults_mq_first"
SECOND = "faults_mq_second"
_GROUP = "nobody-has-reported"
_LONG_AGO = "2020-01-01T00:00:00Z"
_EIGHT_MS = 1_795_161_600_000
_HOUR_MS = 3_600_000
_ROWS = 40
_MOST_TOLD = 3
Key = tuple[str, str, int]
"""Topic, queue and offset of a message."""


def fill(endpoint: RocketMqEndpoint) -> dict[Key, bytes]:
    """Make the topics; every message that is there then."""
    writer = RocketMqWriter(endpoint.name_server)
    found: dict[Key, bytes] = {}
    try:
        for topic, queues in ((FIRST, {"broker-a": 2, "broker-b": 1}), (SECOND, {"broker-b": 2})):
            writer.create_topic(topic, {endpoint.brokers[b]: n for b, n in queues.items()})
            for broker, number in ((b, n) for b, count in queues.items() for n in range(count)):
                bodies = [*_bodies(number)]
                # Some are stored one by one, with keys, and some compressed; the rest as batches.
                few = bodies[: _ROWS // 4], bodies[_ROWS // 4 : _ROWS // 2], bodies[_ROWS // 2 :]
                address = endpoint.brokers[broker]
                writer.send(address, topic, number, few[0], properties={"KEYS": "k"})
                writer.send(address, topic, number, few[1], compressed=True)
                writer.send_many(address, topic, number, few[2])
                queue = f"{broker}/{number}"
                found |= {(topic, queue, offset): body for offset, body in enumerate(bodies)}
    finally:
        writer.close()
    return found


def _bodies(hour: int) -> Iterator[bytes]:
    """One broken row in five."""
    for number in range(_ROWS):
        whole = event(number, ts_ms=_EIGHT_MS + hour * _HOUR_MS)
        yield whole if number % 5 else b"{%d" % number


def job_text(endpoints: LabEndpoints, name: str, *, both: bool, by_time: bool) -> str:
    """The job file of a cell; `both` lets the pattern match the second topic too."""
    assert endpoints.rocketmq is not None
    pattern = f"{FIRST}|{SECOND}" if both else f"{FIRST[:-1]}[{FIRST[-1]}]"
    start = f'{{timestamp: "{_LONG_AGO}"}}' if by_time else f"{{group: {_GROUP}}}"
    return f"""\
version: 1
name: {name}
connections:
  mq: {{rocketmq: {{name_servers: ["{endpoints.rocketmq.name_server}"]}}}}
  hms: {{metastore: {{uri: "{endpoints.metastore_uri}"}}}}
source: {{connection: mq, topics: "{pattern}", start: {start}}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: {name}.t}}
  columns:
{COLUMNS}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [topic, partition, offset]
event_time: {{field: ts, unit: ms}}
run: {{interval: 0.5s, master: "local[2]"}}
"""


def judge(view: TableView, messages: Mapping[Key, bytes]) -> Report:
    """What the table and the dirty rows have beside what was written."""
    rows, dirty = [*_table_rows(view)], [*_dirty_rows(view)]
    wanted = {key: _row(body) for key, body in messages.items()}
    seen = Counter(key for key, _ in (*rows, *dirty))
    altered = [key for key, row in rows if wanted.get(key) not in (row, None)]
    altered += [key for key, value in dirty if messages.get(key, value) != value]
    lost = [key for key in messages if key not in seen]
    doubled = [key for key, count in seen.items() if count > 1]
    broken = [key for key, _ in rows if key in wanted and wanted[key] is None]
    uncovered = [key for key, _ in dirty if wanted.get(key) is not None]
    unknown = [key for key in seen if key not in messages]
    faults = (*lost, *doubled, *altered, *broken, *uncovered, *unknown)
    return Report(
        read=len(messages),
        written=len(rows),
        dirty=len(dirty),
        lost=len(lost),
        doubled=sum(seen[key] - 1 for key in doubled),
        altered=len(altered),
        broken_written=len(broken),
        uncovered_dirty=len(uncovered),
        unknown=len(unknown),
        details=tuple(str(key) for key in faults[:_MOST_TOLD]),
    )


def _row(body: bytes) -> tuple[object, ...] | None:
    """What a message has to be in the table, with its partition; None for a broken one."""
    try:
        found: dict[str, Any] = json.loads(body)
    except ValueError:
        return None
    at = datetime.fromtimestamp(found["ts"] / 1000, UTC)
    values = (found["id"], found["ts"], found["city"], found["amount"])
    return (*values, at.strftime("%Y%m%d"), at.strftime("%H"))


def _table_rows(view: TableView) -> Iterator[tuple[Key, tuple[object, ...]]]:
    names = ["_topic", "_partition", "_offset", "id", "ts", "city", "amount"]
    for file in view.files:
        found = pq.ParquetFile(file.path).read(columns=names).to_pylist()
        for row in found:
            topic, queue, offset, number, ts, city, amount = (row[name] for name in names)
            yield (topic, queue, offset), (number, ts, city, str(amount), *file.values)


def _dirty_rows(view: TableView) -> Iterator[tuple[Key, bytes]]:
    names = ["topic", "partition", "offset", "value"]
    for path in view.dirty_files:
        for row in pq.ParquetFile(path).read(columns=names).to_pylist():
            yield (row["topic"], row["partition"], row["offset"]), row["value"]
