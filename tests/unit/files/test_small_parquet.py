"""Small Parquet files of the native module and of the library hold the same."""

import random
import string
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.sinks.files.contract import (
    MICROS,
    TIMESTAMPS,
    FileChoice,
    FileFormat,
    WrittenFile,
)
from sluiceway.sinks.files.field_ids import FIELD_IDS, INSTANTS, ids_setting
from sluiceway.sinks.files.parquet_file import ParquetFormat
from sluiceway.sinks.files.small_parquet import MOST_ROWS, SmallParquetFiles
from sluiceway.storage.local import LocalStorage

needs_module = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)

_EXACT = Context(prec=38)
Draw = Callable[[random.Random], Any]


def text(of: random.Random) -> str:
    return "".join(of.choices(string.ascii_lowercase + "é\u4e2d", k=of.choice([0, 1, 3, 40])))


def moment(of: random.Random) -> datetime:
    begin = datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    return begin + timedelta(seconds=of.randrange(300_000_000_000), microseconds=of.randrange(9))


def decimal(precision: int, scale: int) -> Draw:
    most = 10**precision - 1
    return lambda of: Decimal(of.choice([0, of.randint(-most, most), most, -most])).scaleb(
        -scale, _EXACT
    )


FLOATS = [0.0, -0.0, float("nan"), 1.5, -2.25, 1e30]

SIMPLE: dict[str, tuple[pa.DataType, Draw]] = {
    "boolean": (pa.bool_(), lambda of: of.random() < 0.5),
    "tinyint": (pa.int8(), lambda of: of.randint(-128, 127)),
    "smallint": (pa.int16(), lambda of: of.randint(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), lambda of: of.randint(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), lambda of: of.randint(-(2**63), 2**63 - 1)),
    "few": (pa.int64(), lambda of: of.choice([5, -7, 2**40])),
    "float": (pa.float32(), lambda of: of.choice(FLOATS)),
    "double": (pa.float64(), lambda of: of.choice([*FLOATS, of.random()])),
    "decimal": (pa.decimal128(18, 2), decimal(18, 2)),
    "narrow": (pa.decimal128(5, 5), decimal(5, 5)),
    "wide": (pa.decimal128(38, 10), decimal(38, 10)),
    "string": (pa.string(), text),
    "named": (pa.dictionary(pa.int32(), pa.string()), lambda of: of.choice(["a", "bb", ""])),
    "binary": (pa.binary(), lambda of: of.randbytes(of.choice([0, 1, 9]))),
    "long": (pa.string(), lambda of: of.choice(string.ascii_letters) * 5_000),
    "date": (pa.date32(), lambda of: date.fromordinal(of.randint(1, 3_652_059))),
    "timestamp": (pa.timestamp("us"), moment),
    "millis": (pa.timestamp("ms"), lambda of: of.randint(-(10**12), 10**12)),
}

SEEDS = range(4)
ROWS = [1, 7, 8, 9, 64, 333]


def nested(of: random.Random, depth: int) -> tuple[pa.DataType, Draw]:
    """A type, perhaps with others inside, and what draws its values."""
    shape = of.choice(["simple", "list", "map", "struct"]) if depth else "simple"
    if shape == "simple":
        name = of.choice(sorted(set(SIMPLE) - {"named", "long"}))
        return SIMPLE[name]
    kind, draw = nested(of, depth - 1)
    if shape == "list":
        return pa.list_(kind), lambda of: [maybe(draw)(of) for _ in range(of.choice([0, 1, 3]))]
    if shape == "map":
        pairs = lambda of: [(text(of), maybe(draw)(of)) for _ in range(of.choice([0, 1, 3]))]  # noqa: E731
        return pa.map_(pa.string(), kind), pairs
    other, draws = nested(of, depth - 1)
    return pa.struct([("a", kind), ("b", other)]), lambda of: {
        "a": maybe(draw)(of),
        "b": maybe(draws)(of),
    }


def maybe(draw: Draw) -> Draw:
    return lambda of: None if of.random() < 0.2 else draw(of)


def column(of: random.Random, kind: pa.DataType, draw: Draw, rows: int) -> pa.Array:
    share = of.choice([0.0, 0.1, 0.9, 1.0])
    values = [None if of.random() < share else draw(of) for _ in range(rows)]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def drawn_rows(seed: int, rows: int) -> pa.RecordBatch:
    """Every simple type, and nested ones; a slice, so that no column begins with its memory."""
    of = random.Random(seed * 1_000 + rows)  # noqa: S311 - test data
    kinds = dict(SIMPLE) | {f"nested{number}": nested(of, 3) for number in range(6)}
    arrays = [column(of, kind, draw, rows + 3) for kind, draw in kinds.values()]
    return pa.RecordBatch.from_arrays(arrays, list(kinds)).slice(3)


