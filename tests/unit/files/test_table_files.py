"""Files of every format: what is written is what is read, what does not fit is told before."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.host.native_module import SWITCH
from sluiceway.sinks.files.avro_schema import SCHEMA_LITERAL
from sluiceway.sinks.files.contract import FileChoice, FileFormat, WrittenFile
from sluiceway.sinks.files.parquet_file import FileColumns, ParquetStagedFile
from sluiceway.sinks.files.reading import count_rows, has_footer, read_columns
from sluiceway.sinks.files.registry import open_format
from sluiceway.storage.local import LocalStorage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.file_formats import COMPRESSIONS
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

ESCAPED = (("escape.delim", "\\"),)
COLUMNS = {"n": "bigint", "s": "string", "at": "timestamp", "tags": "array<string>"}


def at(*parts: int) -> datetime:
    """A moment in UTC, as columns hold it: without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


ALL = [(form, codec) for form in FileFormat for codec in COMPRESSIONS[form]]


def schema_of(columns: dict[str, str]) -> Schema:
    return Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in columns.items()))


def choice_of(form: FileFormat, codec: str, columns: dict[str, str]) -> FileChoice:
    settings = ESCAPED if form is FileFormat.TEXT else ()
    return FileChoice(form, codec, schema_of(columns), settings)


def batch_of(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(schema_of(columns)))


def write(folder: Path, choice: FileChoice, batch: pa.RecordBatch) -> WrittenFile:
    table_format = open_format(batch.schema, choice)
    assert table_format.unfit_rows(batch) == []
    staged = LocalStorage().create_staged(str(folder / f"a{table_format.extension}"))
    file = table_format.new_file(staged)
    for row in range(batch.num_rows):
        file.write(batch.slice(row, 1))
    written = file.close()
    assert file.rows == written.rows == batch.num_rows
    size = written.seal.size_bytes
    table_format.check(LocalStorage(), written.path, size_bytes=size, rows=written.rows)
    return written


def unfit(choice: FileChoice, batch: pa.RecordBatch) -> list[tuple[int, str]]:
    found = open_format(batch.schema, choice).unfit_rows(batch)
    assert {(row.stage, row.reason) for row in found} <= {("write", DirtyReason.UNREPRESENTABLE)}
    return [(row.index, row.path) for row in found]


@pytest.mark.parametrize(("form", "codec"), ALL)
def test_rows_are_read_back_and_counted(tmp_path: Path, form: FileFormat, codec: str) -> None:
    columns = {"s": "string", "more": "string"} if form is FileFormat.CSV else COLUMNS
    rows: list[dict[str, Any]] = [
        {"n": 2**63 - 1, "s": 'a"b\\c,\x01 北京', "at": at(2026, 11, 20, 8), "more": "x"},
        {"n": -(2**63), "s": "", "tags": ["a", None, ""], "more": ""},
        {"n": 0, "s": " \t\u2028", "at": at(1969, 12, 31), "tags": [], "more": "'"},
    ]
    choice = choice_of(form, codec, columns)
    written = write(tmp_path, choice, batch_of(columns, rows))
    content = Path(written.path).read_bytes()
    checksum = google_crc32c.Checksum(content).hexdigest().decode()
    assert (written.seal.size_bytes, written.seal.crc32c) == (len(content), checksum)
    with Path(written.path).open("rb") as handle:
        assert count_rows(written.path, handle) == len(rows)
    if form is FileFormat.CSV:
        return
    assert written.column_bounds["n"] == (str(-(2**63)), str(2**63 - 1))
    assert written.column_bounds["at"] == ("1969-12-31T00:00:00Z", "2026-11-20T08:00:00Z")
    with Path(written.path).open("rb") as handle:
        # Names are found without case, but for Parquet's, which are written as rows have them.
        names = ["s" if form is FileFormat.PARQUET else "S", "n"]
        found = read_columns(written.path, handle, names, choice)
    assert found.column(0).to_pylist() == [row["s"] for row in rows]
    assert [int(number) for number in found.column(1).to_pylist()] == [row["n"] for row in rows]


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("form", sorted(set(FileFormat) - {FileFormat.CSV}))
def test_a_column_with_a_day_after_the_year_9999_has_no_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: FileFormat, native: str
) -> None:
    monkeypatch.setenv(SWITCH, native)
    columns = {"d": "date", "s": "string", "day": "date"}
    days = [pa.array([0, 1], pa.int32()), pa.array([0, 3_000_000], pa.int32())]
    before, after = (each.cast(pa.date32()) for each in days)
    schema = arrow_schema(schema_of(columns))
    batch = pa.RecordBatch.from_arrays([before, pa.array(["a", "b"]), after], schema=schema)
    written = write(tmp_path, choice_of(form, COMPRESSIONS[form][0], columns), batch)
    assert written.column_bounds == {"d": ("1970-01-01", "1970-01-02")}


