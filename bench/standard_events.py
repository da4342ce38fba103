"""The benchmarks' events: six shapes of JSON, the same bytes on every machine.

`standard` is 455 bytes, 14 fields with a struct, a list and a decimal; `plain` is the same
without what is nested, 350 bytes; `narrow` is 120 bytes;
`wide` is 2 KB with 60 fields. `bids` are those of Nexmark, whose query 10 reads five of their seven
fields; here each has a bidder of its own. `taxi` has the 29 columns of OLake's trips, with the
types of its Flink job. Both have their time in milliseconds, where the originals have text. Every
event has a unique id and a time that rises over the hours asked for. Rows of a shape differ
in 4,096 ways beyond that, so that compression has work to do.

`python -m bench.standard_events --bootstrap-servers HOST:PORT --topic events --count 4000000`
produces them, spread evenly over the topic's partitions.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray

FIRST_ID = 1_000_000_000
START_MS = 1_795_132_800_000
HOUR_MS = 3_600_000
TEMPLATES = 4_096
BATCH = 2_000
REQUEST_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 300.0
WORDS = ("alpha", "bravo", "delta", "gamma", "kappa", "omega", "sigma", "theta")
ID_MARK, TS_MARK = "@id@", "@ts@"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of event.

    Attributes:
        columns: Hive types of the fields that a table reads, in order.
        size_bytes: Of every payload.
        members: Makes one event's members, the id first and then the time, as marks.
        keys: Names of the id and of the time.
    """

    columns: dict[str, str]
    size_bytes: int
    members: Callable[[random.Random], dict[str, Any]]
    keys: tuple[str, str] = ("id", "ts")


