"""Compaction of an append table: the same rows in fewer files, whatever others do meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, TimeType

from sluiceway.errors import StorageUnavailableError, TableHistoryError
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction
from sluiceway.sinks.iceberg.compact.expiring import LakeExpiry
from sluiceway.sinks.iceberg.compact.lake_upkeep import LOOK_INTERVAL_S, LakeUpkeep
from sluiceway.sinks.iceberg.compact.rewrite_live import begin_rewriting
from sluiceway.sinks.iceberg.compact.small_files import why_left
from sluiceway.sinks.iceberg.keyed.table_head import Head
from sluiceway.sinks.iceberg.table_history import Lineage, lineage, read_through
from tools.lake_under_test import BY_APP, LakeUnderTest, compact
from tools.ledger_records import LEDGER


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    found = LakeUnderTest(tmp_path)
    publisher = found.publisher()
    for number in range(9):
        found.commit(number, 100 + number, app="ab"[number % 3 == 0])
        publisher.publish()
    return found


def files(lake: LakeUnderTest) -> int:
    return len(list(lake.table().scan().plan_files()))


def test_small_files_of_many_snapshots_become_one_a_partition_with_the_same_rows(
    lake: LakeUnderTest,
) -> None:
    assert files(lake) == 9
    before = lake.table().metadata
    compaction = lake.compaction(begin_rewriting)
    groups, _ = compaction.plan(all_of_them=True)
    assert sorted(each.partition for each in groups) == ["app=a", "app=b"]
    compaction.begin(groups)
    done = compaction.finish()
    assert [(each.files, each.left) for each in done] == [(6, ""), (3, "")]
    lake.assert_exact()
    assert files(lake) == 2
    after = lake.table().metadata
    head = after.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation.value == "replace"
    assert head.summary["total-records"] == "18"
    assert head.summary["total-data-files"] == "2"
    through = read_through(after.properties, LEDGER, where="t")
    assert through == read_through(before.properties, LEDGER, where="t")
    assert through is not None
    assert lineage(after, through) is Lineage.GOOD
    lake.commit(50)
    lake.publisher().publish()
    lake.assert_exact()
    rows = lake.table().scan().to_arrow()
    assert {row["n"]: row["app"] for row in rows.to_pylist()}[3] == "b"


def test_what_is_few_and_large_enough_is_left(lake: LakeUnderTest) -> None:
    compaction = lake.compaction()
    compact(compaction)
    assert compaction.plan(all_of_them=True) == ([], "")


def test_beside_a_route_eight_files_of_like_size_make_one(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path)
    publisher = lake.publisher()
    compaction = lake.compaction()
    for number in range(8):
        assert compaction.plan(all_of_them=False) == ([], "")
        lake.commit(number)
        publisher.publish()
    (group,) = compaction.plan(all_of_them=False)[0]
    assert len(group.paths) == 8


def test_rows_that_come_while_files_are_written_stay(lake: LakeUnderTest) -> None:
    def meanwhile() -> None:
        lake.commit(50)
        lake.publisher().publish()
        lake.append_foreign([60])

    assert compact(lake.compaction(), meanwhile) == ["", ""]
    assert lake.rows() == sorted([*lake.committed, 60])
    assert files(lake) == 4


@pytest.mark.parametrize("row", [0, 104, 8])
def test_a_row_that_others_delete_meanwhile_stays_deleted(lake: LakeUnderTest, row: int) -> None:
    assert lake.delete_foreign(4)
    assert compact(lake.compaction(), lambda: lake.delete_foreign(row)) == ["", ""]
    assert lake.rows() == sorted(set(lake.committed) - {4, row})
    left = {d.file_path for task in lake.table().scan().plan_files() for d in task.delete_files}
    assert len(left) == 1
    assert compact(lake.compaction()) == []
    lake.committed = sorted(set(lake.committed) - {4, row})
    lake.commit(51)
    lake.publisher().publish()
    assert compact(lake.compaction()) == [""]
    lake.assert_exact()


def test_partitions_without_a_living_row_go(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path)
    for row in (1, 2):
        lake.commit(row)
        lake.publisher().publish()
        assert lake.delete_foreign(row)
    assert compact(lake.compaction()) == [""]
    assert (lake.rows(), files(lake)) == ([], 0)


def test_files_that_others_replace_meanwhile_are_left(lake: LakeUnderTest) -> None:
    said = compact(lake.compaction(), lambda: compact(lake.compaction()))
    assert said == ["others have replaced some of the files meanwhile"] * 2
    lake.assert_exact()
    data = Path(lake.table().location().removeprefix("file://")) / "data"
    assert len(list(data.rglob("compacted-*.parquet"))) == 2


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "late"])
def test_a_request_that_goes_astray_leaves_each_row_once(lake: LakeUnderTest, fault: str) -> None:
    catalog = lake.faulty()
    catalog.faults = [fault]
    assert compact(lake.compaction(catalog=catalog)) == ["", ""]
    lake.assert_exact()
    for _ in list(catalog.kept):
        assert "refused" in catalog.land() or fault != "late"
    lake.assert_exact()
    assert files(lake) == 2


def test_a_catalog_that_takes_nothing_leaves_the_files(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    catalog.faults = ["lost"] * 9
    assert (
        compact(lake.compaction(catalog=catalog)) == ["the catalog did not take it: timed out"] * 2
    )
    assert files(lake) == 9
    lake.assert_exact()


def test_a_table_that_was_rolled_back_is_left_alone(lake: LakeUnderTest) -> None:
    older = lake.table().metadata.snapshots[2].snapshot_id
    lake.table().manage_snapshots().set_current_snapshot(older).commit()
    with pytest.raises(TableHistoryError):
        lake.compaction().plan(all_of_them=True)


def test_pieces_weigh_what_a_file_should(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, target_bytes=2_000))
    for row in range(12):
        lake.commit(row)
        lake.publisher().publish()
    groups, _ = lake.compaction().plan(all_of_them=True)
    assert len(groups) > 1
    assert all(each.size_bytes <= 2_000 for each in groups)
    compact(lake.compaction())
    lake.assert_exact()


def test_under_equality_deletes_of_others_nothing_is_written_anew(lake: LakeUnderTest) -> None:
    metadata = lake.table().metadata
    assert why_left(metadata, Head()) == ""
    assert "equality deletes" in why_left(metadata, Head(equality=1))
    wide = metadata.model_copy(
        update={"schemas": [Schema(NestedField(1, "at", TimeType(), required=False))]}
    )
    assert "column at" in why_left(wide.model_copy(update={"current_schema_id": 0}), Head())


def test_a_running_job_compacts_when_it_is_time_and_waits_for_no_process(
    lake: LakeUnderTest,
) -> None:
    now_s, opened = [0.0], []

    def open_it() -> LakeCompaction:
        opened.append(lake.compaction())
        return opened[-1]

    upkeep = LakeUpkeep("sql", open_it, lake.expiry, 0.0, clock=lambda: now_s[0])
    assert upkeep.follow(lake.view()) == upkeep.place() == lake.view().through
    assert (opened, files(lake)) == ([], 9)
    now_s[0] = LOOK_INTERVAL_S
    assert upkeep.rest_s() == 0.0
    upkeep.follow(lake.view(hasty=True))
    assert opened == []
    # Eight files of one partition are enough, three of the other are not.
    for number in (20, 21):
        lake.commit(number)
        lake.publisher().publish()
    upkeep.follow(lake.view())
    assert upkeep.rest_s() == 1.0
    now_s[0] += 1.0
    upkeep.follow(lake.view())
    assert (upkeep.rest_s(), files(lake)) == (LOOK_INTERVAL_S, 4)
    assert len(lake.table().metadata.snapshots) < 12
    lake.assert_exact()
    upkeep.close()


def test_upkeep_stands_in_nobodys_way_whatever_it_does(lake: LakeUnderTest) -> None:
    now_s, catalog = [LOOK_INTERVAL_S], lake.faulty()
    upkeep = LakeUpkeep(
        "sql", lambda: lake.compaction(catalog=catalog), clock=lambda: now_s[0] - LOOK_INTERVAL_S
    )
    assert not upkeep.follows_slots
    now_s[0] += LOOK_INTERVAL_S
    catalog.down = True
    with pytest.raises(StorageUnavailableError):
        upkeep.follow(lake.view())
    lake.commit(30)
    upkeep.update(lake.writer.fold, 0)
    assert upkeep.place() == lake.writer.fold.next_seq


def test_upkeep_that_is_asked_to_end_begins_no_expiry(lake: LakeUnderTest) -> None:
    now_s = [0.0]
    asked: list[bool] = []

    class Expiry:
        def expire(self, _: float, over: Callable[[], bool]) -> None:
            asked.append(over())

    def expiry() -> LakeExpiry:
        return cast("LakeExpiry", Expiry())

    upkeep = LakeUpkeep("sql", None, expiry, 0.0, clock=lambda: now_s[0])
    now_s[0] = LOOK_INTERVAL_S
    upkeep.follow(replace(lake.view(), over=lambda: True))
    assert asked == []
    now_s[0] += LOOK_INTERVAL_S
    upkeep.follow(replace(lake.view(), over=lambda: False))
    assert asked == [False]