@pytest.mark.parametrize("form", [FileFormat.ORC, FileFormat.AVRO])
def test_fields_inside_are_found_by_hives_readers_which_ask_in_lower_case(
    tmp_path: Path, form: FileFormat
) -> None:
    columns = {"s": "struct<A1:int,b:array<struct<C2:string>>,m:map<string,struct<D:int>>>"}
    value = {"A1": 1, "b": [{"C2": "x"}], "m": [("k", {"D": 2})]}
    batch = batch_of(columns, [{"s": value}, {"s": None}, {"s": value}]).slice(1)
    written = write(tmp_path, choice_of(form, "none", columns), batch)
    with Path(written.path).open("rb") as handle:
        rows = (
            orc.ORCFile(handle).read().to_pylist()
            if form is FileFormat.ORC
            else list(fastavro.reader(handle))
        )
    inner = rows[1]["s"]
    assert rows[0]["s"] is None
    assert (inner["a1"], inner["b"], dict(inner["m"])) == (1, [{"c2": "x"}], {"k": {"d": 2}})


def test_lines_of_text_of_before_a_column_was_added_are_read(tmp_path: Path) -> None:
    now = {"s": "string", "n": "bigint", "x": "bigint"}
    choice = choice_of(FileFormat.TEXT, "none", now)
    path = tmp_path / "b.txt"
    path.write_bytes(b"a\x011\nb\x012\x013\n")
    with path.open("rb") as handle:
        assert read_columns(str(path), handle, ["n"], choice).to_pylist() == [
            {"n": "1"},
            {"n": "2"},
        ]
    for content, names in ((b"a\n", ["n"]), (b"a\x011\x012\x013\n", ["n"]), (b"a\x011\n", ["x"])):
        path.write_bytes(content)
        with path.open("rb") as handle, pytest.raises(ValueError, match="3 columns"):
            read_columns(str(path), handle, names, choice)


@pytest.mark.parametrize("form", FileFormat)
def test_many_rows_in_large_batches_are_all_there(tmp_path: Path, form: FileFormat) -> None:
    columns = {"s": "string"}
    texts = [f"event number {number:08x} of many" for number in range(40_000)]
    choice = choice_of(form, COMPRESSIONS[form][-2], columns)
    table_format = open_format(arrow_schema(schema_of(columns)), choice)
    storage = LocalStorage()
    file = table_format.new_file(
        storage.create_staged(str(tmp_path / f"b{table_format.extension}"))
    )
    batch = batch_of(columns, [{"s": text} for text in texts])
    file.write(batch.slice(0, 39_000))
    file.flush()
    file.write(batch.slice(39_000))
    written = file.close()
    with Path(written.path).open("rb") as handle:
        assert count_rows(written.path, handle) == len(texts)
    if form is not FileFormat.CSV:
        with Path(written.path).open("rb") as handle:
            found = read_columns(written.path, handle, ["s"], choice)
        assert found.column(0).to_pylist() == texts


