"""Values through the product's own encoding, decoding and containment."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath

import pyarrow as pa

from partition_oracle.values import days, decimals, numbers, text_values
from sluiceway.eventtime.partition_values import NO_TIMES, PartitionAssigner, ValueColumn
from sluiceway.sinks.partition_path import (
    DEFAULT_PARTITION,
    parse_partition_folder,
    partition_folder,
    partition_value_problem,
    resolve_within,
)
from sluiceway.types.dirty import DirtyReason

ROOT = "/warehouse/ods.db/table"
NAME = "place"
BATCH = 20_000
_MOST_EXAMPLES = 20
_MOST_BYTES = 255
# Of all values so many, in percent, are of another type than text.
_TYPED_PERCENT = 15


@dataclass(slots=True)
class Tally:
    """What became of values.

    Attributes:
        values: Looked at.
        refused: Dirty ones, by why.
        escaped: Values whose folder is not directly below the table's.
        unequal: Values that came back as another one, or were changed on the way.
        examples: Of the last two.
    """

    values: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    escaped: int = 0
    unequal: int = 0
    examples: list[str] = field(default_factory=list)

    def tell(self, what: str, value: object) -> None:
        """Keep an example."""
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"{what}: {value!r}")


def batches(seed: int, count: int) -> Iterator[pa.Array]:
    """Columns of a million values or so: texts for the most part, each once."""
    typed = count * _TYPED_PERCENT // 100
    for made, kind in (
        (numbers(seed, typed // 3), pa.int64()),
        (decimals(seed, typed // 3), pa.decimal128(18, 4)),
        (days(seed, typed // 3), pa.date32()),
    ):
        distinct = list(dict.fromkeys(made))
        for first in range(0, len(distinct), BATCH):
            yield pa.array(distinct[first : first + BATCH], kind)
    waiting: list[str | None] = []
    for value in text_values(seed, count - typed * 9 // 10):
        waiting.append(value)
        if len(waiting) == BATCH:
            yield pa.array(waiting, pa.string())
            waiting = []
    yield pa.array(waiting, pa.string())


def judge(values: pa.Array, tally: Tally) -> list[tuple[str, str]]:
    """Look at a batch.

    Returns:
        Text and folder of each value that has one; null is left out.
    """
    rows = pa.record_batch({"v": values})
    found = PartitionAssigner(
        [ValueColumn(NAME, "v")], rows.schema, partition_value_problem
    ).assign(rows, NO_TIMES)
    dirty = {row.index: row for row in found.dirty}
    kept = []
    for index, (value, code) in enumerate(zip(values.to_pylist(), found.codes, strict=True)):
        tally.values += 1
        if code < 0:
            reason = dirty.pop(index)
            assert reason.reason is DirtyReason.BAD_PARTITION_VALUE
            assert isinstance(value, str), reason
            tally.refused[reason.message.partition(" (")[0]] += 1
            continue
        (text,) = found.values[code]
        if text != _plain(value):
            tally.unequal += 1
            tally.tell("changed", value)
        folder = partition_folder([NAME], [text])
        _contain(folder, value, tally)
        if _read_back(folder) != text:
            tally.unequal += 1
            tally.tell("read back as another", value)
        if text is not None:
            kept.append((text, folder))
    assert not dirty
    return kept


def _read_back(folder: str) -> str | None:
    try:
        ((_, text),) = parse_partition_folder(folder)
    except ValueError:
        return f"none: {folder}"
    return None if text == DEFAULT_PARTITION else text


def _contain(folder: str, value: object, tally: Tally) -> None:
    try:
        path = resolve_within(ROOT, folder)
        inside = os.path.normpath(path) == path and str(PurePosixPath(path).parent) == ROOT
    except ValueError:
        inside = False
    if not inside or "\x00" in folder or len(folder.encode()) > _MOST_BYTES:
        tally.escaped += 1
        tally.tell("left the table", value)


def _plain(value: object) -> str | None:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return None if value is None else str(value)


def sample(kept: Sequence[tuple[str, str]], count: int) -> list[str]:
    """Texts for a real table: hostile ones first, then evenly from all.

    Databases that pad texts take "x" and "x " for one name, which the guarantees say: of those
    that differ in trailing blanks only, one is taken; null has a name too.
    """
    distinct: dict[str, str] = {}
    step = max(1, len(kept) // (2 * count))
    for text, _ in [*kept[: count // 4], *kept[::step], *kept]:
        if text.rstrip(" ") != DEFAULT_PARTITION:
            distinct.setdefault(text.rstrip(" "), text)
        if len(distinct) == count:
            break
    return list(distinct.values())
