"""Orphans: what nothing names goes when it is old; what is live, kept or on its way never does."""

import shutil
import time
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table import Table

from sluiceway.errors import SluicewayError
from sluiceway.ledger.collect import garbage_of
from sluiceway.ledger.follower import LogView
from sluiceway.sinks.iceberg.compact.merge_files import MergedOne, MergePlan, merge_files
from sluiceway.sinks.iceberg.compact.orphans import LakeOrphans, TableNames
from sluiceway.sinks.iceberg.publish import publisher as publishing
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.local import LocalStorage
from tools.lake_under_test import LakeUnderTest

_AGE_S = 3 * 86_400.0


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    """Three snapshots of rows."""
    found = LakeUnderTest(tmp_path)
    publisher = found.publisher()
    for number in range(3):
        found.commit(number)
        publisher.publish()
    return found


def leave(lake: LakeUnderTest, inside: str, content: bytes = b"rows") -> str:
    """What somebody left, who died before he named it."""
    path = lake.folder / "wh/ods/t" / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return inside


def test_old_orphans_go_and_young_ones_and_the_table_stay(lake: LakeUnderTest) -> None:
    before = lake.in_table()
    old = {
        leave(lake, f"data/app=a/{uuid4()}.parquet"),
        leave(lake, "data/app=a/part-0.parquet.inprogress"),
        leave(lake, f"metadata/{uuid4()}-m0.avro"),
    }
    lake.days_pass()
    young = leave(lake, f"data/{uuid4()}.parquet")
    found = lake.orphans().find(_AGE_S)
    assert (found.files, found.size_bytes, found.left) == (3, 12, "")
    assert lake.in_table() == before | old | {young}
    done = lake.orphans().remove(_AGE_S)
    assert (done.files, done.size_bytes, done.failed, done.left) == (3, 12, 0, "")
    assert lake.in_table() == before | {young}
    lake.assert_exact()
    lake.commit(3)
    lake.publisher().publish()
    lake.assert_exact()


def test_the_age_is_counted_by_the_clock_of_the_store(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lake, f"data/{uuid4()}.parquet")
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 30 * 86_400)
    assert lake.orphans().remove(_AGE_S).files == 0


