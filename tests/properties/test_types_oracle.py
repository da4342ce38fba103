"""What JSON values become, against an oracle of exact arithmetic that shares no code with us."""

import pytest

from oracle import typed_vectors
from oracle.avro_format import AVRO
from oracle.campaign import judged, run_round, run_shapes
from oracle.judge import CELLS, judge_refused, left_out
from oracle.model import Num, Obj
from oracle.mutants import MUTANTS, Mutant
from oracle.typed_formats import TYPED_FORMATS
from oracle.typed_judge import TypedFormat, run_typed_round, typed_judged, typed_left_out
from oracle.typed_mutants import TYPED_MUTANTS
from tools.test_plan import slow_after

ROUNDS = 24
WANTED_MUTANTS = 15


def test_no_value_of_any_cell_changes_silently() -> None:
    found = judge_refused()
    found.add(run_round(7, 40))
    assert (found.silent_changes, found.wrong_reason, found.examples) == (0, 0, [])
    assert left_out(found) == []
    assert len(found.cells) == len(CELLS)
    assert found.changes > found.values // 2
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
    found = (
        verdict.silent_changes
        for number in range(ROUNDS)
        for verdict in judged(number, 60, mutant.kinds)
    )
    assert any(found)


@pytest.mark.parametrize("of", TYPED_FORMATS, ids=lambda of: of.name)
def test_no_value_of_a_typed_format_changes_silently(of: TypedFormat) -> None:
    found = run_typed_round(of, 7, 3 if of.matrix else 1)
    assert (found.silent_changes, found.wrong_reason, found.examples) == (0, 0, [])
    assert typed_left_out([of], found) == []
    assert found.written > 100


def test_values_may_be_nested_deeper_than_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = [[[[[[Num("7")]]]]]]
    made = {list: deep, Obj: Obj((("a", deep),))}
    monkeypatch.setattr(typed_vectors, "nested", lambda *arguments: made[arguments[-1]])
    verdict = run_typed_round(AVRO, 1, 1)
    assert verdict.values > 0
    assert (verdict.silent_changes, verdict.wrong_reason) == (0, 0), verdict.examples


def test_enough_silent_changes_are_planted_into_typed_formats() -> None:
    names = {mutant.name for mutant in TYPED_MUTANTS}
    assert len(names) == len(TYPED_MUTANTS) >= WANTED_MUTANTS


@pytest.mark.parametrize(
    "mutant", slow_after(WANTED_MUTANTS, TYPED_MUTANTS), ids=lambda mutant: mutant.name
)
def test_planted_silent_change_of_a_typed_format_is_seen(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    found = (
        verdict.silent_changes
        for number in range(ROUNDS)
        for of in TYPED_FORMATS
        if bool(of.inside) == mutant.in_json
        for verdict in typed_judged(of, number, 12, mutant.kinds)
    )
    assert any(found)
