"""Expiry of snapshots: what goes, what stays, and that files of live rows never go."""

import time
from pathlib import Path

import pytest
from pyiceberg.table import Table

from sluiceway.sinks.iceberg import commit_request
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.table_history import Lineage, lineage, read_through
from tools.lake_under_test import LakeUnderTest
from tools.ledger_records import LEDGER
from tools.reader_lease_files import put_lease


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    """Five snapshots of rows, and one that has made one file of them."""
    found = LakeUnderTest(tmp_path)
    publisher = found.publisher()
    for number in range(5):
        found.commit(number)
        publisher.publish()
    compaction = found.compaction()
    compaction.begin(compaction.plan(all_of_them=True)[0])
    compaction.finish()
    return found


def on_disk(lake: LakeUnderTest) -> int:
    folder = Path(lake.table().location().removeprefix("file://")) / "data"
    return len(list(folder.rglob("*.parquet")))


def metadata_files(lake: LakeUnderTest) -> int:
    folder = Path(lake.table().location().removeprefix("file://")) / "metadata"
    return len(list(folder.glob("*.avro")))


def live_manifests(lake: LakeUnderTest) -> set[str]:
    """Of all snapshots."""
    table = lake.table()
    return {
        manifest.manifest_path
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }


def test_old_snapshots_go_with_the_files_that_only_they_name(lake: LakeUnderTest) -> None:
    assert (on_disk(lake), len(lake.table().metadata.snapshots)) == (6, 6)
    before = metadata_files(lake)
    time.sleep(0.01)
    done = lake.expiry().expire(0.0)
    # Our last snapshot stays, and the compaction after it.
    assert (done.snapshots, done.left) == (4, "")
    assert len(lake.table().metadata.snapshots) == 2
    assert (on_disk(lake), metadata_files(lake)) == (6, before - 4)
    lake.commit(5)
    lake.publisher().publish()
    time.sleep(0.01)
    assert lake.expiry().expire(0.0).data_files == 5
    assert on_disk(lake) == 2
    lake.assert_exact()
    metadata = lake.table().metadata
    through = read_through(metadata.properties, LEDGER, where="t")
    assert through is not None
    assert lineage(metadata, through) is Lineage.GOOD
    lake.commit(6)
    lake.publisher().publish()
    lake.assert_exact()


def test_snapshots_that_a_query_has_still_to_read_stay(lake: LakeUnderTest) -> None:
    published = [
        int(each.summary.additional_properties["sluiceway.through"])
        for each in lake.table().metadata.snapshots
        if each.summary is not None and "sluiceway.through" in each.summary.additional_properties
    ]
    assert len(published) == 5
    put_lease(lake.log, "q", published[1])
    time.sleep(0.01)
    # The query goes on from the second snapshot, so that only the first one goes.
    assert lake.expiry().expire(0.0).snapshots == 1
    put_lease(lake.log, "q", published[0], old=True)
    assert lake.expiry().expire(0.0).snapshots == 3
    lake.assert_exact()


@pytest.mark.parametrize("asked", [0, 1, 4, 8, 13, 16, 18, 20, 10_000])
def test_one_that_is_asked_to_end_leaves_orphans_only_which_are_found(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    lake.commit(5)
    lake.publisher().publish()
    before = lake.in_table()
    time.sleep(0.01)
    times = iter(range(10_000))
    done = lake.expiry().expire(0.0, lambda: next(times) >= asked)
    lake.assert_exact()
    gone = before - lake.in_table()
    assert len([name for name in gone if name.startswith("data/")]) == done.data_files
    assert len(gone) == done.data_files + done.metadata_files
    assert (done.left != "") == (asked == 0)
    if asked in (0, 10_000):
        assert len(gone) == (0 if asked == 0 else 5 + done.metadata_files)
        return
    assert len(gone) < 11
    # A manifest that stays may name them still, as removed, until it is merged with others.
    monkeypatch.setattr(commit_request, "MERGED_AT_MANIFESTS", 1)
    for number in (6, 7):
        lake.commit(number)
        lake.publisher().publish()
    time.sleep(0.01)
    lake.expiry().expire(0.0)
    lake.days_pass()
    assert lake.orphans().remove(86_400.0).left == ""
    assert on_disk(lake) == len(list(lake.table().scan().plan_files()))
    snapshots = len(lake.table().metadata.snapshots)
    assert metadata_files(lake) == snapshots + len(live_manifests(lake))
    lake.assert_exact()


def test_a_stop_ends_an_expiry_between_two_files(lake: LakeUnderTest) -> None:
    lake.commit(5)
    lake.publisher().publish()
    before = lake.in_table()
    time.sleep(0.01)

    def gone() -> int:
        return len([name for name in before - lake.in_table() if name.startswith("data/")])

    done = lake.expiry().expire(0.0, lambda: gone() >= 2)
    assert (gone(), done.data_files, done.metadata_files) == (2, 2, 0)
    lake.assert_exact()


def test_what_is_young_or_among_the_newest_stays(lake: LakeUnderTest) -> None:
    assert lake.expiry().expire(3600.0).snapshots == 0
    time.sleep(0.01)
    assert lake.expiry(least=4).expire(0.0).snapshots == 2
    assert len(lake.table().metadata.snapshots) == 4


def test_tags_keep_their_snapshot_until_their_own_age_is_over(lake: LakeUnderTest) -> None:
    first, second, *_ = lake.table().metadata.snapshots
    manage = lake.table().manage_snapshots()
    manage.create_tag(first.snapshot_id, "kept")
    manage.create_tag(second.snapshot_id, "over", max_ref_age_ms=1)
    manage.commit()
    time.sleep(0.01)
    done = lake.expiry().expire(0.0)
    assert (done.snapshots, done.tags) == (3, 1)
    assert set(lake.table().metadata.refs) == {"main", "kept"}
    assert lake.table().scan(snapshot_id=first.snapshot_id).to_arrow()["n"].to_pylist() == [0]
    lake.assert_exact()


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "late"])
def test_a_request_that_goes_astray_removes_no_live_file(lake: LakeUnderTest, fault: str) -> None:
    catalog = lake.faulty()
    catalog.faults = [fault]
    time.sleep(0.01)
    assert lake.expiry(catalog).expire(0.0).snapshots == 4
    for _ in list(catalog.kept):
        catalog.land()
    lake.assert_exact()
    assert len(lake.table().metadata.snapshots) == 2


def test_rows_that_land_while_it_expires_stay(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiry = lake.expiry()
    send = expiry._table.send

    def publish_first(table: Table, request: CommitRequest) -> str:
        lake.commit(7)
        lake.publisher().publish()
        return send(table, request)

    monkeypatch.setattr(expiry._table, "send", publish_first)
    time.sleep(0.01)
    done = expiry.expire(0.0)
    assert done.left.startswith("the catalog did not take it: refused")
    lake.assert_exact()


def test_a_table_whose_files_are_not_to_be_collected_is_left(lake: LakeUnderTest) -> None:
    table = lake.table()
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    time.sleep(0.01)
    assert lake.expiry().expire(0.0).snapshots == 0
