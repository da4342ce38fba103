"""Event time, kinds of partitions and late rows on a real broker and metastore, to the last row."""

import json
from pathlib import Path

import duckdb
import pytest

from sluiceway.audit.run_verify import verify_route
from sluiceway.cli.app import run_command
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import DataRecord
from sluiceway.upkeep.record_queue import RecordQueue
from tools.independent_ledger import ledger_faults
from tools.route_faults import NewRun, data_records, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

NOON_MS = 1_795_176_000_000
"""2026-11-20T12:00:00Z."""
HOUR_MS = 3_600_000
DAY = "dt=20261120"


def row(number: int, hours: float) -> bytes:
    """A row so many hours from noon."""
    body = {"id": number, "ts": NOON_MS + int(hours * HOUR_MS), "city": "Berlin", "amount": "1"}
    return json.dumps(body).encode()


def by_folder(files: list[Path], below: Path) -> dict[str, list[int]]:
    """Folder -> offsets of the rows of its files."""
    found: dict[str, list[int]] = {}
    for file in sorted(files):
        query = "SELECT _offset FROM read_parquet(?, hive_partitioning=false) ORDER BY ALL"
        rows = [offset for (offset,) in duckdb.execute(query, [str(file)]).fetchall()]
        found.setdefault(str(file.parent.relative_to(below)), []).extend(rows)
    return {folder: sorted(rows) for folder, rows in found.items()}


def in_table(run: RouteRun) -> dict[str, list[int]]:
    root = run.root()
    return by_folder(list(root.glob("dt=*/**/*.parquet")), root)


def aside(run: RouteRun) -> dict[str, list[int]]:
    place = run.root() / "_sluiceway" / run.config().route / "late"
    return by_folder(list(place.glob("**/*.parquet")), place)


def late_counts(run: RouteRun) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in data_records(run):
        for name, rows in record.late_rows.as_counts().items():
            found[name] = found.get(name, 0) + rows
    return found


def assert_sound(run: RouteRun) -> None:
    run.assert_verified()
    assert ledger_faults(run.root(), run.config().route) == []


def two_runs(new_run: NewRun, writer: TopicWriter, event_time: str) -> RouteRun:
    """Four rows around noon, committed; then rows of 40 hours, of 25, on the bound, and in time."""
    run, topic = new_run(event_time=event_time)
    writer.write(topic, [row(n, hours) for n, hours in enumerate([0, -1, -30, 0.5])])
    run.catch_up()
    assert late_counts(run) == {}
    writer.write(topic, [row(4 + n, hours) for n, hours in enumerate([-40, -24.5, -23.5, -2])])
    run.catch_up()
    return run


OLD, BOUND = "dt=20261118/hr=20", "dt=20261119/hr=12"
IN_TIME = {f"{DAY}/hr=10": [7], f"{DAY}/hr=11": [1], f"{DAY}/hr=12": [0, 3]}
BEFORE = {"dt=20261119/hr=06": [2]}
"""Of the first epoch, when nothing was newer yet."""