@pytest.mark.parametrize("form", FileFormat)
def test_damaged_or_cut_files_fail_the_check(tmp_path: Path, form: FileFormat) -> None:
    columns = {"s": "string"}
    choice = choice_of(form, COMPRESSIONS[form][0], columns)
    written = write(tmp_path, choice, batch_of(columns, [{"s": "abc"}] * 50))
    table_format = open_format(arrow_schema(schema_of(columns)), choice)
    path, size = written.path, written.seal.size_bytes
    with pytest.raises(TaskFailedError, match="bytes"):
        table_format.check(LocalStorage(), path, size_bytes=size + 1, rows=50)
    if has_footer(path):
        with pytest.raises(TaskFailedError, match="expected 51 rows"):
            table_format.check(LocalStorage(), path, size_bytes=size, rows=51)
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: size // 2] + bytes(size - size // 2))
    with (
        Path(path).open("rb") as handle,
        pytest.raises((ValueError, pa.ArrowException, OSError)),
    ):
        read_columns(path, handle, ["s"], choice) if form != "csv" else count_rows(path, handle)


@pytest.mark.parametrize("form", FileFormat)
def test_aborted_files_leave_nothing_and_full_disks_are_storage_errors(
    tmp_path: Path, form: FileFormat
) -> None:
    columns = {"s": "string"}
    table_format = open_format(arrow_schema(schema_of(columns)), choice_of(form, "gzip", columns))
    staged = LocalStorage().create_staged(str(tmp_path / "a"))
    file = table_format.new_file(staged)

    def full(_data: object) -> int:
        raise OSError(28, "No space left on device")

    staged.handle().write = full  # type: ignore[method-assign]

    def write_all() -> None:
        file.write(batch_of(columns, [{"s": "x"}]))
        file.close()

    with pytest.raises(StorageUnavailableError, match="No space left"):
        write_all()
    file.abort()
    file.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", set(FileFormat) - {FileFormat.PARQUET, FileFormat.JSON})
def test_columns_lie_in_the_tables_order_and_others_are_null(
    tmp_path: Path, form: FileFormat
) -> None:
    table = {"first": "string", "unfilled": "string", "last": "string"}
    choice = choice_of(form, "none", table)
    batch = batch_of({"LAST": "string", "first": "string"}, [{"LAST": "z", "first": "a"}])
    written = write(tmp_path, choice, batch)
    if form is FileFormat.CSV:
        assert Path(written.path).read_bytes() == b'"a","","z"\n'
        return
    with Path(written.path).open("rb") as handle:
        found = read_columns(written.path, handle, list(table), choice)
    assert found.to_pylist() == [{"first": "a", "unfilled": None, "last": "z"}]


@pytest.mark.parametrize("form", FileFormat)
def test_slices_of_nested_columns_are_written_as_their_own_rows(
    tmp_path: Path, form: FileFormat
) -> None:
    columns = {
        "n": "bigint",
        "st": "struct<a:int,b:struct<x:string>>",
        "l": "array<struct<a:int>>",
        "m": "map<string,int>",
    }
    rows: list[dict[str, Any]] = [
        {"n": 0, "st": {"a": 1, "b": {"x": "y"}}, "l": [{"a": 1}], "m": [("k", 1)]},
        {"n": 1, "st": None, "l": None, "m": None},
        {"n": 2, "st": {"a": 3, "b": None}, "l": [None, {"a": 2}], "m": [("z", None)]},
    ]
    if form is FileFormat.CSV:
        columns, rows = {"n": "string"}, [{"n": "a"}, {"n": "b"}, {"n": "c"}]
    choice = choice_of(form, "none" if form is not FileFormat.PARQUET else "zstd", columns)
    batch = batch_of(columns, rows)
    written = write(tmp_path, choice, batch.slice(1))
    content = Path(written.path).read_bytes()
    if form is FileFormat.CSV:
        assert content == b'"b"\n"c"\n'
    elif form is FileFormat.TEXT:
        assert content == b"1\x01\\N\x01\\N\x01\\N\n2\x013\x02\\N\x01\\N\x022\x01z\x03\\N\n"
    elif form is FileFormat.JSON:
        # pyarrow's own reader takes a null in such a list for the object behind it.
        found = [json.loads(line) for line in content.splitlines()]
        assert found == [{**row, "m": dict(row["m"]) if row["m"] else None} for row in rows[1:]]
    else:
        with Path(written.path).open("rb") as handle:
            table = read_columns(written.path, handle, ["n", "st", "l"], choice)
        kept = [{name: row[name] for name in ("n", "st", "l")} for row in rows[1:]]
        assert table.to_pylist() == kept


