"""The feeder's place in the topic's group: kept, whether there are dirty rows or not."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluiceway.errors import LedgerCorruptError
from sluiceway.followers import dirty_feed
from sluiceway.followers.dirty_feed import DirtyFeeder, DirtyPlace
from sluiceway.followers.dirty_topic import DirtyTopic, kept_place
from sluiceway.ledger.follower import LogView
from sluiceway.observe.log import stderr_log
from sluiceway.sources.side_topics import FeedPlace, FeedRow
from tools.followed import Followed
from tools.ledger_records import LEDGER
from tools.table_on_disk import TableOnDisk, table_on_disk

PATIENCE_S = 60.0


class Topic:
    """Knows a place, and counts how often it was kept."""

    def __init__(self, place: FeedPlace | None) -> None:
        self.place = place
        self.kept: list[FeedPlace] = []

    def open(self) -> FeedPlace | None:
        return self.place

    def send(self, rows: Sequence[FeedRow], place: FeedPlace) -> None:
        assert not rows
        self.kept.append(place)

    def close(self) -> None:
        return


def wait_for_kept(topic: Topic, times: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len(topic.kept) < times:
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def followed(table: TableOnDisk, store: DirtyTopic) -> Followed:
    """Feeds the store, and all is published."""
    eyes, fold = stderr_log(level="error"), table.writer.fold
    made = Followed(DirtyFeeder(table.log, LEDGER, store, eyes), table.log, fold, eyes)
    made.through(fold)
    return made


def test_place_without_a_new_row_is_kept_at_the_start_and_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dirty_feed, "_KEEP_WITHIN_S", 0.0)
    table = table_on_disk(tmp_path)
    table.rows("dt=20261120/hr=08")
    through = table.writer.fold.next_seq
    topic = Topic(kept_place(DirtyPlace(through)))
    eyes = stderr_log(level="error")
    store = DirtyTopic(topic, table.log.storage, eyes)
    feeder = followed(table, store)
    try:
        wait_for_kept(topic, 3)
    finally:
        feeder.close()
    assert set(topic.kept) == {kept_place(DirtyPlace(through))}


def test_place_is_not_kept_at_each_look(tmp_path: Path) -> None:
    table = table_on_disk(tmp_path)
    topic = Topic(None)
    store = DirtyTopic(topic, table.log.storage, stderr_log(level="error"))
    feeder = followed(table, store)
    try:
        wait_for_kept(topic, 1)
        kept = table.writer.fold.next_seq
        for _ in range(5):
            table.rows()
            feeder.through(table.writer.fold)
            through = table.writer.fold.next_seq
            end = time.monotonic() + PATIENCE_S
            while feeder.runner.states()[-1].place < through:
                assert time.monotonic() < end, "waited in vain"
                time.sleep(0.01)
    finally:
        feeder.close()
    assert topic.kept == [kept_place(DirtyPlace(kept))]


def test_a_record_that_is_gone_is_not_passed_over(tmp_path: Path) -> None:
    table = table_on_disk(tmp_path)
    table.rows("dt=20261120/hr=08")
    eyes = stderr_log(level="error")
    store = DirtyTopic(Topic(None), table.log.storage, eyes)
    feeder = DirtyFeeder(table.log, LEDGER, store, eyes)
    Path(table.log.layout.record(1)).unlink()
    view = LogView(table.log, table.writer.fold.next_seq)
    with pytest.raises(LedgerCorruptError, match="slot 1 is missing"):
        feeder.follow(view)
    assert feeder.place() <= 1
