from dataclasses import replace

import pytest

from sluiceway.errors import FencedError, LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.route.takeover import ReleasedLedger
from tools.ledger_records import LEDGER, data, fence, fold_of, sources, span


def left(fold: Fold) -> ReleasedLedger:
    return ReleasedLedger("d1", LEDGER, fold.term, fold.next_seq, fold.head)


def test_ledger_that_nobody_has_touched_is_taken_again() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    left(fold).check(LEDGER, fold)


def test_own_fence_that_a_start_in_vain_has_left_is_no_other_driver() -> None:
    before = left(fold_of(fence(), sources(0)))
    before.check(LEDGER, fold_of(fence(), sources(0), fence()))


def test_ledger_of_a_driver_with_the_same_host_and_pid_is_not_taken_back() -> None:
    before = left(fold_of(fence(), sources(0)))
    with pytest.raises(FencedError, match="term 2 was taken over by h pid 1"):
        before.check(LEDGER, fold_of(fence(), sources(0), fence(driver="d2")))


def test_ledger_that_has_become_shorter_or_another_one_is_refused() -> None:
    long = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    short = fold_of(fence(), sources(0))
    with pytest.raises(LedgerCorruptError, match="restored in part"):
        left(long).check(LEDGER, short)
    with pytest.raises(LedgerCorruptError, match="restored in part"):
        left(long).check(LEDGER, Fold())
    with pytest.raises(LedgerCorruptError, match="restored in part"):
        replace(left(short), head="0" * 64).check(LEDGER, short)


def test_new_ledger_of_a_new_table_is_another_matter() -> None:
    left(fold_of(fence(), sources(0))).check("0" * 32, Fold())
