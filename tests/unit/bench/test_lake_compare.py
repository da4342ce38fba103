"""The comparison of lake tables: its closing line, Flink's own SQL, Kafka Connect's settings."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def bench() -> Iterator[dict[str, Any]]:
    names = ("lake_compare", "lake_connect", "lake_runs", "lake_trino", "process_tree", "workloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield {name: importlib.import_module(f"bench.{name}") for name in names}


def run(bench: dict[str, Any], cpu_s: float, wall_s: float, snapshots: int, files: int) -> Any:
    usage = bench["process_tree"].TreeUsage(0, wall_s, cpu_s, cpu_s, cpu_s, 1, 0.0, 1, 0)
    return bench["lake_runs"].LakeRun(usage, snapshots, files)


def runs_of_three(bench: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        "native": [run(bench, 10.0, 20.0, 1, 24), run(bench, 12.0, 36.0, 3, 30)],
        "library": [run(bench, 10.0, 20.0, 1, 24), run(bench, 16.0, 40.0, 4, 40)],
        "flink": [run(bench, 12.0, 20.0, 2, 24), run(bench, 22.0, 60.0, 6, 90)],
    }


def test_closing_line_has_slopes_ratios_and_what_an_hour_makes(
    bench: dict[str, Any], tmp_path: Path
) -> None:
    connect = bench["lake_connect"].ConnectSide(tmp_path)
    connect.runs += [run(bench, 15.0, 30.0, 2, 48), run(bench, 31.0, 72.0, 7, 200)]
    told = bench["lake_compare"].closing((100_000, 1_100_000), runs_of_three(bench), connect)
    assert told["cpu_us"] == {"native": 2.0, "library": 6.0, "flink": 10.0, "connect": 16.0}
    assert (told["cpu_ratio_native"], told["cpu_ratio_library"]) == (5.0, 1.667)
    hourly = {"native": 300, "library": 360, "flink": 360, "connect": 350}
    assert told["snapshots_an_hour"] == hourly
    files = {"native": 3_000, "library": 3_600, "flink": 5_400, "connect": 10_000}
    assert told["files_an_hour"] == files
    assert {name: value for name, value in told.items() if name.startswith("connect_")} == {
        "connect_cpu_us": 16.0,
        "connect_ratio_native": 8.0,
        "connect_ratio_library": 2.667,
        "connect_rows_exact": True,
        "connect_files": 200,
        "connect_snapshots": 7,
    }


def test_closing_line_says_why_connect_was_not_measured_and_has_the_others(
    bench: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(cache: Path) -> Path:
        raise bench["lake_connect"].ServerFailedError("mvn: it said no")

    monkeypatch.setattr(bench["lake_connect"], "fetch_sink", missing)
    connect = bench["lake_connect"].ConnectSide(tmp_path)
    wanted = bench["workloads"].Totals(2, 2, 3, 4, (), 1)
    servers = bench["lake_runs"].Servers("broker:1", "http://catalog")
    assert connect.take_in(servers, "topic", "t", wanted, tmp_path / "t") is None
    told = bench["lake_compare"].closing((100_000, 1_100_000), runs_of_three(bench), connect)
    assert told["connect_not_measured"] == "Maven did not fetch its jars"
    assert told["cpu_us"] == {"native": 2.0, "library": 6.0, "flink": 10.0}
    assert told["verified"]


def test_a_table_of_connect_that_is_not_its_topic_is_told(
    bench: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = bench["lake_connect"]

    def doubled(*_: object) -> None:
        raise side.WrongOutputError("t: (3,) instead of (2,)")

    monkeypatch.setattr(side, "fetch_sink", lambda cache: cache)
    monkeypatch.setattr(side, "run_connect", lambda *_: None)
    monkeypatch.setattr(side, "load_catalog", MagicMock())
    monkeypatch.setattr(side, "checked", doubled)
    connect = side.ConnectSide(tmp_path)
    wanted = bench["workloads"].Totals(2, 2, 3, 4, (), 1)
    servers = bench["lake_runs"].Servers("broker:1", "http://catalog")
    assert connect.take_in(servers, "topic", "t", wanted, tmp_path / "t") is None
    assert connect.figures({}) == {
        "connect_not_measured": "its table is not its topic",
        "connect_rows_exact": False,
    }


def test_connect_has_a_group_of_its_own_and_the_columns_of_the_record(
    bench: dict[str, Any],
) -> None:
    side = bench["lake_connect"]
    servers = bench["lake_runs"].Servers("broker:1", "http://catalog")
    told = side.sink_settings(servers, "topic", "t", "control")
    assert (told["name"], told["topics"], told["iceberg.tables"]) == ("t", "topic", "bench.t")
    assert told["iceberg.control.commit.interval-ms"] == "10000"
    assert told["transforms.record.offset.field"] == "kafka_offset"


def test_table_of_connect_has_the_same_columns_and_hidden_partitions_by_the_hour(
    bench: dict[str, Any],
) -> None:
    catalog = MagicMock()
    bench["lake_connect"].create_table(catalog, "t")
    (name, schema), given = catalog.create_table.call_args
    assert name == "bench.t"
    assert str(schema.find_type("amount")) == "decimal(18, 2)"
    assert str(schema.find_type("kafka_timestamp")) == "timestamptz"
    (hour,) = given["partition_spec"].fields
    assert schema.find_column_name(hour.source_id) == "ts"
    assert hour.transform.transform(schema.find_type("ts"))(7_200_001) == 7_200_000


def test_flink_writes_the_same_columns_and_partitions_without_a_shuffle(
    bench: dict[str, Any],
) -> None:
    runs = bench["lake_runs"]
    sql = runs.sink_statements(runs.Servers("broker:1", "http://catalog"), "topic", "t")
    assert "'uri' = 'http://catalog'" in sql[1]
    assert "PARTITIONED BY (`dt`, `hr`)" in sql[3]
    assert "'write.distribution-mode' = 'none'" in sql[3]
    assert "`device` ROW<`os` STRING, `version` STRING, `width` INT, `height` INT>" in sql[3]
    assert sql[-1].startswith("INSERT INTO lake.bench.t SELECT `id`, `ts`,")


def test_times_whose_sum_is_more_than_64_bits_are_compared(bench: dict[str, Any]) -> None:
    rows = {
        "id": [1, 2],
        "ts": [2**63 - 1, 2**63 - 1],
        "quantity": pa.array([3, 4], pa.int32()),
        "amount": pa.array([Decimal("0.10"), Decimal("0.20")], pa.decimal128(18, 2)),
        "user_id": [5, 6],
    }
    catalog = MagicMock()
    catalog.load_table.return_value.scan.return_value.to_arrow.return_value = pa.table(rows)
    wanted = bench["workloads"].Totals(2, 2, 3, 2**64 - 2, (7, Decimal("0.30"), 11), 1)
    usage = run(bench, 1.0, 1.0, 1, 1).usage
    assert bench["lake_runs"].checked(catalog, "t", wanted, usage).usage == usage
    with pytest.raises(bench["lake_runs"].WrongOutputError, match="instead of"):
        bench["lake_runs"].checked(catalog, "t", replace(wanted, ts_sum=1), usage)


def test_java_for_trino_is_taken_by_its_release_and_an_old_one_is_not(
    bench: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trino = bench["lake_trino"]
    monkeypatch.setattr(trino, "USUAL_FOLDERS", (f"{tmp_path}/*",))
    assert trino.new_java() is None
    for name, version in (("seventeen", "17.0.12"), ("broken", "x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "release").write_text(f'JAVA_VERSION="{version}"\n')
    (tmp_path / "empty").mkdir()
    assert trino.new_java() is None
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="25.0.3"\n')
    assert trino.new_java() == tmp_path / "new" / "bin" / "java"
