"""Routes that read tables, from seeds: promises hold, wrong variants are caught."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chain_sim.corrections import CorrectedWorld
from chain_sim.lakes import LakeWorld
from chain_sim.mutants import CORRECTION_MUTANTS, LAKE_MUTANTS, MUTANTS, UNIT_MUTANTS, patched
from chain_sim.units import UnitWorld
from chain_sim.world import World, simulate

pytestmark = pytest.mark.slow

MUTANT_SEEDS = 14


@dataclass(frozen=True)
class Campaign:
    """One kind of world.

    Attributes:
        seen: What its seeds have to have seen, or they show nothing.
    """

    kind: type[World]
    mutants: Mapping[str, Any]
    seeds: int
    seen: str


CAMPAIGNS = {
    "reads_a_table": Campaign(
        World, MUTANTS, 12, "add late merge upstream-dies die fenced report sources commit"
    ),
    "computes_units": Campaign(
        UnitWorld,
        UNIT_MUTANTS,
        8,
        "add late lease merge swap announce query round died fenced",
    ),
    "reads_a_table_of_others": Campaign(
        LakeWorld, LAKE_MUTANTS, 8, "add merge expire late unavailable remove roll-back commit"
    ),
    "follows_corrections": Campaign(
        CorrectedWorld, CORRECTION_MUTANTS, 6, "swap corrected correction_refused aside replay died"
    ),
}


@pytest.mark.parametrize("campaign", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_seeds_break_no_promise_of_a_route_that(campaign: Campaign, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(campaign.seeds):
        violation, world = simulate(seed, tmp_path, campaign.kind)
        assert violation == "", "\n".join(world.trace[-30:])
        seen += world.seen
    assert seen.keys() >= set(campaign.seen.split())


@pytest.mark.parametrize(
    ("name", "mutant"),
    [(name, mutant) for name, campaign in CAMPAIGNS.items() for mutant in campaign.mutants],
)
def test_wrong_variants_are_caught(name: str, mutant: str, tmp_path: Path) -> None:
    kind = CAMPAIGNS[name].kind
    with patched(mutant):
        assert any(simulate(seed, tmp_path, kind)[0] for seed in range(MUTANT_SEEDS))
