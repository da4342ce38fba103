"""The commit protocol in the exhaustive models: it holds, and each rule is needed."""

from dataclasses import replace

import pytest

from model.cases import (
    LARGE,
    MUTANTS,
    SMALL,
    Bounds,
    Case,
    Mutant,
    check_case,
    check_model,
    check_mutant,
)
from model.checker import Checker, Limits, Steps
from model.files import FilesBounds
from model.mutation import Mutation
from model.results import keep_result, kept_result, read_results, result_of

_LIMITS = Limits(states=400_000, seconds=60)
_FEW = Limits(states=15_000, seconds=60)
_BOUNDS = sorted({mutant.bounds for mutant in MUTANTS}, key=repr)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_protocol_within_small_bounds_breaks_no_invariant(case: Case) -> None:
    verdict = check_case(case, _LIMITS)

    assert verdict.violation is None, "; ".join(verdict.trace)
    assert verdict.complete
    assert verdict.live == case.live
    assert verdict.states >= case.least_states


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_protocol_without_a_rule_is_caught_with_a_trace(mutant: Mutant) -> None:
    verdict = check_mutant(mutant, _LIMITS)

    assert verdict.violation is not None
    assert len(verdict.trace) == verdict.depth > 3


@pytest.mark.parametrize("bounds", _BOUNDS, ids=repr)
def test_protocol_in_the_bounds_of_a_mutant_holds_with_the_rule(bounds: Bounds) -> None:
    verdict = check_model(bounds, None, lean=True, live=False, limits=_FEW)

    assert verdict.violation is None, "; ".join(verdict.trace)


def test_mutants_cover_every_mutation_and_are_enough() -> None:
    assert {mutant.mutation for mutant in MUTANTS} == set(Mutation)
    assert len(MUTANTS) >= 15


def test_cases_have_names_of_their_own() -> None:
    for cases in (SMALL, LARGE):
        assert len({case.name for case in cases}) == len(cases)


def test_lean_run_counts_the_same_states_as_an_exact_one() -> None:
    bounds = FilesBounds((1, 1))
    exact = check_model(bounds, None, lean=False, live=True, limits=_LIMITS)
    lean = check_model(bounds, None, lean=True, live=True, limits=_LIMITS)

    assert (lean.states, lean.steps, lean.depth) == (exact.states, exact.steps, exact.depth)


class _Counter:
    """Counts to 5 by steps of 1 or 2; 4 is a trap, and 3 may be declared wrong."""

    def __init__(self, wrong: int = -1, *, trap: bool = False) -> None:
        self._wrong = wrong
        self._trap = trap

    def initial(self) -> int:
        return 0

    def steps(self, state: int) -> Steps[int]:
        for width in (1, 2):
            if state + width <= 5 and not (self._trap and state == 4):
                yield f"add {width}", state + width

    def canonical(self, state: int) -> int:
        return state

    def broken(self, state: int) -> str | None:
        return "wrong" if state == self._wrong else None

    def at_rest(self, state: int) -> str | None:
        return None if state == 5 or self._trap else "stopped short"

    def is_goal(self, state: int) -> bool:
        return state == 5

    def must_reach_goal(self, state: int) -> bool:
        return state >= 0


@pytest.mark.parametrize("lean", [False, True])
def test_checker_on_a_wrong_state_shows_the_shortest_way(lean: bool) -> None:  # noqa: FBT001
    verdict = Checker(_Counter(wrong=3), lean=lean).run()

    assert verdict.violation == "wrong"
    assert sorted(verdict.trace) == ["add 1", "add 2"]


def test_checker_on_a_trap_finds_the_goal_out_of_reach() -> None:
    verdict = Checker(_Counter(trap=True), live=True).run()

    assert verdict.violation is not None
    assert verdict.violation.startswith("STUCK")
    assert verdict.trace == ("add 2", "add 2")


def test_checker_out_of_states_is_not_complete() -> None:
    verdict = Checker(_Counter(), limits=Limits(states=1)).run()

    assert verdict.violation is None
    assert not verdict.complete


def test_results_of_a_case_are_found_again_for_the_same_bounds_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("results") / "model.jsonl"
    case = SMALL[2]
    kept = result_of(case, check_case(case, _LIMITS))
    keep_result(path, kept)
    keep_result(path, kept)

    assert read_results(path) == [kept]
    assert kept_result(case, read_results(path)) == kept
    assert kept_result(replace(case, bounds=FilesBounds((3,))), read_results(path)) is None
    cut_short = replace(kept, verdict="incomplete")
    assert kept_result(case, [cut_short]) is None
