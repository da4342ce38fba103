"""What JSON values become, against an oracle of exact arithmetic that shares no code with us."""

import pytest

from oracle.campaign import run_round, run_shapes
from oracle.judge import CELLS, judge_refused, left_out
from oracle.mutants import MUTANTS, Mutant

ROUNDS = 12
WANTED_MUTANTS = 15


def test_no_value_of_any_cell_changes_silently() -> None:
    found = judge_refused()
    found.add(run_round(7, 40))
    assert (found.silent_changes, found.wrong_reason, found.examples) == (0, 0, [])
    assert left_out(found) == []
    assert len(found.cells) == len(CELLS)
    assert found.written > found.values // 2


@pytest.mark.parametrize("number", range(3))
def test_no_value_of_nested_shapes_changes_silently(number: int) -> None:
    found = run_shapes(number, 40)
    assert (found.silent_changes, found.wrong_reason, found.examples) == (0, 0, [])
    assert found.values > 100


def test_enough_silent_changes_are_planted() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= WANTED_MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_silent_change_is_seen(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    found = (run_round(number, 60, mutant.kinds).silent_changes for number in range(ROUNDS))
    assert any(found)
