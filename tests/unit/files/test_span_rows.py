"""Some rows of a closed file, from every format whose rows are read, as Spark's types."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluiceway.errors import FileLostError, NotInThisVersionError
from sluiceway.sinks.files.contract import MICROS, TIMESTAMPS, FileChoice, FileFormat
from sluiceway.sinks.files.reading import file_ending
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.files.span_rows import RowSpan, span_batches
from sluiceway.storage.local import LocalStorage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

ROWS = 50
KINDS = {
    "id": "bigint",
    "ts": "timestamp",
    "amount": "decimal(12,2)",
    "name": "varchar(9)",
    "day": "date",
    "tags": "array<string>",
    "inner": "struct<a:int,b:string>",
}
COLUMNS = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in KINDS.items()))
ASKED = pa.schema(
    [
        ("ID", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("amount", pa.decimal128(12, 2)),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("came_later", pa.string()),
    ]
)


def row(number: int) -> dict[str, Any]:
    moment = datetime(2026, 11, 28, 8, number % 60, 1, 250_000)  # noqa: DTZ001 - as decoded
    return {
        "id": number,
        "ts": None if number % 7 == 0 else moment,
        "amount": Decimal(number) / 4,
        "name": f"n{number}",
        "day": date(2026, 11, 1 + number % 28),
        "tags": [f"t{at}" for at in range(number % 3)],
        "inner": {"a": number, "b": str(number)},
    }


def wanted(number: int) -> dict[str, Any]:
    """The same as Spark has it."""
    found = row(number)
    moment = found["ts"]
    found["ts"] = None if moment is None else moment.replace(tzinfo=UTC)
    return {"ID": found.pop("id"), **found, "came_later": None}


def written(folder: Path, choice: FileChoice) -> str:
    path = str(folder / f"a{file_ending(choice)}")
    schema = arrow_schema(COLUMNS)
    file = open_format(schema, choice).new_file(LocalStorage().create_staged(path))
    for start in range(0, ROWS, 10):
        rows = [row(number) for number in range(start, start + 10)]
        file.write(pa.RecordBatch.from_pylist(rows, schema=schema))
        file.flush()
    file.close()
    return path


CHOICES = {
    "parquet": FileChoice(),
    "micros": FileChoice(settings=((TIMESTAMPS, MICROS),)),
    "orc": FileChoice(FileFormat.ORC, "zstd", COLUMNS),
    "avro": FileChoice(FileFormat.AVRO, "snappy", COLUMNS),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize(("first", "rows"), [(0, 50), (0, 1), (9, 2), (13, 20), (49, 1)])
def test_rows_of_a_span_have_the_types_that_are_asked_for(
    tmp_path: Path, choice: FileChoice, first: int, rows: int
) -> None:
    path = written(tmp_path, choice)
    with Path(path).open("rb") as handle:
        span = RowSpan(path, first, rows, ROWS)
        if choice.format is FileFormat.ORC:
            # Whether its times can be read the bounds tell, where there are any.
            span = RowSpan(path, first, rows, ROWS, {"ts": ("2026-11-28T08:00:00", "2026-12-01")})
        found = list(span_batches(handle, span, ASKED))
    assert all(batch.schema == ASKED for batch in found)
    assert [each for batch in found for each in batch.to_pylist()] == [
        wanted(number) for number in range(first, first + rows)
    ]


def test_rows_are_counted_where_no_column_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, FileChoice())
    nothing = pa.schema([("of_no_file", pa.null())])
    with Path(path).open("rb") as handle:
        found = list(span_batches(handle, RowSpan(path, 10, 30, ROWS), nothing))
    assert sum(batch.num_rows for batch in found) == 30


@pytest.mark.parametrize("choice", [CHOICES["parquet"], CHOICES["avro"]], ids=["parquet", "avro"])
def test_file_of_another_number_of_rows_is_refused(tmp_path: Path, choice: FileChoice) -> None:
    path = written(tmp_path, choice)
    with Path(path).open("rb") as handle, pytest.raises(FileLostError, match="60 rows"):
        list(span_batches(handle, RowSpan(path, 40, 20, 60), ASKED))


def test_rows_of_text_are_left_to_readers_of_spark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    with path.open("rb") as handle, pytest.raises(NotInThisVersionError, match="content"):
        list(span_batches(handle, RowSpan(str(path), 0, 1, 1), ASKED))
