"""Where a tail ends in a copy: inside, short, or not to be known."""

import pytest

from sluiceway.ledger.log_tail import tail_of, tail_runs
from sluiceway.rooms.tail_search import TailMatch, TailSearch

A_LOG = list(range(1, 21))


def search(tail: list[int], copy: list[int], *, compacted: bool = False) -> TailMatch:
    runs = tail_runs(tail_of((number, 0) for number in tail))
    found = TailSearch(runs, compacted=compacted)
    for place, row in enumerate(copy):
        # Offsets of a copy have holes, where the mirror's transactions end.
        found.add(2 * place, row)
    return found.result()


@pytest.mark.parametrize("end", [2, 9, 20])
def test_the_whole_tail_is_inside_once(end: int) -> None:
    match = search(A_LOG[:end], [*A_LOG, 77])
    assert (match.offset, match.inside, match.matches) == (2 * (end - 1) + 1, True, 1)
    assert match.scanned == 21
    assert tail_runs(match.tail) == tail_runs(tail_of((n, 0) for n in A_LOG[:end]))


def test_equal_rows_count_as_a_run() -> None:
    log = [1, 2, 5, 5, 5, 3, 3]
    assert search(log[:5], log).offset == 9
    # The end lies among equal rows: the copy's next one is missing in the table.
    assert search(log[:4], log).offset == 7
    assert search([1, 5, 5, 5, 3], log).offset is None


def test_the_oldest_run_may_have_more_rows() -> None:
    runs = tail_of((n, 0) for n in [1, 1, 2, 3])
    assert runs.startswith(tail_of((n, 0) for n in [1, 1]).split("@")[0])
    assert search([1, 1, 2, 3], [1, 1, 1, 2, 3]).offset == 9


@pytest.mark.parametrize("kept", [1, 3, 7])
def test_a_short_copy_ends_with_the_first_rows_of_the_tail(kept: int) -> None:
    copy = A_LOG[: 12 + kept]
    match = search(A_LOG, copy)
    assert (match.offset, match.inside) == (2 * (11 + kept) + 1, False)
    natives = search(A_LOG, [*copy, 91, 92])
    assert natives.offset == match.offset
    assert len(tail_runs(match.tail)) == kept
    last = tail_runs(tail_of((n, 0) for n in A_LOG[12 + kept :]))
    assert [run.row for run in tail_runs(match.missing)] == [run.row for run in last]


@pytest.mark.parametrize(
    ("tail", "copy", "says"),
    [
        ([5, 5, 5], [5, 5, 5], "all rows that the tail has are equal"),
        ([1, 2], [1, 2, 1, 2], "the tail is there 2 times"),
        (A_LOG, A_LOG[:12], "no row of the tail is there"),
        # Rows of the tail in an order that no copier makes.
        (A_LOG, [14, 13], "only parts"),
        (A_LOG, [13, 99, 14], "only parts"),
        (A_LOG, [15, 16], "only parts"),
        (A_LOG, [13, 14, 14], "only parts"),
        ([9, 9, 1, 2], [7, 9], "only parts"),
    ],
)
def test_what_is_not_sure_is_refused(tail: list[int], copy: list[int], says: str) -> None:
    match = search(tail, copy)
    assert match.offset is None
    assert says in match.why


@pytest.mark.parametrize("kept", [0, 6, 9])
def test_a_log_that_was_left_for_a_shorter_copy_is_known_by_the_rows_of_it(kept: int) -> None:
    read = tail_runs(tail_of((number, 0) for number in A_LOG[:12]))
    tail = tail_runs(tail_of((number, 0) for number in A_LOG[:9]))
    left = TailSearch(tail, compacted=False, lacked=read[-3:])
    for number in A_LOG[kept:]:
        left.add(number, number)
    match = left.result()
    assert (match.offset, match.found) == (None, True)
    assert "the table has rows of it which the other room's copy lacked" in match.why
    other = TailSearch(tail, compacted=False, lacked=read[-3:])
    for number in (*A_LOG[:9], 77):
        other.add(number, number)
    assert other.result().inside


def test_a_compacted_copy_has_the_last_row_that_is_left() -> None:
    left = [n for n in A_LOG if n not in {18, 20}]
    assert search(A_LOG, [*left, 30], compacted=True).offset == 2 * left.index(19) + 1
    assert search(A_LOG[:18], [*left, 30], compacted=True).offset == 2 * left.index(17) + 1
    none = search(A_LOG, [1, 2, 30], compacted=True)
    assert (none.offset, none.found) == (None, False)
    assert "compacted" in none.why
    twice = search(A_LOG, [19, 30, 19], compacted=True)
    assert twice.offset is None
    later = search(A_LOG, [19, 14], compacted=True)
    assert later.offset is None
