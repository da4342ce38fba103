"""The demo's events: a shop's orders, nested, out of order, a few of them broken.

Everything follows from a seed. As a program it produces them into a topic at a steady pace:
`python -m sluiceway.lab.order_events --bootstrap-servers HOST:PORT --topic orders --count 200000
--seconds 20`, and prints one JSON line when all are acknowledged.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import cycle
from typing import Any

from confluent_kafka import KafkaError, Producer

from sluiceway.errors import SourceUnavailableError
from sluiceway.lab.kafka import create_topic

HOUR_MS = 3_600_000
SPAN_MS = 3 * HOUR_MS
JITTER_MS = 20 * 60_000
BROKEN_RATIO = 0.001
FIRST_ORDER_ID = 2**53 - 1_000
POOL_SIZE = 1_024
FLUSH_TIMEOUT_S = 120.0
TICK_S = 0.02

COLUMNS: Mapping[str, str] = {
    "order_id": "bigint",
    "user_id": "bigint",
    "ts": "bigint",
    "status": "string",
    "amount": "decimal(18,2)",
    "currency": "string",
    "paid": "boolean",
    "items": "array<struct<sku:string,qty:int,price:decimal(18,2)>>",
    "geo": "struct<city:string,lat:double,lon:double>",
    "tags": "array<string>",
    "app": "string",
}
"""Hive types of an order; `order_id` and `ts` (milliseconds since the epoch) are required."""

CITIES = ("北京", "上海", "São Paulo", "Zürich", "القاهرة", "Москва", "Tromsø", "Lagos")
STATUSES = ("created", "paid", "packed", "shipped 📦", "已送达", 'returned "as new"', None)
CURRENCIES = ("CNY", "EUR", "BRL", "EGP", "USD")
APPS = ("web", "ios", "android", "小程序")
TAGS = ("gift", "首单", "vip ⭐", "line\nbreak", "back\\slash", "", "tab\t", None)
UNKNOWN_MEMBER = '"experiment":{"arm":"b","weights":[0.5,1e-3]},'
SOURCE_HEADERS = (
    [("source", b"gateway-1"), ("content-type", b"application/json")],
    [("source", b"gateway-2"), ("retry", None)],
)


class BrokenKind(StrEnum):
    """Ways in which an order is broken."""

    TRUNCATED = "truncated"
    WORD_AMOUNT = "word_amount"
    FRACTIONAL_INT = "fractional_int"
    NO_ORDER_ID = "no_order_id"
    NO_TS = "no_ts"
    DUPLICATE_KEY = "duplicate_key"
    INVALID_UTF8 = "invalid_utf8"
    INT_OVERFLOW = "int_overflow"
    DECIMAL_OVERFLOW = "decimal_overflow"
    DECIMAL_SCALE = "decimal_scale"


_BROKEN: Mapping[BrokenKind, bytes] = {
    BrokenKind.TRUNCATED: b'{"order_id":%(id)d,"user_id":7,"ts":%(ts)d,"status":"paid","amo',
    BrokenKind.WORD_AMOUNT: b'{"order_id":%(id)d,"ts":%(ts)d,"amount":"abc","currency":"EUR"}',
    BrokenKind.FRACTIONAL_INT: b'{"order_id":%(id)d,"ts":%(ts)d,"amount":20.00,'
    b'"items":[{"sku":"A-1","qty":1,"price":1.60},{"sku":"A-2","qty":12.5,"price":1.60}]}',
    BrokenKind.NO_ORDER_ID: b'{"user_id":7,"ts":%(ts)d,"status":"paid","amount":3.00}',
    BrokenKind.NO_TS: b'{"order_id":%(id)d,"user_id":7,"status":"paid","ts":null}',
    BrokenKind.DUPLICATE_KEY: b'{"order_id":%(id)d,"ts":%(ts)d,"paid":true,"paid":false}',
    BrokenKind.INVALID_UTF8: b'{"order_id":%(id)d,"ts":%(ts)d,"status":"ship\xff\xfeped"}',
    BrokenKind.INT_OVERFLOW: b'{"order_id":9223372036854775808,"ts":%(ts)d,"status":"paid"}',
    BrokenKind.DECIMAL_OVERFLOW: b'{"order_id":%(id)d,"ts":%(ts)d,"amount":10000000000000000.00}',
    BrokenKind.DECIMAL_SCALE: b'{"order_id":%(id)d,"ts":%(ts)d,"amount":0.125}',
}


def broken_positions(
    count: int, seed: int, *, broken_ratio: float = BROKEN_RATIO
) -> dict[int, BrokenKind]:
    """Which of `order_events(count, seed, ...)` are broken, and how.

    Args:
        count: Number of events, at least 0.
        seed: The events' seed.
        broken_ratio: Share of broken events, 0 to 1.

    Returns:
        Position from 0 to kind; `round(count * broken_ratio)` of them, all kinds in turn.
    """
    rng = random.Random(f"broken {seed}")  # noqa: S311 - test data
    chosen = rng.sample(range(count), round(count * broken_ratio))
    return dict(zip(chosen, cycle(BrokenKind), strict=False))


def order_events(
    count: int, seed: int, start_ms: int, broken_ratio: float = BROKEN_RATIO
) -> Iterator[bytes]:
    """Make orders, JSON in UTF-8. The same arguments give the same bytes.

    Args:
        count: How many, at least 0.
        seed: Any integer.
        start_ms: Earliest event time, milliseconds since the epoch. Event times rise over
            `SPAN_MS` from there with up to `JITTER_MS` of disorder and a few stragglers.
        broken_ratio: Share of broken events, 0 to 1.

    Yields:
        One payload an event.
    """
    for _, payload in _keyed_orders(count, seed, start_ms, broken_ratio):
        yield payload


def produce_orders(  # noqa: PLR0913 - options of one program
    bootstrap_servers: str,
    topic: str,
    *,
    count: int,
    seconds: float,
    seed: int = 1,
    start_ms: int,
    halfway: Callable[[], object] | None = None,
) -> float:
    """Produce orders at a steady pace with an idempotent producer; blocks until all are there.

    All payloads are made before the first is sent. Keys are user ids; one event in ten has
    headers.

    Args:
        bootstrap_servers: The broker.
        topic: An existing topic.
        count: How many events.
        seconds: Least duration in seconds; 0 is as fast as possible.
        seed: The events' seed.
        start_ms: Their earliest event time, milliseconds since the epoch.
        halfway: Called when the first half is acknowledged; the second half waits for its return.

    Returns:
        Seconds from the first event to the acknowledgement of the last.

    Raises:
        SourceUnavailableError: An event was refused, or is not acknowledged in time.
    """
    events = list(_keyed_orders(count, seed, start_ms, BROKEN_RATIO))
    refused: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "log_level": 3,
            "linger.ms": 10,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            # The client would call it for each message otherwise, which costs more than producing
            # it.
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    began = time.monotonic()
    if halfway is not None:
        half = len(events) // 2
        seconds /= 2
        _send_paced(producer, topic, events[:half], seconds=seconds)
        _wait_until_acknowledged(producer, topic, refused)
        halfway()
        del events[:half]
    _send_paced(producer, topic, events, seconds=seconds)
    _wait_until_acknowledged(producer, topic, refused)
    return time.monotonic() - began


def _send_paced(
    producer: Any, topic: str, events: list[tuple[bytes, bytes]], *, seconds: float
) -> None:
    began = time.monotonic()
    sent = 0
    while sent < len(events):
        elapsed = time.monotonic() - began
        due = len(events) if elapsed >= seconds else int(len(events) * elapsed / seconds)
        for index in range(sent, due):
            key, payload = events[index]
            headers = SOURCE_HEADERS[index // 10 % 2] if index % 10 == 0 else None
            _produce(producer, topic, key=key, payload=payload, headers=headers)
        sent = due
        producer.poll(TICK_S if sent < len(events) else 0)


def _wait_until_acknowledged(producer: Any, topic: str, refused: list[str]) -> None:
    waiting = producer.flush(FLUSH_TIMEOUT_S)
    if waiting or refused:
        message = f"{waiting} events are not acknowledged, {len(refused)} were refused"
        raise SourceUnavailableError(message, where=topic, hint="; ".join(refused[:1]))


def _produce(
    producer: Any, topic: str, *, key: bytes, payload: bytes, headers: list[Any] | None
) -> None:
    while True:
        try:
            producer.produce(topic, value=payload, key=key, headers=headers or [])
        except BufferError:
            producer.poll(TICK_S)
        else:
            return


def _keyed_orders(
    count: int, seed: int, start_ms: int, broken_ratio: float
) -> Iterator[tuple[bytes, bytes]]:
    """Key and payload of each event: numbers of its own, the rest from two pools."""
    rng = random.Random(seed)  # noqa: S311 - test data
    baskets = [_basket(rng) for _ in range(POOL_SIZE)]
    origins = [_origin(rng) for _ in range(POOL_SIZE)]
    broken = broken_positions(count, seed, broken_ratio=broken_ratio)
    for index in range(count):
        bits = rng.getrandbits(64)
        ts = start_ms + _event_time(index * SPAN_MS // count, bits & 0xFFFFFF)
        user_id = 1 + (bits >> 24) % 50_000
        key = b"%d" % user_id
        order_id = FIRST_ORDER_ID + index
        if (kind := broken.get(index)) is not None:
            yield key, _BROKEN[kind] % {b"id": order_id, b"ts": ts}
            continue
        choice = bits >> 44
        yield (
            key,
            b'{"order_id":%d,"user_id":%b,"ts":%d,%b%b}'
            % (
                order_id,
                key if bits >> 18 & 63 else _rare_user(index, user_id),
                ts,
                baskets[choice % POOL_SIZE],
                origins[choice >> 10],
            ),
        )


def _event_time(progress_ms: int, bits: int) -> int:
    """Milliseconds after the start, in [0, SPAN_MS)."""
    if bits & 127 == 0:
        return bits * 641 % SPAN_MS
    at = abs(progress_ms + bits % (2 * JITTER_MS) - JITTER_MS)
    return at if at < SPAN_MS else 2 * SPAN_MS - 1 - at


def _rare_user(index: int, user_id: int) -> bytes:
    """User ids that careless readers change: beyond a double's integers, 7.0, null."""
    large = b"%d" % (2**53 + 1 + user_id)
    return (large, b"%d.0" % user_id, b"null", b'"%d"' % user_id)[index % 4]


