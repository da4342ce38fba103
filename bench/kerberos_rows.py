"""What the runs with Kerberos on clusters share: rows that come, a reader of its own, secrets."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from bench.run_failed import RunFailedError
from sluiceway.lab.lab import LabEndpoints

TOPIC = "orders"
PARTITIONS = 4
_MOST = 2**63 - 1


def orders_command(endpoints: LabEndpoints, count: int, seconds: int) -> list[str]:
    """A command that writes so many orders within so many seconds."""
    return [
        *(sys.executable, "-m", "sluiceway.lab.order_events", "--topic", TOPIC),
        *("--partitions", str(PARTITIONS), "--bootstrap-servers", endpoints.bootstrap_servers),
        *("--count", str(count), "--seconds", str(seconds)),
    ]


def refuse_shown_tokens(folder: Path, contents: set[bytes]) -> None:
    """Look for tokens' passwords in logs, event logs and files of the driver.

    Raises:
        RunFailedError: One of them shows one.
    """
    for path in folder.rglob("*"):
        if not path.is_file() or "hdfs-tokens-" in path.name or "lab" in path.parts:
            continue
        text = path.read_bytes()
        for content in contents:
            # The last 20 bytes before kind and service are the password.
            secret = content[content.index(b"HDFS_DELEGATION_TOKEN") - 21 :][:20]
            if secret in text or secret.hex().encode() in text:
                raise RunFailedError(f"{path} shows a token's password")


def counted_rows(endpoints: LabEndpoints, copy: Path, count: int) -> dict[str, int]:
    """Records of the topic in the table's files, by a reader that knows nothing of the ledger."""
    if endpoints.hdfs is None:
        raise RunFailedError("the lab has no HDFS")
    endpoints.hdfs.copy(f"{endpoints.hdfs.uri}/warehouse/ods.db/{TOPIC}", copy)
    seen: Counter[tuple[int, int]] = Counter()
    for file in copy.rglob("*.parquet"):
        if any(part.startswith(("_", ".")) for part in file.relative_to(copy).parts):
            continue
        table = pq.ParquetFile(file).read(columns=["_partition", "_offset"]).to_pydict()
        seen.update(zip(table["_partition"], table["_offset"], strict=True))
    wanted = {place for place, payload in _topic(endpoints.bootstrap_servers) if _fits(payload)}
    return {
        "records": count,
        "rows": len(seen),
        "dirty": count - len(wanted),
        "lost": len(wanted - seen.keys()),
        "not_wanted": len(seen.keys() - wanted),
        "doubled": sum(seen.values()) - len(seen),
    }


def _topic(servers: str) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Where each record of the topic is, and its payload."""
    settings = {"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        for number in range(PARTITIONS):
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, number), 30)
            consumer.assign([TopicPartition(TOPIC, number, 0)])
            at = 0
            while at < end:
                for message in consumer.consume(10_000, 10):
                    if message.error():
                        raise RunFailedError(str(message.error()))
                    at = int(message.offset() or 0) + 1
                    yield (number, at - 1), message.value() or b""
    finally:
        consumer.close()


def _fits(payload: bytes) -> bool:
    """Whether the table takes a record: two numbers of 64 bits, a text or none, none told twice."""
    try:
        pairs = json.loads(payload, object_pairs_hook=list)
    except ValueError:
        return False
    body, names = dict(pairs), [name for name, _ in pairs]
    once = all(names.count(name) <= 1 for name in ("order_id", "ts", "status"))
    numbers = all(
        isinstance(body.get(name), int) and abs(body[name]) <= _MOST for name in ("order_id", "ts")
    )
    return once and numbers and isinstance(body.get("status"), str | None)
