"""Topics of different shapes, the routes that take them into tables, and their producer.

A kind is a shape (narrow, nested, wide, strings) and a way to partition (by hour of the event
time, by a column, not at all). Every event has a unique `id` and a `ts` that rises much faster
than the clock, so that new partitions keep coming. One event in a hundred is broken; of the
poisoned topic all are.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

START_MS = 1_795_132_800_000
HOUR_MS = 3_600_000
TEMPLATES = 64
BROKEN_EVERY = 100
TICK_S = 0.1
REQUEST_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 120.0
LOG_PARTITIONS = 3
HOURS_OF_RUN = 4
HOURS_OF_DROPPED_TABLE = 24
WORDS = ("harbour", "Straße", "川の流れ", "naïve", "plain", "Ωmega", "тест", "\u00a0space", "🚰")
ID_MARK, TS_MARK = "@id@", "@ts@"

Members = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of event: Hive types of its fields, and what makes an event's members."""

    columns: dict[str, str]
    members: Callable[[random.Random], Members]


def _text(rng: random.Random, words: int = 2) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def _narrow(rng: random.Random) -> Members:
    return {"value": rng.randrange(10**6) / 8, "ok": rng.random() < 1 / 2}


def _nested(rng: random.Random) -> Members:
    return {
        "amount": f"{rng.randrange(10**6)}.{rng.randrange(10, 100)}",
        "device": {"os": _text(rng, 1), "screen": {"w": rng.randrange(4000), "h": None}},
        "tags": [_text(rng, 1) for _ in range(rng.randrange(4))],
        "notes": {_text(rng, 1): rng.randrange(100) for _ in range(rng.randrange(3))},
    }


def _wide(rng: random.Random) -> Members:
    members: Members = {}
    for number in range(8):
        members[f"count_{number}"] = rng.randrange(2**62)
        members[f"ratio_{number}"] = rng.randrange(10**6) / 64
        members[f"label_{number}"] = _text(rng) if rng.random() < 1 / 2 else None
    return members


def _strings(rng: random.Random) -> Members:
    return {f"text_{number}": _text(rng, rng.randrange(1, 6)) for number in range(6)}


