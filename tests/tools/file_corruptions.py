"""Corruptions of the table's files and of its dirty rows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tools.corruption import FORGED, READS_NO_CONTENT, Corruption
from tools.plants import (
    as_type,
    change_bytes,
    copied_rows_forged,
    copy_file,
    drop_row_and_count_it_filtered,
    first_dirty,
    first_file,
    flip_bit,
    forged_row,
    misplaced_with_record,
    move_dirty_to_table,
    replace_by_neighbour,
    resealed,
    same_size_other,
    set_value,
    shift_offsets,
    swap_first_of_two_hours,
)

_ROWS_DEEP = (
    Corruption(
        "row dropped",
        lambda t: t.edit(first_file(t), lambda r: r.pop()),
        "file_changed",
        "file_changed",
        "lost",
    ),
    Corruption(
        "row doubled",
        lambda t: t.edit(first_file(t), lambda r: r.append(r[0])),
        "file_changed",
        "file_changed",
        "doubled",
    ),
    Corruption(
        "all rows dropped",
        lambda t: t.edit(first_file(t), lambda r: r.clear()),
        "file_changed",
        "file_changed",
        "lost",
    ),
    Corruption(
        "column nulled",
        lambda t: t.edit(first_file(t), lambda rows: [r.update(amount=None) for r in rows]),
        "file_changed",
        "file_changed",
        "altered",
    ),
    Corruption(
        "column dropped",
        lambda t: t.recast(first_file(t), lambda x: x.drop_columns(["tags"])),
        "file_changed",
        "file_changed",
        "schema_errors",
    ),
    Corruption(
        "decimal of another scale",
        as_type("amount")(pa.decimal128(18, 3)),
        "file_changed",
        "file_changed",
        "schema_errors",
    ),
    Corruption(
        "bigint as double",
        as_type("ts")(pa.float64()),
        "file_changed",
        "file_changed",
        "schema_errors",
    ),
)

# (name, column, change, row): a value changed in a file, and then with the log made to fit.
_VALUES: tuple[tuple[str, str, Callable[[Any], Any], int], ...] = (
    ("integer by its lowest bit", "id", lambda v: v ^ 1, 1),
    ("integer through a double", "id", lambda v: int(float(v)), 1),
    ("text nulled", "city", lambda _: None, 1),
    ("empty text for null", "city", lambda _: "", 0),
    ("null for empty text", "city", lambda _: None, 2),
    ("text of another normal form", "city", lambda _: "Koln\u0308", 3),
    ("decimal by its last digit", "amount", lambda v: v + Decimal("0.01"), 1),
    ("double by one ulp", "ratio", lambda v: v * (1 + 2**-52), 1),
    ("zero for minus zero", "ratio", lambda _: 0.0, 0),
    ("nested zero for minus zero", "geo", lambda v: v | {"lat": 0.0}, 0),
    ("timestamp by a zone", "seen", lambda v: v + timedelta(hours=8), 1),
    ("timestamp by a microsecond", "seen", lambda v: v + timedelta(microseconds=1), 1),
    ("nested null", "geo", lambda v: v | {"lat": None}, 1),
    ("struct of nulls for null", "geo", lambda _: {"lat": None, "name": None}, 2),
    ("list element dropped", "tags", lambda v: v[:-1], 1),
    ("empty list for null", "tags", lambda _: [], 2),
    ("record time", "_timestamp", lambda v: v + timedelta(milliseconds=1), 1),
)


def _values() -> list[Corruption]:
    found = []
    for name, column, change, index in _VALUES:
        honest = Corruption(
            name,
            set_value(column, change, index),
            "file_changed",
            None,
            "altered",
            READS_NO_CONTENT,
        )
        found += [honest]
        if name in ("integer by its lowest bit", "zero for minus zero", "timestamp by a zone"):
            forged = forged_row(column, change, index)
            found.append(
                replace(
                    honest, name=f"{name}, log forged", plant=forged, deep="", quick="", why=FORGED
                )
            )
    return found


_ORIGINS = (
    Corruption(
        "offsets shifted, log forged",
        resealed(lambda t: t.edit(first_file(t), shift_offsets)),
        "offsets",
        "",
        "lost",
        READS_NO_CONTENT,
    ),
    Corruption(
        "offset of nowhere, log forged",
        forged_row("_offset", lambda v: v + 100_000),
        "offsets",
        "",
        "unknown",
        READS_NO_CONTENT,
    ),
    Corruption(
        "offset nulled, log forged",
        forged_row("_offset", lambda _: None),
        "offsets",
        "",
        "lost",
        READS_NO_CONTENT,
    ),
    Corruption(
        "topic of another log, log forged",
        forged_row("_topic", lambda _: "other"),
        "offsets",
        "",
        "unknown",
        READS_NO_CONTENT,
    ),
    Corruption(
        "source partition swapped, log forged",
        forged_row("_partition", lambda v: 1 - v),
        "offsets",
        "",
        "lost",
        READS_NO_CONTENT,
    ),
    Corruption(
        "neighbour doubled for a row, log forged",
        copied_rows_forged,
        "offsets",
        "",
        "doubled",
        READS_NO_CONTENT,
    ),
    Corruption(
        "offset column dropped, log forged",
        resealed(lambda t: t.recast(first_file(t), lambda x: x.drop_columns(["_offset"]))),
        "offsets",
        "",
        "schema_errors",
        READS_NO_CONTENT,
    ),
    Corruption(
        "row dropped and counted as filtered",
        drop_row_and_count_it_filtered,
        "",
        "",
        "lost",
        FORGED,
    ),
)


_FILES = (
    Corruption(
        "file removed", lambda t: first_file(t).unlink(), "file_missing", "file_missing", "lost"
    ),
    Corruption(
        "file emptied",
        lambda t: first_file(t).write_bytes(b""),
        "file_changed",
        "file_changed",
        "unreadable",
    ),
    Corruption(
        "file truncated",
        change_bytes(lambda raw: raw[:-20]),
        "file_changed",
        "file_changed",
        "unreadable",
    ),
    Corruption(
        "file extended",
        change_bytes(lambda raw: raw + b"PAR1"),
        "file_changed",
        "file_changed",
        "unreadable",
    ),
    Corruption(
        "bit flipped", change_bytes(flip_bit), "file_changed", "", "unreadable", READS_NO_CONTENT
    ),
    Corruption(
        "file of zeros, same size", same_size_other, "file_changed", "file_changed", "unreadable"
    ),
    Corruption(
        "file replaced by its neighbour",
        replace_by_neighbour,
        "file_changed",
        None,
        "lost",
        READS_NO_CONTENT,
    ),
    Corruption(
        "file hidden from readers",
        lambda t: first_file(t).rename(first_file(t).with_name(f"_{first_file(t).name}")),
        "file_missing",
        "file_missing",
        "lost",
    ),
    Corruption(
        "file moved to another hour",
        lambda t: first_file(t).rename(t.hours()[1] / first_file(t).name),
        "file_missing",
        "file_missing",
        "wrong_partition",
    ),
    Corruption(
        "files of two hours swapped",
        swap_first_of_two_hours,
        "file_changed",
        "file_changed",
        "wrong_partition",
    ),
    Corruption(
        "file doubled under our name",
        copy_file(
            first_file, lambda t: t.files()[0].with_name(t.files()[0].name.replace("-1-", "-9-", 1))
        ),
        "file_unknown",
        "file_unknown",
        "doubled",
    ),
    Corruption(
        "file doubled under a foreign name",
        copy_file(first_file, lambda t: first_file(t).with_name("copy.parquet")),
        "foreign",
        "foreign",
        "doubled",
        "verify lists files of others, and does not judge",
    ),
    Corruption(
        "file moved with its record",
        lambda t: misplaced_with_record(t, values=False),
        "file_misplaced",
        "file_misplaced",
        "wrong_partition",
    ),
    Corruption(
        "file moved with its record and values",
        lambda t: misplaced_with_record(t, values=True),
        "",
        "",
        "wrong_partition",
        FORGED,
    ),
)

_DIRTY = (
    Corruption(
        "dirty file removed",
        lambda t: first_dirty(t).unlink(),
        "file_missing",
        "file_missing",
        "lost",
    ),
    Corruption(
        "dirty row missing",
        lambda t: t.edit(first_dirty(t), lambda r: r.pop()),
        "file_changed",
        "file_changed",
        "lost",
    ),
    Corruption(
        "dirty row doubled",
        lambda t: t.edit(first_dirty(t), lambda r: r.append(r[0])),
        "file_changed",
        "file_changed",
        "doubled",
    ),
    Corruption(
        "dirty value cut",
        lambda t: t.edit(first_dirty(t), lambda r: r[0].update(value=r[0]["value"][:-1])),
        "file_changed",
        None,
        "altered",
        READS_NO_CONTENT,
    ),
    Corruption(
        "dirty reason lost",
        lambda t: t.edit(first_dirty(t), lambda r: r[0].update(reason="")),
        "file_changed",
        None,
        "altered",
        READS_NO_CONTENT,
    ),
    Corruption(
        "dirty file doubled",
        copy_file(first_dirty, lambda t: first_dirty(t).with_name("copy.parquet")),
        "file_unknown",
        "file_unknown",
        "doubled",
    ),
    Corruption(
        "dirty file moved into the table",
        move_dirty_to_table,
        "file_missing",
        "file_missing",
        "schema_errors",
    ),
    Corruption(
        "dirty rows of another route",
        copy_file(first_dirty, lambda t: t.root / "_sluiceway/other/dirty/d.parquet"),
        "file_unknown",
        "file_unknown",
        "doubled",
    ),
)


FILE_CORRUPTIONS = (*_ROWS_DEEP, *_values(), *_ORIGINS, *_FILES, *_DIRTY)
