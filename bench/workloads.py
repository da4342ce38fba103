"""What the benchmarks read: events of a shape, spread over partitions, some of them dirty.

Every workload is a rule from an event's number to its bytes, so that what has to come out is
computed from the rule and not from what was read. `python -m bench.workloads --share 0/2 ...`
fills a topic's share; `fill_topic` runs one such process a core.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.event_formats import encoder
from bench.standard_events import (
    BATCH,
    FIRST_ID,
    HOUR_MS,
    START_MS,
    TEMPLATES,
    event_templates,
    produce_payloads,
    template_of,
)

PRODUCERS = 2
APPS = (b'"app":"web-front"', b'"app":"ios-phone"', b'"app":"ios-table"')
DIRTY_KINDS = 4


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of topic.

    Attributes:
        shape: Of the events, a key of `SHAPES`.
        hours: Event time covers so many hours.
        mixed_hours: All hours are in every batch; else event time rises over them.
        values: The column `app` has so many values and partitions the table; 0 is by hour.
        dirty_one_in: Every so manieth event is dirty; 0 is none.
        divisor: Its topics have so many times fewer records than those of the others.
        parts: Partition columns by event time and their patterns, where `values` is 0.
        part_ms: Event time of one partition.
        summed: Columns whose sums are compared.
        format: Of the payloads; see `event_formats`.
    """

    shape: str = "standard"
    hours: int = 24
    mixed_hours: bool = False
    values: int = 0
    dirty_one_in: int = 0
    divisor: int = 1
    parts: tuple[tuple[str, str], ...] = (("dt", "yyyyMMdd"), ("hr", "HH"))
    part_ms: int = HOUR_MS
    summed: tuple[str, ...] = ("quantity", "amount", "user_id")
    format: str = "json"

    @property
    def partitions(self) -> int:
        """Of the table, when every event is in it."""
        return self.values or self.hours * HOUR_MS // self.part_ms


WORKLOADS = {
    "standard": Workload(),
    "narrow": Workload("narrow", summed=("sensor",)),
    "wide": Workload("wide", divisor=4, summed=("count_00", "count_18")),
    "dirty_1pct": Workload(dirty_one_in=100),
    "hours_24": Workload(mixed_hours=True),
    "values_1000": Workload(values=1_000),
    "dirty_all": Workload(dirty_one_in=1, divisor=4),
    # An hour of bids, a partition for each minute.
    "bids": Workload(
        "bids",
        hours=1,
        parts=(("dt", "yyyy-MM-dd"), ("hm", "HHmm")),
        part_ms=60_000,
        summed=("auction", "price"),
    ),
    "taxi": Workload("taxi", summed=("passenger_count", "pickup_location_id")),
    "debezium": Workload(format="debezium"),
    "avro": Workload(format="avro"),
    "protobuf": Workload(format="protobuf"),
    "csv": Workload("plain", format="csv"),
}
FORMATS = {"json": "standard", **{name: name for name in ("debezium", "avro", "protobuf", "csv")}}
"""The workload of each format."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What has to be in the table, or is.

    Attributes:
        rows: Clean ones.
        ids: Distinct ones.
        id_sum: Over all rows.
        ts_sum: Over all rows.
        sums: Of the workload's columns, in its order.
        partitions: Folders with rows.
    """

    rows: int
    ids: int
    id_sum: int
    ts_sum: int
    sums: tuple[Decimal, ...]
    partitions: int


