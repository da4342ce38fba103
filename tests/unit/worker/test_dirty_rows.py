"""Rows that are dirty keep all that the queue had for them, whichever way they came."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.formats.registry import FormatChoice
from sluiceway.sources.contract import Headers, RawRecords, SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.types.dirty import MOST_COUNTED, DirtyReason, DirtyRow
from sluiceway.worker import pipeline as worker_pipeline
from sluiceway.worker import read_stages, task_figures
from sluiceway.worker.dirty_file import DIRTY_SCHEMA, dirty_batch
from sluiceway.worker.dirty_reader import DirtyBatch
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import PlannedMetaColumn, TaskPlan
from sluiceway.worker.task_figures import DirtyTally
from sluiceway.worker.write_behind import WriteBehind, WriteLane
from tools.small_task import AT_NOON, NOW_US, MadeBatch, made_batch, route_plan, run_task

HEADERS: list[Headers] = [(), (("a", b"\xff"), ("a", None)), (("b", b""),)]
RECORDS = RawRecords(
    topics=["orders"] * 3,
    partitions=[3] * 3,
    offsets=[7, 8, 9],
    timestamps_ms=[5, None, 6],
    keys=[None, b"k", b""],
    values=[b"", None, b"v"],
    headers=HEADERS,
)
GOOD = {"id": 1, "ts": NOW_US, "app": "x"}
BAD = {"id": "no", "ts": NOW_US, "app": "x"}


def test_records_of_several_reads_and_logs_are_kept_in_order() -> None:
    first = [made_batch(0, [GOOD, BAD, GOOD, BAD]), made_batch(1, [GOOD, GOOD])]
    second = [made_batch(1, [BAD], first=2), made_batch(0, [BAD, GOOD], first=4)]
    found = run_task([first, second], splits=2)
    places = [(one.partition, int(one.offset)) for one in found.written.dirty_samples]
    assert places == [(0, 1), (0, 3), (1, 2)]
    assert found.dirty == [("no", "bad_text")] * 4
    assert found.written.dirty_reasons == {"bad_text id": 4}
    assert int(found.written.counts.dirty) == 4


def test_rows_that_different_stages_find_dirty_are_kept_in_order() -> None:
    untimed: dict[str, object] = {"id": 1, "ts": None, "app": "x"}
    found = run_task([[made_batch(0, [untimed, BAD, GOOD])]])
    assert found.dirty == [(1, "null"), ("no", "bad_text")]


def test_clean_rows_make_no_dirty_file() -> None:
    assert run_task([[made_batch(0, [GOOD])]]).written.dirty_files == ()


@pytest.mark.parametrize("rule", ["skip", "dirty"])
def test_record_without_a_value_is_counted_whichever_way_it_goes(rule: str) -> None:
    good = made_batch(0, [GOOD])
    batch = MadeBatch(0, [good.values[0], None, good.values[0], None], [0, 1, 2, 3])
    found = run_task([[batch]], format=FormatChoice("json", (("tombstones", rule),)))
    counts = found.written.counts
    assert counts.balanced()
    assert (int(counts.read), int(counts.written)) == (4, 2)
    left = (int(counts.skipped), int(counts.dirty))
    assert left == ((2, 0) if rule == "skip" else (0, 2))
    assert len(found.dirty) == left[1]


def test_message_that_the_job_file_skips_is_noted_by_its_kind() -> None:
    rows: list[dict[str, object]] = [
        {"op": "c", "after": GOOD},
        {"op": "m", "message": {}},
        {"op": "m", "message": {}},
    ]
    skips = FormatChoice("debezium", (("other_messages", "skip"),))
    found = run_task([[made_batch(0, rows[:2])], [made_batch(0, rows[2:], first=2)]], format=skips)
    assert (found.written.notes, found.written.counts.skipped) == ({"message": 2}, 2)


def test_dirty_row_has_its_record_beside_the_reason() -> None:
    why = [DirtyRow(n, "convert", DirtyReason.BROKEN, "a", f"m{n}") for n in range(3)]
    rows = dirty_batch(why, RECORDS, "v1")
    assert rows.schema == DIRTY_SCHEMA
    rows.validate(full=True)
    found = rows.to_pylist()
    assert [row["headers"] for row in found] == [
        [{"name": name, "value": value} for name, value in each] for each in HEADERS
    ]
    assert {**found[1], "headers": None} == {
        "topic": "orders",
        "partition": 3,
        "offset": 8,
        "timestamp_ms": None,
        "key": b"k",
        "value": None,
        "headers": None,
        "stage": "convert",
        "reason": "broken",
        "path": "a",
        "message": "m1",
        "schema_version": "v1",
    }


def test_row_that_is_dirty_again_keeps_the_record_it_had() -> None:
    why = [DirtyRow(n, "convert", DirtyReason.BROKEN, "", "m") for n in range(3)]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_batches([dirty_batch(why, RECORDS, "v1")]), stream)
    (read,) = pq.read_table(stream).to_batches()
    batch = DirtyBatch(0, 100, read)
    assert batch.records([0, 1, 2]) == RECORDS
    assert batch.records([2]) == RawRecords(
        ["orders"], [3], [9], [6], [b""], [b"v"], [(("b", b""),)]
    )
    assert list(batch.headers()) == HEADERS


def test_source_that_gives_too_few_records_fails_the_task() -> None:
    class Short(MadeBatch):
        def records(self, rows: Sequence[int]) -> RawRecords:
            return replace(super().records(rows), keys=[])

    made = made_batch(0, [GOOD, BAD])
    short = Short(0, made.values, made.offsets)
    with pytest.raises(ValueError, match="the source gave 0 keys for 1 rows"):
        run_task([[short]])


def test_row_whose_record_key_is_no_text_is_dirty_where_a_column_wants_it() -> None:
    class Keyed(MadeBatch):
        def records(self, rows: Sequence[int]) -> RawRecords:
            keys = [(b"k0", b"\xff", None)[row] for row in rows]
            return replace(super().records(rows), keys=keys)

    made = made_batch(0, [{**GOOD, "id": number} for number in range(3)])
    batch = Keyed(0, made.values, made.offsets)
    found = run_task([[batch]], meta=(PlannedMetaColumn("key_text", "_key"),))
    assert [sorted(ids) for ids in found.ids.values()] == [[0, 2]]
    assert found.dirty == [(1, "encoding")]
    assert found.written.counts.balanced()


class MeasuredLane(WriteLane):
    """Notes how much memory each write is said to keep."""

    def __init__(self, behind: WriteBehind) -> None:
        super().__init__(behind)
        self.sizes_bytes: list[int] = []

    def submit(self, size_bytes: int, act: Callable[[], None]) -> None:
        self.sizes_bytes.append(size_bytes)
        super().submit(size_bytes, act)


def small_task(folder: Path) -> TaskPlan:
    """A task of one source partition, with a folder for its files."""
    route = route_plan(str(folder))
    open_storage(str(folder))[0].make_folders(route.layout.stage)
    return TaskPlan(route, 1, 0, (Split(SourcePartition("orders", 0), 0, None),), 600.0, AT_NOON)


def test_rows_that_wait_to_be_written_count_in_the_memory_of_the_task_dirty_ones_too(
    tmp_path: Path,
) -> None:
    writes = WriteBehind()
    lane = MeasuredLane(writes)
    pipeline = RowPipeline(small_task(tmp_path), open_storage(str(tmp_path))[0], lane)
    large = "x" * 10_000
    try:
        for row in ({**GOOD, "app": large}, {**BAD, "app": large}, GOOD):
            pipeline.write([made_batch(0, [row])])
        pipeline.close()
    finally:
        writes.close()
    good_bytes, bad_bytes, small_bytes = lane.sizes_bytes
    assert good_bytes > 10_000
    assert bad_bytes > 10_000
    assert small_bytes < 1_000


def test_time_for_which_the_writer_is_full_is_a_part_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], time_ns=lambda: NOW_US * 1000)
    for module in (worker_pipeline, read_stages, task_figures):
        monkeypatch.setattr(module, "time", clock)

    class FullLane(WriteLane):
        def submit(self, size_bytes: int, act: Callable[[], None]) -> None:
            now_s[0] += 5.0
            super().submit(size_bytes, act)

    writes = WriteBehind()
    pipeline = RowPipeline(small_task(tmp_path), open_storage(str(tmp_path))[0], FullLane(writes))
    try:
        pipeline.write([made_batch(0, [GOOD])])
        timings_ms = pipeline.close().timings_ms
    finally:
        writes.close()
    assert timings_ms.pop("write") >= 0, "by the writer's own clock"
    expected = {"decode": 0, "convert": 0, "route": 0, "write_wait": 5000, "close": 0}
    assert timings_ms == expected


def test_tally_shows_three_of_a_reason_and_names_few_fields() -> None:
    tally = DirtyTally()
    for begin in range(0, 3 * MOST_COUNTED, MOST_COUNTED):
        numbers = range(begin, begin + MOST_COUNTED)
        rows = [DirtyRow(n, "convert", DirtyReason.SCALE, f"f{n}", "m") for n in numbers]
        rows[-1] = DirtyRow(numbers[-1], "decode", DirtyReason.BROKEN, "", "m")
        none = [None] * MOST_COUNTED
        places = ["orders"] * MOST_COUNTED, [3] * MOST_COUNTED, numbers
        tally.add(rows, RawRecords(*places, none, none, none, [()] * MOST_COUNTED))
    counts = tally.counts()
    assert sum(counts.values()) == 3 * MOST_COUNTED
    assert (counts["broken"], counts["scale"]) == (3, 2 * (MOST_COUNTED - 1))
    assert len(counts) == MOST_COUNTED + 1
    shown = [(one.reason, int(one.offset)) for one in tally.samples]
    assert shown == [("scale", 0), ("scale", 1), ("scale", 2)] + [
        ("broken", begin - 1) for begin in range(MOST_COUNTED, 4 * MOST_COUNTED, MOST_COUNTED)
    ]
