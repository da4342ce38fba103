"""How often each offset has to be in the table when an operator has moved committed ends.

Reads the RESET records of a ledger as plain JSON, with no code of the product. Without any, every
offset is wanted once.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

_LAST = 2**63 - 1


class Passage(NamedTuple):
    """One reading of a source partition: `[start, end)` was read once, from end to end."""

    topic: str
    partition: int
    start: int
    end: int


def passages(root: Path) -> tuple[Passage, ...]:
    """All readings of the partitions that were ever moved, from the ledgers below a table."""
    found: list[Passage] = []
    going: dict[tuple[str, int], int] = {}
    for record in plain_records(root):
        if record["type"] != "RESET":
            continue
        for move in record["body"]["partitions"]:
            log = (move["topic"], move["partition"])
            found.append(Passage(*log, going.get(log, 0), int(move["old_end"])))
            going[log] = int(move["new_end"])
    found += [Passage(*log, start, _LAST) for log, start in going.items()]
    return tuple(found)


def plain_records(root: Path) -> Iterator[dict[str, Any]]:
    """Records in the order of their slots: of packs, then of the slots that are left."""
    for pack in sorted(root.glob("_sluiceway/*/pack/*.jsonl.gz")):
        with gzip.open(pack) as lines:
            yield from map(json.loads, lines)
    packed = {path.name.partition(".")[0] for path in root.glob("_sluiceway/*/pack/*.jsonl.gz")}
    for path in sorted(root.glob("_sluiceway/*/log/*/*.json")):
        if path.parent.name not in packed:
            # A damaged record moves nothing; that it is damaged others find.
            with suppress(ValueError):
                yield json.loads(path.read_bytes())


def passage_table(found: Sequence[Passage]) -> pa.Table:
    """The readings for `KNOWN`."""
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.int64()]
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["topic", "number", "low", "high"])


KNOWN = """
SELECT o.*, CASE WHEN m.topic IS NULL THEN 1 ELSE (
    SELECT count(*) FROM passages p
    WHERE p.topic = o."#topic" AND p.number = o."#partition"
      AND o."#offset" >= p.low AND o."#offset" < p.high) END AS wanted
FROM offsets_of_broker o LEFT JOIN (SELECT DISTINCT topic, number FROM passages) m
    ON m.topic = o."#topic" AND m.number = o."#partition"
"""
"""Offsets of the broker with how often they are wanted; of `offsets_of_broker` and `passages`."""
