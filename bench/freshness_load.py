"""A steady load: so many standard events a second, each with the producer's clock in `ts`.

Run by `steady_load`. A thousand events go out at once, so that the job has something to begin with;
the steady load begins with a line on standard input and ends with its end. Prints how many
events were acknowledged, and how many seconds the steady load took, as one JSON line.
"""

import argparse
import json
import sys
import threading
import time

from confluent_kafka import KafkaError, Producer

from bench.standard_events import FIRST_ID, event_templates, template_of

TICK_S = 0.01
FIRST_EVENTS = 1_000
FLUSH_TIMEOUT_S = 60.0


def produce_steadily(
    servers: str, topic: str, rate: int, told: tuple[threading.Event, threading.Event]
) -> tuple[int, float]:
    """Produce until told to end.

    Args:
        servers: The broker's address.
        topic: An existing one.
        rate: Events a second.
        told: When the steady load begins, and when it ends.

    Returns:
        How many events were acknowledged; their ids are `FIRST_ID` and those after it. Seconds of
        the steady load.

    Raises:
        RuntimeError: One was not acknowledged.
    """
    refused: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "log_level": 3,
            "linger.ms": 5,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    partitions = len(producer.list_topics(topic, FLUSH_TIMEOUT_S).topics[topic].partitions)
    templates = event_templates("standard")
    begun, ended = told
    sent = 0

    def send_up_to(due: int) -> None:
        nonlocal sent
        now_ms = time.time_ns() // 1_000_000
        for index in range(sent, due):
            payload = templates[template_of(index)] % (FIRST_ID + index, now_ms)
            producer.produce(topic, payload, partition=index % partitions)
        sent = max(sent, due)
        producer.poll(0)

    send_up_to(FIRST_EVENTS)
    while not begun.wait(TICK_S):
        producer.poll(0)
    began = time.monotonic()
    while not ended.is_set():
        # What a busy machine held up goes out now, with the time it really has.
        send_up_to(FIRST_EVENTS + int((time.monotonic() - began) * rate))
        ended.wait(TICK_S)
    took_s = time.monotonic() - began
    if producer.flush(FLUSH_TIMEOUT_S) or refused:
        raise RuntimeError(f"events were not acknowledged: {refused[:1]}")
    return sent, took_s


def main() -> int:
    """Read the arguments, produce until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m bench.freshness_load")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, required=True)
    given = parser.parse_args()
    begun, ended = threading.Event(), threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        begun.set()
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    told = (begun, ended)
    sent, took_s = produce_steadily(given.bootstrap_servers, given.topic, given.rate, told)
    print(json.dumps({"sent": sent, "steady": sent - FIRST_EVENTS, "seconds": round(took_s, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
