"""Any rows in any cut into files come out of a merging as they went in, in their order."""

import tempfile
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from sluiceway.sinks.files.column_bounds import ColumnBounds, widest_bounds
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.reading import line_chunks
from tools.small_files import FORMATS, SCHEMA, SmallFiles

FLOATS = {field.name for field in SCHEMA if pa.types.is_floating(field.type)}

_YEARS = (datetime.fromisoformat("0001-01-01"), datetime.fromisoformat("9999-12-31T23:59:59"))
# What ORC and Avro can hold (docs/guides/hive-tables.md); Avro has milliseconds at best.
_MODERN = (datetime.fromisoformat("1970-01-01"), datetime.fromisoformat("2262-04-10"))
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def rows(file_format: FileFormat) -> st.SearchStrategy[dict[str, Any]]:
    """Rows that files of the format hold."""
    old = file_format is FileFormat.PARQUET
    least, greatest = _YEARS if old else _MODERN
    moments = st.datetimes(least, greatest)
    if not old:
        moments = moments.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
    finite = file_format in (FileFormat.JSON, FileFormat.TEXT)
    texts = _TEXTS
    if file_format is FileFormat.TEXT:
        texts = st.sampled_from(["", "a", "\\", "北京 📦", "x y"])
    values = {
        "id": st.integers(-(2**63), 2**63 - 1),
        "flag": st.booleans(),
        "small": st.integers(-128, 127),
        "g": st.floats(allow_nan=not finite, allow_infinity=not finite),
        "price": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        "name": texts,
        "day": st.dates(least.date() if old else date(1970, 1, 1)),
        "at": moments,
        "tags": st.lists(st.none() | texts, min_size=0 if old else 2, max_size=3),
        "counts": st.dictionaries(texts.filter(bool), st.integers(0, 9), max_size=2).map(
            lambda found: list(found.items())
        ),
        "geo": st.fixed_dictionaries({"lat": st.floats(0, 1), "city": st.none() | texts}),
    }
    return st.fixed_dictionaries({name: st.none() | kind for name, kind in values.items()})


def content(choice: FileChoice, paths: Sequence[Path]) -> object:
    """What is in files, row by row, in a form in which equal is the same."""
    match choice.format:
        case FileFormat.PARQUET:
            found = [pq.read_table(path, coerce_int96_timestamp_unit="us") for path in paths]
            return repr(pa.concat_tables(found).to_pylist())
        case FileFormat.ORC:
            return repr(pa.concat_tables([orc.read_table(path) for path in paths]).to_pylist())
        case FileFormat.AVRO:
            records: list[object] = []
            for path in paths:
                with path.open("rb") as handle:
                    records += list(fastavro.reader(handle))
            return repr(records)
        case _:
            lines = []
            for path in paths:
                with path.open("rb") as handle:
                    lines += list(line_chunks(str(path), handle))
            return b"".join(lines)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_are_the_same_before_and_after(name: str, data: st.DataObject) -> None:
    choice = FORMATS[name]
    files = data.draw(
        st.lists(st.lists(rows(choice.format), min_size=1, max_size=4), min_size=1, max_size=5)
    )
    target = data.draw(st.sampled_from([1, 2_000, 1 << 20]))
    with tempfile.TemporaryDirectory() as root:
        table = SmallFiles(Path(root), choice)
        for each in files:
            table.add(each)
        made = table.rewrite(target)
        merged = [table.staged(each) for each in made]
        same = content(choice, merged) == content(choice, table.old())
        assert same
        assert sum(int(each.rows) for each in made) == sum(map(len, files))
        wanted = widest_bounds(each.bounds for each in table.files)
        found = widest_bounds(each.bounds for each in made)
        assert found == {name: pair for name, pair in wanted.items() if name in found}
        # An infinity takes the bounds from its file, which may have the rows of others now.
        assert wanted.keys() - found.keys() <= FLOATS


@settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(
        st.lists(rows(FileFormat.PARQUET), min_size=1, max_size=4), min_size=1, max_size=4
    )
)
def test_bounds_of_parts_are_those_of_the_whole(parts: list[list[dict[str, Any]]]) -> None:
    whole, each = ColumnBounds(SCHEMA), []
    for part in parts:
        batch = pa.RecordBatch.from_pylist(part, schema=SCHEMA)
        alone = ColumnBounds(SCHEMA)
        alone.widen(batch)
        whole.widen(batch)
        each.append(alone.texts())
    found = widest_bounds(each)
    assert {name: tuple(map(_value, pair)) for name, pair in found.items()} == {
        name: tuple(map(_value, pair)) for name, pair in whole.texts().items()
    }


def _value(text: str) -> object:
    """Numbers by their value: -0.0 and 0.0 are one bound."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


def test_column_of_unlike_types_has_no_bounds() -> None:
    unlike = widest_bounds(
        [{"a": ("1", "2"), "b": ("1", "9")}, {"a": ("2026-01-01", "2026-01-02")}]
    )
    assert unlike == {"b": ("1", "9")}
    instants = [
        {"t": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.500000Z")},
        {"t": ("253402300800000000us", "253402300800000000us")},
        {"t": ("2025-12-31T23:59:59.999999Z", "2026-01-01T00:00:00.400000Z")},
    ]
    assert widest_bounds(instants) == {"t": ("2025-12-31T23:59:59.999999Z", "253402300800000000us")}
    assert widest_bounds([{"n": ("9", "10")}, {"n": ("-1.5", "1e3")}]) == {"n": ("-1.5", "1e3")}
