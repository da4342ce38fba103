"""A route that reads a table, from seeds: promises hold, wrong variants are caught."""

from collections import Counter
from pathlib import Path

import pytest

from chain_sim.corrections import CorrectedWorld
from chain_sim.lakes import LakeWorld
from chain_sim.mutants import CORRECTION_MUTANTS, LAKE_MUTANTS, MUTANTS, UNIT_MUTANTS, patched
from chain_sim.units import UnitWorld
from chain_sim.world import simulate

pytestmark = pytest.mark.slow

SEEDS = 12
MUTANT_SEEDS = 14
# What the seeds have to have seen, or they show nothing.
UNIT_SEEDS, UNIT_MUTANT_SEEDS = 8, 14
SEEN_OF_UNITS = {
    "add",
    "late",
    "lease",
    "merge",
    "swap",
    "announce",
    "query",
    "round",
    "died",
    "fenced",
}
LAKE_SEEDS, LAKE_MUTANT_SEEDS = 8, 14
SEEN_OF_LAKES = {"add", "merge", "expire", "late", "unavailable", "remove", "roll-back", "commit"}
CORRECTION_SEEDS, CORRECTION_MUTANT_SEEDS = 6, 14
SEEN_OF_CORRECTIONS = {"swap", "corrected", "correction_refused", "aside", "replay", "died"}
SEEN = {"add", "late", "merge", "upstream-dies", "die", "fenced", "report", "sources", "commit"}


def test_seeds_break_no_promise_of_a_route_that_reads_a_table(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        violation, world = simulate(seed, tmp_path)
        assert violation == "", "\n".join(world.trace[-30:])
        seen += world.seen
    assert seen.keys() >= SEEN


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_variants_of_reading_a_table_are_caught(tmp_path: Path, mutant: str) -> None:
    with patched(mutant):
        assert any(simulate(seed, tmp_path)[0] for seed in range(MUTANT_SEEDS))


def test_seeds_break_no_promise_of_a_route_that_computes_units(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(UNIT_SEEDS):
        violation, world = simulate(seed, tmp_path, UnitWorld)
        assert violation == "", "\n".join(world.trace[-30:])
        seen += world.seen
    assert seen.keys() >= SEEN_OF_UNITS


@pytest.mark.parametrize("mutant", UNIT_MUTANTS)
def test_wrong_variants_of_computing_units_are_caught(tmp_path: Path, mutant: str) -> None:
    with patched(mutant):
        assert any(simulate(seed, tmp_path, UnitWorld)[0] for seed in range(UNIT_MUTANT_SEEDS))


def test_seeds_break_no_promise_of_a_route_that_reads_a_table_of_others(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(LAKE_SEEDS):
        violation, world = simulate(seed, tmp_path, LakeWorld)
        assert violation == "", "\n".join(world.trace[-30:])
        seen += world.seen
    assert seen.keys() >= SEEN_OF_LAKES


@pytest.mark.parametrize("mutant", LAKE_MUTANTS)
def test_wrong_variants_of_reading_a_table_of_others_are_caught(
    tmp_path: Path, mutant: str
) -> None:
    with patched(mutant):
        assert any(simulate(seed, tmp_path, LakeWorld)[0] for seed in range(LAKE_MUTANT_SEEDS))


def test_seeds_break_no_promise_of_tables_that_follow_corrections(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(CORRECTION_SEEDS):
        violation, world = simulate(seed, tmp_path, CorrectedWorld)
        assert violation == "", "\n".join(world.trace[-30:])
        seen += world.seen
    assert seen.keys() >= SEEN_OF_CORRECTIONS


@pytest.mark.parametrize("mutant", CORRECTION_MUTANTS)
def test_wrong_variants_of_following_corrections_are_caught(tmp_path: Path, mutant: str) -> None:
    with patched(mutant):
        assert any(
            simulate(seed, tmp_path, CorrectedWorld)[0] for seed in range(CORRECTION_MUTANT_SEEDS)
        )
