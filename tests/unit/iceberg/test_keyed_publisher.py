"""Publishing changes of keyed rows: the table is what the last change of each key left."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from sluiceway.errors import FileLostError, MetastoreUnavailableError, SourceAgainError
from sluiceway.sinks.iceberg.keyed.keyed_upkeep import LIKE_FILES, MOST_DELETE_FILES
from sluiceway.sinks.iceberg.keyed.table_head import Head, HeadReader, grouped, living
from tools.keyed_lake import ALL, KEYED, KEYED_BY_APP, LOST, KeyedLake, TopicsLake
from tools.ledger_records import sources
from tools.test_plan import slow_after


@pytest.fixture
def lake(tmp_path: Path) -> KeyedLake:
    return KeyedLake(tmp_path)


def test_the_last_change_of_a_key_counts_within_and_between_slots(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1, 2, 3, 1, -3, app="a")
    lake.commit(2, -1, 1, app="b")
    publisher.publish()
    lake.assert_equal()
    lake.commit(-2, 4, app="c")
    publisher.publish()
    lake.assert_equal()
    assert lake.wanted == {1: "b", 4: "c"}


def test_a_key_is_deleted_that_was_never_there(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(-7)
    assert publisher.publish() == lake.writer.fold.next_seq
    lake.assert_equal()


def test_a_row_moves_to_another_partition(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, KEYED_BY_APP)
    publisher = lake.publisher()
    lake.commit(1, 2, app="a")
    publisher.publish()
    lake.commit(1, app="b")
    publisher.publish()
    lake.assert_equal()


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "late"])
def test_a_request_that_goes_astray_changes_nothing_but_time(lake: KeyedLake, fault: str) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    for number in range(4):
        lake.commit(1, number, -(number - 1) if number > 1 else 9, app=f"v{number}")
        catalog.faults = [fault]
        publisher.publish()
        lake.assert_equal()
    while catalog.kept:
        assert "refused" in catalog.land()
        lake.assert_equal()
    assert all(catalog.said)


def test_a_late_request_of_another_head_is_refused_and_resolved_again(lake: KeyedLake) -> None:
    catalog = lake.faulty()
    slow, quick = lake.publisher(catalog), lake.publisher()
    lake.commit(1, 2, app="a")
    quick.publish()
    lake.commit(1, app="b")
    catalog.faults = ["late"] * 3
    with pytest.raises(MetastoreUnavailableError):
        slow.publish()
    quick.publish()
    lake.commit(1, app="c")
    quick.publish()
    for _ in range(3):
        assert "refused" in catalog.land()
    slow.publish()
    lake.assert_equal()


def test_a_compaction_of_others_between_two_publishes_is_followed(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(*range(1, 20), app="a")
    publisher.publish()
    lake.commit(3, -4, app="b")
    publisher.publish()
    # As an engine's rewrite: new files, the same rows, the deletes applied.
    table = lake.table()
    table.overwrite(table.scan().to_arrow())
    lake.commit(5, -3, app="c")
    publisher.publish()
    lake.assert_equal()


@pytest.mark.parametrize("begin", ["file:", ""])
def test_files_that_others_spell_otherwise_lie_where_they_lie(lake: KeyedLake, begin: str) -> None:
    publisher = lake.publisher()
    lake.commit(*range(1, 20), app="a")
    publisher.publish()
    lake.spell_otherwise(begin)
    lake.commit(5, -3, app="c")
    publisher.publish()
    lake.assert_equal()


def test_a_foreign_snapshot_between_look_and_request_is_resolved_again(lake: KeyedLake) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(*range(1, 10), app="a")
    publisher.publish()
    lake.commit(2, -3, app="b")
    send = catalog.send

    def rewritten_before(table: object, request: object) -> str:
        catalog.send = send  # type: ignore[method-assign]
        table_now = lake.table()
        table_now.overwrite(table_now.scan().to_arrow())
        return send(table, request)  # type: ignore[arg-type]

    catalog.send = rewritten_before  # type: ignore[method-assign]
    publisher.publish()
    lake.assert_equal()


def test_files_stay_few_however_many_publishes_there_are(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path)
    publisher = lake.publisher()
    chance = Random(5)  # noqa: S311 - a game
    most = (0, 0)
    for number in range(40):
        rows = [chance.choice((1, 1, -1)) * chance.randrange(1, 60) for _ in range(12)]
        lake.commit(*rows, app=f"v{number}")
        publisher.publish()
        found = lake.live()
        most = max(most[0], found[0]), max(most[1], found[1])
        if number % 10 == 9:
            lake.assert_equal()
    lake.assert_equal()
    assert most[0] <= 3 * LIKE_FILES
    assert most[1] <= MOST_DELETE_FILES


@pytest.mark.parametrize("seed", slow_after(1, range(2)))
def test_two_publishers_with_faults_make_the_table_that_the_log_says(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 - a game
    lake = KeyedLake(tmp_path, chance.choice((KEYED, KEYED_BY_APP)))
    catalogs = [lake.faulty(), lake.faulty()]
    publishers = [lake.publisher(catalog) for catalog in catalogs]
    for number in range(25):
        rows = [chance.choice((1, 1, -1)) * chance.randrange(1, 15) for _ in range(5)]
        lake.commit(*rows, app=chance.choice("abc"))
        which = chance.randrange(2)
        catalogs[which].faults = [
            chance.choice(("lost", "late", "twice", "answer_lost", "pass")) for _ in range(2)
        ]
        publishers[which].publish()
        lake.assert_equal()
        if catalogs[1 - which].kept and chance.random() < 0.5:
            catalogs[1 - which].land()
            lake.assert_equal()
        del number


def test_a_file_of_changes_that_is_gone_or_altered_halts(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1)
    publisher.name_files()
    (waiting,) = Path(lake.log.layout.table_root).rglob("app=a/*.parquet")
    held = waiting.read_bytes()
    waiting.write_bytes(held[:-1] + b"x")
    with pytest.raises(FileLostError, match="checksum"):
        publisher.publish()
    waiting.unlink()
    with pytest.raises(FileLostError, match="gone"):
        publisher.publish()
    waiting.write_bytes(held)
    publisher.publish()
    lake.assert_equal()


def test_a_renamed_key_column_is_found_by_its_id(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1, 2, app="a")
    publisher.publish()
    with lake.table().update_schema() as change:
        change.rename_column("app", "application")
    lake.commit(1, app="b")
    publisher.publish()
    found = lake.table().scan().to_arrow()
    assert dict(zip(found["n"].to_pylist(), found["application"].to_pylist(), strict=True)) == {
        1: "b",
        2: "a",
    }


def test_a_snapshot_that_begins_again_halts(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.begins = True
    lake.commit(1)
    lake.begins = False
    lake.commit(2, -1)
    publisher.publish()
    lake.assert_equal()
    lake.begins = True
    lake.commit(2)
    with pytest.raises(SourceAgainError, match="deleted meanwhile"):
        publisher.publish()
    with pytest.raises(SourceAgainError):
        lake.publisher().publish()


@pytest.mark.parametrize("published_between", [True, False])
def test_a_snapshot_begins_in_one_partition_behind_its_own_rows_of_another(
    lake: KeyedLake, *, published_between: bool
) -> None:
    lake.writer.commit(sources(1))
    publisher = lake.publisher()
    lake.commit(1, 2, partition=1)
    if published_between:
        publisher.publish()
    lake.begins = True
    lake.commit(3, partition=0)
    publisher.publish()
    lake.assert_equal()
    # Behind these it begins again, in either of them.
    for partition in (0, 1):
        lake.commit(3, partition=partition)
        with pytest.raises(SourceAgainError):
            lake.publisher().publish()


def test_a_snapshot_that_begins_with_a_dirty_record_is_seen(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(LOST, 1, 2)
    publisher.publish()
    lake.assert_equal()
    lake.commit(-1)
    publisher.publish()
    lake.commit(LOST)
    with pytest.raises(SourceAgainError):
        publisher.publish()


def test_a_snapshot_that_begins_behind_changes_of_its_own_batch_halts(lake: KeyedLake) -> None:
    lake.commit(1)
    lake.begins = True
    lake.commit(2)
    with pytest.raises(SourceAgainError):
        lake.publisher().publish()


def test_new_rows_that_orphan_removal_took_are_made_again(lake: KeyedLake) -> None:
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    lake.commit(1, 2)
    catalog.faults = ["lost"] * 3
    with pytest.raises(MetastoreUnavailableError):
        publisher.publish()
    (placed,) = Path(lake.table().location().removeprefix("file://")).rglob("data/**/*.parquet")
    placed.unlink()
    publisher.publish()
    lake.assert_equal()


def test_a_snapshot_whose_first_row_is_none_of_the_table_halts_too(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1, 2)
    publisher.publish()
    lake.begins = True
    lake.commit(-1)
    with pytest.raises(SourceAgainError):
        publisher.publish()


def test_each_topic_may_begin_its_own_snapshot_and_none_a_second_one(tmp_path: Path) -> None:
    lake = TopicsLake(tmp_path)
    lake.read_too("others")
    publisher = lake.publisher()
    lake.begins = True
    lake.commit(1)
    lake.begins = False
    lake.commit(2)
    publisher.publish()
    lake.commit(3)
    lake.begins = True
    lake.commit(101, topic="others")
    publisher.publish()
    lake.assert_equal()
    lake.commit(102, topic="others")
    with pytest.raises(SourceAgainError, match="deleted meanwhile"):
        publisher.publish()
    with pytest.raises(SourceAgainError):
        lake.publisher().publish()


def test_deleted_rows_stay_deleted_when_an_older_head_brings_their_file_back(
    lake: KeyedLake,
) -> None:
    publisher = lake.publisher()
    for rows in ((1, 2, 3), (4, 5, 6, 7, 8, 9), (-1, -4)):
        lake.commit(*rows, app="a")
        publisher.publish()
    before = lake.table().metadata_location
    # More than half of the first file is dead, so it is written anew; then it is not looked at.
    for row in (-2, 20):
        lake.commit(row, app="a")
        publisher.publish()
    lake.put_back(before)
    # It is there again, and is written anew again.
    lake.commit(-3)
    publisher.publish()
    lake.assert_equal()


def dead_for_good(self: HeadReader, head: Head) -> None:
    """A wrong variant: rows stay dead whose delete files are gone."""
    for path in head.deletes.keys() - self._applied.keys():
        found = grouped(self._read_deletes(path))
        for data, positions in found.items():
            self._dead.setdefault(data, []).append(positions)
        self._applied[path] = frozenset(found)


@pytest.mark.parametrize("wrong", [False, True])
def test_rows_live_again_whose_delete_file_went_with_an_older_head(
    lake: KeyedLake, monkeypatch: pytest.MonkeyPatch, *, wrong: bool
) -> None:
    if wrong:
        monkeypatch.setattr(HeadReader, "_apply", dead_for_good)
    publisher = lake.publisher()
    # So many that the file is not written anew, which would hide the fault.
    lake.commit(*range(1, 21), app="a")
    publisher.publish()
    before = lake.table().metadata_location
    for row in (1, 2):
        lake.commit(row, app="b")
        publisher.publish()
    lake.put_back(before)
    lake.commit(3, app="c")
    publisher.publish()
    if not wrong:
        lake.assert_equal()
        return
    with pytest.raises(AssertionError):
        lake.assert_equal()


def test_a_truncate_takes_all_that_came_before_it_and_nothing_else(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1, 2, -2, 3, app="a")
    publisher.publish()
    lake.commit(3, 4, ALL, 4, 5, app="b")
    lake.commit(5, -4, 6, app="c")
    publisher.publish()
    assert lake.wanted == {5: "c", 6: "c"}
    lake.assert_equal()
    lake.commit(7, ALL, 8, ALL)
    publisher.publish()
    lake.assert_equal()
    assert lake.live() == (0, 0)
    lake.commit(1, app="d")
    publisher.publish()
    lake.assert_equal()


def test_a_snapshot_behind_a_truncate_begins_with_nothing(lake: KeyedLake) -> None:
    publisher = lake.publisher()
    lake.commit(1, 2)
    publisher.publish()
    lake.commit(3, ALL)
    lake.begins = True
    lake.commit(2, app="b")
    publisher.publish()
    lake.assert_equal()


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
def test_truncates_among_requests_that_go_astray(tmp_path: Path, seed: int) -> None:
    lake = KeyedLake(tmp_path, KEYED_BY_APP)
    chance = Random(seed)  # noqa: S311 - a game
    catalog = lake.faulty()
    publisher = lake.publisher(catalog)
    for _ in range(12):
        for app in chance.sample("abc", 2):
            rows = [chance.choice((1, 1, 1, -1)) * chance.randrange(1, 20) for _ in range(6)]
            if chance.random() < 0.3:
                rows[chance.randrange(6)] = ALL
            lake.commit(*rows, app=app)
        catalog.faults = [chance.choice(["lost", "answer_lost", "twice", "late"])]
        publisher.publish()
        lake.assert_equal()
    while catalog.kept:
        assert "refused" in catalog.land()
    lake.assert_equal()


def test_a_long_backlog_is_published_in_pieces(
    lake: KeyedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.sinks.iceberg.keyed.keyed_publisher.KeyedPublisher.most_rows", 4)
    for number in range(4):
        lake.commit(1, 2, number + 3, app=f"v{number}")
    publisher = lake.publisher()
    while publisher.publish() < lake.writer.fold.next_seq:
        pass
    lake.assert_equal()
    assert len(lake.table().metadata.snapshots) == 2


def test_a_table_that_is_published_more_slowly_than_rows_come_holds_up_the_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.sinks.iceberg.keyed.keyed_publisher.KeyedPublisher.most_rows", 1)
    lake = KeyedLake(tmp_path, replace(KEYED, max_lag_s=100.0))
    publisher = lake.publisher()
    now = [0.0]
    publisher.table._clock = lambda: now[0]
    lag = []
    for number in range(1, 11):
        for row in (number, 100 + number):
            lake.commit(row)
            publisher.table.update(lake.writer.fold, 0)
        now[0] += 30.0
        publisher.publish()
        lag.append(publisher.table.holds_up())
    assert (lag[0], lag[4]) == ("", "")
    assert "s behind" in lag[-1]
    while publisher.publish() < lake.writer.fold.next_seq:
        pass
    assert publisher.table.holds_up() == ""
    lake.assert_equal()


def test_the_cache_of_keys_goes_with_its_publisher(
    lake: KeyedLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    publisher = lake.publisher()
    for app in "ab":
        lake.commit(1, app=app)
        publisher.publish()
    assert len(list(cache.glob("sluiceway-keys-*/*.npy"))) > 0
    publisher.table.close()
    assert list(cache.iterdir()) == []


def test_a_file_of_which_a_third_is_dead_is_written_anew(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path)
    publisher = lake.publisher()
    lake.commit(*range(1, 31), app="a")
    publisher.publish()
    lake.commit(*range(1, 10), app="b")
    publisher.publish()
    assert lake.live() == (2, 1)
    lake.commit(10, app="b")
    publisher.publish()
    # The rows of the first file that are alive, and those of the two publishes.
    assert lake.live() == (3, 0)
    lake.assert_equal()


@pytest.mark.parametrize("dead", [[], [3], [0, 1, 2], [0, 5, 9], [20, 30]])
def test_living_rows_are_those_that_are_not_dead(dead: list[int]) -> None:
    rows = np.array([0, 2, 3, 5, 9, 11], np.int64)
    found = living(rows, np.array(dead, np.int64))
    assert found.tolist() == [row for row in rows.tolist() if row not in dead]
