"""A table that Spark fills, merges and lets go of, in a metastore: read exactly, or not at all."""

from pathlib import Path
from uuid import uuid4

import pytest

from sluiceway.errors import NotInThisVersionError, OffsetsLostError
from tools.job_files import JobFile
from tools.route_runs import RouteRun
from tools.spark_lake import spark_lake

pytestmark = pytest.mark.slow


def _job(folder: Path, metastore_uri: str, source: str, name: str) -> RouteRun:
    path = folder / f"{name}.yaml"
    path.write_text(f"""\
version: 1
name: {name.replace("_", "-")}
connections:
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
  lake: {{iceberg: {{hive: {{uri: "{metastore_uri}"}}}}}}
source: {{connection: lake, table: {source}}}
table:
  hive: {{connection: hms, name: ods.{name}}}
  columns:
  - {{name: id, type: bigint, required: true}}
  - {{name: city, type: string}}
  - {{name: at, type: timestamp}}
  - {{name: amount, type: "decimal(9,2)"}}
  partition_by: [{{name: dt, event_time: yyyyMMdd}}]
  meta: [offset]
event_time: {{field: at}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    return RouteRun(JobFile(path, f"ods.{name}"))


def _ids(run: RouteRun) -> list[object]:
    return [row[0] for row in run.rows("id")]


def test_table_of_spark_is_read_through_its_upkeep_and_not_past_what_it_removes(
    metastore_uri: str, tmp_path: Path
) -> None:
    name = f"events_{uuid4().hex[:8]}"
    table = f"lake.ods.{name}"

    def insert(first: int, end: int) -> str:
        rows = "id, concat('town', id), timestamp'2026-11-20 08:00:00' + make_interval(0,0,0,0,id)"
        return f"INSERT INTO {table} SELECT {rows}, id + 0.25 FROM range({first}, {end}, 1, 2)"  # noqa: S608

    first, second, third = (
        _job(tmp_path, metastore_uri, f"ods.{name}", f"{name}_{n}") for n in "abc"
    )
    with spark_lake(metastore_uri, tmp_path / "lake") as spark:
        spark.sql(
            "CREATE NAMESPACE IF NOT EXISTS lake.ods",
            f"CREATE TABLE {table} (id bigint NOT NULL, city string, at timestamp, "
            "amount decimal(9,2)) USING iceberg PARTITIONED BY (days(at))",
            insert(0, 50),
            insert(50, 60),
        )
        first.catch_up()
        assert _ids(first) == list(range(60))
        merge = (
            f"CALL lake.system.rewrite_data_files(table => 'ods.{name}', "
            "options => map('rewrite-all', 'true'))"
        )
        spark.sql(
            insert(60, 90),
            merge,
            f"CALL lake.system.rewrite_manifests('ods.{name}')",
            insert(90, 100),
        )
        first.catch_up()
        assert _ids(first) == list(range(100))
        expire = (
            f"CALL lake.system.expire_snapshots(table => 'ods.{name}', "
            "older_than => timestamp'2099-01-01 00:00:00', retain_last => 1)"
        )
        spark.sql(expire, insert(100, 120))
        first.catch_up()
        assert _ids(first) == list(range(120))
        rows = first.rows('_offset, city, "at", amount')
        assert [row[0] for row in rows] == list(range(120))
        assert [str(value) for value in rows[30][1:]] == ["town30", "2026-11-21 14:00:00", "30.25"]
        first.assert_verified()

        # The same rows again, of the same number, by a table that begins anew.
        spark.sql(
            f"CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT * FROM {table}"  # noqa: S608
        )
        with pytest.raises(OffsetsLostError, match="has removed or replaced rows"):
            first.catch_up()
        assert _ids(first) == list(range(120))
        second.catch_up()
        assert _ids(second) == list(range(120))
        spark.sql(insert(120, 130), f"DELETE FROM {table} WHERE id = 7")  # noqa: S608
        with pytest.raises(OffsetsLostError, match="has removed or replaced rows"):
            second.catch_up()
        assert _ids(second) == list(range(120))

        spark.sql(
            f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')",
            f"DELETE FROM {table} WHERE id = 8",  # noqa: S608
        )
        with pytest.raises(NotInThisVersionError, match="deletes of single rows"):
            third.catch_up()
        spark.sql(f"DROP TABLE {table} PURGE")
