"""What keyed tables were at moments of a run: snapshots against the topics up to what they name.

Each snapshot of ours names the offsets up to which its changes were read. The topics are folded
once more up to there, by nothing but their JSON, and the table of that snapshot has to be the same.
"""

import json
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

_ENDS = "sluiceway.offsets"
_POLL_S = 10.0
NAMES = ("id", "name", "qty", "note")
Change = tuple[int, str, int, list[Any] | None]
"""Offset, operation, key and row of a record."""
Moment = tuple[int, dict[int, int]]
"""Snapshot, and offsets up to which the table is told, by source partition."""


Reader = Callable[[str, int, Sequence[str]], list[list[Any]]]
"""Rows of a table at a snapshot, in these columns."""


def pyiceberg_reader(catalog: SqlCatalog) -> Reader:
    """One by pyiceberg."""

    def read(name: str, snapshot: int, names: Sequence[str]) -> list[list[Any]]:
        scan = catalog.load_table(name).scan(snapshot_id=snapshot, selected_fields=tuple(names))
        columns = scan.to_arrow().select(list(names)).to_pydict()
        return [list(row) for row in zip(*columns.values(), strict=True)]

    return read


def compare_moments(
    brokers: str,
    catalog: SqlCatalog,
    topics: dict[str, str],
    count: int,
    readers: Mapping[str, Reader],
) -> tuple[int, int]:
    """Compare snapshots that are chosen at random.

    Args:
        brokers: Of the topics.
        catalog: Of the tables.
        topics: Topic -> table.
        count: How many snapshots of all tables together.
        readers: Engines, each of which has to find the same.

    Returns:
        Snapshots that were compared, and rows that differ in them.
    """
    compared = differ = 0
    share = -(-count // max(len(topics), 1))
    for topic, name in topics.items():
        table = catalog.load_table(name)
        moments = _moments(table, topic)
        chosen = random.sample(moments, min(share, len(moments)))
        if not chosen:
            continue
        log = _log(brokers, topic)
        for snapshot, ends in chosen:
            wanted = _folded(log, ends)
            for read in readers.values():
                rows = read(name, snapshot, NAMES)
                found = {row[0]: row[: len(NAMES)] for row in rows}
                differ += len(rows) - len(found)
                differ += sum(wanted.get(k) != found.get(k) for k in wanted.keys() | found.keys())
            compared += 1
    return compared, differ


def _moments(table: Table, topic: str) -> list[Moment]:
    """All snapshots that brought changes, in order."""
    ends: dict[int, int] = {}
    found: list[Moment] = []
    for snapshot in table.snapshots():
        told = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if _ENDS in told:
            parts = json.loads(told[_ENDS]).get(topic, {})
            ends = {**ends, **{int(number): end for number, end in parts.items()}}
            found.append((snapshot.snapshot_id, ends))
    return found


def _folded(log: dict[int, list[Change]], ends: dict[int, int]) -> dict[int, list[Any]]:
    rows: dict[int, list[Any]] = {}
    for partition, end in ends.items():
        for offset, operation, key, row in log.get(partition, ()):
            if offset >= end:
                break
            if operation == "t":
                rows.clear()
            elif row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
    return rows


def _log(brokers: str, topic: str) -> dict[int, list[Change]]:
    """All changes of a topic, by partition."""
    settings = {
        "bootstrap.servers": brokers,
        "group.id": secrets.token_hex(8),
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        numbers = list(consumer.list_topics(topic, 10).topics[topic].partitions)
        return {number: list(_changes(consumer, topic, number)) for number in numbers}
    finally:
        consumer.close()


def _changes(consumer: Consumer, topic: str, number: int) -> Iterator[Change]:
    part = TopicPartition(topic, number, 0)
    _, end = consumer.get_watermark_offsets(part, 10)
    consumer.assign([part])
    at = 0
    while at < end:
        messages: Sequence[Any] = consumer.consume(1000, _POLL_S)
        if not messages:
            raise AssertionError(f"{topic}[{number}] ends at {at}, not at {end}")
        for message in messages:
            at = message.offset() + 1
            if message.value() is None:
                continue
            event = json.loads(message.value())["payload"]
            row = event["after"]
            told = row or event["before"]
            key = 0 if told is None else told["id"]
            values = None if row is None else [row[name] for name in NAMES]
            yield message.offset(), event["op"], key, values
