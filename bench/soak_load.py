"""Produces orders in transactions until its standard input ends; one in ten is aborted.

Outages of the broker are outlived. Orders of aborted transactions have negative numbers, so that
one of them in a table is recognised at once. Partitions that are added meanwhile get orders too.

`python -m bench.soak_load SERVERS TOPIC [--rate 1500] [--seed 1]` ends with one JSON line.
"""

import argparse
import json
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice

from confluent_kafka import KafkaException, Producer

from sluiceway.lab.order_events import order_events

START_MS = 1_795_161_600_000
BATCH_S = 0.5
ABORTED = 0.1
SEED_ORDERS = 100_000
TIMEOUT_S = 60.0
METADATA_S = 2.0
PAUSE_S = 0.5
HEADERS = [("source", b"soak"), ("retry", None)]


@dataclass(slots=True)
class Produced:
    """Orders by what became of their transaction, as far as the producer knows."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0


class TransactionalLoad:
    """One transactional producer after another; an error that ends one brings the next."""

    def __init__(self, servers: str, topic: str, seed: int) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "transactional.id": f"soak-{uuid.uuid4().hex}",
            "transaction.timeout.ms": 30_000,
            "compression.type": "lz4",
            "log_level": 0,
        }
        self._topic = topic
        self._random = random.Random(seed)  # noqa: S311 - test data
        self._producer: Producer | None = None
        self._partitions = 1
        self._looked = float("-inf")
        self.produced = Produced()

    def send(self, payloads: list[bytes]) -> None:
        """Send a batch in one transaction that is committed or aborted."""
        # However few they are, one is aborted: a run without would show nothing of it.
        first = bool(self.produced.committed) and not self.produced.aborted
        abort = first or self._random.random() < ABORTED
        if abort:
            payloads = [each.replace(b'"order_id":', b'"order_id":-', 1) for each in payloads]
        try:
            producer = self._ready()
            self._fill(producer, payloads)
            if abort:
                producer.abort_transaction(TIMEOUT_S)
                self.produced.aborted += len(payloads)
            else:
                producer.commit_transaction(TIMEOUT_S)
                self.produced.committed += len(payloads)
        except (KafkaException, BufferError):
            # Whether it landed, the broker knows. A new producer of the same id ends it.
            self.produced.unknown += len(payloads)
            self._producer = None
            time.sleep(PAUSE_S)

    def _ready(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._settings)
            producer.init_transactions(TIMEOUT_S)
            self._producer = producer
        if time.monotonic() - self._looked > METADATA_S:
            found = self._producer.list_topics(self._topic, timeout=TIMEOUT_S)
            self._partitions = max(1, len(found.topics[self._topic].partitions))
            self._looked = time.monotonic()
        return self._producer

    def _fill(self, producer: Producer, payloads: list[bytes]) -> None:
        producer.begin_transaction()
        for payload in payloads:
            producer.produce(
                self._topic,
                payload,
                key=b"%d" % self._random.randrange(50_000),
                partition=self._random.randrange(self._partitions),
                headers=HEADERS if self._random.random() < ABORTED else [],
            )
            producer.poll(0)


def endless_orders(seed: int) -> Iterator[bytes]:
    """Orders out of order over three hours, 0.1 % of them broken, for ever."""
    for more in count(seed * 10_000):
        yield from order_events(SEED_ORDERS, more, START_MS)


def main() -> int:
    """Produce at a steady pace until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak_load")
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--rate", type=int, default=1_500, help="orders a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    load = TransactionalLoad(given.servers, given.topic, given.seed)
    orders = endless_orders(given.seed)
    while not ended.is_set():
        began = time.monotonic()
        load.send(list(islice(orders, int(given.rate * BATCH_S))))
        ended.wait(max(0.0, BATCH_S - (time.monotonic() - began)))
    print(json.dumps(asdict(load.produced)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