@pytest.mark.parametrize("taken", ["overwrite", "status"])
def test_a_clock_that_garbage_collection_takes_at_once_is_made_again(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """In the midst of being written, or before it was looked at."""
    inside = leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    stage = Path(lake.log.layout.stage)
    collected: list[int] = []

    def collect_first() -> None:
        if collected or not list(stage.glob("*clock-*")):
            return
        removed = garbage_of(lake.log, lake.writer.fold).collect().removed
        collected.append(sum("clock-" in place.path for place in removed))

    rename, status = Path.rename, LocalStorage.status

    def rename_late(half: Path, target: Path) -> Path:
        collect_first()
        return rename(half, target)

    def look_late(self: LocalStorage, path: str) -> FileStatus | None:
        if "/clock-" in path:
            collect_first()
        return status(self, path)

    if taken == "overwrite":
        monkeypatch.setattr(Path, "rename", rename_late)
    else:
        monkeypatch.setattr(LocalStorage, "status", look_late)
    assert lake.orphans().remove(_AGE_S).files == 1
    assert collected == [1]
    assert inside not in lake.in_table()
    assert not list(stage.glob("*clock-*"))


def test_a_store_that_never_keeps_a_clock_is_left(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    monkeypatch.setattr(LakeOrphans, "_touched", lambda self, path: None)
    assert lake.orphans().remove(_AGE_S).files == 0


def test_files_of_tags_and_branches_stay_that_main_has_lost(lake: LakeUnderTest) -> None:
    head = lake.table().metadata.current_snapshot_id
    assert head is not None
    manage = lake.table().manage_snapshots()
    manage.create_tag(head, "kept")
    manage.create_branch(head, "other")
    manage.commit()
    lake.table().append(lake.table().scan().to_arrow(), branch="other")
    table = lake.table()
    table.overwrite(table.scan().to_arrow())
    lake.days_pass()
    before = lake.in_table()
    assert lake.orphans().remove(_AGE_S).files == 0
    assert lake.in_table() == before
    assert lake.table().scan(snapshot_id=head).to_arrow().num_rows == 3


def test_files_that_were_placed_for_slots_not_published_yet_stay_however_old(
    lake: LakeUnderTest,
) -> None:
    catalog = lake.faulty()
    catalog.faults = ["lost"] * 3
    publisher = lake.publisher(catalog)
    before = lake.in_table()
    lake.commit(3)
    with pytest.raises(SluicewayError):
        publisher.publish()
    (placed,) = {each for each in lake.in_table() - before if each.startswith("data/")}
    lake.days_pass()
    done = lake.orphans().remove(_AGE_S)
    # Manifest and list of three requests that are days old: nobody sends them again.
    assert (done.files, lake.in_table()) == (6, before | {placed})
    publisher.publish()
    lake.assert_exact()


def test_a_merged_file_stays_until_another_was_published_for_its_slots(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(plan: MergePlan) -> tuple[MergedOne | None, ...]:
        return merge_files(plan, LocalStorage())

    monkeypatch.setattr(publishing, "merge_in_process", here)
    catalog = lake.faulty()
    catalog.faults = ["lost"] * 3
    publisher = lake.publisher(catalog)
    before = lake.in_table()
    lake.commit(3)
    lake.commit(4)
    with pytest.raises(SluicewayError):
        publisher.publish()
    (merged,) = {each for each in lake.in_table() - before if each.startswith("data/")}
    lake.days_pass()
    lake.orphans().remove(_AGE_S)
    assert merged in lake.in_table()
    lake.publisher().publish()
    lake.orphans().remove(_AGE_S)
    assert merged not in lake.in_table()
    lake.assert_exact()


def test_what_was_placed_anew_since_it_was_listed_stays(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    look = LakeOrphans._read_table
    looks: list[int] = []

    def and_touch(self: LakeOrphans) -> object:
        if looks:
            (lake.folder / "wh/ods/t" / inside).touch()
        looks.append(1)
        return look(self)

    monkeypatch.setattr(LakeOrphans, "_read_table", and_touch)
    assert lake.orphans().remove(_AGE_S).files == 0
    assert inside in lake.in_table()


def test_nothing_goes_where_a_file_of_the_table_has_another_spelling(lake: LakeUnderTest) -> None:
    (lake.folder / "link").symlink_to(lake.folder / "wh")
    inside = leave(lake, f"data/{uuid4()}.parquet")
    lake.table().append(lake.table().scan().to_arrow())
    # The same file, as somebody added it by a link to its folder.
    live = sorted(task.file.file_path for task in lake.table().scan().plan_files())[0]
    target = lake.folder / "wh/ods/t" / f"data/{uuid4()}.parquet"
    shutil.copy(live.removeprefix("file://"), target)
    linked = f"file://{lake.folder}/link/ods/t/data/{target.name}"
    lake.days_pass()
    names = [live, linked]
    orphans = lake.orphans()
    orphans._named.of = lambda table: iter(names)  # type: ignore[method-assign]
    done = orphans.remove(_AGE_S)
    assert done.files == 0
    assert f"data/{target.name} may be {linked}" in done.left
    assert inside in lake.in_table()


def test_nothing_goes_when_a_live_file_is_not_where_its_name_says(lake: LakeUnderTest) -> None:
    inside = leave(lake, f"data/{uuid4()}.parquet")
    (first, *_) = [each for each in lake.in_table() if each.startswith("data/app=a/")]
    (lake.folder / "wh/ods/t" / first).unlink()
    lake.days_pass()
    done = lake.orphans().remove(_AGE_S)
    assert "is not where its name says" in done.left
    assert inside in lake.in_table()


def test_another_table_below_is_left_alone_and_one_in_the_same_folder_stops_all(
    lake: LakeUnderTest,
) -> None:
    uuid = str(uuid4())
    told = f'{{"format-version":2,"table-uuid":"{uuid}"}}'.encode()
    other = {
        leave(lake, "data/sub/metadata/00000-x.metadata.json", told),
        leave(lake, "data/sub/data/rows.parquet"),
        leave(lake, "data/hive/_sluiceway/OWNER"),
        leave(lake, "data/hive/dt=1/rows.parquet"),
    }
    orphan = leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    done = lake.orphans().remove(_AGE_S)
    assert (done.files, done.others, done.left) == (1, ("data/hive", "data/sub"), "")
    assert other < lake.in_table()
    assert orphan not in lake.in_table()
    leave(lake, "metadata/00000-y.metadata.json", told)
    orphan = leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    done = lake.orphans().remove(_AGE_S)
    assert done.left == f"metadata/00000-y.metadata.json is of another table, {uuid}"
    assert orphan in lake.in_table()


def test_a_table_whose_files_are_not_to_be_collected_is_left(lake: LakeUnderTest) -> None:
    with lake.table().transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    orphan = leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    assert "gc.enabled is false" in lake.orphans().remove(_AGE_S).left
    assert orphan in lake.in_table()


def test_a_store_that_tells_no_times_is_left(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = LocalStorage.list

    def timeless(self: LocalStorage, folder: str) -> list[FileStatus]:
        found = listed(self, folder)
        return [FileStatus(each.path, each.size_bytes, each.is_dir) for each in found]

    monkeypatch.setattr(LocalStorage, "list", timeless)
    leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    assert lake.orphans().remove(_AGE_S).left == "the store does not say when files were written"


def test_nothing_goes_before_the_first_publish(tmp_path: Path) -> None:
    lake = LakeUnderTest(tmp_path)
    lake.commit(1)
    leave(lake, f"data/{uuid4()}.parquet")
    lake.days_pass()
    assert "nothing of the route" in lake.orphans().remove(_AGE_S).left


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("file:///w/t", "file:/w/t/data/a=1/f"),
        ("file:/w/t/", "/w//t/data/a=1/f"),
        ("s3a://b/t", "s3://b/t/data/a=1/f"),
        ("s3://b/t", "s3n://b/t//data/a=1/f"),
        ("hdfs://nn/w/t", "hdfs://nn:8020/w/t/data/a=1/f"),
    ],
)
def test_spellings_of_one_place_are_one(location: str, name: str) -> None:
    names = TableNames(location, [name])
    assert names.has("data/a=1/f")
    assert not names.has("data/a=1/g")
    assert names.elsewhere == {}


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("hdfs://nn/w/t", "hdfs://10.0.0.1:8020/w/t/data/f"),
        ("hdfs://nn/w/t", "/w/t/data/f"),
        ("s3a://b/t", "s3a://alias-of-b/t/data/f"),
        ("file:///nfs/b/t", "s3a://b/t/data/f"),
        ("file:///w/t", "file:///w/t2/data/f"),
    ],
)
def test_what_may_be_the_same_place_by_another_name_is_told(location: str, name: str) -> None:
    names = TableNames(location, [name])
    assert not names.has("data/f")
    assert names.alike("data/f") == name
    assert names.alike("data/g") is None


def test_escapes_in_names_keep_files_of_either_spelling() -> None:
    names = TableNames("file:///w/t", ["file:///w/t/data/a=x%20y/f", "file:///w/t/data/a=u v/g"])
    for kept in ("a=x%20y/f", "a=x y/f", "a=u v/g", "a=u%20v/g"):
        assert names.has(f"data/{kept}")


def test_a_publish_is_built_again_when_its_head_is_expired_under_it(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = lake.publisher()
    attempt = publisher.table._try
    lost: list[str] = []

    def expired_first(table: Table, batch: LakeBatch, view: LogView) -> str:
        head = table.current_snapshot()
        assert head is not None
        if not lost:
            lost.append(head.manifest_list)
            lake.append_foreign([100])
            Path(head.manifest_list.removeprefix("file://")).unlink()
        return attempt(table, batch, view)

    monkeypatch.setattr(publisher.table, "_try", expired_first)
    lake.commit(3)
    publisher.publish()
    assert lost
    assert lake.rows() == [*lake.committed, 100]