SHAPES = {
    "narrow": Shape({"value": "double", "ok": "boolean"}, _narrow),
    "nested": Shape(
        {
            "amount": "decimal(18,2)",
            "device": "struct<os:string,screen:struct<w:int,h:int>>",
            "tags": "array<string>",
            "notes": "map<string,bigint>",
        },
        _nested,
    ),
    "wide": Shape(
        {
            f"{name}_{number}": kind
            for number in range(8)
            for name, kind in (("count", "bigint"), ("ratio", "double"), ("label", "string"))
        },
        _wide,
    ),
    "strings": Shape({f"text_{number}": "string" for number in range(6)}, _strings),
}
PARTITIONINGS: dict[str, list[dict[str, str]]] = {
    "column": [{"name": "app_key", "column": "app"}],
    "hour": [{"name": "dt", "event_time": "yyyyMMdd"}, {"name": "hr", "event_time": "HH"}],
    "flat": [],
}
# Neighbours differ in both, so that few topics have all shapes and all ways.
KINDS = [
    (shape, way)
    for _, shape, way in zip(range(12), cycle(SHAPES), cycle(PARTITIONINGS), strict=False)
]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, and what becomes of it.

    Attributes:
        name: Of the topic and, in the database `ods`, of its table.
        listed: Whether the job file lists it; the others match a pattern.
        poisoned: Whether all of its events are broken.
        dropped: Whether its table is dropped in mid-run.
        hours: Hours of event time in the run.
    """

    name: str
    shape: str
    way: str
    listed: bool
    poisoned: bool = False
    dropped: bool = False
    hours: int = HOURS_OF_RUN

    @property
    def route(self) -> str:
        """Name that its route gets."""
        return f"ods-{self.name}"

    def columns(self) -> dict[str, str]:
        """Columns of the table that come from the payload."""
        return {"id": "bigint", "ts": "bigint", "app": "string", **SHAPES[self.shape].columns}

    def partition_by(self) -> dict[str, str]:
        """Partition column to a pattern of event time or `column:<name>`."""
        return {
            part["name"]: part.get("event_time") or f"column:{part['column']}"
            for part in PARTITIONINGS[self.way]
        }


def make_topics(count: int, added: int) -> tuple[list[Topic], list[Topic]]:
    """The topics that are there at the start, and those that come later.

    A third is listed. The first listed one is poisoned, the table of the second one is dropped.
    """
    listed = max(3, count // 3)
    first = [
        _topic(number, listed=number < listed, poisoned=number == 0, dropped=number == 1)
        for number in range(count)
    ]
    return first, [_topic(number, listed=False) for number in range(count, count + added)]


def _topic(number: int, *, listed: bool, poisoned: bool = False, dropped: bool = False) -> Topic:
    shape, way = KINDS[number % len(KINDS)]
    return Topic(
        name=f"own_{number:03}" if listed else f"{shape}_{way}_{number:03}",
        shape=shape,
        way=way,
        listed=listed,
        poisoned=poisoned,
        dropped=dropped,
        hours=HOURS_OF_DROPPED_TABLE if dropped else HOURS_OF_RUN,
    )


def route_entries(topics: Sequence[Topic]) -> Iterator[dict[str, Any]]:
    """Items of the block `routes`: one a listed topic, one a kind for all others."""
    for topic in topics:
        if topic.listed:
            yield _entry(topic, [topic.name], topic.name)
    for shape, way in KINDS:
        example = Topic(f"{shape}_{way}", shape, way, listed=False)
        yield _entry(example, f"{example.name}_(.*)", f"{example.name}_{{1}}")


def _entry(topic: Topic, topics: list[str] | str, table: str) -> dict[str, Any]:
    required = ("id", "ts")
    entry: dict[str, Any] = {
        "topics": topics,
        "table": {
            "hive": {"name": f"ods.{table}"},
            "columns": [
                {"name": name, "type": kind, "required": name in required}
                for name, kind in topic.columns().items()
            ],
            "partition_by": PARTITIONINGS[topic.way],
        },
    }
    if topic.way == "hour":
        entry["event_time"] = {"field": "ts", "unit": "ms"}
    return entry


# ---- producing -----------------------------------------------------------------------------


def _templates(topic: Topic) -> tuple[list[bytes], list[bytes]]:
    """Good and broken events, with holes for id and ts."""
    rng = random.Random(topic.name)  # noqa: S311 - test data
    good = []
    for number in range(TEMPLATES):
        app = f"app-{number % 3}"
        members = {"id": ID_MARK, "ts": TS_MARK, "app": app, **SHAPES[topic.shape].members(rng)}
        text = json.dumps(members, ensure_ascii=number % 2 == 0).replace("%", "%%")
        text = text.replace(f'"{ID_MARK}"', "%d").replace(f'"{TS_MARK}"', "%d")
        good.append(text.encode())
    broken = [
        b'{"id": %d, "ts": %d',
        b'{"id": "%d is no number", "ts": %d}',
        b'{"id": [%d], "ts": %d}',
        b'[{"id": %d, "ts": %d}]',
        b'{"ids": %d, "ts": %d}',
        b'\xff{"id": %d, "ts": %d}',
    ]
    return good, broken


@dataclass(slots=True)
class _Stream:
    """One topic while it is produced."""

    topic: Topic
    events: Iterator[bytes]
    partitions: int
    began: float
    sent: int = 0


class PacedProducer:
    """Produces into topics that may be added, at a fixed rate each, from a thread of its own.

    Args:
        bootstrap_servers: The broker.
        rate: Events a second and topic.
        seconds: Over how long the hours of event time are spread.
    """

    def __init__(self, bootstrap_servers: str, *, rate: float, seconds: float) -> None:
        self._rate = rate
        self._ms_of_hour_per_s = HOUR_MS / seconds
        self._streams: dict[str, _Stream] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self.acked: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                "linger.ms": 50,
                "compression.type": "lz4",
                "topic.metadata.refresh.interval.ms": 1_000,
                "on_delivery": self._on_delivery,
            }
        )

    def start(self) -> None:
        """Begin to produce. Called once."""
        self._thread.start()

    def add(self, topics: Sequence[Topic]) -> None:
        """Produce into these existing topics from now on."""
        for topic in topics:
            partitions = self._known_partitions(topic.name, 1)
            with self._lock:
                self._streams[topic.name] = _Stream(
                    topic, _events(topic), partitions, time.monotonic()
                )

    def take_partitions(self, topic: Topic, wanted: int) -> None:
        """Use the partitions that a topic has got."""
        self._known_partitions(topic.name, wanted)
        with self._lock:
            self._streams[topic.name].partitions = wanted

    def end(self) -> None:
        """Stop, and wait until every event is acknowledged or refused. Safe to repeat."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._producer.flush(FLUSH_TIMEOUT_S):
            raise TimeoutError("events are not acknowledged in time")

    def _known_partitions(self, topic: str, wanted: int) -> int:
        """How many there are; waits until the producer knows of as many as are wanted."""
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while (found := self._partitions(topic)) < wanted:
            if time.monotonic() > until:
                raise TimeoutError(f"{topic} has not got its partition {wanted - 1}")
            time.sleep(0.1)
        return found

    def _partitions(self, topic: str) -> int:
        return len(self._producer.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic].partitions)

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            with self._lock:
                streams = list(self._streams.values())
            for stream in streams:
                self._send(stream)
            self._producer.poll(0)

    def _send(self, stream: _Stream) -> None:
        seconds = time.monotonic() - stream.began
        ts = START_MS + int(seconds * self._ms_of_hour_per_s * stream.topic.hours)
        while stream.sent < seconds * self._rate:
            payload = next(stream.events) % (stream.sent, ts)
            try:
                self._producer.produce(
                    stream.topic.name, payload, partition=stream.sent % stream.partitions
                )
            except BufferError:
                self._producer.poll(TICK_S)
            else:
                stream.sent += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        (self.acked if error is None else self.refused)[str(message.topic())] += 1


def _events(topic: Topic) -> Iterator[bytes]:
    good, broken = _templates(topic)
    if topic.poisoned:
        yield from cycle(broken)
    fine, bad = cycle(good), cycle(broken)
    number = 0
    while True:
        number += 1
        yield next(bad) if number % BROKEN_EVERY == 0 else next(fine)