OLD: list[dict[str, Any]] = [
    {"d": date(1582, 10, 14)},
    {"d": date(1582, 10, 15)},
    {"t": at(1582, 10, 14, 23, 59, 59)},
    {"t": at(1969, 12, 31, 23, 59, 59)},
    {"l": [at(2026, 1, 1), at(1500, 1, 1)]},
    {"m": [("k", date(1, 1, 1))]},
    {"st": {"a": date(1, 1, 1)}},
    {},
]
OLD_COLUMNS = {
    "d": "date",
    "t": "timestamp",
    "l": "array<timestamp>",
    "m": "map<string,date>",
    "st": "struct<a:date>",
}


@pytest.mark.parametrize("form", [FileFormat.ORC, FileFormat.AVRO])
def test_days_that_readers_would_shift_do_not_fit_however_deep(form: FileFormat) -> None:
    choice = choice_of(form, "none", OLD_COLUMNS)
    expected = [(0, "d"), (2, "t"), (4, "l"), (5, "m"), (6, "st")]
    batch = batch_of(OLD_COLUMNS, OLD)
    assert unfit(choice, batch) == expected
    # Slices of a batch are judged by their own rows.
    assert unfit(choice, batch.slice(4, 2)) == [(0, "l"), (1, "m")]


@pytest.mark.parametrize("form", [FileFormat.TEXT, FileFormat.JSON])
def test_days_between_the_calendars_do_not_fit_into_text_however_deep(form: FileFormat) -> None:
    rows: list[dict[str, Any]] = [
        *({"d": date(1582, 10, 4)}, {"d": date(1582, 10, 5)}, {"d": date(1582, 10, 14)}),
        *({"d": date(1582, 10, 15)}, {"d": date.min}, {"t": at(1582, 10, 4, 23, 59, 59)}),
        *({"t": at(1582, 10, 5)}, {"t": at(1582, 10, 14, 23, 59, 59)}, {"t": at(1582, 10, 15)}),
        *({"l": [at(1582, 10, 10)]}, {"m": [("k", date(1582, 10, 10))]}),
        *({"st": {"a": date(1582, 10, 10)}}, {}),
    ]
    expected = [(1, "d"), (2, "d"), (6, "t"), (7, "t"), (9, "l"), (10, "m"), (11, "st")]
    assert unfit(choice_of(form, "none", OLD_COLUMNS), batch_of(OLD_COLUMNS, rows)) == expected


def test_fractions_of_a_second_fit_as_each_format_keeps_them() -> None:
    moments = [
        at(1969, 12, 31, 23, 59, 59, 1),
        at(1969, 12, 31, 23, 59, 59, 1000),
        at(1970, 1, 1, 0, 0, 0, 1),
        at(2026, 1, 1, 0, 0, 0, 999_000),
    ]
    columns = {"t": "timestamp"}
    batch = batch_of(columns, [{"t": moment} for moment in moments])
    found = {
        form: [index for index, _ in unfit(choice_of(form, "none", columns), batch)]
        for form in (FileFormat.ORC, FileFormat.AVRO, FileFormat.TEXT, FileFormat.JSON)
    }
    assert found == {"orc": [0, 1], "avro": [0, 2], "text": [], "json": []}


def test_json_has_no_nan_and_csv_no_null_and_no_line_break() -> None:
    floats = {"f": "double", "l": "array<float>"}
    rows: list[dict[str, Any]] = [{"f": float("nan")}, {"f": 1.0}, {"l": [float("inf")]}, {}]
    lines = choice_of(FileFormat.JSON, "none", floats)
    assert unfit(lines, batch_of(floats, rows)) == [(0, "f"), (2, "l")]
    texts = {"a": "string", "b": "string"}
    rows = [{"a": "x", "b": "y"}, {"a": "x"}, {"a": "x\ny", "b": ""}, {"a": "\r", "b": None}]
    csv = choice_of(FileFormat.CSV, "none", texts)
    assert unfit(csv, batch_of(texts, rows)) == [(1, "b"), (2, "a"), (3, "a")]


