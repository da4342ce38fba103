"""A SWAP in a lake table: one snapshot in which the old rows go and the new ones come."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import SwapCounts, SwapInput
from sluiceway.sinks.iceberg.publish import staged_lake_files
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.record_queue import Build, RecordQueue
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, SwapStaging, swap
from tools.lake_under_test import LakeUnderTest, PublisherUnderTest, compact
from tools.worked_route import drive_work

_INPUT = SwapInput("e" * 32, "app=a", 1, 17)


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    return LakeUnderTest(tmp_path)


def replaced(
    lake: LakeUnderTest,
    publisher: PublisherUnderTest,
    *rows: int,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Rows of app `a` are replaced by others; the SWAP's slot."""

    def write(staging: SwapStaging) -> SwapContent:
        bare = FileRecord("", "", ("a",), BigInt(len(rows)), BigInt(0), "", {})
        named = staging.record_of(bare, "app=a", "new.parquet")
        made = lake.staged(named, lake.batch(rows, "a", 0), "a")
        read = BigInt(len(rows))
        return SwapContent([made] if rows else [], SwapCounts(read, read), inputs=(_INPUT,))

    def put(build: Build) -> int | None:
        committed = lake.writer.commit_made(build)
        publisher.name_files()
        return None if committed is None else committed.seq

    publisher.name_files()
    queue, order = RecordQueue(lake.log, ()), SwapOrder("app=a", "recompute")
    done = drive_work(
        queue, lambda: lake.writer.fold, put, lambda: swap(queue, order, write), between
    )
    return done.slot


def test_rows_of_a_partition_go_and_others_come_in_one_snapshot(lake: LakeUnderTest) -> None:
    lake.commit(1, 2)
    lake.commit(3, app="b")
    publisher = lake.publisher()
    publisher.publish()
    lake.commit(4)
    slot = replaced(lake, publisher, 10, 11, 12)
    lake.commit(5)
    publisher.publish()
    publisher.publish()
    publisher.publish()
    assert lake.rows() == [3, 5, 10, 11, 12]
    snapshots = {
        int(told["sluiceway.through"]): told
        for each in lake.table().metadata.snapshots
        if each.summary is not None and (told := each.summary.additional_properties)
    }
    # Four was published before, by itself: a reader of snapshots misses no row.
    assert snapshots[slot]["deleted-records"] == "3"
    assert snapshots[slot]["added-records"] == "3"
    inputs = json.loads(snapshots[slot]["sluiceway.inputs"])
    assert inputs == [{"ledger": "e" * 32, "prefix": "app=a", "version": 1, "slot": 17}]


def test_rows_that_come_meanwhile_stay_also_after_a_compaction(lake: LakeUnderTest) -> None:
    for row in range(4):
        lake.commit(row)
    publisher = lake.publisher()
    publisher.publish()
    comes = iter([100])

    def between() -> None:
        if lake.writer.fold.intents:
            for row in comes:
                lake.commit(row)
                publisher.publish()
                assert compact(lake.compaction()) == [""]

    replaced(lake, publisher, 10, between=between)
    publisher.publish()
    assert lake.rows() == [10, 100]


def test_compaction_that_was_under_way_brings_no_replaced_row_back(lake: LakeUnderTest) -> None:
    for row in range(4):
        lake.commit(row)
    publisher = lake.publisher()
    publisher.publish()

    def meanwhile() -> None:
        replaced(lake, publisher, 10)
        publisher.publish()

    assert compact(lake.compaction(), meanwhile) != [""]
    assert lake.rows() == [10]


def test_partition_without_a_new_row_is_empty(lake: LakeUnderTest) -> None:
    lake.commit(1, 2)
    lake.commit(3, app="b")
    publisher = lake.publisher()
    replaced(lake, publisher)
    publisher.publish()
    publisher.publish()
    assert lake.rows() == [3]


def test_rows_that_others_put_there_go_too(lake: LakeUnderTest) -> None:
    lake.commit(1)
    publisher = lake.publisher()
    publisher.publish()
    lake.append_foreign([7, 8])
    replaced(lake, publisher, 10)
    publisher.publish()
    # Theirs are of app `x`.
    assert lake.rows() == [7, 8, 10]


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "late", "pass"])
def test_request_that_goes_astray_replaces_rows_once(lake: LakeUnderTest, fault: str) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(1)
    publisher.publish()
    replaced(lake, publisher, 10, 11)
    catalog.faults = [fault]
    publisher.publish()
    if fault == "late":
        catalog.land()
    lake.commit(2)
    lake.publisher().publish()
    lake.publisher().publish()
    assert lake.rows() == [2, 10, 11]


def test_names_of_rows_that_a_swap_may_carry_over_stay(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_lake_files, "KEPT_S", 0.0)
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    comes = iter([100])

    def between() -> None:
        if lake.writer.fold.intents:
            for row in comes:
                lake.commit(row)
                publisher.publish()
                publisher.publish()

    replaced(lake, publisher, 10, between=between)
    publisher.publish()
    publisher.publish()
    assert lake.rows() == [10, 100]
