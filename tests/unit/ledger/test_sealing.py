"""What a SNAPSHOT seals: which partitions, what the fold forgets, where rows go that still come."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger import sealing
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import LeftFolder
from sluiceway.ledger.lane_records import LaneCounts, LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_image import packed_names, unpacked_names
from sluiceway.ledger.placing import placed, placed_lane
from sluiceway.ledger.records import (
    Body,
    DataRecord,
    SnapshotRecord,
    decode_record,
    encode_record,
)
from sluiceway.ledger.sealing import to_seal
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, StrictJsonError
from sluiceway.upkeep.partition_bodies import (
    counts_body,
    intent_body,
    ready_body,
    replace_body,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span, staged

HOUR = "dt=20261120/hr=08"


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MAX_UNSEALED", 0)


def put(fold: Fold, body: Body | None) -> int:
    """Through the codec into the fold, with everything before it published and shown."""
    assert body is not None
    fold.set_published_through(fold.next_seq)
    made = replace(record(fold, body), effects_through=fold.next_seq)
    raw = encode_record(made)
    fold.apply(decode_record(raw, "slot"), raw)
    fold.set_published_through(fold.next_seq)
    return made.seq


def rows(fold: Fold, start: int, end: int, *, closed: tuple[str, ...] = ()) -> DataRecord:
    """The next epoch as its tasks answered, planned with what is closed."""
    base = data(fold.term, fold.last_epoch + 1, span(0, start, end))
    return replace(base, closed=(*fold.closed, *closed))


def moved(fold: Fold, start: int = 0) -> None:
    """Seven rows in a partition, compacted."""
    first = placed(rows(fold, start, start + 7), fold)
    put(fold, first)
    intent = put(fold, intent_body(fold, HOUR, "compact"))
    put(fold, replace_body(fold, intent, first.files, staged(fold, intent, 7)))


def closed_hour() -> Fold:
    """An hour that was compacted and announced, as `compact: before_ready` leaves it."""
    fold = fold_of(fence(), sources(0))
    moved(fold)
    put(fold, placed(rows(fold, 7, 7, closed=(HOUR,)), fold))
    put(fold, ready_body(fold, HOUR))
    fold.effects_through = fold.next_seq
    fold.left.clear()
    return fold


def snapshot(fold: Fold, sealed: tuple[str, ...], tmp_path: Path) -> SnapshotRecord:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    storage.make_folders(layout.stage)
    return write_side_file(storage, layout, fold, sealed)


def sealed_hour(tmp_path: Path) -> Fold:
    fold = closed_hour()
    put(fold, snapshot(fold, to_seal(fold), tmp_path))
    return fold


def test_moved_partition_is_forgotten_once_its_hour_is_sealed(tmp_path: Path) -> None:
    fold = closed_hour()
    announced = fold.closed[HOUR].ready_seq
    assert to_seal(fold) == (HOUR,)

    put(fold, snapshot(fold, (HOUR,), tmp_path))

    assert (fold.partitions, fold.closed, fold.moved, fold.left) == ({}, {}, {}, {})
    assert fold.sealed == {HOUR: announced}
    assert fold.is_closed(HOUR)
    # Nothing can be missing below what takes no row: those that come later are all known.
    assert fold.forgotten_up_to == ""


def test_moved_partition_of_a_table_that_closes_nothing_is_sealed_by_itself(tmp_path: Path) -> None:
    fold = fold_of(fence(), sources(0))
    moved(fold)
    fold.effects_through = fold.next_seq
    fold.left.clear()
    assert to_seal(fold) == (HOUR,)
    put(fold, snapshot(fold, (HOUR,), tmp_path))
    assert fold.sealed == {HOUR: sealing.NEVER_CLOSED}
    # A time that is closed later may stand above it: not all below that is known.
    assert not fold.knows_all_below("dt=20261120")


def test_partition_that_never_moved_is_not_sealed() -> None:
    fold = fold_of(fence(), sources(0))
    put(fold, placed(rows(fold, 0, 7), fold))
    fold.effects_through = fold.next_seq
    assert to_seal(fold) == ()


def test_partitions_touched_last_are_not_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = closed_hour()
    monkeypatch.setattr(sealing, "MAX_UNSEALED", 1)
    assert to_seal(fold) == ()


def test_route_is_not_asked_while_all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(_: object) -> sealing.MaySeal:
        raise AssertionError("it is asked for nothing")

    monkeypatch.setattr(sealing, "MAX_UNSEALED", 1)
    assert to_seal(closed_hour(), asked) == ()


def test_hour_counts_by_its_partitions_and_one_without_any_counts_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fold = closed_hour()
    old, empty = "dt=20261120/hr=06", "dt=20261120/hr=07"
    fold.closed[old] = replace(fold.closed[HOUR], closed_seq=1, ready_seq=1)
    fold.closed[empty] = replace(fold.closed[HOUR], closed_seq=2, ready_seq=2)
    monkeypatch.setattr(sealing, "MAX_UNSEALED", 2)
    assert to_seal(fold) == (old,)
    # An hour of two apps is as much as two hours.
    state = fold.partitions.pop(HOUR)
    for app in ("a", "b"):
        folder = f"{HOUR}/app={app}"
        fold.partitions[folder] = replace(state, folder=folder, location=folder)
    assert to_seal(fold) == (old, empty)


def test_hour_that_stands_below_a_closed_day_is_not_sealed(tmp_path: Path) -> None:
    fold = closed_hour()
    fold.closed["dt=20261120"] = replace(fold.closed[HOUR])
    assert to_seal(fold) == ()
    for name in (HOUR, "dt=20261120"):
        body = replace(snapshot(fold, (), tmp_path), sealed=(name,))
        with pytest.raises(InvariantError, match="which is closed in parts"):
            fold.check(record(fold, body))


def test_sealed_partition_is_handed_to_whoever_wants_the_forgotten(tmp_path: Path) -> None:
    fold = closed_hour()
    fold.forgotten = {}
    state = fold.partitions[HOUR]
    put(fold, snapshot(fold, (HOUR,), tmp_path))
    assert fold.forgotten == {HOUR: state}


def test_name_up_to_which_partitions_were_forgotten_never_falls(tmp_path: Path) -> None:
    fold = fold_of(fence(), sources(0))
    moved(fold)
    fold.effects_through = fold.next_seq
    fold.left.clear()
    fold.forgotten_up_to = "dt=20261121"
    put(fold, snapshot(fold, (HOUR,), tmp_path))
    assert fold.forgotten_up_to == "dt=20261121"


def test_old_folder_that_may_be_there_still_keeps_its_partition() -> None:
    fold = fold_of(fence(), sources(0))
    moved(fold)
    fold.effects_through = fold.next_seq
    assert list(fold.left) == [HOUR]
    assert to_seal(fold) == ()


def test_old_folder_of_one_partition_of_an_hour_keeps_the_hour() -> None:
    fold = closed_hour()
    state = fold.partitions.pop(HOUR)
    for app in ("a", "b"):
        folder = f"{HOUR}/app={app}"
        fold.partitions[folder] = replace(state, folder=folder, location=folder)
    assert to_seal(fold) == (HOUR,)
    fold.left["x"] = LeftFolder(f"{HOUR}/app=a", 2)
    assert to_seal(fold) == ()


def test_count_of_an_hour_goes_when_it_is_sealed(tmp_path: Path) -> None:
    fold = closed_hour()
    fold.counted.rows = {HOUR: 7, "dt=20261120/hr=09": 4}
    put(fold, snapshot(fold, (HOUR,), tmp_path))
    assert fold.counted.rows == {"dt=20261120/hr=09": 4}


def test_route_that_needs_an_hour_keeps_it() -> None:
    assert to_seal(closed_hour(), lambda _: lambda name: name != HOUR) == ()


def open_hour() -> Fold:
    fold = fold_of(fence(), sources(0))
    put(fold, placed(rows(fold, 0, 7), fold))
    fold.effects_through = fold.next_seq
    return fold


def unannounced_hour() -> Fold:
    fold = fold_of(fence(), sources(0))
    moved(fold)
    put(fold, placed(rows(fold, 7, 7, closed=(HOUR,)), fold))
    fold.effects_through = fold.next_seq
    return fold


def unshown_hour() -> Fold:
    fold = closed_hour()
    fold.effects_through = fold.closed[HOUR].ready_seq
    return fold


def worked_on_hour() -> Fold:
    fold = closed_hour()
    put(fold, intent_body(fold, HOUR, "compact"))
    return fold


def late_hour() -> Fold:
    fold = closed_hour()
    put(fold, placed(rows(fold, 7, 9), fold))
    fold.effects_through = fold.next_seq
    return fold


@pytest.mark.parametrize(
    "made", [open_hour, unannounced_hour, unshown_hour, worked_on_hour, late_hour]
)
def test_what_is_owed_to_somebody_is_not_sealed_and_a_record_that_does_is_refused(
    made: type[Fold], tmp_path: Path
) -> None:
    fold = made()
    assert to_seal(fold) == ()
    fold.set_published_through(fold.next_seq)
    body = replace(snapshot(fold, (), tmp_path), sealed=(HOUR,))
    with pytest.raises(InvariantError, match="rule 4"):
        fold.check(record(fold, body))


@pytest.mark.parametrize(
    ("sealed", "why"),
    [
        ((HOUR, HOUR), "seals a name twice"),
        (("dt=20261120",), "which is not there"),
        (("../x",), "which is not there"),
        (("",), "which is not there"),
    ],
)
def test_snapshot_that_seals_what_is_not_there_is_refused(
    sealed: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    fold = closed_hour()
    body = replace(snapshot(fold, (), tmp_path), sealed=sealed)
    with pytest.raises(InvariantError, match=f"rule 4.*{why}"):
        put(fold, body)


def test_folder_that_a_sealed_partition_has_left_is_forgotten_with_it(tmp_path: Path) -> None:
    fold = closed_hour()
    other = "dt=20261120/hr=09"
    fold.left = {f"{name}/": LeftFolder(name, 2) for name in (HOUR, other)}
    put(fold, snapshot(fold, (HOUR,), tmp_path))
    assert [each.partition for each in fold.left.values()] == [other]


def test_side_file_of_a_snapshot_that_seals_leads_to_the_same_fold_as_the_log(
    tmp_path: Path,
) -> None:
    fold = closed_hour()
    body = snapshot(fold, (HOUR,), tmp_path)
    found = load_snapshot(LocalStorage(), LedgerLayout(str(tmp_path), "orders"), record(fold, body))
    assert found is not None
    raw = encode_record(record(fold, body))
    for each in (fold, found):
        each.apply(decode_record(raw, "slot"), raw)
    assert found == fold
    assert list(found.sealed) == [HOUR]
    again = write_side_file(LocalStorage(), LedgerLayout(str(tmp_path), "orders"), fold)
    later = load_snapshot(
        LocalStorage(), LedgerLayout(str(tmp_path), "orders"), record(fold, again)
    )
    assert later is not None
    assert later.sealed == fold.sealed


def test_rows_for_a_sealed_hour_are_put_aside_and_counted_as_late(tmp_path: Path) -> None:
    fold = sealed_hour(tmp_path)
    came = rows(fold, 7, 12)
    assert came.files[0].final.startswith(f"{HOUR}/")

    landed = placed(came, fold)

    assert landed.files == ()
    (aside,) = landed.late_files
    name = came.files[0].final.rpartition("/")[2]
    assert aside == replace(came.files[0], final=f"_sluiceway/orders/late/{HOUR}/{name}")
    assert (landed.counts.written, landed.counts.late) == (0, came.counts.written)
    assert landed.late_rows == LateRows(side=came.counts.written)
    assert landed.late_in == ()
    put(fold, landed)
    assert fold.partitions == {}


def test_rows_that_were_to_reopen_an_hour_count_once_when_it_is_sealed(tmp_path: Path) -> None:
    fold = sealed_hour(tmp_path)
    came = rows(fold, 7, 12, closed=(HOUR,))
    came = replace(came, late_rows=LateRows(reopen=came.counts.written))
    landed = placed(came, fold)
    assert landed.closed == ()
    assert landed.late_rows == LateRows(side=came.counts.written)
    put(fold, landed)


def test_rows_in_the_folder_of_a_sealed_partition_are_refused(tmp_path: Path) -> None:
    """The folder that it has left, and that of its last files, are never given again."""
    moved_to = next(iter(closed_hour().moved))
    fold = sealed_hour(tmp_path)
    came = rows(fold, 7, 12)
    with pytest.raises(InvariantError, match="is sealed"):
        put(fold, came)
    name = came.files[0].final.rpartition("/")[2]
    there = replace(came, files=(replace(came.files[0], final=f"{moved_to}/{name}"),))
    with pytest.raises(InvariantError, match="rule 4"):
        put(fold, there)


def test_sealed_hour_is_not_closed_again(tmp_path: Path) -> None:
    fold = sealed_hour(tmp_path)
    with pytest.raises(InvariantError, match="closes again"):
        put(fold, rows(fold, 7, 7, closed=(HOUR,)))


def test_replayed_rows_of_a_sealed_hour_are_put_aside_too(tmp_path: Path) -> None:
    fold = sealed_hour(tmp_path)
    came = rows(fold, 7, 12)
    written = came.counts.written
    counts = LaneCounts(written, written, *(BigInt(0),) * 4)
    lane = LaneDataRecord("l", 5, (), came.files, (), counts, "", {}, {}, ())
    landed = placed_lane(lane, fold)
    assert (landed.files, len(landed.late_files)) == ((), 1)
    assert (landed.counts.written, landed.counts.late) == (0, written)
    assert landed.counts.balanced()


def test_years_of_hours_take_a_few_bytes_each() -> None:
    hours = {f"dt=2026{day:04d}/hr={hour:02d}": day * 7200 + hour * 300 + day % 7
             for day in range(730) for hour in range(24)}  # fmt: skip
    packed = packed_names(hours)
    assert unpacked_names(packed) == hours
    assert len(packed) < 6 * len(hours)
    assert unpacked_names(packed_names({})) == {}


@pytest.mark.parametrize("packed", ["x", "AAAA", packed_names({"a": 1})[:-4], "eJxLBAAAYgBi"])
def test_damaged_list_of_names_is_refused(packed: str) -> None:
    with pytest.raises(StrictJsonError):
        unpacked_names(packed)


def test_count_that_comes_for_a_sealed_hour_is_left_out(tmp_path: Path) -> None:
    """It would be refused, and halt its route."""
    fold = sealed_hour(tmp_path)
    nine = "dt=20261120/hr=09"
    body = counts_body(fold, (), ("counts", "cluster", "t1"), {0: 1}, {HOUR: 7, nine: 4})
    assert body is not None
    assert [each.prefix for each in body.counts] == [nine]
    put(fold, body)


def test_late_rows_that_were_redirected_to_a_sealed_partition_are_put_aside(
    tmp_path: Path,
) -> None:
    fold = fold_of(fence(), sources(0))
    moved(fold)
    fold.effects_through = fold.next_seq
    fold.left.clear()
    put(fold, snapshot(fold, to_seal(fold), tmp_path))
    redirected = replace(rows(fold, 7, 9), late_rows=LateRows(redirect=BigInt(2)))

    made = placed(redirected, fold)

    assert made.files == ()
    assert made.late_rows == LateRows(side=BigInt(2))
    put(fold, made)
    assert fold.late_rows == LateRows(side=BigInt(2))