def workload_events(
    workload: Workload, count: int, *, share: tuple[int, int] = (0, 1)
) -> Iterator[tuple[int, bytes]]:
    """Make events; the same arguments give the same bytes.

    Args:
        workload: The rule.
        count: How many in the whole set.
        share: `(number, of)`: only this share of the runs of `BATCH` events.

    Yields:
        Number and payload.
    """
    templates = _templates(workload.shape, with_values=workload.values > 0)
    number, of = share
    encode = encoder(workload.format, workload.shape) if workload.format != "json" else None
    for begin in range(number * BATCH, count, of * BATCH):
        for index in range(begin, min(begin + BATCH, count)):
            holes: tuple[int, ...] = (FIRST_ID + index, _time_ms(workload, index, count))
            if encode is not None:
                yield index, encode(template_of(index), holes[0], holes[1])
                continue
            if workload.values:
                holes += (index * 7_919 % workload.values,)
            payload = templates[template_of(index)] % holes
            if workload.dirty_one_in and index % workload.dirty_one_in == 0:
                payload = _dirty(payload, index // workload.dirty_one_in % DIRTY_KINDS)
            yield index, payload


def _time_ms(workload: Workload, index: int, count: int) -> int:
    if workload.mixed_hours:
        return START_MS + index % workload.hours * HOUR_MS + index % HOUR_MS
    return START_MS + index * workload.hours * HOUR_MS // count


def _dirty(payload: bytes, kind: int) -> bytes:
    """No number, one beyond the type, one that would lose a digit, half a payload."""
    if kind == 0:
        return payload.replace(b'"quantity":', b'"quantity":"x",":":', 1)
    if kind == 1:
        return payload.replace(b'"quantity":', b'"quantity":30000000', 1)
    if kind == 2:  # noqa: PLR2004 - the third of them
        return payload.replace(b'"amount":', b'"amount":0.125,":":', 1)
    return payload[: len(payload) // 2]


@cache
def _templates(shape: str, *, with_values: bool) -> tuple[bytes, ...]:
    templates = event_templates(shape)
    if not with_values:
        return templates
    changed = []
    for template in templates:
        text = template
        for app in APPS:
            text = text.replace(app, b'"app":"app-%05d"')
        changed.append(text)
    return tuple(changed)


def expected_totals(workload: Workload, count: int) -> Totals:
    """What a table has to hold that took in all events of a workload."""
    numbers = np.arange(count, dtype=np.int64)
    if workload.dirty_one_in:
        numbers = numbers[numbers % workload.dirty_one_in != 0]
    used = np.bincount(template_of(numbers), minlength=TEMPLATES)
    members = [
        json.loads(template % (FIRST_ID, START_MS), parse_float=Decimal)
        for template in _templates(workload.shape, with_values=False)
    ]
    times = _times_ms(workload, numbers, count)
    sums = tuple(
        sum((Decimal(m[name]) * int(n) for m, n in zip(members, used, strict=True)), Decimal(0))
        for name in workload.summed
    )
    if workload.values:
        partitions = len(np.unique(numbers * 7_919 % workload.values))
    else:
        partitions = len(np.unique(times // workload.part_ms))
    return Totals(
        rows=len(numbers),
        ids=len(numbers),
        id_sum=int(numbers.sum()) + len(numbers) * FIRST_ID,
        ts_sum=int((times - START_MS).sum()) + len(numbers) * START_MS,
        sums=sums,
        partitions=partitions,
    )


def _times_ms(workload: Workload, numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    if workload.mixed_hours:
        return START_MS + numbers % workload.hours * HOUR_MS + numbers % HOUR_MS
    return START_MS + numbers * workload.hours * HOUR_MS // count


def fill_topic(bootstrap_servers: str, topic: str, name: str, count: int) -> float:
    """Fill an existing topic with a workload, with one producer a core.

    Returns:
        Seconds until the last event was acknowledged.

    Raises:
        RuntimeError: A producer failed.
    """
    began = time.monotonic()
    options = ["--topic", topic, "--workload", name, "--count", str(count)]
    command = [sys.executable, "-m", "bench.workloads", "--bootstrap-servers", bootstrap_servers]
    producers = [
        subprocess.Popen(
            [*command, *options, "--share", f"{number}/{PRODUCERS}"],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.DEVNULL,
        )
        for number in range(PRODUCERS)
    ]
    codes = [producer.wait() for producer in producers]
    if any(codes):
        raise RuntimeError(f"{topic}: producers ended with {codes}")
    return time.monotonic() - began


def main() -> int:
    """Produce one share of a workload."""
    parser = argparse.ArgumentParser(prog="python -m bench.workloads")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="standard")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--share", default="0/1", metavar="NUMBER/OF")
    given = parser.parse_args()
    number, of = map(int, given.share.split("/"))
    events = workload_events(WORKLOADS[given.workload], given.count, share=(number, of))
    produce_payloads(given.bootstrap_servers, given.topic, events)
    return 0


if __name__ == "__main__":
    sys.exit(main())
