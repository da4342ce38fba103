"""Where committed ends resume in a mirrored topic, on two real brokers; ends with one JSON line.

Each source partition has a log with transactions, aborted rows and equal rows, and a copy under
other offsets. Some copies end before the committed end, or before its tail. The truth is a number
in each row that no search reads.

`python -m bench.rooms_mapping [--partitions 1000] [--rounds 3]`
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.tidy_end import end_tidily
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import Lab
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.log_tail import RUNS, row_hash, tail_of
from sluiceway.rooms.copy_reader import CopyReader
from sluiceway.rooms.positions import CopiedLog, resume_positions
from sluiceway.sources.contract import SourceIdentity, SourcePartition, Split
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess, open_client
from sluiceway.sources.topic_sample import read_splits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools.row_mirror import RowMirror

TOPIC = "orders"
RULE = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
_ROWS = 60
_NEAR = 12
_SEED = 7
_EQUAL = 9
"""Last digit of partitions most of whose rows are equal."""
_BEATS = 0.9
_AT_ONCE = 50
"""Logs that are read at once: a reader asks for the bounds of each within 5 s."""
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class LogRow:
    """A committed row. `number` is its own, of a header that no search reads."""

    offset: int
    number: int
    row: int
    time_ms: int


def fill(servers: str, partitions: int, dice: random.Random) -> None:
    """Rows of all partitions: plain ones, equal ones, and some in aborted transactions."""
    producer = Producer({BOOTSTRAP_SERVERS: servers, "transactional.id": "fill", "linger.ms": 20})
    producer.init_transactions(_TIMEOUT_S)
    number, time_ms = 0, 1_795_161_600_000
    for _ in range(_ROWS // 10):
        for committed in (True, False):
            producer.begin_transaction()
            for partition in range(partitions):
                for _ in range(10 if committed else 2):
                    beat = partition % 10 == _EQUAL and dice.random() < _BEATS
                    text = b"beat" if beat else b'{"n": %d}' % number
                    time_ms += 0 if beat else 1
                    at = time_ms - time_ms % 1000 if beat else time_ms
                    headers = [("n", b"%d" % number)]
                    producer.produce(TOPIC, text, b"k", partition, timestamp=at, headers=headers)
                    producer.poll(0)
                    number += 1
            producer.flush(_TIMEOUT_S)
            if committed:
                producer.commit_transaction(_TIMEOUT_S)
            else:
                producer.abort_transaction(_TIMEOUT_S)


def read_rows(access: SourceAccess) -> dict[SourcePartition, list[LogRow]]:
    """All committed rows of the topic, by partition."""
    client = open_client(access, 30.0)
    try:
        found = [each.partition for each in client.discover([TOPIC])]
        bounds = client.bounds(found)
    finally:
        client.close()
    rows = defaultdict[SourcePartition, list[LogRow]](list)
    splits = [Split(one, bounds[one].start_offset, bounds[one].end_offset) for one in found]
    splits = [split for split in splits if split.start_offset < (split.stop_offset or 0)]
    for first in range(0, len(splits), _AT_ONCE):
        _read(access, splits[first : first + _AT_ONCE], rows)
    return rows


def _read(
    access: SourceAccess, splits: list[Split], rows: dict[SourcePartition, list[LogRow]]
) -> None:
    for batch in read_splits(access, splits, time.monotonic() + 600.0):
        one, records = splits[batch.split_index].partition, batch.records(range(len(batch.values)))
        times = [each or 0 for each in records.timestamps_ms]
        hashed = map(row_hash, records.keys, records.values, times)
        for offset, row, at, headers in zip(
            records.offsets, hashed, times, records.headers, strict=True
        ):
            rows[one].append(LogRow(int(offset), int(dict(headers)["n"] or b""), row, at))


def is_exact(offset: int, read: Sequence[LogRow], copy: Sequence[LogRow]) -> bool:
    """Whether all rows of the copy before the offset were read, and none at or after it."""
    known = {row.number for row in read}
    return all((row.number in known) == (row.offset < offset) for row in copy)


def judge(
    a: Mapping[SourcePartition, list[LogRow]],
    b: Mapping[SourcePartition, list[LogRow]],
    reader: CopyReader,
    dice: random.Random,
) -> tuple[dict[str, int], float]:
    """One committed end of each partition: what became of it, and how long all took."""
    # Two thirds are near the log's end, where copies are short.
    ends = {
        one: dice.randrange(max(1, len(rows) - _NEAR) if one.number % 3 else 1, len(rows) + 1)
        for one, rows in a.items()
    }
    began = time.monotonic()
    bounds = reader.client.bounds(list(a))
    logs = [
        CopiedLog(
            one,
            SourceState(
                *("c-a", "t-a", 0, "earliest", rows[ends[one] - 1].offset + 1),
                has_data=True,
                tail=tail_of((row.row, row.time_ms) for row in rows[: ends[one]][-10 * RUNS :]),
            ),
            SourceIdentity("c-b", "t-b"),
            bounds[one],
        )
        for one, rows in a.items()
    ]
    positions = resume_positions(logs, RULE, reader.reader(), None)
    seconds = time.monotonic() - began
    found = dict.fromkeys(("exact", "refused", "wrong"), 0)
    for each in positions:
        one = each.log.partition
        found[each.method or "refused"] = found.get(each.method or "refused", 0) + 1
        if each.offset is None:
            found["refused"] += each.method is not None
        else:
            right = is_exact(each.offset, a[one][: ends[one]], b.get(one, []))
            found["exact" if right else "wrong"] += 1
    return found, seconds


def main() -> int:
    """Fill, copy, judge; 0 when no position is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.rooms_mapping")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    end_tidily()
    dice = random.Random(_SEED)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory(prefix="rooms-mapping-") as scratch, ExitStack() as stack:
        servers = {}
        for room in "ab":
            folder, cache = Path(scratch) / room, default_cache_folder(os.environ)
            lab = Lab(folder, cache=cache, metastore=False)
            stack.callback(lab.down)
            servers[room] = lab.up().bootstrap_servers
            create_topic(servers[room], TOPIC, arguments.partitions)
        fill(servers["a"], arguments.partitions, dice)
        # A tenth of the copies are short by some rows, another tenth by all that any tail has.
        short = {n: dice.randrange(1, _NEAR) for n in range(0, arguments.partitions, 10)}
        short |= dict.fromkeys(range(1, arguments.partitions, 10), _ROWS - 5)
        RowMirror(servers["a"], servers["b"], TOPIC, TOPIC, rows=5000).run(short)
        access = {
            room: SourceAccess("kafka", ((BOOTSTRAP_SERVERS, at),)) for room, at in servers.items()
        }
        a, b = read_rows(access["a"]), read_rows(access["b"])
        client = open_client(access["b"], 30.0)
        stack.callback(client.close)
        reader = CopyReader(access["b"], client)
        rounds = [judge(a, b, reader, dice) for _ in range(arguments.rounds)]
    totals = {name: sum(each.get(name, 0) for each, _ in rounds) for name in rounds[0][0]}
    seconds = sorted(each for _, each in rounds)
    p95 = seconds[math.ceil(0.95 * len(seconds)) - 1]
    closing = {
        "ends": arguments.partitions * arguments.rounds,
        **totals,
        "partitions": arguments.partitions,
        "seconds_p95": round(p95, 2),
    }
    print(json.dumps(closing))
    return int(totals["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
