"""Partitions that move, close, are announced and expire: what the fold takes and refuses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import (
    AbandonRecord,
    ExpireRecord,
    IntentRecord,
    ReadyRecord,
    ReplaceRecord,
)
from sluiceway.ledger.places import folder_to_remove, moved_folder, partition_in
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import Body, DataRecord, decode_record, encode_record
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import (
    abandon_body,
    expire_body,
    intent_body,
    ready_body,
    replace_body,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span, staged

HOUR = "dt=20261120/hr=08"
UUID = "0123456789abcdef0123456789abcdef"


def put(fold: Fold, body: Body | None, *, published: bool = True) -> int:
    """Through the codec into the fold; returns the slot."""
    assert body is not None
    if published:
        fold.set_published_through(fold.next_seq)
    made = record(fold, body)
    raw = encode_record(made)
    fold.apply(decode_record(raw, "slot"), raw)
    return made.seq


def rows(fold: Fold, start: int, end: int, *, closed: tuple[str, ...] = ()) -> DataRecord:
    """The next epoch, as its writer would put it."""
    base = data(fold.term, fold.last_epoch + 1, span(0, start, end))
    return placed(replace(base, closed=(*fold.closed, *closed)), fold)


def hour_of_rows() -> tuple[Fold, tuple[FileRecord, ...]]:
    """A partition of two files with seven rows, and those files."""
    fold = fold_of(fence(), sources(0))
    first, second = rows(fold, 0, 4), None
    put(fold, first)
    second = rows(fold, 4, 7)
    put(fold, second)
    fold.set_published_through(fold.next_seq)
    return fold, (*first.files, *second.files)


def moving() -> tuple[Fold, tuple[FileRecord, ...], int]:
    fold, live = hour_of_rows()
    return fold, live, put(fold, intent_body(fold, HOUR, "compact"))


def replacing() -> tuple[Fold, ReplaceRecord]:
    fold, live, intent = moving()
    body = replace_body(fold, intent, live, staged(fold, intent, 7))
    assert body is not None
    return fold, body


def moved() -> tuple[Fold, ReplaceRecord]:
    fold, body = replacing()
    put(fold, body)
    fold.set_published_through(fold.next_seq)
    return fold, body


def closed() -> Fold:
    fold, _ = hour_of_rows()
    put(fold, rows(fold, 7, 7, closed=(HOUR,)))
    fold.set_published_through(fold.next_seq)
    return fold


def test_replace_moves_a_partition_and_its_next_rows_follow_it() -> None:
    fold, body = moved()
    state = fold.partitions[HOUR]
    assert (state.location, state.version, state.rows, state.files) == (body.folder, 1, 7, 1)
    assert body.folder.startswith("dt=20261120/_sluiceway-")
    # Text readers of Hadoop take a location whose own name begins with `_` for hidden.
    assert body.folder.endswith("/hr=08")
    assert fold.intents == {}
    assert list(fold.left) == [HOUR]
    late = rows(fold, 7, 9)
    assert {file.final.rpartition("/")[0] for file in late.files} == {body.folder}
    put(fold, late)
    assert (state.rows, state.files) == (9, 2)


def test_rows_for_the_folder_that_a_partition_has_left_are_refused() -> None:
    fold, _ = moved()
    planned_before = data(fold.term, fold.last_epoch + 1, span(0, 7, 9))
    with pytest.raises(InvariantError, match="rule 4"):
        put(fold, planned_before)


def test_rows_for_a_folder_that_was_left_long_ago_are_refused() -> None:
    fold, body = moved()
    intent = put(fold, intent_body(fold, HOUR, "compact"))
    put(fold, replace_body(fold, intent, body.added, staged(fold, intent, 7)))
    fold.set_published_through(fold.next_seq)
    stale = rows(fold, 7, 9)
    files = tuple(
        replace(file, final=f"{body.folder}/{file.final.rpartition('/')[2]}")
        for file in stale.files
    )
    with pytest.raises(InvariantError, match="rule 4"):
        put(fold, replace(stale, files=files))


def test_files_that_came_since_they_were_read_are_carried_over_or_nothing_moves() -> None:
    fold, live, intent = moving()
    more = rows(fold, 7, 9)
    put(fold, more)
    fold.set_published_through(fold.next_seq)
    assert replace_body(fold, intent, live, staged(fold, intent, 7)) is None
    carried = replace_body(fold, intent, (*live, *more.files), staged(fold, intent, 7, 2))
    put(fold, carried)
    assert fold.partitions[HOUR].rows == 9


REPLACES: dict[str, tuple[str, Callable[[ReplaceRecord], ReplaceRecord]]] = {
    "another intent": ("rule 2", lambda body: replace(body, intent=body.intent - 1)),
    "another partition": ("rule 2", lambda body: replace(body, partition="dt=1/hr=1")),
    "a version twice": ("rule 4", lambda body: replace(body, version=0)),
    "a folder that was used": ("rule 4", lambda body: replace(body, folder=HOUR)),
    "a file left out": ("rule 2", lambda body: replace(body, removed=body.removed[1:])),
    "a file twice": ("rule 2", lambda body: replace(body, removed=body.removed * 2)),
    "a file of another size": (
        "rule 2",
        lambda body: replace(
            body, removed=(replace(body.removed[0], size_bytes=BigInt(9)), *body.removed[1:])
        ),
    ),
    "fewer rows": (
        "P6",
        lambda body: replace(body, added=(replace(body.added[0], rows=BigInt(6)),)),
    ),
    "no file": ("P6", lambda body: replace(body, added=())),
    "a file elsewhere": (
        "I4",
        lambda body: replace(body, added=(replace(body.added[0], final=f"{HOUR}/x.parquet"),)),
    ),
    "a staged file of another": (
        "I9",
        lambda body: replace(body, added=(replace(body.added[0], staged="1-0-x/x.parquet"),)),
    ),
    "a staged file below its folder": ("I9", lambda body: _staged_as(body, "below/x.parquet")),
    "a staged name that leaves its folder": ("I9", lambda body: _staged_as(body, "..")),
    "a final name that leaves its folder": (
        "I4",
        lambda body: replace(body, added=(replace(body.added[0], final=f"{body.folder}/.."),)),
    ),
    "rows of another partition": (
        "I4",
        lambda body: replace(body, added=(replace(body.added[0], values=("1", "1")),)),
    ),
    "one name for two files": (
        "I4",
        lambda body: replace(
            body,
            added=(
                replace(body.added[0], rows=BigInt(body.added[0].rows - 1)),
                replace(body.added[0], rows=BigInt(1)),
            ),
        ),
    ),
}


def _staged_as(body: ReplaceRecord, name: str) -> ReplaceRecord:
    folder = body.added[0].staged.partition("/")[0]
    return replace(body, added=(replace(body.added[0], staged=f"{folder}/{name}"),))


@pytest.mark.parametrize(("rule", "spoil"), REPLACES.values(), ids=list(REPLACES))
def test_unlawful_replace_is_refused_and_changes_nothing(
    rule: str, spoil: Callable[[ReplaceRecord], ReplaceRecord]
) -> None:
    fold, body = replacing()
    before = replace(fold.partitions[HOUR])
    with pytest.raises(InvariantError, match=rule):
        put(fold, spoil(body))
    assert fold.partitions[HOUR] == before
    put(fold, body)


def test_intent_for_one_partition_moves_no_other() -> None:
    fold, body = replacing()
    other = "dt=20261120/hr=09"
    fold.partitions[other] = replace(fold.partitions[HOUR], folder=other, location=other)
    folder = moved_folder(other, body.intent, fold.intents[body.intent].uuid)
    added = tuple(
        replace(file, final=f"{folder}/{file.final.rpartition('/')[2]}") for file in body.added
    )
    with pytest.raises(InvariantError, match=f"is not open for {other}"):
        put(fold, replace(body, partition=other, folder=folder, added=added))
    put(fold, body)


def test_partition_that_is_new_begins_in_its_own_folder_only() -> None:
    fold, _ = hour_of_rows()
    elsewhere = moved_folder("dt=20261120/hr=09", 3, "0" * 32)
    first = data(fold.term, fold.last_epoch + 1, span(0, 7, 9))
    files = tuple(
        replace(file, final=f"{elsewhere}/{file.final.rpartition('/')[2]}") for file in first.files
    )
    with pytest.raises(InvariantError, match="which was left"):
        put(fold, replace(first, files=files))


def test_nothing_speaks_of_files_that_are_not_published() -> None:
    fold, live, intent = moving()
    more = rows(fold, 7, 9, closed=(HOUR,))
    put(fold, more)
    body = replace_body(fold, intent, (*live, *more.files), staged(fold, intent, 9))
    for each in (body, ready_body(fold, HOUR)):
        with pytest.raises(InvariantError, match="rule 2"):
            put(fold, each, published=False)
    put(fold, abandon_body(fold, intent, "test"), published=False)
    with pytest.raises(InvariantError, match="rule 2"):
        put(fold, expire_body(fold, [HOUR], "test"), published=False)


def test_work_on_a_partition_is_begun_once_and_ended_once() -> None:
    fold, _, intent = moving()
    assert intent_body(fold, HOUR, "compact") is None
    with pytest.raises(InvariantError, match="worked on"):
        put(fold, IntentRecord(HOUR, 0, UUID, "compact"))
    put(fold, abandon_body(fold, intent, "test"))
    assert abandon_body(fold, intent, "test") is None
    with pytest.raises(InvariantError, match="not open"):
        put(fold, AbandonRecord(intent, "test"))


@pytest.mark.parametrize(
    "body",
    [
        IntentRecord("dt=1/hr=1", 0, UUID, "compact"),
        IntentRecord(HOUR, 1, UUID, "compact"),
        IntentRecord(HOUR, 0, "../x", "compact"),
    ],
    ids=["unknown partition", "another version", "no uuid"],
)
def test_unlawful_intent_is_refused(body: IntentRecord) -> None:
    fold, _ = hour_of_rows()
    with pytest.raises(InvariantError):
        put(fold, body)


def test_closed_partition_takes_rows_only_when_they_are_called_late() -> None:
    fold = closed()
    late = rows(fold, 7, 9)
    assert late.late_in == (HOUR,)
    spoilt_ones = ((), ("dt=20261120",), (HOUR, HOUR))
    for spoilt in (replace(late, late_in=names) for names in spoilt_ones):
        with pytest.raises(InvariantError, match="I7"):
            put(fold, spoilt)
    put(fold, late)
    with pytest.raises(InvariantError, match="closes again"):
        put(fold, replace(rows(fold, 9, 9), closed=(HOUR,)))


def test_rows_of_an_epoch_that_was_planned_before_a_partition_was_closed_are_refused() -> None:
    fold = closed()
    planned_before = data(fold.term, fold.last_epoch + 1, span(0, 7, 9))
    with pytest.raises(InvariantError, match="I7"):
        put(fold, placed(planned_before, fold))


def test_ready_announces_all_below_a_prefix_and_again_only_after_late_rows() -> None:
    fold = fold_of(fence(), sources(0))
    put(fold, rows(fold, 0, 4))
    put(fold, rows(fold, 4, 4, closed=("dt=20261120",)))
    fold.set_published_through(fold.next_seq)
    body = ready_body(fold, "dt=20261120")
    put(fold, body)
    assert body is not None
    assert (body.version, body.rows, body.files, body.as_of_seq) == (1, 4, 1, 3)
    assert [each.partition for each in body.partitions] == [HOUR]
    assert ready_body(fold, "dt=20261120") is None
    put(fold, rows(fold, 4, 6))
    fold.set_published_through(fold.next_seq)
    again = ready_body(fold, "dt=20261120")
    put(fold, again)
    assert again is not None
    assert (again.version, again.rows) == (2, 6)


def test_hour_without_rows_is_announced_empty() -> None:
    fold = fold_of(fence(), sources(0))
    put(fold, rows(fold, 0, 0, closed=(HOUR,)))
    body = ready_body(fold, HOUR)
    put(fold, body)
    assert body is not None
    assert (body.rows, body.partitions) == (0, ())


READIES: dict[str, Callable[[ReadyRecord], ReadyRecord]] = {
    "an open prefix": lambda body: replace(body, prefix="dt=20261120"),
    "a version left out": lambda body: replace(body, version=2),
    "rows of its own": lambda body: replace(body, rows=BigInt(8)),
    "a partition left out": lambda body: replace(body, partitions=()),
    "more than is known": lambda body: replace(body, whole=not body.whole),
    "an earlier state": lambda body: replace(body, as_of_seq=body.as_of_seq - 1),
}


@pytest.mark.parametrize("spoil", READIES.values(), ids=list(READIES))
def test_unlawful_ready_is_refused(spoil: Callable[[ReadyRecord], ReadyRecord]) -> None:
    fold = closed()
    body = ready_body(fold, HOUR)
    assert body is not None
    with pytest.raises(InvariantError):
        put(fold, spoil(body))
    put(fold, body)


def test_partition_that_its_owner_dropped_begins_anew_elsewhere() -> None:
    fold, _ = hour_of_rows()
    body = expire_body(fold, [HOUR, "dt=1/hr=1"], "the owner")
    seq = put(fold, body)
    state = fold.partitions[HOUR]
    assert (state.expired, state.rows, state.files) == (True, 0, 0)
    assert expire_body(fold, [HOUR], "the owner") is None
    put(fold, rows(fold, 7, 9))
    assert (state.expired, state.rows, state.placed_seq) == (False, 2, seq + 1)
    assert state.location != HOUR


def dropped() -> tuple[Fold, ExpireRecord]:
    """A partition that is about to go with its files."""
    fold, files = hour_of_rows()
    body = expire_body(fold, [HOUR], "the owner", {HOUR: files})
    assert body is not None
    return fold, body


def test_dropped_partition_leaves_a_folder_whose_files_the_record_names() -> None:
    fold, body = dropped()
    assert [int(file.rows) for file in body.partitions[0].removed] == [4, 3]
    seq = put(fold, body)
    assert {folder: left.seq for folder, left in fold.left.items()} == {HOUR: seq}
    assert partition_in(HOUR) == HOUR
    assert partition_in(body.partitions[0].next_folder) == HOUR


def test_partition_that_got_other_files_since_they_were_looked_up_is_not_dropped() -> None:
    fold, files = hour_of_rows()
    assert expire_body(fold, [HOUR], "the owner", {HOUR: files[:1]}) is None
    assert expire_body(fold, [HOUR], "the owner", {}) is None
    put(fold, rows(fold, 7, 9))
    assert expire_body(fold, [HOUR], "the owner", {HOUR: files}) is None


def test_expire_that_names_a_file_too_few_or_another_one_is_refused() -> None:
    fold, body = dropped()
    (gone,) = body.partitions
    first, *_ = gone.removed
    for removed in (gone.removed[1:], (*gone.removed[1:], replace(first, name="x"))):
        with pytest.raises(InvariantError, match="live in"):
            put(fold, replace(body, partitions=(replace(gone, removed=removed),)))
    put(fold, body)


def test_expire_that_leaves_files_to_their_owner_says_nothing_of_them() -> None:
    fold, _ = hour_of_rows()
    body = expire_body(fold, [HOUR], "the owner")
    assert body is not None
    assert b"removed" not in encode_record(record(fold, body))
    put(fold, body)
    assert fold.left == {}


EXPIRES: dict[str, Callable[[ExpireRecord], ExpireRecord]] = {
    "nothing": lambda body: replace(body, partitions=()),
    "one twice": lambda body: replace(body, partitions=body.partitions * 2),
    "other rows": lambda body: replace(
        body, partitions=(replace(body.partitions[0], rows=BigInt(6)),)
    ),
    "a folder of another slot": lambda body: replace(
        body, partitions=(replace(body.partitions[0], next_folder=moved_folder(HOUR, 1, UUID)),)
    ),
    "the folder that it has": lambda body: replace(
        body, partitions=(replace(body.partitions[0], next_folder=HOUR),)
    ),
}


@pytest.mark.parametrize("spoil", EXPIRES.values(), ids=list(EXPIRES))
def test_unlawful_expire_is_refused(spoil: Callable[[ExpireRecord], ExpireRecord]) -> None:
    fold, _ = hour_of_rows()
    body = expire_body(fold, [HOUR], "the owner")
    assert body is not None
    with pytest.raises(InvariantError):
        put(fold, spoil(body))
    put(fold, body)


def test_fold_with_all_of_it_is_kept_in_a_side_file(tmp_path: Path) -> None:
    fold, _ = moved()
    put(fold, intent_body(fold, HOUR, "compact"))
    put(fold, rows(fold, 7, 7, closed=("dt=20261121",)))
    put(fold, ready_body(fold, "dt=20261121"))
    fold.set_published_through(fold.next_seq)
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    storage.make_folders(layout.stage)
    body = write_side_file(storage, layout, fold)
    assert load_snapshot(storage, layout, record(fold, body)) == fold


def test_partition_that_is_worked_on_does_not_expire() -> None:
    fold, _, _ = moving()
    assert expire_body(fold, [HOUR], "the owner") is None


def test_folder_of_a_moved_partition_goes_with_what_was_made_around_it() -> None:
    folder = moved_folder(HOUR, 7, UUID)
    assert folder_to_remove(folder) == folder.removesuffix("/hr=08")
    assert folder_to_remove(HOUR) == HOUR


def test_first_rows_behind_a_slot_are_new_and_those_of_a_move_are_not() -> None:
    # Of an hour that was announced empty the first row may come late.
    state = PartitionState.begun((), "hr=08", 9)
    assert (state.has_rows_since(8), state.has_rows_since(9)) == (True, False)
    state.move("hr=08-moved", 12)
    assert not state.has_rows_since(9)
    state.last_seq = 13
    assert state.has_rows_since(9)
