"""Whether a change that is replayed is still the last of its key."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.lane_records import LaneCounts, LaneDataRecord, LaneRange, LaneRecord
from sluiceway.ledger.lane_records import LaneSpan as Span
from sluiceway.ledger.operator_records import ResetPartition, ResetRecord
from sluiceway.ledger.records import DataRecord
from sluiceway.sinks.change_judge import Verdict
from sluiceway.sinks.iceberg.keyed.change_history import ChangeHistory, origin_slot
from sluiceway.sinks.iceberg.keyed.keyed_changes import ChangeColumns
from sluiceway.sinks.iceberg.publish.staged_lake_files import OpenDirty
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.replayed_changes import judged
from tools.keyed_lake import ALL, KeyedLake
from tools.ledger_records import LEDGER, data, fence, span

NAMES = ("_offset", "_partition", None)


class Asked:
    """A lake, and what is said of changes that would be replayed into it."""

    def __init__(self, folder: Path) -> None:
        self.lake = KeyedLake(folder)
        schema = self.lake.table().schema()
        ids = {field.name: field.field_id for field in schema.fields}
        columns = ChangeColumns((ids["n"],), ids["_offset"], ids["_partition"])
        self.history = ChangeHistory(self.lake.log, ("N",), columns, NAMES)

    def commit(self, *rows: int, app: str = "a") -> int:
        seq = self.lake.commit(*rows, app=app)
        self.lake.publisher().name_files()
        return seq

    def rows(
        self, changes: Sequence[tuple[int, int]], kind: RowKind = RowKind.IMAGE, partition: int = 0
    ) -> pa.RecordBatch:
        """Of keys and offsets."""
        return pa.RecordBatch.from_pydict(
            {
                "n": pa.array([key for key, _ in changes], pa.int64()),
                "app": pa.array(["old"] * len(changes), pa.string()),
                "_partition": pa.array([partition] * len(changes), pa.int32()),
                "_offset": pa.array([offset for _, offset in changes], pa.int64()),
                KIND_COLUMN: pa.array([int(kind)] * len(changes), pa.int32()),
            }
        )

    def __call__(self, seq: int, *changes: tuple[int, int], partition: int = 0) -> Verdict:
        source = str(DirtySource(LEDGER, seq, "x"))
        rows = self.rows(changes, partition=partition)
        return self.history.judge(rows, [source] * len(changes))


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    made.history.close()


def test_later_updates_and_deletes_of_the_key_count_and_nothing_else(asked: Asked) -> None:
    first = asked.commit(1, 2, 3)
    asked.commit(1, -2, 5)
    verdict = asked(first, (1, 1), (2, 1), (3, 2), (4, 0), (1, 4), (5, 5))
    # Offsets 0 to 5: key 1 is told again at 3, key 2 is deleted at 4, and 5 is told at 5.
    assert verdict.superseded.tolist() == [True, True, True, False, False, True]
    assert verdict.unknown == {}


def test_changes_of_unpublished_slots_count(asked: Asked) -> None:
    first = asked.commit(9)
    asked.lake.commit(1)
    assert asked(first, (1, 0)).superseded.tolist() == [True]


def test_what_is_committed_later_is_seen_when_asked_again(asked: Asked) -> None:
    first = asked.commit(9)
    assert asked(first, (1, 0)).superseded.tolist() == [False]
    asked.commit(1)
    assert asked(first, (1, 0)).superseded.tolist() == [True]


def test_an_older_dirty_row_is_asked_for_behind_a_newer_one(asked: Asked) -> None:
    first, second = asked.commit(1, 9), asked.commit(8)
    assert asked(second, (1, 0)).superseded.tolist() == [False]
    assert asked(first, (1, 0)).superseded.tolist() == [True]


def test_without_a_file_of_later_changes_nobody_knows(asked: Asked) -> None:
    first, lost = asked.commit(9), asked.commit(8)
    later = asked.commit(1)
    record = asked.lake.log.read_slot(lost)
    assert record is not None
    assert isinstance(record[0].body, DataRecord)
    asked.lake.log.storage.remove(asked.lake.log.layout.final(record[0].body.files[0].final))
    verdict = asked(first, (1, 0), (2, 0))
    # A later change is known of key 1 all the same.
    assert verdict.superseded.tolist() == [True, False]
    assert list(verdict.unknown) == [1]
    assert asked(later, (2, 2)).unknown == {}


def test_offsets_do_not_compare_with_those_of_another_partition_or_before_a_reset(
    asked: Asked,
) -> None:
    first = asked.commit(1)
    assert list(asked(first, (1, 0), partition=1).unknown) == [0]
    moved = ResetPartition("orders", 0, BigInt(1), BigInt(0), 1, "twice", None)
    asked.lake.writer.fence(fence(), lambda: None)
    asked.lake.writer.commit(ResetRecord("me@host", "", (moved,)))
    verdict = asked(first, (1, 0), (7, 0))
    assert list(verdict.unknown) == [0, 1]
    assert not verdict.superseded.any()


def test_a_truncate_behind_a_change_has_overtaken_it(asked: Asked) -> None:
    first = asked.commit(9, 8)
    asked.commit(ALL)
    assert asked(first, (1, 1), (1, 3)).superseded.tolist() == [True, False]


def test_rows_that_were_dirty_again_are_as_old_as_they_were(asked: Asked) -> None:
    writer = asked.lake.writer
    first = asked.commit(1)
    dirty = data(writer.term, writer.fold.last_epoch + 1, span(0, 1, 3), dirty=2)
    dirty = replace(dirty, files=(), counts=replace(dirty.counts, written=BigInt(0)))
    seq = writer.commit(dirty).seq
    source = str(DirtySource(LEDGER, seq, dirty.dirty_files[0].final.rpartition("/")[2]))
    writer.commit(LaneRecord("l", "replay", "me", "", (LaneRange(source, BigInt(0), BigInt(2)),)))
    again = data(writer.term, writer.fold.last_epoch + 1, span(0, 0, 2), dirty=2)
    lane = LaneDataRecord(
        *("l", again.epoch, (Span(source, BigInt(0), BigInt(2)),), (), again.dirty_files),
        *(LaneCounts(*map(BigInt, (2, 0, 2, 0, 0, 0))), "s", {"null": 2}, {}, ()),
    )
    late = writer.commit(lane).seq
    assert origin_slot(asked.lake.log, DirtySource(LEDGER, late, "x")) == seq
    opened = OpenDirty()
    for record, _ in asked.lake.log.records():
        opened.apply(record)
        opened.apply(record)
    # The first file is consumed; what came of it holds what it held.
    assert (first < seq < late, opened.oldest()) == (True, seq)


def test_files_of_changes_stay_while_an_older_dirty_row_is_open(asked: Asked) -> None:
    lake, writer = asked.lake, asked.lake.writer
    publisher, now = lake.publisher(), [0.0]
    publisher.table._clock = lambda: now[0]

    def names() -> int:
        return len(list(Path(lake.log.layout.table_root).glob("app=*/*.parquet")))

    def publish() -> None:
        publisher.publish()
        now[0] += 3601.0
        publisher.publish()

    asked.commit(1)
    dirty = data(writer.term, writer.fold.last_epoch + 1, span(0, 1, 3), dirty=2)
    dirty = replace(dirty, files=(), counts=replace(dirty.counts, written=BigInt(0)))
    seq = writer.commit(dirty).seq
    place = Path(lake.log.layout.final(dirty.dirty_files[0].final))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"0123456789")
    asked.commit(2)
    asked.commit(3)
    publish()
    # What was committed before the dirty row tells nothing about it.
    assert names() == 2
    publisher = lake.publisher()
    publisher.table._clock = lambda: now[0]
    publish()
    # The next driver knows of it too.
    assert names() == 2
    source = str(DirtySource(LEDGER, seq, dirty.dirty_files[0].final.rpartition("/")[2]))
    writer.commit(LaneRecord("l", "purge", "me", "", (LaneRange(source, BigInt(0), BigInt(2)),)))
    for start in (0, 1):
        publish()
        assert names() == 2
        rows = (Span(source, BigInt(start), BigInt(start + 1)),)
        counts = LaneCounts(*map(BigInt, (1, 0, 0, 0, 0, 1)))
        epoch = writer.fold.last_epoch + 1
        writer.commit(LaneDataRecord("l", epoch, rows, (), (), counts, "s", {}, {}, ()))
    publish()
    assert names() == 0
    lake.assert_equal()


def test_kinds_of_a_replay_begin_no_snapshot_and_empty_no_table(asked: Asked) -> None:
    first = asked.commit(9)
    source = str(DirtySource(LEDGER, first, "x"))
    for kind, wanted in (
        (RowKind.FIRST, RowKind.IMAGE),
        (RowKind.FIRST_GONE, RowKind.DELETE),
        (RowKind.DELETE, RowKind.DELETE),
    ):
        rows, _, dirty = judged(asked.history, asked.rows([(1, 0)], kind), [source])
        assert rows[KIND_COLUMN].to_pylist() == [wanted]
        assert dirty == []
    _, _, dirty = judged(asked.history, asked.rows([(1, 0)], RowKind.TRUNCATE), [source])
    assert [each.reason.value for each in dirty] == ["order_unknown"]


def test_counts_of_a_lane_balance_with_superseded_and_expanded_rows() -> None:
    counts = LaneCounts(*map(BigInt, (3, 2, 1, 0, 0, 0, 0, 1, 1)))
    assert counts.balanced()
    assert not replace(counts, superseded=BigInt(0)).balanced()
