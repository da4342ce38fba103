"""When a lake publisher looks at its table, and what it makes of what it finds."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table

from sluiceway.errors import FencedError, MetastoreUnavailableError, TableHistoryError
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LibraryCatalog
from sluiceway.sinks.iceberg.commit_request import append_request
from sluiceway.sinks.iceberg.compact import small_files
from sluiceway.sinks.iceberg.compact.merge_files import MergedOne, MergePlan
from sluiceway.sinks.iceberg.publish import publisher as publisher_module
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch
from sluiceway.sinks.iceberg.publish.publisher import LakePublisher
from tools.lake_under_test import BY_APP, LakeUnderTest, PublisherUnderTest
from tools.ledger_records import fence, sources


class Told:
    """A log that keeps the names of its events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        del fields
        self.events.append(event)

    warning = info


class AskedCatalog(LibraryCatalog):
    """Counts how often the table is asked for."""

    loads = 0

    def load(self, name: Identifier) -> Table | None:
        self.loads += 1
        return super().load(name)


class Driven:
    """A lake with one publisher, whose clock the test sets; it stands at 1000 s."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.lake = LakeUnderTest(folder, replace(BY_APP, **options))
        self.catalog = AskedCatalog(self.lake.client, "sqlite")
        self.now_s, self.told = 1000.0, Told()
        self.driver = self.new_publisher()
        self.effects: list[int] = []
        self.lake.writer.on_effects = self.effects.append

    @property
    def table(self) -> LakePublisher:
        return self.driver.table

    def new_publisher(self) -> PublisherUnderTest:
        made = self.lake.publisher(self.catalog)
        made.table._clock = lambda: self.now_s
        made.table._events = cast("Any", self.told)
        return made

    def commit(self, *rows: int) -> int:
        """The slot; its files have their names, and the publisher knows of it."""
        seq = self.lake.commit(*rows)
        self.driver.name_files()
        self.table.update(self.lake.writer.fold, seq)
        return seq

    def follow(self, *, hasty: bool = False) -> int:
        return self.table.follow(self.lake.view(hasty=hasty))


@pytest.fixture
def driven(tmp_path: Path) -> Driven:
    return Driven(tmp_path)


def test_table_is_looked_at_once_a_minute_when_there_is_nothing_to_publish(driven: Driven) -> None:
    assert driven.table.rest_s() == 0.0
    driven.commit(1)
    driven.follow()
    began_s, loads = driven.now_s, driven.catalog.loads
    for second in (1, 30, 59):
        driven.now_s = began_s + second
        assert driven.table.rest_s() == 60.0 - second
        driven.follow()
    assert driven.catalog.loads == loads
    driven.now_s = began_s + 60.0
    driven.follow()
    assert driven.catalog.loads == loads + 1
    driven.now_s += 500.0
    assert driven.table.rest_s() == 0.0


def test_rows_that_wait_for_their_interval_are_published_before_the_next_look(
    tmp_path: Path,
) -> None:
    driven = Driven(tmp_path, publish_interval_s=10.0)
    driven.commit(1)
    driven.follow()
    driven.now_s += 1.0
    # Nothing waits, so the end of the interval is nothing to wake up for.
    assert driven.table.rest_s() == 59.0
    driven.commit(2)
    driven.follow()
    assert driven.lake.rows() == [1]
    rest_s = driven.table.rest_s()
    assert rest_s is not None
    assert rest_s <= 10.0
    driven.now_s += rest_s
    driven.follow()
    driven.lake.assert_exact()


def test_table_is_looked_at_once_a_minute_though_rows_wait_for_a_longer_interval(
    tmp_path: Path,
) -> None:
    driven = Driven(tmp_path, publish_interval_s=3600.0)
    driven.commit(1)
    driven.follow()
    driven.commit(2)
    driven.follow()
    assert driven.table.waits()
    assert driven.table.rest_s() == 60.0


def test_rows_that_are_more_than_one_batch_wait_for_no_interval(tmp_path: Path) -> None:
    driven = Driven(tmp_path, publish_interval_s=3600.0)
    driven.table.most_rows = 1
    for row in (1, 2, 3):
        driven.commit(row)
        if row == 1:
            driven.follow()
    driven.follow()
    assert driven.lake.rows() == [1, 2]
    # The last batch is one that more may come to.
    driven.follow()
    assert driven.lake.rows() == [1, 2]


def test_row_behind_a_batch_that_another_publisher_has_brought_waits_for_its_interval(
    tmp_path: Path,
) -> None:
    driven = Driven(tmp_path, publish_interval_s=3600.0)
    driven.table.most_rows = 1
    driven.commit(1)
    driven.follow()
    for row in (2, 3):
        driven.commit(row)
    another = driven.new_publisher().table
    another.most_rows = 1
    another.follow(driven.lake.view())
    assert driven.lake.rows() == [1, 2]
    driven.follow()
    # What is left is no whole batch: it waits for its interval.
    assert driven.lake.rows() == [1, 2]


def test_records_without_rows_are_no_commits_by_which_snapshots_are_timed(tmp_path: Path) -> None:
    driven = Driven(tmp_path, publish_interval_s=10.0)
    driven.commit(1)
    driven.follow()
    for number in range(1, 8):
        driven.now_s += 1.0
        driven.lake.writer.commit(sources(number))
        driven.lake.writer.set_published()
        driven.table.update(driven.lake.writer.fold, 0)
        driven.follow()
    # Epochs come every 8 s: this one is nearer to the end of the interval than the next.
    driven.now_s += 1.0
    driven.commit(2)
    driven.follow()
    driven.lake.assert_exact()


def test_slots_without_rows_count_as_done_and_are_read_once(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven.commit(1)
    driven.follow()
    last = [driven.commit() for _ in range(3)][-1]
    assert driven.follow() == last + 1
    assert driven.effects[-1] == last + 1
    monkeypatch.setattr(LedgerLog, "records", _never)
    driven.now_s += 60.0
    assert driven.follow() == last + 1


def _never(*_: object) -> None:
    raise AssertionError("there is nothing to do")


def test_rows_that_the_table_has_lost_are_published_again_from_below_slots_without_any(
    driven: Driven,
) -> None:
    driven.commit(1)
    driven.follow()
    before = driven.lake.table().metadata_location
    lost = driven.commit(2)
    driven.follow()
    for _ in range(3):
        driven.commit()
    driven.follow()
    assert driven.told.events.count("lake_table_rolled_back") == 0
    driven.lake.put_back(before)
    driven.now_s += 60.0
    driven.follow(hasty=True)
    driven.lake.assert_exact()
    assert driven.told.events.count("lake_table_rolled_back") == 1
    assert driven.table.place() > lost


def test_publisher_that_finds_its_slots_done_by_another_is_through_them_at_once(
    driven: Driven,
) -> None:
    driven.commit(1)
    driven.follow()
    another = driven.new_publisher()
    seq = driven.commit(2)
    another.publish()
    assert driven.follow(hasty=True) == seq + 1
    assert driven.effects[-1] == seq + 1
    assert len(driven.lake.table().metadata.snapshots) == 2


def test_fenced_driver_whose_table_is_ahead_of_its_log_is_told_that_it_is_fenced(
    driven: Driven,
) -> None:
    driven.commit(1)
    driven.follow()
    lake, first, old = driven.lake, driven.lake.writer, driven.table
    lake.writer = LedgerWriter(lake.log, lake.log.fold(), lake._no_wait)
    lake.writer.fence(fence(driver="d2"), lambda: None)
    driven.driver = driven.new_publisher()
    driven.commit(2)
    driven.follow()
    driven.now_s += 60.0
    old.follow(LogView(lake.log, first.fold.next_seq))
    assert max(driven.effects) <= first.fold.next_seq
    with pytest.raises(FencedError):
        first.commit(sources(1))


def test_new_driver_of_a_table_that_never_had_a_row_does_not_miss_any(driven: Driven) -> None:
    driven.commit()
    driven.follow()
    # The next record says that the table has all that came before it: nothing.
    driven.commit()
    assert driven.lake.writer.fold.effects_through > 0
    driven.driver = driven.new_publisher()
    seq = driven.commit(1)
    assert driven.follow() == seq + 1
    driven.lake.assert_exact()


def test_new_driver_looks_once_for_what_the_last_one_has_seen_in_the_table(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven.commit(1)
    driven.follow()
    driven.commit(2)
    later = driven.new_publisher()
    starts: list[int] = []
    read = LedgerLog.records

    def noted(log: LedgerLog, start: int = 0) -> Any:
        starts.append(start)
        return read(log, start)

    monkeypatch.setattr(LedgerLog, "records", noted)
    later.publish()
    assert 0 in starts
    starts.clear()
    driven.commit(3)
    later.publish()
    assert starts
    assert 0 not in starts
    driven.lake.assert_exact()


def test_lag_is_counted_from_when_the_oldest_missing_row_was_committed(tmp_path: Path) -> None:
    driven = Driven(tmp_path, max_lag_s=100.0, publish_interval_s=3600.0)
    driven.commit(1)
    driven.follow()
    driven.commit(2)
    driven.now_s += 99.0
    driven.commit(3)
    assert driven.table.holds_up() == ""
    driven.now_s += 1.0
    assert driven.table.holds_up() == "the table is 100 s behind, max_lag is 100 s"
    driven.follow(hasty=True)
    assert driven.table.holds_up() == ""


def test_table_that_is_long_behind_is_remembered_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "_MOST_NOTED", 3)
    driven = Driven(tmp_path, max_lag_s=100.0, publish_interval_s=3600.0)
    driven.commit(1)
    driven.follow()
    for row in range(2, 12):
        driven.commit(row)
        driven.now_s += 20.0
    assert len(driven.table._noted) == 3
    assert "200 s behind" in driven.table.holds_up()
    driven.follow(hasty=True)
    assert driven.table.holds_up() == ""


def test_nothing_is_sent_where_another_publisher_has_left_no_rows(driven: Driven) -> None:
    other = driven.new_publisher()
    driven.follow()
    driven.commit(1)
    other.table.follow(driven.lake.view())
    driven.commit()
    sent = driven.lake.table().metadata_location
    driven.follow()
    assert driven.lake.rows() == [1]
    assert driven.lake.table().metadata_location == sent


def test_lag_goes_on_behind_the_last_slot_that_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "_MOST_NOTED", 2)
    driven = Driven(tmp_path, max_lag_s=100.0, publish_interval_s=3600.0)
    driven.table.most_rows = 1
    driven.commit(1)
    driven.follow()
    assert driven.table.holds_up() == ""
    for row in (2, 3, 4):
        driven.commit(row)
    for _ in range(2):
        driven.follow()
    assert driven.lake.rows() == [1, 2, 3]
    driven.now_s += 100.0
    assert "100 s behind" in driven.table.holds_up()


def test_slot_that_is_told_again_and_again_does_not_age_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "_MOST_NOTED", 3)
    driven = Driven(tmp_path, max_lag_s=100.0, publish_interval_s=3600.0)
    driven.table.most_rows = 1
    driven.commit(1)
    driven.follow()
    driven.commit(2)
    for _ in range(5):
        driven.table.update(driven.lake.writer.fold, 0)
    driven.now_s += 90.0
    driven.commit(3)
    driven.follow()
    assert driven.lake.rows() == [1, 2]
    driven.now_s += 50.0
    assert driven.table.holds_up() == ""
    driven.now_s += 50.0
    assert "100 s behind" in driven.table.holds_up()


def _hide_history(lake: LakeUnderTest) -> None:
    """Two foreign snapshots; the older one is expired, and the other still names it."""
    lake.append_foreign([101])
    hidden = lake.table().metadata.current_snapshot_id
    lake.append_foreign([102])
    held = lake.table().metadata
    left = [each for each in held.snapshots if each.snapshot_id != hidden]
    log = [each for each in held.snapshot_log if each.snapshot_id != hidden]
    place = f"{held.location}/metadata/{lake.unique()}.metadata.json"
    ToOutputFile.table_metadata(
        held.model_copy(update={"snapshots": left, "snapshot_log": log}),
        lake.table().io.new_output(place),
    )
    lake.put_back(place)


def test_table_whose_history_is_hidden_is_told_once_and_goes_on(driven: Driven) -> None:
    driven.commit(1)
    driven.follow()
    driven.now_s += 60.0
    driven.follow()
    assert "lineage_unproven" not in driven.told.events
    _hide_history(driven.lake)
    for row in (2, 3):
        driven.now_s += 60.0
        driven.commit(row)
        driven.follow()
        _hide_history(driven.lake)
    assert driven.told.events.count("lineage_unproven") == 1
    assert set(driven.lake.committed) <= set(driven.lake.rows())


def test_table_whose_history_is_hidden_halts_the_route_that_asks_for_it(tmp_path: Path) -> None:
    driven = Driven(tmp_path, halt_unproven=True)
    driven.commit(1)
    driven.follow()
    _hide_history(driven.lake)
    driven.commit(2)
    with pytest.raises(TableHistoryError, match="were expired"):
        driven.follow(hasty=True)
    assert 2 not in driven.lake.rows()


@pytest.mark.parametrize(("failures", "error"), [(2, None), (3, MetastoreUnavailableError)])
def test_metadata_that_goes_while_it_is_read_is_read_anew(
    driven: Driven, monkeypatch: pytest.MonkeyPatch, failures: int, error: type[Exception] | None
) -> None:
    left = [failures]

    def gone_at_first(*args: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise FileNotFoundError("snap-1.avro")
        return append_request(*args)

    monkeypatch.setattr(publisher_module, "append_request", gone_at_first)
    driven.commit(1)
    if error is None:
        driven.follow()
    else:
        with pytest.raises(error, match=r"are not in the table: .*snap-1\.avro"):
            driven.follow()
        driven.follow()
    driven.lake.assert_exact()


def test_hour_that_is_announced_waits_for_no_interval(tmp_path: Path) -> None:
    driven = Driven(tmp_path, publish_interval_s=3600.0)
    driven.commit(1)
    driven.follow()
    view = driven.lake.view()
    assert not driven.table._is_time(driven.now_s + 1.0, LakeBatch(3), view)
    ready = LakeBatch(3, ready=[("dt=20261120", 1)])
    assert driven.table._is_time(driven.now_s + 1.0, ready, view)


def test_table_says_its_watermark_and_tags_only_what_it_is_asked_to(driven: Driven) -> None:
    batch = LakeBatch(3, ready=[("dt=20261120", 1)], watermark_us=17)
    told = driven.table._ready_properties(batch, {})
    assert told == {"sluiceway.orders.ready": "dt=20261120", "sluiceway.orders.watermark": "17"}
    assert driven.table._ready_tags(batch) == {}


def test_table_that_says_nothing_of_complete_hours_gets_no_property(tmp_path: Path) -> None:
    driven = Driven(tmp_path, ready_property=False)
    batch = LakeBatch(3, ready=[("dt=20261120", 1)], watermark_us=17)
    assert driven.table._ready_properties(batch, {}) == {}


def test_batch_with_nothing_to_merge_asks_no_process_to_do_it(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "merge_in_process", _never)
    driven.commit(1)
    driven.follow()
    driven.lake.assert_exact()


def test_old_metadata_of_a_table_that_keeps_few_goes(driven: Driven) -> None:
    with driven.lake.table().transaction() as change:
        change.set_properties(
            {
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "2",
            }
        )
    for row in range(6):
        driven.commit(row)
        driven.follow()
    files = [name for name in driven.lake.in_table() if name.endswith(".metadata.json")]
    assert len(files) <= 4
    driven.lake.assert_exact()


def test_files_of_a_partition_that_are_not_merged_are_linked_beside_those_that_are(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = small_files.merge_in_process

    def all_but_the_first(plan: MergePlan) -> tuple[MergedOne | None, ...]:
        return (None, *merge(plan)[1:])

    monkeypatch.setattr(publisher_module, "merge_in_process", all_but_the_first)
    for row in range(4):
        driven.lake.commit(row, app="a" if row % 2 else "b")
    driven.driver.publish()
    driven.lake.assert_exact()
    files = [task.file.record_count for task in driven.lake.table().scan().plan_files()]
    assert sorted(files) == [1, 1, 2]


def test_each_look_is_told_with_what_it_has_found(driven: Driven) -> None:
    seen: list[int | None] = []
    driven.table._table._on_look = lambda found: seen.append(found.current_snapshot_id)
    driven.commit(1)
    driven.follow()
    assert (seen[0], seen[-1]) == (None, driven.lake.table().metadata.current_snapshot_id)


def test_table_that_was_seen_with_the_first_slot_of_all_and_says_nothing_now_halts(
    driven: Driven,
) -> None:
    driven.table._table.expect(0)
    assert driven.table._table.has_slots
    with pytest.raises(TableHistoryError, match="it stood at slot 0"):
        driven.follow()
