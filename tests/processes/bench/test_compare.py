"""The comparison with other engines: what it asks of them and what it accepts."""

import importlib
import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.jobfile.blocks.start import EARLIEST
from sluiceway.jobfile.loader import parse_job
from sluiceway.lab.lab import LabEndpoints
from tools import independent_reader as reader
from tools import row_oracle as oracle
from tools.payload_rules import BrokenPayloadError

COUNT = 240
YARDSTICKS = ["bids", "taxi"]
NAMES = ["standard", "narrow", "wide", "dirty_1pct", "hours_24", "values_1000", "dirty_all"]
NAMES += YARDSTICKS


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    names = ("check_output", "compare", "flink", "ours", "standard_events", "workloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield SimpleNamespace(**{name: importlib.import_module(f"bench.{name}") for name in names})


# Workloads


@pytest.mark.parametrize("name", NAMES)
def test_expected_totals_are_those_of_the_convertible_events(bench: Any, name: str) -> None:
    workload = bench.workloads.WORKLOADS[name]
    shape = bench.standard_events.SHAPES[workload.shape]
    key, time = shape.keys
    view = reader.TableView(shape.columns, ("dt", "hr"), (), ())
    expected = reader.Expectation(event_time=(time,), required=frozenset(shape.keys))
    rows = oracle.RowOracle(view, expected)
    count, clean = 2_200, []
    for index, event in bench.workloads.workload_events(workload, count):
        record = reader.BrokerRecord("t", 0, index, None, None, event)
        with suppress(BrokenPayloadError):
            rows.row(record)
            clean.append(json.loads(event, parse_float=Decimal))
    found = bench.workloads.expected_totals(workload, count)
    places = {m["app"] if workload.values else m[time] // workload.part_ms for m in clean}
    assert found.rows == found.ids == len(clean)
    assert found.id_sum == sum(member[key] for member in clean)
    assert found.ts_sum == sum(member[time] for member in clean)
    assert found.sums == tuple(
        sum((Decimal(member[column]) for member in clean), Decimal(0)) for column in workload.summed
    )
    assert found.partitions == len(places)


def test_workload_events_of_all_shares_are_the_whole(bench: Any) -> None:
    events, workload = bench.workloads.workload_events, bench.workloads.WORKLOADS["values_1000"]
    shares = [dict(events(workload, 9_000, share=(number, 2))) for number in range(2)]
    assert shares[0].keys().isdisjoint(shares[1])
    assert shares[0] | shares[1] == dict(events(workload, 9_000))


def test_standard_workload_has_the_standard_events(bench: Any) -> None:
    found = [event for _, event in bench.workloads.workload_events(bench.workloads.Workload(), 99)]
    assert found == list(bench.standard_events.bench_events(99))


# What is accepted


@pytest.fixture
def table(bench: Any, tmp_path: Path) -> Path:
    """A table with every event once, over 24 hours."""
    by_hour: dict[int, list[dict[str, Any]]] = {}
    for event in bench.standard_events.bench_events(COUNT):
        member = json.loads(event, parse_float=Decimal)
        kept = {key: member[key] for key in ("id", "ts", "quantity", "amount", "user_id")}
        by_hour.setdefault(member["ts"] // 3_600_000, []).append(kept)
    for hour, rows in by_hour.items():
        folder = tmp_path / "dt=20261120" / f"hr={hour}"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return tmp_path


def _check(bench: Any, table: Path) -> None:
    workload = bench.workloads.Workload()
    expected = bench.workloads.expected_totals(workload, COUNT)
    bench.ours.check_ours(table, workload, expected, COUNT)


def _first_file(table: Path) -> Path:
    return min(table.glob("*/*/*.parquet"))


def test_check_output_right_table_is_accepted(bench: Any, table: Path) -> None:
    (table / "_sluiceway").mkdir()
    (_first_file(table).parent / "_SUCCESS").touch()
    (_first_file(table).parent / ".part-0.inprogress").touch()
    _check(bench, table)


def test_check_output_missing_rows_are_refused(bench: Any, table: Path) -> None:
    _first_file(table).unlink()
    with pytest.raises(bench.check_output.WrongOutputError, match="rows=230"):
        _check(bench, table)


def test_check_output_doubled_rows_are_refused(bench: Any, table: Path) -> None:
    file = _first_file(table)
    file.with_name("b.parquet").write_bytes(file.read_bytes())
    with pytest.raises(bench.check_output.WrongOutputError, match="rows=250, ids=240"):
        _check(bench, table)


def test_check_output_changed_value_is_refused(bench: Any, table: Path) -> None:
    file = _first_file(table)
    rows = pq.read_table(file).to_pylist()
    rows[0]["amount"] += Decimal("0.01")
    pq.write_table(pa.Table.from_pylist(rows), file)
    with pytest.raises(bench.check_output.WrongOutputError, match="instead of"):
        _check(bench, table)


def test_check_output_row_in_another_partition_is_refused(bench: Any, table: Path) -> None:
    file = _first_file(table)
    there = file.parents[1] / "hr=99"
    there.mkdir()
    rows = pq.read_table(file)
    pq.write_table(rows.slice(0, 1), there / "a.parquet")
    pq.write_table(rows.slice(1), file)
    with pytest.raises(bench.check_output.WrongOutputError, match="partitions=25"):
        _check(bench, table)


def test_check_ours_dirty_rows_that_are_none_are_refused(bench: Any, table: Path) -> None:
    folder = table / "_sluiceway" / "route" / "dirty"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"value": [b"x"]}), folder / "a.parquet")
    with pytest.raises(bench.check_output.WrongOutputError, match="1 dirty rows instead of 0"):
        _check(bench, table)