def _word(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(WORDS) for _ in range(length // 5 + 1))[:length]


def _standard(rng: random.Random) -> dict[str, Any]:
    return {
        "id": ID_MARK,
        "ts": TS_MARK,
        "user_id": rng.randrange(10**8, 10**9),
        "session": f"{rng.getrandbits(128):032x}",
        "event": rng.choice(("view_", "click", "order", "share")),
        "app": rng.choice(("web-front", "ios-phone", "ios-table")),
        "amount": f"@{rng.randrange(1_000, 10_000)}.{rng.randrange(10, 100)}@",
        "currency": rng.choice(("CNY", "EUR", "USD")),
        "quantity": rng.randrange(10, 100),
        "score": rng.randrange(100_001, 999_999, 2) / 1e6,
        "active": rng.random() < 1 / 2,
        "device": {
            "os": rng.choice(("linux", "macos", "winnt")),
            "version": f"{rng.randrange(10, 99)}.{rng.randrange(10, 99)}",
            "width": rng.randrange(1000, 4000),
            "height": rng.randrange(1000, 4000),
        },
        "tags": [_word(rng, 10) for _ in range(3)],
        "url": "",
    }


def _plain(rng: random.Random) -> dict[str, Any]:
    members = _standard(rng)
    return {name: members[name] for name in members if name not in ("device", "tags")}


def _narrow(rng: random.Random) -> dict[str, Any]:
    return {
        "id": ID_MARK,
        "ts": TS_MARK,
        "sensor": rng.randrange(10_000, 100_000),
        "value": rng.randrange(100_001, 999_999, 2) / 1e3,
        "ok": True,
        "note": "",
    }


def _wide(rng: random.Random) -> dict[str, Any]:
    members: dict[str, Any] = {"id": ID_MARK, "ts": TS_MARK}
    for index in range(19):
        members[f"count_{index:02}"] = rng.randrange(10**9, 10**10)
        members[f"ratio_{index:02}"] = rng.randrange(100_001, 999_999, 2) / 1e6
        members[f"label_{index:02}"] = _word(rng, 25)
    return members | {"note": ""}


def _bids(rng: random.Random) -> dict[str, Any]:
    return {
        "bidder": ID_MARK,
        "date_time": TS_MARK,
        "auction": rng.randrange(10**7, 10**8),
        "price": rng.randrange(10**5, 10**7),
        "channel": rng.choice(("Apple", "Google", "Facebook", "Baidu")),
        "url": f"https://www.nexmark.com/{_word(rng, 15)}/item.htm?query=1",
        "extra": "",
    }


def _taxi(rng: random.Random) -> dict[str, Any]:
    members: dict[str, Any] = {"id": ID_MARK, "pickup_datetime": TS_MARK}
    for name, kind in TAXI.items():
        members[name] = rng.randrange(1_001, 5_999, 2) / 100 if kind == "double" else 1
    for end in ("pickup", "dropoff"):
        members[f"{end}_longitude"] = round(-74 + rng.randrange(1, 900_000, 2) / 1e6, 6)
        members[f"{end}_latitude"] = round(40 + rng.randrange(100_001, 999_999, 2) / 1e6, 6)
        members[f"{end}_nyct2010_gid"] = rng.randrange(1_000, 2_168)
        members[f"{end}_location_id"] = rng.randrange(100, 266)
    for name in ("cab_type_id", "vendor_id", "rate_code_id", "passenger_count", "payment_type"):
        members[name] = rng.randrange(1, 7)
    clock = f"{rng.randrange(10, 24)}:{rng.randrange(10, 60)}:{rng.randrange(10, 60)}"
    ended = {"store_and_fwd_flag": False, "dropoff_datetime": f"2026-11-20 {clock}"}
    return members | ended


TAXI = {
    **dict.fromkeys(("cab_type_id", "vendor_id"), "int"),
    "store_and_fwd_flag": "boolean",
    "rate_code_id": "int",
    **dict.fromkeys(
        (f"{end}_{of}" for end in ("pickup", "dropoff") for of in ("longitude", "latitude")),
        "double",
    ),
    "passenger_count": "int",
    **dict.fromkeys(
        (
            *("trip_distance", "fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount"),
            *("ehail_fee", "improvement_surcharge", "congestion_surcharge", "airport_fee"),
            "total_amount",
        ),
        "double",
    ),
    **dict.fromkeys(("payment_type", "trip_type"), "int"),
    **dict.fromkeys(
        (f"{end}_{of}" for of in ("nyct2010_gid", "location_id") for end in ("pickup", "dropoff")),
        "int",
    ),
}
"""Columns of a trip without its id and its two times. Source: OLake's benchmark of Kafka."""

SHAPES = {
    "standard": Shape(
        {
            "id": "bigint",
            "ts": "bigint",
            "user_id": "bigint",
            "session": "string",
            "event": "string",
            "app": "string",
            "amount": "decimal(18,2)",
            "currency": "string",
            "quantity": "int",
            "score": "double",
            "active": "boolean",
            "device": "struct<os:string,version:string,width:int,height:int>",
            "tags": "array<string>",
            "url": "string",
        },
        455,
        _standard,
    ),
    "plain": Shape(
        {
            "id": "bigint",
            "ts": "bigint",
            "user_id": "bigint",
            "session": "string",
            "event": "string",
            "app": "string",
            "amount": "decimal(18,2)",
            "currency": "string",
            "quantity": "int",
            "score": "double",
            "active": "boolean",
            "url": "string",
        },
        350,
        _plain,
    ),
    "narrow": Shape(
        {
            "id": "bigint",
            "ts": "bigint",
            "sensor": "int",
            "value": "double",
            "ok": "boolean",
            "note": "string",
        },
        120,
        _narrow,
    ),
    "wide": Shape(
        {
            "id": "bigint",
            "ts": "bigint",
            **{
                f"{name}_{index:02}": kind
                for index in range(19)
                for name, kind in (("count", "bigint"), ("ratio", "double"), ("label", "string"))
            },
            "note": "string",
        },
        2_048,
        _wide,
    ),
    "bids": Shape(
        {
            "bidder": "bigint",
            "date_time": "bigint",
            "auction": "bigint",
            "price": "bigint",
            "extra": "string",
        },
        240,
        _bids,
        ("bidder", "date_time"),
    ),
    "taxi": Shape(
        {"id": "bigint", "pickup_datetime": "bigint", **TAXI, "dropoff_datetime": "string"},
        669,
        _taxi,
        ("id", "pickup_datetime"),
    ),
}


@cache
def event_templates(shape_name: str) -> tuple[bytes, ...]:
    """Events with holes for id and ts; the last field fills each up to the shape's size."""
    shape = SHAPES[shape_name]
    rng = random.Random(455)  # noqa: S311 - test data
    holes = len(str(FIRST_ID)) + len(str(START_MS)) - len("%d%d")
    found = []
    for _ in range(TEMPLATES):
        members = shape.members(rng)
        last = next(reversed(members))
        text = json.dumps(members, separators=(",", ":"))
        for mark in (ID_MARK, TS_MARK):
            text = text.replace(f'"{mark}"', "%d")
        text = text.replace('"@', "").replace('@"', "")
        filler = _word(rng, shape.size_bytes - holes - len(text))
        found.append(text.replace(f'"{last}":""', f'"{last}":"{filler}"').encode())
    return tuple(found)


Number = TypeVar("Number", int, NDArray[np.int64])


def template_of(index: Number) -> Number:
    """Which template an event, or each of several, is made from."""
    return index * 2_654_435_761 % TEMPLATES


def bench_events(
    count: int, *, shape: str = "standard", hours: int = 24, first: int = 0
) -> Iterator[bytes]:
    """Make events; the same arguments give the same bytes.

    Args:
        count: How many in the whole set.
        shape: A key of `SHAPES`.
        hours: Event time rises from `START_MS` over so many hours.
        first: Position of the first one that is wanted.

    Yields:
        Events `first` to `count`, each exactly of the shape's size.
    """
    templates = event_templates(shape)
    span = hours * HOUR_MS
    for index in range(first, count):
        yield templates[template_of(index)] % (
            FIRST_ID + index,
            START_MS + index * span // count,
        )


def expected_id_sum(count: int) -> int:
    """Sum of the ids of `count` events, to check what arrived."""
    return count * FIRST_ID + count * (count - 1) // 2


def create_topic(bootstrap_servers: str, topic: str, *, partitions: int) -> None:
    """Create a topic that does not exist yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(REQUEST_TIMEOUT_S)


def produce_events(
    bootstrap_servers: str, topic: str, *, count: int, shape: str = "standard", hours: int = 24
) -> float:
    """Produce events as fast as it goes, in runs over all partitions of an existing topic.

    Returns:
        Seconds until the last one was acknowledged.

    Raises:
        RuntimeError: An event was refused or is not acknowledged in time.
    """
    events = enumerate(bench_events(count, shape=shape, hours=hours))
    return produce_payloads(bootstrap_servers, topic, events)


def produce_payloads(
    bootstrap_servers: str, topic: str, payloads: Iterable[tuple[int, bytes]]
) -> float:
    """Produce numbered payloads; the number decides about the partition.

    Returns:
        Seconds until the last one was acknowledged.

    Raises:
        RuntimeError: One was refused or is not acknowledged in time.
    """
    refused: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "log_level": 3,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 262_144,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    began = time.monotonic()
    partitions = len(producer.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic].partitions)
    for index, payload in payloads:
        partition = index // BATCH % partitions
        while True:
            try:
                producer.produce(topic, payload, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
    waiting = producer.flush(FLUSH_TIMEOUT_S)
    if waiting or refused:
        raise RuntimeError(f"{waiting} events are not acknowledged; refused: {refused[:1]}")
    return time.monotonic() - began


def main() -> int:
    """Read the arguments, produce, print what was done as one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.standard_events")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="standard")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--create", type=int, metavar="PARTITIONS", help="create the topic first")
    given = parser.parse_args()
    if given.create:
        create_topic(given.bootstrap_servers, given.topic, partitions=given.create)
    took = produce_events(
        given.bootstrap_servers,
        given.topic,
        count=given.count,
        shape=given.shape,
        hours=given.hours,
    )
    print(json.dumps({"produced": given.count, "seconds": round(took, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