def choice_of(schema: pa.Schema, mode: str, codec: str = "zstd") -> FileChoice:
    settings: tuple[tuple[str, str], ...] = ()
    if mode == MICROS:
        settings = ((TIMESTAMPS, MICROS),)
    if mode == "ids":
        ids = {path: number for number, path in enumerate(paths_of(schema), 1)}
        settings = ((FIELD_IDS, ids_setting(ids)), (INSTANTS, "[]"))
    return FileChoice(FileFormat.PARQUET, codec, None, settings)


def paths_of(schema: pa.Schema) -> list[str]:
    found: list[str] = []

    def add(path: str, kind: pa.DataType) -> None:
        found.append(path)
        if pa.types.is_struct(kind):
            for field in kind:
                add(f"{path}.{field.name}", field.type)
        elif pa.types.is_map(kind):
            add(f"{path}.key", kind.key_type)
            add(f"{path}.value", kind.item_type)
        elif pa.types.is_list(kind):
            add(f"{path}.element", kind.value_type)

    for field in schema:
        add(field.name, field.type)
    return found


def written(path: Path, choice: FileChoice, *batches: pa.RecordBatch) -> WrittenFile:
    file = ParquetFormat(batches[0].schema, choice).new_file(
        LocalStorage().create_staged(str(path))
    )
    for batch in batches:
        file.write(batch)
    return file.close()


def is_native(path: Path) -> bool:
    return bool(pq.read_metadata(path).created_by.startswith("sluiceway"))


def rows_of(path: Path) -> pa.Table:
    # Nanoseconds would not reach the first and the last years.
    return pq.read_table(path, coerce_int96_timestamp_unit="us")


def said_of(path: Path) -> list[tuple[Any, ...]]:
    """Statistics of all columns."""
    group = pq.read_metadata(path).row_group(0)
    found: list[tuple[Any, ...]] = []
    for number in range(group.num_columns):
        chunk = group.column(number)
        of = chunk.statistics
        bounds = (repr(of.min), repr(of.max)) if of is not None and of.has_min_max else None
        nulls = None if of is None else of.null_count
        found.append((chunk.path_in_schema, chunk.num_values, nulls, bounds))
    return found


def differences(native: Path, library: Path) -> list[str]:
    """In what two files differ, apart from how their values are encoded."""
    found = []
    if not pq.read_metadata(native).schema.equals(pq.read_metadata(library).schema):
        found.append("schema")
    if pq.read_schema(native) != pq.read_schema(library):
        found.append("Arrow schema")
    columns = [rows_of(path).to_pydict() for path in (native, library)]
    found += [name for name in columns[0] if repr(columns[0][name]) != repr(columns[1].get(name))]
    found += [
        f"statistics of {one[0]}: {one} {other}"
        for one, other in zip(said_of(native), said_of(library), strict=True)
        if one != other
    ]
    return found


@needs_module
@pytest.mark.parametrize("mode", ["int96", MICROS, "ids"])
@pytest.mark.parametrize("rows", ROWS)
def test_native_files_hold_what_those_of_the_library_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, mode: str
) -> None:
    native, library = tmp_path / "native", tmp_path / "library"
    for seed in SEEDS:
        batch = drawn_rows(seed, rows)
        choice = choice_of(batch.schema, mode, codec="snappy" if seed == 1 else "zstd")
        one = written(native, choice, batch)
        with monkeypatch.context() as patch:
            patch.setenv(SWITCH, "0")
            other = written(library, choice, batch)
        assert (is_native(native), is_native(library)) == (True, False)
        assert differences(native, library) == []
        assert one.column_bounds == other.column_bounds
        assert one.rows == other.rows == rows
        assert one.seal.size_bytes == native.stat().st_size
        native.unlink()
        library.unlink()


EDGES = {
    "longest bounds": pa.array(["a" * 4_096, "b" * 4_096]),
    "longer bound": pa.array(["a", "b" * 4_097]),
    "NaN": pa.array([float("nan"), None, float("nan")]),
    "zero": pa.array([0.0, 0.0]),
    "negative zero": pa.array([-0.0], pa.float32()),
    "infinity": pa.array([float("inf"), 1.0]),
    "first days": pa.array([-1, 0, 1], pa.int32()).cast(pa.date32()),
    "seconds": pa.array([-1, None, 1], pa.timestamp("s")),
    "large": pa.array([["a", None], [], None], pa.large_list(pa.large_string())),
    "null over values": pa.StructArray.from_arrays(
        [pa.array([1, 2, 3, 4]).slice(1)], ["x"], mask=pa.array([False, True, False])
    ),
    "null over items": pa.ListArray.from_arrays(
        pa.array([1, 2, 4], pa.int32()), pa.array([1, 2, 3, 4]), mask=pa.array([True, False])
    ),
    "runs": pa.array([7] * 9 + [None] * 9 + [8] * 15 + [None] + [9] * 31),
}


