"""From `int` to `bigint`: the recipe of docs/guides/hive-tables.md, and old files by it."""

import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from sluiceway.cli.app import run_command
from sluiceway.errors import TableMismatchError
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter

_TS = 1_795_161_600_000
_WIDE = 3_000_000_000
_COLUMNS = """\
    - {name: id, type: bigint}
    - {name: ts, type: bigint, required: true}
    - {name: n, type: int}
"""
_RECIPE = re.compile(r"```python\n( +from pymetastore.*?)```", re.DOTALL)
_PAGE = Path(__file__).parents[2] / "docs" / "guides" / "hive-tables.md"
_SERDE = {"spark.sql.hive.convertMetastoreParquet": "false"}


def _row(number: int, n: int, ts: int = _TS) -> bytes:
    return json.dumps({"id": number, "ts": ts, "n": n}).encode()


def _alter_by_the_recipe(metastore_uri: str, database: str, table: str) -> None:
    """The lines of the page, for this table."""
    (found,) = _RECIPE.findall(_PAGE.read_text("utf-8"))
    text = re.sub(r"^   ", "", found, flags=re.MULTILINE)
    host, port = metastore_uri.removeprefix("thrift://").split(":")
    text = text.replace('"127.0.0.1", 9083', f'"{host}", {port}')
    text = text.replace('"ods", "orders"', f'"{database}", "{table}"')
    exec(compile(text, "recipe", "exec"), {})  # noqa: S102 - the page's own


@pytest.mark.slow
def test_old_and_new_files_are_one_column_to_all_readers(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(1)
    writer = TopicWriter(bootstrap_servers)
    job = write_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        columns=_COLUMNS,
    )
    # The second hour is not written again, and its partition has to follow all the same.
    writer.write(topic, [_row(0, 7), _row(1, _WIDE), _row(2, 8, _TS + 3_600_000)])
    RouteRun(job).catch_up()
    job.path.write_text(job.path.read_text().replace("n, type: int", "n, type: bigint"))
    hive = job.route.table
    statement = f"ALTER TABLE {hive.database}.{hive.table} CHANGE n n bigint CASCADE"
    with pytest.raises(TableMismatchError, match=re.escape(statement)):
        RouteRun(job).catch_up()
    _alter_by_the_recipe(metastore_uri, hive.database, hive.table)
    run = RouteRun(job)
    writer.write(topic, [_row(3, -_WIDE)])
    run.catch_up()
    assert run_command(["dirty", "replay", str(job.path)]) == 0
    wanted = [(0, 7), (1, _WIDE), (2, 8), (3, -_WIDE)]
    run.assert_verified()
    capsys.readouterr()
    assert run_command(["files", str(job.path), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    paths = sorted((each["path"] for each in told["files"]), reverse=True)
    schemas = [ds.dataset(path, format="parquet").schema for path in paths]
    assert {schema.field("n").type for schema in schemas} == {pa.int32(), pa.int64()}
    unified = pa.unify_schemas(schemas, promote_options="permissive")
    for order in (paths, paths[::-1]):
        query = "SELECT id, n FROM read_parquet(?, union_by_name = true) ORDER BY id"
        assert duckdb.execute(query, [order]).fetchall() == wanted
        rows = ds.dataset(order, format="parquet", schema=unified).to_table()
        assert sorted((row["id"], row["n"]) for row in rows.to_pylist()) == wanted
    select = f"SELECT id, n FROM {run.job.table} ORDER BY id"  # noqa: S608 - a table of this test
    for settings in ({}, _SERDE):
        (shown,) = spark_sql(metastore_uri, select, settings=settings)
        assert [tuple(row) for row in shown] == wanted