def _chance(rng: random.Random, *, percent: int) -> bool:
    return rng.random() * 100 < percent


def _text(rng: random.Random, value: object) -> str:
    """JSON of a value; non-ASCII raw or escaped."""
    return json.dumps(value, ensure_ascii=_chance(rng, percent=25))


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def _optional(rng: random.Random, name: str, text: str) -> str:
    """A member with a comma; in a few cases null or missing."""
    if _chance(rng, percent=2):
        return ""
    return f'"{name}":null,' if _chance(rng, percent=2) else f'"{name}":{text},'


def _basket(rng: random.Random) -> bytes:
    """Status, amount, currency, paid and items; ends with a comma."""
    items, total = [], 0
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        quantity, cents = rng.randint(1, 9), rng.randint(10, 90_000)
        total += quantity * cents
        shown = f"{quantity}.0" if _chance(rng, percent=2) else str(quantity)
        sku = f"SKU-{rng.randrange(10**6):06}"
        price = "null" if _chance(rng, percent=2) else _money(cents)
        items.append(f'{{"sku":"{sku}","qty":{shown},"price":{price}}}')
    amount = f'"{_money(total)}"' if _chance(rng, percent=2) else _money(total)
    separator = rng.choice((",", ", "))
    return "".join(
        (
            _optional(rng, "status", _text(rng, rng.choice(STATUSES))),
            _optional(rng, "amount", amount),
            _optional(rng, "currency", _text(rng, rng.choice(CURRENCIES))),
            _optional(rng, "paid", rng.choice(("true", "false"))),
            _optional(rng, "items", f"[{separator.join(items)}]"),
        )
    ).encode()