def test_avro_follows_the_tables_own_schema(tmp_path: Path) -> None:
    columns = {"n": "bigint", "price": "decimal(9,2)", "inner": "struct<a:int>"}
    literal = """{"type": "record", "name": "Own", "namespace": "org.example", "fields": [
        {"name": "n", "type": "long"},
        {"name": "price", "type": [{"type": "bytes", "logicalType": "decimal", "precision": 9,
                                    "scale": 2}, "null"]},
        {"name": "inner", "type": ["null", {"type": "record", "name": "In", "fields": [
            {"name": "A", "type": ["null", "int"]}]}]}]}"""
    choice = replace(
        choice_of(FileFormat.AVRO, "zstd", columns), settings=((SCHEMA_LITERAL, literal),)
    )
    rows: list[dict[str, Any]] = [
        {"n": 1, "price": Decimal("-1.25"), "inner": {"a": 7}},
        {"n": None, "price": Decimal(0)},
    ]
    assert unfit(choice, batch_of(columns, rows)) == [(1, "n")]
    written = write(tmp_path, choice, batch_of(columns, rows[:1]))
    with Path(written.path).open("rb") as handle:
        found = read_columns(written.path, handle, ["n", "price", "inner"], choice)
    assert found.to_pylist() == [{"n": 1, "price": Decimal("-1.25"), "inner": {"A": 7}}]
    with pytest.raises(ValueError, match=r"price is .*decimal"):
        open_format(
            arrow_schema(schema_of(columns)),
            replace(choice, columns=schema_of({**columns, "price": "double"})),
        )
    with pytest.raises(ValueError, match="n may not be null"):
        open_format(arrow_schema(schema_of({"price": "decimal(9,2)"})), choice)


def test_parquet_timestamps_are_instants_of_either_kind(tmp_path: Path) -> None:
    columns = {"t": "timestamp", "l": "array<timestamp>", "m": "map<string,timestamp>"}
    moment = at(1, 1, 1, 0, 0, 0, 1)
    batch = batch_of(columns, [{"t": moment, "l": [moment, None], "m": [("k", moment)]}])
    micros = write(tmp_path, FileChoice(settings=(("timestamps", "micros"),)), batch)
    kept = pq.ParquetFile(micros.path).schema
    assert {kept.column(number).physical_type for number in (0, 1, 3)} == {"INT64"}
    assert "isAdjustedToUTC=true" in str(kept.column(0).logical_type)
    read = pq.read_table(micros.path).cast(batch.schema)
    assert read.to_batches()[0].equals(batch)
    assert micros.column_bounds["t"] == ("0001-01-01T00:00:00.000001Z",) * 2


def test_small_parquet_files_compress_the_columns_for_which_it_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    schema = pa.schema([("same", pa.string()), ("text", pa.string()), ("n", pa.int64())])
    columns = FileColumns(schema)

    def codecs(name: str, *parts: int) -> dict[str, str]:
        writer = LocalStorage().create_staged(str(tmp_path / name))
        file = ParquetStagedFile(writer, schema, columns=columns)
        for rows in parts:
            texts = [f"a text that comes again and again {number}" for number in range(rows)]
            values = {"same": ["x"] * rows, "text": texts, "n": list(range(rows))}
            file.write(pa.RecordBatch.from_pydict(values, schema))
            if rows != parts[-1]:
                file.flush()
        file.close()
        assert pq.read_table(tmp_path / name)["text"].to_pylist()[-1:] == texts[-1:]
        found = pq.read_metadata(tmp_path / name).row_group(0)
        chunks = [found.column(number) for number in range(found.num_columns)]
        return {of.path_in_schema: of.compression for of in chunks}

    every = dict.fromkeys(schema.names, "ZSTD")
    assert codecs("few-rows", 10) == every
    # Nothing is known before a file of some rows was closed.
    assert codecs("first", 100) == every
    assert codecs("small", 100) == {"same": "UNCOMPRESSED", "text": "ZSTD", "n": "ZSTD"}
    assert codecs("tiny", 2) == dict.fromkeys(schema.names, "UNCOMPRESSED")
    # Of a file that goes on, and of a large one, these rows say too little.
    assert codecs("two-groups", 100, 101) == every
    assert codecs("large", 2000) == every