@needs_module
@pytest.mark.parametrize("name", EDGES)
def test_edges_are_written_as_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    native, library = tmp_path / "native", tmp_path / "library"
    batch = pa.RecordBatch.from_arrays([EDGES[name]], ["c"])
    one = written(native, choice_of(batch.schema, "int96"), batch)
    monkeypatch.setenv(SWITCH, "0")
    other = written(library, choice_of(batch.schema, "int96"), batch)
    assert (is_native(native), differences(native, library)) == (True, [])
    assert one.column_bounds == other.column_bounds


@needs_module
@pytest.mark.parametrize("name", [*SIMPLE, "nested"])
def test_one_other_value_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, draw = SIMPLE.get(name, (pa.list_(pa.int32()), lambda of: [of.randrange(9)]))
    of = random.Random(7)  # noqa: S311 - test data
    values = [draw(of) for _ in range(20)]
    other = next(value for _ in range(99) if repr(value := draw(of)) != repr(values[11]))
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    rows, changed = (
        pa.RecordBatch.from_arrays([pa.array(each, plain).cast(kind)], ["c"])
        for each in (values, [*values[:11], other, *values[12:]])
    )
    written(tmp_path / "native", choice_of(rows.schema, "int96"), changed)
    monkeypatch.setenv(SWITCH, "0")
    written(tmp_path / "library", choice_of(rows.schema, "int96"), rows)
    assert "c" in differences(tmp_path / "native", tmp_path / "library")


@needs_module
def test_another_reader_finds_the_rows_of_native_files(tmp_path: Path) -> None:
    batch = drawn_rows(1, 333).drop_columns(["named", "millis"])
    written(tmp_path / "native", choice_of(batch.schema, MICROS), batch)
    found = duckdb.connect().read_parquet(str(tmp_path / "native")).to_arrow_table()
    for name in ("bigint", "decimal", "wide", "string", "long", "date", "boolean", "smallint"):
        assert found[name].to_pylist() == batch[name].to_pylist()


@needs_module
def test_batches_of_a_file_are_written_in_their_order(tmp_path: Path) -> None:
    first, second = drawn_rows(0, 9), drawn_rows(0, 9).slice(4)
    written(tmp_path / "native", choice_of(first.schema, "int96"), first, second)
    assert is_native(tmp_path / "native")
    found = pq.read_table(tmp_path / "native")["bigint"].to_pylist()
    assert found == [*first["bigint"].to_pylist(), *second["bigint"].to_pylist()]


@needs_module
@pytest.mark.parametrize(
    ("codec", "rows", "writer"),
    [
        ("zstd", MOST_ROWS, "native"),
        ("zstd", MOST_ROWS + 1, "library"),
        ("snappy", 1, "native"),
        ("gzip", 1, "library"),
    ],
)
def test_the_library_writes_large_files_and_other_codecs(
    tmp_path: Path, codec: str, rows: int, writer: str
) -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(rows))})
    written(tmp_path / "a", choice_of(batch.schema, "int96", codec), batch)
    assert is_native(tmp_path / "a") == (writer == "native")
    assert pq.read_table(tmp_path / "a")["n"].to_pylist() == list(range(rows))


@needs_module
def test_the_library_writes_large_rows_and_types_that_the_module_does_not_know(
    tmp_path: Path,
) -> None:
    large = pa.RecordBatch.from_pydict({"s": ["x" * (3 << 20)]})
    written(tmp_path / "large", choice_of(large.schema, "int96"), large)
    unsigned = pa.RecordBatch.from_arrays([pa.array([1, None, 2**64 - 1], pa.uint64())], ["n"])
    written(tmp_path / "unsigned", choice_of(unsigned.schema, "int96"), unsigned)
    assert not is_native(tmp_path / "large")
    assert not is_native(tmp_path / "unsigned")
    assert pq.read_table(tmp_path / "unsigned")["n"].to_pylist() == [1, None, 2**64 - 1]


@needs_module
def test_a_null_where_there_may_be_none_is_refused() -> None:
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False).close()
    small = SmallParquetFiles.like(
        sink.getvalue().to_pybytes(), schema, compression="zstd", level=1
    )
    assert small is not None
    with pytest.raises(ValueError, match="a column without nulls has one"):
        small.file(pa.table([pa.array([1, None], pa.int32())], schema=schema))
