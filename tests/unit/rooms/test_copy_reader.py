"""What is read of logs for their tails, and where searches begin."""

from dataclasses import replace

import pytest

from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.log_tail import is_same_tail, tail_runs
from sluiceway.rooms import copy_reader
from sluiceway.rooms.copy_reader import CopyReader, with_tails
from sluiceway.rooms.positions import CopiedLog
from sluiceway.rooms.tail_search import TailMatch
from sluiceway.sources.contract import SourceIdentity, SourcePartition
from tools.ledger_records import sources
from tools.made_logs import ACCESS, MadeLog, MadeLogs, tail_before

ONE, TWO = SourcePartition("orders", 0), SourcePartition("orders", 1)


def reader(monkeypatch: pytest.MonkeyPatch, **logs: MadeLog) -> CopyReader:
    made = MadeLogs({SourcePartition("orders", int(name[1:])): log for name, log in logs.items()})
    monkeypatch.setattr(copy_reader, "read_splits", made.read)
    return CopyReader(ACCESS, made)


def search(
    found: CopyReader, tails: dict[SourcePartition, str], missing: str = ""
) -> dict[int, TailMatch]:
    bounds = found.client.bounds(list(tails))
    logs = [
        CopiedLog(
            one,
            SourceState("c1", "t1", 0, "earliest", 5, has_data=True, tail=tail, missing=missing),
            SourceIdentity("c2", "t2"),
            bounds[one],
        )
        for one, tail in tails.items()
    ]
    return {one.number: match for one, match in found.search(logs).items()}


def test_each_log_is_searched_from_the_time_of_its_own_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = reader(
        monkeypatch,
        p0=MadeLog.of(range(100), step=2),
        p1=MadeLog.of(range(50, 90), start=7),
    )
    found = search(copies, {ONE: tail_before(range(90)), TWO: tail_before(range(50, 60))})
    assert (found[0].offset, found[0].scanned) == (2 * 89 + 1, 18)
    assert (found[1].offset, found[1].scanned) == (7 + 10, 38)
    # A few logs at once, each with its own batches.
    monkeypatch.setattr(copy_reader, "_AT_ONCE", 1)
    assert search(copies, {ONE: tail_before(range(90)), TWO: tail_before(range(50, 60))}) == found
    left = search(copies, {ONE: tail_before(range(90))}, missing=tail_before(range(93)))
    assert left[0].offset is None


@pytest.mark.parametrize(
    ("log", "complete"),
    [
        (MadeLog.of(range(40)), True),
        (MadeLog.of(range(30, 40), start=30), True),
        (MadeLog.of(range(60, 70), start=60), False),
        (MadeLog([], 0, 0), True),
        (MadeLog([], 60, 60), False),
    ],
)
def test_a_copy_without_the_tail_may_have_lost_it_to_retention(
    monkeypatch: pytest.MonkeyPatch, log: MadeLog, *, complete: bool
) -> None:
    (match,) = search(reader(monkeypatch, p0=log), {ONE: tail_before(range(42, 50))}).values()
    assert (match.offset, match.found, match.complete) == (None, False, complete)


def test_the_rows_before_an_offset_are_read_back_as_far_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holes = MadeLog([(10 * n, n) for n in range(200)], 0, 2000)
    copies = reader(monkeypatch, p0=holes, p1=MadeLog.of(range(5), start=9))
    found = copies.before({ONE: 1000, TWO: 12})
    assert [run.row for run in tail_runs(found[ONE])] == [
        run.row for run in tail_runs(tail_before(range(100)))
    ]
    assert found[TWO] == tail_before(range(3))
    assert copies.before({TWO: 9}) == {TWO: ""}


def test_pins_get_the_rows_before_them_unless_they_begin_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = reader(monkeypatch, p0=MadeLog.of(range(20)))
    latest = sources(0, start=12, how="latest")
    (pin,) = with_tails(latest, copies).partitions
    assert replace(pin, tail="") == latest.partitions[0]
    assert is_same_tail(pin.tail, tail_before(range(12)))
    for how in ("earliest", "discovered", "resumed"):
        unchanged = sources(0, start=12, how=how)
        assert with_tails(unchanged, copies) is unchanged
    gone = sources(0, start=12, how="latest", retired=True)
    assert with_tails(gone, copies) is gone
