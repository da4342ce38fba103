"""The comparison of lake tables: what its closing line says of its runs, and Flink's own SQL."""

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
    names = ("lake_compare", "lake_runs", "lake_trino", "process_tree", "workloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield {name: importlib.import_module(f"bench.{name}") for name in names}


def run(bench: dict[str, Any], cpu_s: float, wall_s: float, snapshots: int, files: int) -> Any:
    usage = bench["process_tree"].TreeUsage(0, wall_s, cpu_s, cpu_s, cpu_s, 1, 0.0, 1, 0)
    return bench["lake_runs"].LakeRun(usage, snapshots, files)


def test_closing_line_has_slopes_ratios_and_what_an_hour_makes(bench: dict[str, Any]) -> None:
    runs = {
        "native": [run(bench, 10.0, 20.0, 1, 24), run(bench, 12.0, 36.0, 3, 30)],
        "library": [run(bench, 10.0, 20.0, 1, 24), run(bench, 16.0, 40.0, 4, 40)],
        "flink": [run(bench, 12.0, 20.0, 2, 24), run(bench, 22.0, 60.0, 6, 90)],
    }
    told = bench["lake_compare"].closing((100_000, 1_100_000), runs)
    assert told["cpu_us"] == {"native": 2.0, "library": 6.0, "flink": 10.0}
    assert (told["cpu_ratio_native"], told["cpu_ratio_library"]) == (5.0, 1.667)
    assert told["snapshots_an_hour"] == {"native": 300, "library": 360, "flink": 360}
    assert told["files_an_hour"] == {"native": 3_000, "library": 3_600, "flink": 5_400}


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