def _origin(rng: random.Random) -> bytes:
    """Geo, tags, sometimes an unknown member, and app; ends without a comma."""
    city = _optional(rng, "city", _text(rng, rng.choice(CITIES)))
    lat, lon = rng.uniform(-90, 90), rng.uniform(-180, 180)
    geo = f'{{{city}"lat":{lat:.6f},"lon":{lon!r}}}'
    tags = _text(rng, rng.sample(TAGS, rng.choice((0, 1, 2, 4))))
    unknown = UNKNOWN_MEMBER if _chance(rng, percent=2) else ""
    app = "null" if _chance(rng, percent=2) else _text(rng, rng.choice(APPS))
    members = _optional(rng, "geo", geo) + _optional(rng, "tags", tags) + unknown
    return f'{members}"app":{app}'.encode()


def main() -> int:
    """Parse the arguments, produce, and print the result as one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m sluiceway.lab.order_events")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, help="create a missing topic with so many")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start-ms", type=int, help="earliest event time; default 3 h ago")
    parser.add_argument(
        "--wait-halfway", action="store_true", help="send the second half after a line on stdin"
    )
    given = parser.parse_args()
    start_ms = given.start_ms
    if start_ms is None:
        start_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - SPAN_MS
    if given.partitions is not None:
        create_topic(given.bootstrap_servers, given.topic, given.partitions)
    took = produce_orders(
        given.bootstrap_servers,
        given.topic,
        count=given.count,
        seconds=given.seconds,
        seed=given.seed,
        start_ms=start_ms,
        halfway=sys.stdin.readline if given.wait_halfway else None,
    )
    done = {
        "produced": given.count,
        "broken": len(broken_positions(given.count, given.seed)),
        "seconds": round(took, 3),
        "start_ms": start_ms,
    }
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
