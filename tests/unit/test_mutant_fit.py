"""Wrong variants apply to the product as it is; one that breaks by itself is no catch."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lake_sim.mutants import MUTANTS as LAKE_MUTANTS
from oracle.mutants import MUTANTS as VALUE_MUTANTS
from oracle.typed_mutants import TYPED_MUTANTS
from readiness_oracle.mutants import MUTANTS as READINESS_MUTANTS
from sim.mutants import MUTANTS as SIMULATION_MUTANTS
from tools import mutant_fit
from tools.last_kills import read_kills
from tools.mutant_fit import MisfitError, Patch, held, misfits, refuse_outdated

TESTS = Path(__file__).parents[1]
RULES = TESTS.parent / "docs/contributors/rules.md"


class _Planting:
    """A `MonkeyPatch` that plants nothing and says what it could not have planted."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def setattr(self, owner: Any, name: str, variant: Any) -> None:
        self.wrong += misfits([(owner, name, variant)])

    def setitem(self, into: dict[Any, Any], key: Any, value: Any) -> None:
        if key not in into:
            self.wrong.append(f"there is no {key} to become {value}")


def _planted_misfits() -> Iterator[str]:
    for mutant in (*VALUE_MUTANTS, *TYPED_MUTANTS):
        planting: Any = _Planting()
        mutant.plant(planting)
        yield from (f"{mutant.name}: {why}" for why in planting.wrong)


def test_every_patch_of_the_simulation_applies_to_the_product() -> None:
    wrong = {each.name: why for each in SIMULATION_MUTANTS if (why := misfits(each.patches))}
    assert wrong == {}
    assert len(SIMULATION_MUTANTS) > 100


def test_every_patch_of_lake_tables_applies_to_the_product() -> None:
    assert {name: why for name, made in LAKE_MUTANTS.items() if (why := misfits(made))} == {}
    assert len(LAKE_MUTANTS) > 30


def test_every_patch_of_readiness_applies_to_the_product() -> None:
    wrong = {each.name: why for each in READINESS_MUTANTS if (why := misfits(each.make()))}
    assert wrong == {}
    assert len(READINESS_MUTANTS) > 50


def test_every_silent_change_that_is_planted_applies_to_the_converter() -> None:
    assert list(_planted_misfits()) == []
    assert len(VALUE_MUTANTS) + len(TYPED_MUTANTS) > 50


def test_mutants_that_kept_kills_and_rules_name_exist() -> None:
    simulated = {each.name for each in SIMULATION_MUTANTS}
    readiness = {each.name for each in READINESS_MUTANTS}
    assert read_kills(TESTS / "sim/last_kills.json").keys() <= simulated
    assert read_kills(TESTS / "lake_sim/last_kills.json").keys() <= LAKE_MUTANTS.keys()
    assert read_kills(TESTS / "readiness_oracle/last_kills.json").keys() <= readiness
    told = re.findall(r"simulation mutants? ((?:`[\w-]+`(?:, )?)+)", RULES.read_text("utf-8"))
    named = {name for names in told for name in re.findall(r"`([\w-]+)`", names)}
    assert len(named) > 15
    assert named - simulated == set()


class _Product:
    def read(self, start: int, *, most: int) -> int:
        return start + most

    @property
    def place(self) -> int:
        return self.read(0, most=1)


def _whatever(*arguments: object, **named: object) -> int:
    return len(arguments) - len(named) - 2


def _renamed(product: _Product, begin: int, *, most: int) -> int:
    return product.read(begin, most=most)


def _narrower(product: _Product, start: int) -> int:
    return product.read(start, most=1)


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ((_Product, "write", _whatever), "there is no _Product.write"),
        ((_Product, "read", _renamed), "_Product.read: takes begin where start is given"),
        ((_Product, "read", _narrower), "_Product.read: got an unexpected keyword argument 'most'"),
        ((_Product, "place", _whatever), "_Product.place is a property, or its variant is"),
        ((mutant_fit, "hold", _whatever), "there is no tools.mutant_fit.hold"),
        ((mutant_fit, "held", _whatever), "tools.mutant_fit.held is not called by that name"),
    ],
    ids=["gone", "renamed", "narrower", "property", "gone-of-module", "imported-elsewhere"],
)
def test_patch_that_does_not_apply_is_refused_before_it_is_made(patch: Patch, why: str) -> None:
    assert misfits([patch]) == [why]
    with pytest.raises(MisfitError, match="mutant m does not fit: "), held("m", [patch]):
        pytest.fail("it was made")


def test_patch_that_applies_holds_inside_the_block_only() -> None:
    with held("m", [(_Product, "read", _whatever)]):
        assert _Product().read(3, most=4) == -1
    assert _Product().read(3, most=4) == 7


def _asks_for_what_is_gone(product: Any, start: int, *, most: int) -> int:
    return int(product.gone + start + most)


def _caught() -> str:
    try:
        return str(_Product().read(1, most=2))
    except AttributeError as error:
        return str(error)


def test_variant_that_breaks_by_itself_is_refused_whoever_caught_its_error() -> None:
    wrong = [(_Product, "read", _asks_for_what_is_gone)]
    with (
        pytest.raises(MisfitError, match="mutant m does not fit: AttributeError"),
        held("m", wrong),
    ):
        assert "gone" in _caught()
    assert _caught() == "3"


@pytest.mark.parametrize(
    "violation",
    [
        "driver0 logged a bug: TypeError: take() got an unexpected keyword argument",
        "driver0 logged a bug: AssertionError",
        "driver0 logged a bug: AttributeError: no such name",
        "driver0 logged a bug: NameError: name 'held' is not defined",
    ],
)
def test_mutant_that_breaks_by_itself_is_told_and_counts_as_no_catch(violation: str) -> None:
    with pytest.raises(MisfitError, match="mutant sealed-lost does not fit: driver0"):
        refuse_outdated("sealed-lost", violation)


def test_promise_that_was_broken_is_a_catch() -> None:
    refuse_outdated("sealed-lost", "I7: rows for dt=20261120/hr=08 after its READY")
    with pytest.raises(MisfitError):
        refuse_outdated("sealed-lost", "AssertionError")
