"""The tail of a log: its text, and how the tails of two ranges join."""

import pytest

from sluiceway.ledger.log_tail import (
    RUNS,
    TailRun,
    is_same_tail,
    joined_tails,
    row_hash,
    tail_of,
    tail_runs,
    tail_text,
)

Rows = list[tuple[int, int]]


def rows(*numbers: int, at: int = 0) -> Rows:
    return [(number, at + place) for place, number in enumerate(numbers)]


def counted(text: str) -> list[tuple[int, int]]:
    return [(run.row, run.rows) for run in tail_runs(text)]


def test_a_row_is_its_key_value_and_time() -> None:
    assert row_hash(b"k", b"v", 5) == row_hash(b"k", b"v", 5)
    others = [(b"k", b"v", 6), (b"kv", b"", 5), (None, b"v", 5), (b"", b"v", 5), (b"k", None, 5)]
    assert len({row_hash(*each) for each in [(b"k", b"v", 5), *others]}) == 6


def test_the_text_has_the_last_runs_and_comes_back_as_it_was() -> None:
    text = tail_of(rows(1, 2, 2, 3, *range(4, 10), at=100))
    assert counted(text) == [(2, 2), *((n, 1) for n in range(3, 10))]
    assert tail_text(tail_runs(text)) == text
    assert {run.least_ms for run in tail_runs(text)} == {101}
    assert text.count("@") == 1
    assert tail_of([]) == ""


def test_short_ranges_join_and_a_run_may_span_two() -> None:
    whole = tail_of(rows(1, 2, 2, 2, 3))
    joined = joined_tails(tail_of(rows(1, 2, 2)), tail_of(rows(2, 3, at=50)))
    assert counted(joined) == counted(whole) == [(1, 1), (2, 3), (3, 1)]
    assert [run.least_ms for run in tail_runs(joined)] == [0, 0, 50]
    text = ""
    for number in range(20):
        text = joined_tails(text, tail_of([(number, number)]))
    assert counted(text) == [(number, 1) for number in range(20 - RUNS, 20)]
    # The search begins at the least time that is left, not at the first one ever.
    assert min(run.least_ms for run in tail_runs(text)) == 20 - RUNS


def test_tails_are_the_same_as_far_back_as_both_go() -> None:
    long, short = tail_of(rows(1, 2, 3, 4, 4)), tail_of(rows(2, 3, 4, 4))
    assert is_same_tail(long, short)
    assert is_same_tail(tail_of(rows(4)), long)
    assert not is_same_tail(tail_of(rows(3, 4)), long)
    assert not is_same_tail(tail_of(rows(2, 3, 4, 5)), long)
    assert not is_same_tail("", "")


@pytest.mark.parametrize(
    "text", ["x", "AAAAAAAAAAA", "AAAAAAAAAAA*0@1", ",".join(["AAAAAAAAAAA@1"] * 9), "@1"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="tail"):
        tail_runs(text)


def test_runs_with_one_time_say_it_once() -> None:
    runs = [TailRun(1, 1, 7), TailRun(2, 3, 7), TailRun(3, 1, 9)]
    assert [part[11:] for part in tail_text(runs).split(",")] == ["@7", "*3", "@9"]