def test_check_output_table_without_files_is_refused(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(bench.check_output.WrongOutputError, match="rows=0"):
        _check(bench, tmp_path)


def test_run_ours_failed_command_is_no_measurement(bench: Any, tmp_path: Path) -> None:
    choices = bench.ours.JobChoices(command="false")
    with pytest.raises(bench.check_output.WrongOutputError, match="ended with 1"):
        bench.ours.run_ours(tmp_path / "job.yaml", tmp_path / "table", choices)


# What is asked


@pytest.mark.parametrize("name", NAMES)
def test_job_text_is_the_job_that_is_meant(bench: Any, name: str, tmp_path: Path) -> None:
    workload = bench.workloads.WORKLOADS[name]
    endpoints = LabEndpoints("127.0.0.1:9", "thrift://127.0.0.1:8", tmp_path)
    choices = bench.ours.JobChoices(interval="5s")
    text = bench.ours.job_text(
        workload, endpoints, choices, topic="events", name="ours-1-0", location=tmp_path
    )
    (spec,) = parse_job(text.encode(), tmp_path / "job.yaml", {}).spec.routes
    columns = spec.table.columns or ()
    shape = bench.standard_events.SHAPES[workload.shape]
    assert {column.name: column.type for column in columns} == shape.columns
    assert tuple(column.name for column in columns if column.required) == shape.keys
    assert (spec.table.target.table, spec.source.topics) == ("ours_1_0", ("events",))
    assert spec.start_at == EARLIEST
    assert spec.run.interval_ms == 5_000


def test_flink_statements_have_the_same_columns_and_partitions(bench: Any, tmp_path: Path) -> None:
    workload = bench.workloads.Workload()
    source, sink, insert = bench.flink.statements(
        workload, bootstrap_servers="127.0.0.1:9", topic="events", folder=tmp_path / "t"
    )
    for name in bench.standard_events.SHAPES["standard"].columns:
        assert all(f"`{name}`" in statement for statement in (source, sink, insert))
    assert "`amount` DECIMAL(18,2)" in source
    assert "`device` ROW<`os` STRING, `version` STRING, `width` INT, `height` INT>" in source
    assert "`tags` ARRAY<STRING>" in source
    assert "'scan.bounded.mode' = 'latest-offset'" in source
    assert "PARTITIONED BY (dt, hr)" in sink
    assert "'parquet.compression' = 'ZSTD'" in sink


@pytest.mark.parametrize("name", YARDSTICKS)
def test_flink_partitions_a_yardstick_as_ours_does(bench: Any, name: str, tmp_path: Path) -> None:
    workload = bench.workloads.WORKLOADS[name]
    _, sink, insert = bench.flink.statements(
        workload, bootstrap_servers="127.0.0.1:9", topic="events", folder=tmp_path / "t"
    )
    time = bench.standard_events.SHAPES[workload.shape].keys[1]
    assert f"PARTITIONED BY ({', '.join(column for column, _ in workload.parts)})" in sink
    for _, pattern in workload.parts:
        assert f"DATE_FORMAT(TO_TIMESTAMP_LTZ(`{time}`, 3), '{pattern}')" in insert


def test_check_output_knows_the_keys_of_a_shape(bench: Any, tmp_path: Path) -> None:
    workload = bench.workloads.WORKLOADS["bids"]
    events = list(bench.standard_events.bench_events(COUNT, shape="bids", hours=1))
    for minute in range(60):
        folder = tmp_path / "dt=2026-11-20" / f"hm=08{minute:02}"
        folder.mkdir(parents=True)
        rows = [json.loads(event) for event in events[minute * 4 : minute * 4 + 4]]
        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    expected = bench.workloads.expected_totals(workload, COUNT)
    bench.check_output.check_output(tmp_path, workload, expected)
    (folder / "a.parquet").unlink()
    with pytest.raises(bench.check_output.WrongOutputError, match="partitions=59"):
        bench.check_output.check_output(tmp_path, workload, expected)


def test_flink_jars_are_pinned_once_each(bench: Any) -> None:
    pins = json.loads(Path(bench.flink.__file__).with_name("flink_jars.json").read_text())["jars"]
    names = [pin["name"] for pin in pins]
    assert len(names) == len(set(names)) > 30
    assert all(len(pin["sha256"]) == 64 and pin["size_bytes"] > 0 for pin in pins)
    flink = [p for p in pins if p["name"] in ("flink-runtime", "flink-json", "flink-sql-parquet")]
    assert [pin["revision"] for pin in flink] == [bench.flink.FLINK] * 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["--small", "2", "--large", "1"],
        ["--workloads", "standard,unknown"],
        ["--engines", "ours,unknown"],
        ["--engines", "flink"],
    ],
)
def test_read_plan_what_cannot_be_is_refused(bench: Any, arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        bench.compare.read_plan(arguments)


def test_result_is_the_line_that_the_issue_wants(bench: Any, tmp_path: Path) -> None:
    def usage(cpu_s: float, wall_s: float) -> Any:
        return bench.compare.TreeUsage(0, wall_s, cpu_s, cpu_s, 0.0, 3 << 20, 0.0, 9, 0)

    plan, _ = bench.compare.read_plan(["--small", "1000000", "--large", "3000000"])
    endpoints = LabEndpoints("127.0.0.1:9", "thrift://127.0.0.1:8", tmp_path)
    made = bench.compare._Bench(
        plan, "standard", bench.workloads.Workload(), endpoints, tmp_path, ""
    )
    run = bench.compare.OurRun
    parts = [{"decode": 3.0, "cpu_jvm": 8.0}, {"decode": 9.0, "cpu_jvm": 9.0}]
    made.ours = [
        [run(usage(14, 10), 2, 4, 0, 9, parts[0])],
        [run(usage(22, 14), 3, 6, 5, 9, parts[1])],
    ]
    made.others = {"flink": [[usage(24, 15)], [usage(44, 25)]]}
    made.floors = [{"consume_us": 1, "decode_us": 2, "write_us": 1, "cpu_us": 4}]
    made.loads = [2.0]
    line = bench.compare.result_of(made)
    assert dict(list(line.items())[:10]) == {
        "shape": "standard",
        "ours_cpu_us": 4.0,
        "flink_cpu_us": 10.0,
        "cpu_ratio": 2.5,
        "ours_krps": 500.0,
        "flink_krps": 200.0,
        "wall_ratio": 2.5,
        "floor_cpu_us": 4,
        "over_floor": 1.0,
        "verified": True,
    }
    assert line["ours_krps_a_core"] == 250.0
    assert (line["consumer_reuse"], line["peak_mib"]) == (0.5, [3, 3])
    assert line["parts_us"] == {"decode": 3.0, "cpu_jvm": 0.5}
    assert line["startup"] == {"ours": [10.0, 8.0], "flink": [14.0, 10.0]}
