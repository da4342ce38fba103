"""The parts of the ingest benchmark: what it asks for and what it accepts."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.lab.lab import LabEndpoints
from sluiceway.spec.loader import parse_job
from sluiceway.spec.start import EARLIEST

COUNT = 240


@pytest.fixture(scope="module")
def slope() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])
        yield importlib.import_module("bench.ingest_slope")


@pytest.fixture
def table(slope: Any, tmp_path: Path) -> Path:
    """A table with every event once, over two hours."""
    events = importlib.import_module("bench.standard_events")
    ids = [json.loads(event)["id"] for event in events.bench_events(COUNT, hours=2)]
    for hour, part in enumerate((ids[: COUNT // 2], ids[COUNT // 2 :])):
        folder = tmp_path / "dt=20261120" / f"hr=0{hour}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": part}), folder / "a.parquet")
    assert slope is not None
    return tmp_path


def _usage(slope: Any, *, cpu_s: float, wall_s: float) -> Any:
    return slope.TreeUsage(
        exit_code=0,
        wall_s=wall_s,
        cpu_s=cpu_s,
        reaped_cpu_s=cpu_s,
        sampled_cpu_s=0.0,
        peak_rss_bytes=1,
        processes=1,
        ended=0,
    )


def test_slope_of_runs_leaves_the_start_up_out(slope: Any) -> None:
    small = [_usage(slope, cpu_s=cpu_s, wall_s=15.0) for cpu_s in (99.0, 24.0, 23.0)]
    large = [_usage(slope, cpu_s=36.0, wall_s=21.0)]
    found = slope.slope_of((1_000_000, 4_000_000), [small, large])
    assert found.cpu_us_per_record == pytest.approx(4.0)
    assert found.records_per_s == 500_000
    assert found.startup_cpu_s == pytest.approx(20.0)
    assert found.startup_wall_s == pytest.approx(13.0)


def test_job_text_is_the_job_that_is_meant(slope: Any, tmp_path: Path) -> None:
    plan = slope.read_plan(["--interval", "5s", "--rounds", "1"])
    endpoints = LabEndpoints("127.0.0.1:9", "thrift://127.0.0.1:8", tmp_path)
    text = slope.job_text(plan, endpoints, topic="events", name="slope-1-0", location=tmp_path)
    (spec,) = parse_job(text.encode(), tmp_path / "job.yaml", {}).spec.routes
    columns = spec.table.columns or ()
    assert {column.name: column.type for column in columns} == slope.SHAPES["standard"].columns
    assert [column.name for column in columns if column.required] == ["id", "ts"]
    assert (spec.table.hive.table, spec.source.topics) == ("slope_1_0", ("events",))
    assert spec.source.start_at == EARLIEST
    assert spec.run.interval_ms == 5_000


def test_check_table_right_table_is_accepted(slope: Any, table: Path) -> None:
    (table / "_sluiceway").mkdir()
    (table / "dt=20261120" / "hr=00" / "_SUCCESS").touch()
    slope.check_table(table, count=COUNT, hours=2)


def test_check_table_missing_rows_are_refused(slope: Any, table: Path) -> None:
    (table / "dt=20261120" / "hr=01" / "a.parquet").unlink()
    with pytest.raises(slope.WrongOutputError, match="120, 120"):
        slope.check_table(table, count=COUNT, hours=2)


def test_check_table_doubled_rows_are_refused(slope: Any, table: Path) -> None:
    file = table / "dt=20261120" / "hr=01" / "a.parquet"
    (file.with_name("b.parquet")).write_bytes(file.read_bytes())
    with pytest.raises(slope.WrongOutputError, match="360, 240"):
        slope.check_table(table, count=COUNT, hours=2)


def test_check_table_empty_folder_is_refused(slope: Any, tmp_path: Path) -> None:
    with pytest.raises(slope.WrongOutputError, match="no file"):
        slope.check_table(tmp_path, count=1, hours=1)


def test_read_plan_sizes_in_wrong_order_are_refused(slope: Any) -> None:
    with pytest.raises(SystemExit):
        slope.read_plan(["--small", "2", "--large", "1"])
