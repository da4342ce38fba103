"""Tables whose files are of several versions of their columns, read by Spark SQL and by SerDe.

Spark reads all of them in one session: a start is dear.
"""

import json
from typing import Any

import pytest
from pymetastore.hive_metastore import ttypes

from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter

# One server of its own for all of them.
pytestmark = pytest.mark.slow

_SPARK_TIMEOUT_S = 500
_TS = 1_795_161_600_000
_LONG_AGO = _TS - 3 * 86_400_000
_COLUMNS = """\
    - {name: id, type: bigint}
    - {name: ts, type: bigint, required: true}
    - {name: geo, type: "struct<city:string>"}
"""
_EVOLUTIONS = {
    "parquet": "add_columns",
    "orc": "follow_table",
    "text": "follow_table",
    "avro": "follow_table",
}
_BY_SERDE = ("parquet", "orc")
"""Formats that Spark reads by itself unless it is told to go by Hive's SerDe."""


def _row(number: int, **more: Any) -> bytes:
    return json.dumps({"id": number, "ts": _TS, "geo": {"city": f"c{number}"}, **more}).encode()


def _alter(metastore_uri: str, run: RouteRun) -> None:
    """As another client does it, with no CASCADE."""
    hive = run.job.route.table
    with raw_client(metastore_uri) as client:
        raw = client.get_table(hive.database, hive.table)
        held = {column.name: column.type for column in raw.sd.cols}
        held |= {"geo": "struct<city:string,zip:bigint>", "x": "bigint"}
        raw.sd.cols = [ttypes.FieldSchema(name, kind) for name, kind in held.items()]
        client.alter_table(hive.database, hive.table, raw)


@pytest.fixture(scope="module")
def runs(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, RouteRun]:
    """All tables: rows, in time and late, of the columns before and after a change."""
    found = {}
    writer = TopicWriter(bootstrap_servers)
    for file_format, evolution in _EVOLUTIONS.items():
        topic = new_topic(1, prefix=file_format)
        job = write_job(
            tmp_path_factory.mktemp(file_format),
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            table=f"evolved.{topic}",
            columns=_COLUMNS,
            hive=f", file_format: {file_format}",
            evolution=evolution,
            event_time=f"{{field: ts, unit: ms, late_table: evolved.{topic}_late}}",
        )
        run = RouteRun(job)
        writer.write(topic, [_row(0), _row(1)])
        run.catch_up()
        writer.write(topic, [_row(5, ts=_LONG_AGO)])
        run.catch_up()
        if evolution == "follow_table":
            _alter(metastore_uri, run)
        writer.write(topic, [_row(2, x=2, geo={"city": "c2", "zip": 20}), _row(3), _row(4, x=4)])
        writer.write(topic, [_row(6, x=6, geo={"city": "c6", "zip": 60}, ts=_LONG_AGO)])
        run.catch_up()
        found[file_format] = run
    return found


@pytest.fixture(scope="module")
def shown(metastore_uri: str, runs: dict[str, RouteRun]) -> dict[str, list[list[Any]]]:
    """What Spark shows of each table."""

    def select(run: RouteRun, suffix: str = "") -> str:
        table = f"{run.job.table}{suffix}"
        return f"SELECT id, x, geo.city, geo.zip FROM {table} ORDER BY id"  # noqa: S608

    def select_late(run: RouteRun) -> str:
        return select(run, "_late")

    serde = [f"SET spark.sql.hive.convertMetastore{name.capitalize()}=false" for name in _BY_SERDE]
    rows = spark_sql(
        metastore_uri,
        *map(select, runs.values()),
        *map(select_late, runs.values()),
        *serde,
        *(select(runs[name]) for name in _BY_SERDE),
        *(select_late(runs[name]) for name in _BY_SERDE),
        timeout_s=_SPARK_TIMEOUT_S,
    )
    by_serde = [f"{name} by SerDe" for name in _BY_SERDE]
    names = [*runs, *map(_late, runs), *serde, *by_serde, *map(_late, by_serde)]
    return dict(zip(names, rows, strict=True))


def _late(name: str) -> str:
    return f"late rows of {name}"


def _texts(rows: list[list[Any]]) -> list[list[str | None]]:
    return [[None if each is None else str(each) for each in row] for row in rows]


_READ = [*_EVOLUTIONS, *(f"{name} by SerDe" for name in _BY_SERDE)]


@pytest.mark.parametrize("name", _READ)
@pytest.mark.slow
def test_spark_reads_rows_of_both_versions(shown: dict[str, list[list[Any]]], name: str) -> None:
    assert _texts(shown[name]) == [
        ["0", None, "c0", None],
        ["1", None, "c1", None],
        ["2", "2", "c2", "20"],
        ["3", None, "c3", None],
        ["4", "4", "c4", None],
    ]


@pytest.mark.parametrize("name", _READ)
@pytest.mark.slow
def test_spark_reads_late_rows_of_both_versions_in_the_late_table(
    shown: dict[str, list[list[Any]]], name: str
) -> None:
    assert _texts(shown[_late(name)]) == [["5", None, "c5", None], ["6", "6", "c6", "60"]]


@pytest.mark.parametrize("name", _EVOLUTIONS)
def test_tables_of_both_versions_are_verified(runs: dict[str, RouteRun], name: str) -> None:
    assert runs[name].dirty() == []
    report = runs[name].verified()
    assert (report.rows, report.late_rows) == (5, 2)
    assert [each for each in report.unchecked if "_late" in each] == []
