"""Queries over units of a table, run by Spark and written by our writer."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.chains.unit_tables import PartitionFiles, UnitFiles
from sluiceway.driver.spark.unit_jobs import UnitJobs
from sluiceway.errors import FencedError, JobFileError, TableMismatchError
from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.jobfile.problems import Mark
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.schedule.unit_sql import UnitQuery, UnitResult
from sluiceway.sinks.files.contract import PARQUET_FILES, FileFormat
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.plan import PartitionRule, RoutePlan
from sluiceway.worker.unit_files import UnitPlan
from tools.unit_jobs import local_unit_jobs

pytestmark = [
    pytest.mark.slow,
    # py4j leaves the sockets of threads that have ended to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TABLE = ReadableTable(
    (("id", "bigint"), ("country", "string"), ("ts", "timestamp")),
    (("dt", "string"), ("hr", "string"), ("kind", "int")),
    FileFormat.PARQUET,
    "",
    1,
)
ROWS = 1000


@pytest.fixture(scope="module")
def jobs() -> Iterator[UnitJobs]:
    with local_unit_jobs() as made:
        yield made


@pytest.fixture
def unit(tmp_path: Path) -> UnitFiles:
    """Two partitions of one hour, 500 rows each."""
    parts = []
    for kind in (1, 2):
        path = tmp_path / f"input-{kind}.parquet"
        ids = range(500 * (kind - 1), 500 * kind)
        rows = {
            "id": pa.array(ids, pa.int64()),
            "country": pa.array([("de", "fr")[n % 2] for n in ids]),
            "ts": pa.array([n * 1_000_000 for n in ids], pa.timestamp("us")),
        }
        pq.write_table(pa.table(rows), path, use_deprecated_int96_timestamps=True)
        parts.append(PartitionFiles(("20261120", "08", str(kind)), (str(path),)))
    return UnitFiles(tuple(parts), ROWS)


def rule(sql: str, timezone: str = "UTC") -> SqlRule:
    places = SqlPlaces("job.yaml", ((0, Mark(7, 11)),))
    return SqlRule(sql, timezone, (), (), of_table=True, places=places)


def run(
    jobs: UnitJobs,
    tmp_path: Path,
    unit: UnitFiles,
    sql: str,
    check: Callable[[], None] = lambda: None,
    **columns: str,
) -> UnitResult:
    attempt = "i7-" + "a" * 32
    layout = LedgerLayout(str(tmp_path), "hourly")
    Path(layout.attempt(attempt)).mkdir(parents=True, exist_ok=True)
    names = ("dt", "hr")
    route = RoutePlan(
        ledger="one",
        term=3,
        layout=layout,
        source=SourceAccess("table", ()),
        format=FormatChoice("table"),
        schema=Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in columns.items())),
        schema_version="",
        meta=(),
        event_time=None,
        partitions=tuple(PartitionRule(name, None, None, "unit") for name in names),
        files=PARQUET_FILES,
    )
    plan = UnitPlan(route, attempt, ("20261120", "08"))
    return jobs.run(UnitQuery(rule(sql), TABLE, unit, plan), check)


def rows_of(tmp_path: Path, result: UnitResult) -> list[tuple[object, ...]]:
    layout = LedgerLayout(str(tmp_path), "hourly")
    tables = [pq.read_table(f"{layout.stage}/{file.staged}") for file in result.files]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def test_query_reads_the_columns_of_files_and_partitions(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles
) -> None:
    sql = "SELECT concat(dt, hr) AS at, kind, country, count(*) AS n FROM input GROUP BY ALL"
    found = run(jobs, tmp_path, unit, sql, country="string", n="int", at="string", kind="int")
    assert found.read == ROWS
    assert rows_of(tmp_path, found) == [
        (country, 250, "2026112008", kind) for country in ("de", "fr") for kind in (1, 2)
    ]
    assert {file.final.rpartition("/")[0] for file in found.files} == {"dt=20261120/hr=08"}
    assert {file.values for file in found.files} == {("20261120", "08")}
    assert all(file.staged.startswith("i7-") for file in found.files)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM input ORDER BY id LIMIT 3",
        "SELECT a.id FROM input a JOIN input b USING (id) WHERE id < 3",
        "SELECT id FROM input WHERE id < 3 AND 1 = 1",
        "SELECT explode(sequence(0L, 2L)) AS id",
        "SELECT CAST(0 AS BIGINT) AS id FROM input WHERE false",
        "SELECT id FROM input JOIN (SELECT id FROM range(9) WHERE rand() < 0) USING (id)",
    ],
)
def test_rows_that_a_query_does_not_need_are_counted_all_the_same(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles, sql: str
) -> None:
    found = run(jobs, tmp_path, unit, sql, id="bigint")
    assert found.read == ROWS
    none = "false" in sql or "rand" in sql
    assert rows_of(tmp_path, found) == ([] if none else [(0,), (1,), (2,)])


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) AS n FROM input", [(0,)]),
        ("SELECT count(*) AS n FROM input GROUP BY country", []),
        ("SELECT id AS n FROM input ORDER BY country", []),
    ],
)
def test_unit_without_rows_gives_what_the_query_gives_for_none(
    jobs: UnitJobs, tmp_path: Path, sql: str, rows: list[tuple[object, ...]]
) -> None:
    found = run(jobs, tmp_path, UnitFiles((), 0), sql, n="bigint")
    assert (found.read, rows_of(tmp_path, found)) == (0, rows)


def test_columns_of_a_query_make_a_table(jobs: UnitJobs) -> None:
    sql = (
        "SELECT country AS C, count(*) n, max(ts) t, sum(CAST(id AS DECIMAL(9,2))) s "
        "FROM input GROUP BY 1"
    )
    found = jobs.columns(rule(sql), TABLE)
    assert [(field.name, field.type) for field in found.fields] == [
        ("c", parse_hive_type("string")),
        ("n", parse_hive_type("bigint")),
        ("t", parse_hive_type("timestamp")),
        ("s", parse_hive_type("decimal(19,2)")),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": "string"}, "lacks n and has id"),
        ({"id": "date"}, "column id: the SQL returns bigint, the table has date"),
    ],
)
def test_result_that_is_no_row_of_the_table_is_refused(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles, columns: dict[str, str], message: str
) -> None:
    with pytest.raises(TableMismatchError, match=message):
        run(jobs, tmp_path, unit, "SELECT id FROM input", lambda: None, **columns)


def test_query_that_cannot_be_run_is_named_with_its_place(jobs: UnitJobs) -> None:
    with pytest.raises(JobFileError, match="`nope` cannot be resolved") as told:
        jobs.columns(rule("SELECT id,\n  nope FROM input"), TABLE)
    assert told.value.where.startswith("job.yaml:7:")
    with pytest.raises(JobFileError, match="Syntax error"):
        jobs.columns(rule("SELEC 1"), TABLE)


def test_value_that_fails_halts_with_the_query(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles
) -> None:
    with pytest.raises(JobFileError, match="DIVIDE_BY_ZERO"):
        run(jobs, tmp_path, unit, "SELECT id / (id - 7) AS r FROM input", r="double")


def test_file_that_is_gone_may_be_tried_again(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles
) -> None:
    Path(unit.partitions[0].paths[0]).unlink()
    with pytest.raises(Exception, match="input-1") as told:
        run(jobs, tmp_path, unit, "SELECT id FROM input", id="bigint")
    assert not isinstance(told.value, JobFileError)


def test_query_is_given_up_when_its_route_is_left(
    jobs: UnitJobs, tmp_path: Path, unit: UnitFiles
) -> None:
    def leave() -> None:
        raise FencedError("the route is left")

    with pytest.raises(FencedError):
        run(jobs, tmp_path, unit, "SELECT id FROM input", check=leave, id="bigint")
