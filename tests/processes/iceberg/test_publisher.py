"""Publishing to a lake table: every committed row once, whatever becomes of requests."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType

from sluiceway.errors import (
    FileLostError,
    LedgerMismatchError,
    MetastoreUnavailableError,
    StorageUnavailableError,
    TableHistoryError,
    TableMismatchError,
)
from sluiceway.ledger.follower import LogView
from sluiceway.sinks.iceberg.column_types import iceberg_schema
from sluiceway.sinks.iceberg.commit_request import SlotBatch, append_request
from sluiceway.sinks.iceberg.compact.small_files import merge_groups
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch
from sluiceway.sinks.iceberg.table_history import property_name
from sluiceway.work.process import WarmProcesses
from tools.lake_under_test import BY_APP, NAME, LakeUnderTest
from tools.ledger_records import LEDGER


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    return LakeUnderTest(tmp_path)


def test_slots_are_in_the_table_once_with_their_offsets_in_the_snapshot(
    lake: LakeUnderTest,
) -> None:
    lake.commit(1, 2)
    seq = lake.commit(3, app="b")
    assert lake.publisher().publish() == seq + 1
    lake.assert_exact()
    (snapshot,) = lake.table().metadata.snapshots
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    assert (told["sluiceway.from"], told["sluiceway.through"]) == ("0", str(seq))
    assert told["sluiceway.offsets"] == '{"orders":{"0":3}}'
    assert told["added-records"] == "3"


def test_a_new_driver_publishes_what_the_last_one_left(lake: LakeUnderTest) -> None:
    lake.commit(1)
    lake.publisher().publish()
    lake.commit(2)
    lake.commit(3)
    lake.publisher().publish()
    lake.publisher().publish()
    lake.assert_exact()
    assert len(lake.table().metadata.snapshots) == 2


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "pass"])
def test_a_request_that_is_lost_repeated_or_unanswered_brings_rows_once(
    lake: LakeUnderTest, fault: str
) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    for row in range(3):
        lake.commit(row)
        catalog.faults = [fault]
        publisher.publish()
        lake.assert_exact()
    assert all(catalog.said), "the second of two requests was taken"


def test_a_request_that_lands_late_is_refused_by_what_it_asserts(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(1)
    catalog.faults = ["late", "pass"]
    publisher.publish()
    lake.assert_exact()
    assert "refused" in catalog.land() or catalog.said
    lake.assert_exact()
    lake.commit(2)
    publisher.publish()
    lake.assert_exact()


def test_a_late_request_that_lands_first_is_seen_and_not_repeated(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(1)
    catalog.faults = ["late", "late", "late"]
    with pytest.raises(MetastoreUnavailableError, match="not in the table"):
        publisher.publish()
    assert catalog.land() == ""
    lake.commit(2)
    publisher.publish()
    assert len(catalog.kept) == 2
    for _ in range(2):
        assert "refused" in catalog.land()
    lake.assert_exact()


def test_two_publishers_of_one_log_take_turns_without_doubling(lake: LakeUnderTest) -> None:
    first, second = lake.publisher(), lake.publisher()
    for row in range(6):
        lake.commit(row)
        (first if row % 2 else second).publish()
    second.publish()
    lake.assert_exact()


def test_foreign_appends_go_on_beside_ours(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    lake.append_foreign([100])
    lake.commit(2)
    publisher.publish()
    assert lake.rows() == [1, 2, 100]


def test_slots_without_rows_make_no_snapshot(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    assert publisher.publish() == lake.writer.fold.next_seq
    assert lake.table().metadata.snapshots == []
    lake.commit(1)
    publisher.publish()
    lake.commit()
    assert publisher.publish() == lake.writer.fold.next_seq
    assert len(lake.table().metadata.snapshots) == 1


def test_rows_behind_more_empty_slots_than_a_batch_holds_are_published(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.sinks.iceberg.publish.lake_batch.MOST_SLOTS", 3)
    publisher = lake.publisher()
    for _ in range(5):
        lake.commit()
    seq = lake.commit(1)
    for _ in range(3):
        publisher.publish()
    lake.assert_exact()
    (snapshot,) = lake.table().metadata.snapshots
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    assert (told["sluiceway.from"], told["sluiceway.through"]) == ("0", str(seq))


def test_a_table_that_was_rolled_back_halts_and_goes_on_when_it_is_forward_again(
    lake: LakeUnderTest,
) -> None:
    publisher = lake.publisher()
    for row in (1, 2):
        lake.commit(row)
        publisher.publish()
    first, second = (each.snapshot_id for each in lake.table().metadata.snapshots)
    lake.table().manage_snapshots().set_current_snapshot(first).commit()
    lake.commit(3)
    with pytest.raises(TableHistoryError, match="rolled back") as caught:
        publisher.publish()
    assert caught.value.evidence["our_snapshot"] == str(second)
    with pytest.raises(TableHistoryError):
        lake.publisher().publish()
    lake.table().manage_snapshots().set_current_snapshot(second).commit()
    publisher.publish()
    lake.assert_exact()


def test_a_table_that_was_dropped_or_made_anew_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    lake.commit(2)
    lake.client.drop_table(NAME)
    with pytest.raises(TableMismatchError, match="dropped"):
        publisher.publish()
    lake.client.create_table(NAME, lake_schema(lake))
    with pytest.raises(TableMismatchError, match="created again"):
        publisher.publish()


def lake_schema(lake: LakeUnderTest) -> Schema:
    assert lake.table_options.schema is not None
    return iceberg_schema(lake.table_options.schema.fields)


def test_a_merged_file_that_orphan_removal_took_is_made_again(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(1)
    lake.commit(2)
    catalog.faults = ["lost"] * 3
    with pytest.raises(MetastoreUnavailableError):
        publisher.publish()
    (merged,) = Path(lake.table().location().removeprefix("file://")).rglob("data/app=a/*")
    merged.unlink()
    publisher.publish()
    lake.assert_exact()


def test_a_table_whose_property_went_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    with lake.table().transaction() as change:
        change.remove_properties(property_name(LEDGER))
    lake.commit(2)
    with pytest.raises(TableHistoryError, match="is gone"):
        publisher.publish()
    with pytest.raises(TableHistoryError, match="is gone"):
        lake.publisher().publish()


def test_a_table_that_another_ledger_feeds_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    with lake.table().transaction() as change:
        change.set_properties({"sluiceway.ledger": "another@/x"})
    lake.commit(1)
    with pytest.raises(LedgerMismatchError, match="another ledger"):
        publisher.publish()


def test_a_ledger_that_is_older_than_its_table_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    seq = lake.commit(1)
    publisher.publish()
    Path(lake.log.layout.record(seq)).unlink()
    with pytest.raises(TableHistoryError, match="older than"):
        lake.publisher().table.follow(LogView(lake.log, seq))


def test_an_older_metadata_file_that_was_put_back_is_healed(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    before = lake.table().metadata_location
    lake.commit(2)
    publisher.publish()
    lake.put_back(before)
    lake.commit(3)
    publisher.publish()
    lake.assert_exact()


def test_rows_wait_for_the_interval_unless_the_route_ends(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, publish_interval_s=3600.0))
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    place = publisher.table.place()
    lake.commit(2)
    publisher.name_files()
    assert publisher.table.follow(lake.view()) == place
    assert "snapshot" in publisher.table.waits()
    publisher.publish()
    lake.assert_exact()


def test_rows_are_published_with_the_commit_that_is_nearest_to_the_end_of_the_interval(
    tmp_path: Path,
) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, publish_interval_s=10.0))
    now = [0.0]
    publisher = lake.publisher()
    table = publisher.table
    table._clock = lambda: now[0]
    for row in range(1, 4):
        # Commits at 0, 4 and 8 s; the second interval ends at 10.
        lake.commit(row)
        table.update(lake.writer.fold, 0)
        if row == 3:
            # Its files have no names yet: rows that came before do not go without it.
            table.follow(LogView(lake.log, lake.writer.fold.next_seq - 1))
            assert len(lake.rows()) == 1
        publisher.name_files()
        table.follow(lake.view())
        now[0] += 4.0
    lake.assert_exact()
    assert len(lake.table().metadata.snapshots) == 2


def test_a_file_that_is_gone_before_its_snapshot_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.name_files()
    (waiting,) = Path(lake.log.layout.table_root).glob("app=a/*.parquet")
    waiting.unlink()
    with pytest.raises(FileLostError):
        publisher.publish()


def test_a_column_that_became_required_halts(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    with lake.table().update_schema(allow_incompatible_changes=True) as change:
        change.add_column("must", LongType())
    lake.commit(1)
    publisher.publish()
    lake.assert_exact()
    with lake.table().update_schema(allow_incompatible_changes=True) as change:
        change.update_column("must", required=True)
    lake.commit(2)
    with pytest.raises(TableMismatchError, match="must is required"):
        publisher.publish()


def test_columns_that_were_renamed_widened_or_dropped_take_our_files(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    with lake.table().update_schema() as change:
        change.rename_column("n", "number")
    publisher.publish()
    lake.commit(2)
    publisher.publish()
    found = lake.table().scan().to_arrow()
    assert sorted(found["number"].to_pylist()) == [1, 2]


def test_a_changed_spec_takes_files_under_their_own(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.publish()
    with lake.table().update_spec() as change:
        change.remove_field("app")
    lake.commit(2)
    publisher.publish()
    lake.assert_exact()
    specs = {task.file.spec_id for task in lake.table().scan().plan_files()}
    assert specs == {0}


def test_small_files_of_a_partition_are_one_before_anybody_sees_them(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    for row in range(4):
        lake.commit(row, app="a" if row % 2 else "b")
    lake.commit(9, app="c")
    publisher.publish()
    lake.assert_exact()
    tasks = list(lake.table().scan().plan_files())
    assert sorted(task.file.record_count for task in tasks) == [1, 2, 2]
    assert {tuple(task.file.partition) for task in tasks} == {("a",), ("b",), ("c",)}
    found = lake.table().scan(row_filter="app == 'a' and n == 3").to_arrow()
    assert found["n"].to_pylist() == [3]


def test_files_that_cannot_be_merged_are_linked(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setattr("sluiceway.sinks.iceberg.compact.small_files.warm_processes", WarmProcesses)
    publisher = lake.publisher()
    lake.commit(1)
    lake.commit(2)
    publisher.publish()
    lake.assert_exact()
    assert len(list(lake.table().scan().plan_files())) == 2


def test_large_files_and_lone_ones_are_not_merged(lake: LakeUnderTest) -> None:
    lake.commit(1)
    lake.commit(2, app="b")
    files = [
        (seq, file)
        for seq, body in lake.writer.fold.unpublished.items()
        for file in body.files  # type: ignore[union-attr]
    ]
    assert merge_groups(files, 128 << 20) == []
    both = [(1, files[0][1]), (2, files[0][1])]
    assert len(merge_groups(both, 128 << 20)) == 1
    assert merge_groups(both, int(files[0][1].size_bytes) * 4) == []


def test_few_files_of_megabytes_are_not_written_anew_before_a_snapshot(
    lake: LakeUnderTest,
) -> None:
    lake.commit(1)
    (body,) = lake.writer.fold.unpublished.values()
    file = replace(body.files[0], size_bytes=str(1 << 20))  # type: ignore[union-attr]
    half = replace(file, size_bytes=str(500 << 10))
    assert merge_groups([(1, file), (2, file), (3, file)], 128 << 20) == []
    assert merge_groups([(1, half), (2, half)], 128 << 20) == [[(1, half), (2, half)]]
    four = [(slot, file) for slot in range(1, 5)]
    assert merge_groups(four, 128 << 20) == [four]


def test_a_table_that_falls_too_far_behind_holds_up_the_route(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, max_lag_s=100.0))
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    now = [0.0]
    publisher.table._clock = lambda: now[0]
    lake.commit(1)
    publisher.name_files()
    publisher.table.update(lake.writer.fold, 0)
    assert publisher.table.holds_up() == ""
    catalog.down, now[0] = True, 101.0
    with pytest.raises(StorageUnavailableError):
        publisher.publish()
    assert "101 s behind" in publisher.table.holds_up()
    catalog.down = False
    publisher.publish()
    assert publisher.table.holds_up() == ""
    lake.assert_exact()


def waiting_names(lake: LakeUnderTest) -> int:
    return len(list(Path(lake.log.layout.table_root).glob("app=*/*.parquet")))


def test_names_beside_the_ledger_go_an_hour_after_the_snapshot_was_seen(
    lake: LakeUnderTest,
) -> None:
    publisher = lake.publisher()
    now = [0.0]
    publisher.table._clock = lambda: now[0]
    lake.commit(1)
    lake.commit(2, app="b")
    publisher.publish()
    now[0] = 3599.0
    publisher.publish()
    assert waiting_names(lake) == 2
    now[0] = 3601.0
    lake.commit(3, app="c")
    publisher.publish()
    # Those of the new slot wait for their own hour.
    assert waiting_names(lake) == 1
    lake.assert_exact()


def test_names_that_a_driver_has_left_are_removed_by_the_next_one(lake: LakeUnderTest) -> None:
    lake.commit(1)
    lake.publisher().publish()
    lake.commit(2, app="b")
    later = lake.publisher()
    now = [0.0]
    later.table._clock = lambda: now[0]
    later.name_files()
    now[0] = 10.0
    later.publish()
    now[0] = 4000.0
    lake.commit(3, app="c")
    later.name_files()
    later.publish()
    assert waiting_names(lake) == 1
    assert Path(lake.log.layout.announced("lake-names")).exists()
    lake.assert_exact()


def test_names_of_slots_that_the_table_has_lost_again_stay(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, publish_interval_s=7200.0))
    publisher = lake.publisher()
    now = [0.0]
    publisher.table._clock = lambda: now[0]
    lake.commit(1)
    publisher.publish()
    before = lake.table().metadata_location
    # Two small files of a partition: no link of them lies in the table's own folder.
    lake.commit(2)
    lake.commit(3)
    publisher.publish()
    lake.put_back(before)
    now[0] = 3601.0
    publisher.table.follow(lake.view())
    publisher.publish()
    lake.assert_exact()


def test_a_table_with_many_snapshots_is_told(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(1)
    lake.publisher().publish()
    assert lake.sink.open().warnings == ()
    monkeypatch.setattr("sluiceway.sinks.iceberg.publish.table_checks._MANY_SNAPSHOTS", 0)
    assert "1 snapshots" in lake.sink.open().warnings[0]


def test_an_old_hour_that_is_announced_again_is_not_the_last_complete_one(
    lake: LakeUnderTest,
) -> None:
    table = lake.publisher().table
    batch = LakeBatch(0, ready=[("dt=20261120/hr=08", 2)])
    name = "sluiceway.orders.ready"
    assert table._ready_properties(batch, {}) == {name: "dt=20261120/hr=08"}
    for held in ("dt=20261120/hr=07", "dt=20261120/hr=11"):
        wanted = max(held, "dt=20261120/hr=08")
        assert table._ready_properties(batch, {name: held}) == {name: wanted}


def test_a_complete_hour_has_a_tag_and_properties_of_its_snapshot(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path, replace(BY_APP, ready_tag_ms=86_400_000))
    publisher = lake.publisher()
    lake.commit(1)
    tags = publisher.table._ready_tags(LakeBatch(0, ready=[("dt=1/hr=2", 1)]))
    assert tags == {"ready-dt=1/hr=2": 86_400_000}
    publisher.publish()
    table = lake.table()
    request = append_request(table, SlotBatch(LEDGER, 9, 9, "0" * 16, tags=tags), [])
    publisher.table._table.send(table, request)
    refs = lake.table().metadata.refs
    assert refs["ready-dt=1/hr=2"].snapshot_id == refs["main"].snapshot_id
    assert refs["ready-dt=1/hr=2"].max_ref_age_ms == 86_400_000