def test_rows_behind_the_archive_window_go_aside_and_readers_do_not_see_them(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    # The greatest event time is 12:30 of the 20th, so 11:30 of the 19th is late, 12:30 is not.
    run = two_runs(new_run, writer, "{field: ts, unit: ms, archive_window: 24h}")
    assert aside(run) == {OLD: [4], "dt=20261119/hr=11": [5]}
    assert in_table(run) == {**IN_TIME, **BEFORE, BOUND: [6]}
    assert run.rows() == [(0, offset) for offset in (0, 1, 2, 3, 6, 7)]
    assert late_counts(run) == {"side": 2}
    capsys.readouterr()
    assert run_command(["status", str(run.job.path)]) == 0
    assert "late rows: 2 aside" in capsys.readouterr().out
    report = run.verified()
    assert (report.rows, report.late_rows, report.offsets) == (6, 2, 8)
    assert_sound(run)
    (place,) = run.root().glob("_sluiceway/*/late")
    query = "SELECT id, dt, hr FROM read_parquet(?, hive_partitioning=true, hive_types_autocast=0)"
    seen = duckdb.execute(f"{query} ORDER BY id", [f"{place}/**/*.parquet"]).fetchall()
    assert seen == [(4, "20261118", "20"), (5, "20261119", "11")]


def test_late_file_that_is_gone_or_strange_is_found(new_run: NewRun, writer: TopicWriter) -> None:
    run = two_runs(new_run, writer, "{field: ts, unit: ms, archive_window: 24h}")
    files = sorted(run.root().glob("_sluiceway/*/late/**/*.parquet"))
    stray = files[0].with_name("stray.parquet")
    files[0].rename(stray)
    config = run.config()
    kinds = sorted(problem.kind for problem in verify_route(config, deep=True).problems)
    assert kinds == ["file_missing", "file_unknown"]
    stray.rename(files[0])
    assert_sound(run)


def test_late_rows_are_redirected_to_the_watermarks_hour(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run = two_runs(new_run, writer, "{field: ts, unit: ms, late: redirect, out_of_orderness: 0s}")
    assert aside(run) == {}
    assert in_table(run) == {
        **IN_TIME,
        **BEFORE,
        BOUND: [6],
        f"{DAY}/hr=12": [0, 3, 4, 5],
    }
    assert late_counts(run) == {"redirect": 2}
    assert run.rows() == offsets(0, range(8))
    assert_sound(run)


def test_late_rows_are_dirty_where_the_job_file_says_so(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run = two_runs(new_run, writer, "{field: ts, unit: ms, late: dirty}")
    assert aside(run) == {}
    assert run.dirty() == [(0, 4, "late"), (0, 5, "late")]
    assert late_counts(run) == {"dirty": 2}
    assert_sound(run)


def test_job_file_that_says_nothing_of_lateness_takes_rows_of_any_age(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run = two_runs(new_run, writer, "{field: ts, unit: ms}")
    assert run.rows() == offsets(0, range(8))
    assert (aside(run), late_counts(run)) == ({}, {})


class Closing:
    """Closes an hour while the route runs, as a planner does."""

    def __init__(self, place: RecordQueue) -> None:
        place.close_prefix(f"{DAY}/hr=11")

    def close(self) -> None:
        return


@pytest.mark.parametrize("policy", ["side_output", "redirect", "reopen", "dirty"])
def test_row_of_a_closed_hour_is_never_silent(
    new_run: NewRun, writer: TopicWriter, policy: str
) -> None:
    run, topic = new_run(
        event_time=f"{{field: ts, unit: ms, late: {policy}, out_of_orderness: 0s}}"
    )
    writer.write(topic, [row(0, -1), row(1, 0)])
    run.catch_up()
    writer.write(topic, [row(2, -1), row(3, 0), row(4, -30)])
    run.catch_up(background=(Closing,))
    # What is closed stays so, whoever runs the route.
    writer.write(topic, [row(5, -1)])
    run.catch_up()
    hours = {f"{DAY}/hr=11": [0], f"{DAY}/hr=12": [1, 3]}
    old = "dt=20261119/hr=06"
    if policy == "side_output":
        assert in_table(run) == hours
        assert aside(run) == {f"{DAY}/hr=11": [2, 5], old: [4]}
        assert late_counts(run) == {"side": 3}
    elif policy == "redirect":
        assert in_table(run) == {**hours, f"{DAY}/hr=12": [1, 2, 3, 4, 5]}
        assert late_counts(run) == {"redirect": 3}
    elif policy == "reopen":
        assert in_table(run) == {**hours, f"{DAY}/hr=11": [0, 2, 5]}
        assert aside(run) == {old: [4]}
        assert late_counts(run) == {"reopen": 2, "side": 1}
    else:
        assert in_table(run) == hours
        assert run.dirty() == [(0, 2, "late"), (0, 4, "late"), (0, 5, "late")]
        assert late_counts(run) == {"dirty": 3}
    reached = [record.late_in for record in data_records(run) if record.ranges]
    marked = [(f"{DAY}/hr=11",)] * 2 if policy == "reopen" else [(), ()]
    assert reached == [(), *marked]
    assert_sound(run)


def test_partitions_by_constant_and_times_of_the_queue_and_the_clock(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run(
        partition_by="[{name: src, constant: web}, {name: sent, record_time: yyyyMMddHH, "
        "timezone: Asia/Tokyo}, {name: seen, processing_time: yyyyMMdd}]",
        event_time="",
    )
    writer.write_record(topic, row(0, 0), timestamp_ms=NOON_MS)
    clock = "sluiceway.schedule.steady_clock.SteadyClock.now_us"
    run.catch_up()
    (first,) = data_records(run)
    assert first.clock_us > NOON_MS * 1000
    # A driver whose clock is a day behind goes on with the clock of the ledger.
    monkeypatch.setattr(clock, lambda _: NOON_MS * 1000)
    writer.write_record(topic, row(1, 0), timestamp_ms=NOON_MS + HOUR_MS)
    run.catch_up()
    _, second = data_records(run)
    assert second.clock_us >= first.clock_us
    folders = [Path(file.final).parent for each in (first, second) for file in each.files]
    assert [str(folder.parent) for folder in folders] == [
        "src=web/sent=2026112021",
        "src=web/sent=2026112022",
    ]
    assert folders[0].name <= folders[1].name
    assert_sound(run)


def test_event_time_is_the_record_s_own_where_the_job_file_says_so(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(event_time="{field: $record_time, timezone: Asia/Shanghai}")
    writer.write_record(topic, row(0, -5), timestamp_ms=NOON_MS)
    run.catch_up()
    assert in_table(run) == {f"{DAY}/hr=20": [0]}
    (record,) = data_records(run)
    assert [span.max_event_time_us for span in record.ranges] == [NOON_MS * 1000]
    assert_sound(run)


def test_snapshotless_fold_has_all_that_was_late(new_run: NewRun, writer: TopicWriter) -> None:
    run = two_runs(new_run, writer, "{field: ts, unit: ms, archive_window: 24h}")
    fold = Fold()
    for record, raw in run.log().records():
        fold.apply(record, raw)
    assert fold.late_rows.as_counts() == {"side": 2}
    assert (
        fold.sources[run.config().topics[0], 0].max_event_time_us == (NOON_MS + HOUR_MS // 2) * 1000
    )
    bodies = [record.body for record in run.records() if isinstance(record.body, DataRecord)]
    assert sum(body.counts.late for body in bodies) == 2
