"""Tables of every file format: filled from Kafka, verified, and read by Spark SQL per type.

Spark reads all of them in one session: a start is dear.
"""

import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc
from pymetastore.hive_metastore import ttypes

from sluiceway.observe.steps import Step
from tools import typed_rows as typed
from tools.job_files import event, write_job
from tools.lab_fixture import TopicFactory
from tools.plain_readers import read_rows, shown_value
from tools.raw_metastore import raw_client, storage
from tools.route_faults import Crash, CrashAt, NewRun, live
from tools.route_runs import RouteRun
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter

# A table in each format is filled for all of them.
pytestmark = pytest.mark.slow

_SPARK_TIMEOUT_S = 500
_OLD = (typed.JULIAN, typed.FRACTION)
# Spark's own reading of JSON has no char and no varchar.
_JSON_COLUMNS = tuple(
    replace(column, type="string") if "char(" in column.type else column
    for column in typed.COLUMNS
    if column.type != "binary"
)
_JSON_SCHEMA = ", ".join(f"{column.name} {column.type}" for column in _JSON_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Case:
    """A table; `dirty` are rows that its files cannot hold, as the format's rules say."""

    hive: str
    dirty: tuple[int, ...] = ()
    columns: tuple[typed.TypedColumn, ...] = typed.COLUMNS
    serde: dict[str, str] | None = None


_CASES = {
    "parquet": _Case(", file_format: parquet"),
    "parquet_micros": _Case(", parquet_timestamps: micros"),
    "orc": _Case(", file_format: orc", _OLD),
    "orc_lz4": _Case(", file_format: orc, compression: lz4", _OLD),
    "text": _Case(", file_format: text", (typed.ONE_EMPTY,)),
    "text_snappy": _Case(", file_format: text, compression: snappy", (typed.ONE_EMPTY,)),
    "text_lz4": _Case(", file_format: text, compression: lz4", (typed.ONE_EMPTY,)),
    # Someone else's table, without an escape: what holds a delimiter cannot be written.
    "text_theirs": _Case(
        ", compression: none",
        (typed.ONE_EMPTY, typed.MICROS, typed.DELIMITERS),
        serde={"field.delim": "|", "colelction.delim": ";", "mapkey.delim": "^"},
    ),
    "avro": _Case(", file_format: avro", (*_OLD, typed.MICROS)),
    "avro_zstd": _Case(", file_format: avro, compression: zstd", (*_OLD, typed.MICROS)),
    "json": _Case(", file_format: json", (typed.NOT_FINITE,), _JSON_COLUMNS),
}
# What Spark reads by itself unless it is told not to; text and Avro it always reads by SerDe.
_BY_SERDE = ("parquet", "orc", "orc_lz4")
_FED = "avro"
"""Whose dirty rows go to a table too."""

_WITHOUT_SPARK = {
    "parquet": "pyarrow",
    "parquet_micros": "pyarrow",
    "orc": "pyarrow",
    "orc_lz4": "pyarrow",
    "parquet by DuckDB": "duckdb",
    "parquet_micros by DuckDB": "duckdb",
}
# Hive's reader of Parquet, as Spark brings it, takes days before 1582-10-15 for Julian ones.
_SHOWN_SHIFTED = {"parquet by SerDe": typed.JULIAN}


@pytest.fixture(scope="module")
def runs(
    bootstrap_servers: str,
    metastore_uri: str,
    warehouse: Path,
    new_topic: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, RouteRun]:
    """All tables, filled."""
    found = {}
    writer = TopicWriter(bootstrap_servers)
    for name, case in _CASES.items():
        topic = new_topic(1, prefix=name)
        writer.write(topic, [typed.payload(number) for number in typed.ROWS])
        job = write_job(
            tmp_path_factory.mktemp(name),
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            table=f"formats.{topic}",
            columns="".join(column.yaml() for column in case.columns),
            partition_by="[{name: part, column: id}]" if name == "orc_lz4" else "[]",
            event_time="",
            hive=case.hive,
            dirty=f"{{store: {{table: formats.{topic}_dirty}}}}" if name == _FED else "{}",
        )
        if case.serde is not None:
            _create_theirs(metastore_uri, warehouse, topic, case)
        found[name] = RouteRun(job)
        found[name].catch_up()
    with live(found[_FED]) as running:
        root = found[_FED].root()
        files = len(list(root.glob("_sluiceway/*/dirty/*")))
        copies = Path(f"{root}_dirty")
        running.wait_for(lambda: len(list(copies.glob("day=*/*"))) == files)
        running.stop()
    assert len(found[_FED].dirty()) == len(_CASES[_FED].dirty)
    return found


@pytest.fixture(scope="module")
def shown(metastore_uri: str, runs: dict[str, RouteRun]) -> dict[str, list[list[Any]]]:
    """What Spark shows of each table; by Hive's SerDes where it does not always go by them."""
    statements = {name: _statement(name, run) for name, run in runs.items()}
    for kind in ("Orc", "Parquet"):
        statements[kind] = f"SET spark.sql.hive.convertMetastore{kind}=false"
    for name in _BY_SERDE:
        statements[f"{name} by SerDe"] = _statement(name, runs[name])
    statements["dirty rows"] = (
        "SELECT offset, stage, reason, decode(value, 'UTF-8'), size(headers), "  # noqa: S608
        "day BETWEEN '2020-01-01' AND string(current_date() + 1) "
        f"FROM {runs[_FED].job.table}_dirty ORDER BY offset"
    )
    rows = spark_sql(metastore_uri, *statements.values(), timeout_s=_SPARK_TIMEOUT_S)
    return dict(zip(statements, rows, strict=True))


def _create_theirs(metastore_uri: str, warehouse: Path, topic: str, case: _Case) -> None:
    columns = [(column.name, column.type) for column in case.columns]
    meta = [("_topic", "string"), ("_partition", "int"), ("_offset", "bigint")]
    described = storage(
        f"file:{warehouse}/theirs/{topic}",
        [*columns, ("_timestamp", "timestamp"), *meta],
        format_name="text",
    )
    described.serdeInfo.parameters = case.serde
    table = ttypes.Table(
        tableName=topic,
        dbName="formats",
        owner="someone",
        sd=described,
        partitionKeys=[],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    with raw_client(metastore_uri) as raw:
        raw.create_table(table)


def _statement(name: str, run: RouteRun) -> str:
    columns = _CASES[name].columns
    if name != "json":
        return typed.select(run.job.table, columns)
    # Spark does not come with Hive's JsonSerDe: it reads the lines by the table's columns.
    lines = (
        f"SELECT row.* FROM (SELECT from_json(value, '{_JSON_SCHEMA}', "  # noqa: S608
        "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss[.SSSSSS][.SSS]', 'mode', 'FAILFAST')) AS row "
        f"FROM text.`{run.root()}`)"
    )
    return typed.select(f"({lines})", columns)


@pytest.mark.parametrize("name", [*_CASES, *(f"{name} by SerDe" for name in _BY_SERDE)])
def test_spark_reads_every_value_as_it_was_put_in(
    shown: dict[str, list[list[Any]]], name: str
) -> None:
    case, rows = _CASES[name.removesuffix(" by SerDe")], shown[name]
    shifted = _SHOWN_SHIFTED.get(name)
    if shifted is not None:
        rows = [row for row in rows if int(row[0]) != shifted]
        case = replace(case, dirty=(*case.dirty, shifted))
    _assert_as_put_in(rows, case)


def test_spark_reads_the_table_of_dirty_rows(shown: dict[str, list[list[Any]]]) -> None:
    wanted = [
        [number, "write", "unrepresentable", typed.payload(number).decode(), 0, True]
        for number in sorted(_CASES[_FED].dirty)
    ]
    assert shown["dirty rows"] == wanted


@pytest.mark.parametrize("name", _WITHOUT_SPARK)
def test_other_readers_see_every_value_as_it_was_put_in(
    runs: dict[str, RouteRun], name: str
) -> None:
    of, _, _ = name.partition(" by ")
    case, root = _CASES[of], runs[of].root()
    files = [path for path in root.rglob("*") if path.is_file() and "_sluiceway" not in str(path)]
    if of.startswith("orc"):
        # pyarrow reads timestamps of ORC up to the year 2262 only; Spark has shown them.
        case = replace(case, columns=tuple(each for each in case.columns if each.name != "t"))
    # The column that rows are put into folders by is not in the files.
    rows = sorted(read_rows(files, by=_WITHOUT_SPARK[name]), key=lambda row: row["_offset"])
    shown = [
        [shown_value(column, row | {"id": row["_offset"]}) for column in case.columns]
        for row in rows
    ]
    _assert_as_put_in(shown, case)


@pytest.mark.slow
def test_names_of_fields_inside_are_found_by_spark_and_by_hives_own_readers(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    """Spark asks without case, Hive's readers in lower case; Avro has no blank in a name."""
    statements = {}
    for name, field in {
        "parquet": "in time",
        "orc": "in time",
        "text": "in time",
        "avro": "b",
    }.items():
        run, topic = new_run(
            1,
            hive=f", file_format: {name}",
            columns=f"    - {{name: geo, type: 'struct<A1:int,{field}:array<struct<C:int>>>'}}\n",
            partition_by="[]",
            event_time="",
        )
        writer.write(topic, [json.dumps({"geo": {"A1": 7, field: [{"C": 8}]}}).encode()])
        run.catch_up()
        table = run.job.table
        statements[name] = f"SELECT geo.A1, geo.`{field}`[0].c FROM {table} WHERE geo.a1 = 7"  # noqa: S608
    by_serde = ["SET spark.sql.hive.convertMetastoreOrc=false", statements["orc"]]
    rows = spark_sql(metastore_uri, *statements.values(), *by_serde, timeout_s=_SPARK_TIMEOUT_S)
    assert [*rows[:4], rows[5]] == [[[7, 8]]] * 5


def _assert_as_put_in(rows: list[list[Any]], case: _Case) -> None:
    kept = [number for number in typed.ROWS if number not in case.dirty]
    assert [int(row[0]) for row in rows] == kept
    for number, row in zip(kept, rows, strict=True):
        found = dict(zip(case.columns, typed.comparable(row, case.columns), strict=True))
        for column, wanted in zip(case.columns, typed.expected(number, case.columns), strict=True):
            assert found[column] == wanted, f"row {number}, column {column.name}"


@pytest.mark.parametrize("name", _CASES)
def test_rows_that_files_cannot_hold_are_dirty_with_their_reason(
    runs: dict[str, RouteRun], name: str
) -> None:
    expected = [(number, "write", "unrepresentable") for number in sorted(_CASES[name].dirty)]
    assert runs[name].dirty('"offset", stage, reason') == expected


@pytest.mark.parametrize("name", _CASES)
def test_deep_verify_finds_every_offset_in_the_files(runs: dict[str, RouteRun], name: str) -> None:
    report = runs[name].verified()
    assert report.rows == len(typed.ROWS) - len(_CASES[name].dirty)
    assert report.unchecked == []


@pytest.mark.parametrize("step", [Step.WRITTEN, Step.COMMITTED, Step.PUBLISHED])
@pytest.mark.parametrize("file_format", ["orc", "text"])
def test_recovery_after_a_crash_has_every_row_once(
    new_run: NewRun, writer: TopicWriter, file_format: str, step: Step
) -> None:
    run, topic = new_run(2, hive=f", file_format: {file_format}, compression: none")
    for part in range(2):
        writer.write(topic, [event(n, city="a\x01b\nc") for n in range(20)], partition=part)
    with pytest.raises(Crash):
        run.catch_up(observe=CrashAt(step))
    run.catch_up()
    expected = sorted((part, n) for part in range(2) for n in range(20))
    assert sorted(_origins_of(run.root(), file_format)) == expected
    assert run.verified().rows == len(expected)


def _origins_of(root: Path, file_format: str) -> list[tuple[int, int]]:
    """Partition and offset of all published rows, read by nothing of the package."""
    if file_format == "orc":
        tables = [orc.ORCFile(path).read() for path in root.glob("dt=*/hr=*/*.orc")]
        rows = [row for table in tables for row in table.to_pylist()]
        return [(row["_partition"], row["_offset"]) for row in rows]
    lines = [
        line
        for path in root.glob("dt=*/hr=*/*.txt")
        for line in path.read_text().replace("\\\x01", " ").splitlines()
    ]
    return [(int(line.split("\x01")[5]), int(line.split("\x01")[6])) for line in lines]


def test_csv_table_is_filled_and_counted_by_verify(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run(
        1,
        hive=", file_format: csv",
        columns='    - {name: a, type: string}\n    - {name: b, type: string, default: ""}\n',
        partition_by="[]",
        event_time="",
        meta="[topic]",
    )
    writer.write(topic, [b'{"a":"x,\\"y\\\\"}', b'{"b":"no a"}', b'{"a":"1\\n2"}'])
    run.catch_up()
    (path,) = run.root().glob("*.csv.gz")
    assert gzip.decompress(path.read_bytes()) == f'"x,\\"y\\\\","","{topic}"\n'.encode()
    assert run.dirty('"offset", reason, path') == [
        (1, "unrepresentable", "a"),
        (2, "unrepresentable", "a"),
    ]
    report = run.verified()
    assert report.rows == 1
    assert any("offsets in the files" in line for line in report.unchecked)
