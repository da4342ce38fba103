"""The real driver in the simulated world: no seed breaks a promise, every mutant is caught.

The product has to be imported by the simulation itself, so each test runs it as a command.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
SEEDS = 150
MUTANT_SEEDS = 400
_SEEDS_TO_CATCH = 40
# What a run of the seeds has to have seen, or it shows nothing.
_SEEN = (
    "records",
    "takeovers",
    "power_cuts",
    "late_arrivals",
    "halts_SW420",
    "halts_SW451",
    "halts_SW452",
    "snapshots",
    "packs",
    "resets",
    "changes",
    "gc_removed",
    "spoilt",
    "staged_files_lost",
    "leaders_behind",
)


def _simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "sim", "--results", "-", *arguments]
    return subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, check=False
    )


def _closing(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    closing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return closing


def test_seeds_break_no_promise_and_every_mutant_is_caught() -> None:
    done = _simulate("--seeds", str(SEEDS), "--mutant-seeds", str(MUTANT_SEEDS))
    closing = _closing(done)
    assert closing["violations"] == 0, done.stdout
    assert closing["mutants"] == closing["mutants_killed"] >= 20, done.stdout
    assert closing["seeds"] == SEEDS
    assert done.returncode == 0, done.stderr
    summary = done.stdout.splitlines()[-2].partition(": ")[2]
    seen = Counter(
        {
            name: int(n.replace(",", ""))
            for n, name in (each.split() for each in summary.split(", "))
        }
    )
    assert [name for name in _SEEN if not seen[name]] == []


@pytest.mark.slow
def test_late_rows_are_brought_in_once_in_worlds_where_that_happens_often() -> None:
    often = "append_rows,background,bring_in"
    done = _simulate("--seeds", "40", "--mutant-seeds", "0", "--often", often)
    assert _closing(done)["violations"] == 0, done.stdout
    assert re.search(r"[1-9][0-9,]* brought_in", done.stdout), done.stdout


# A seed replays whatever the order of sets and dictionaries is.
@pytest.mark.parametrize("seed", ["4", "7"])
def test_seed_replays_exactly(seed: str) -> None:
    first, again = (_simulate("--seed", seed, hash_seed=hashes) for hashes in ("1", "2"))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    assert "fencing" in first.stdout


def test_seed_that_catches_a_mutant_shows_what_happened() -> None:
    # Which seed it is changes with the product: each call that is added moves the dice.
    for seed in range(_SEEDS_TO_CATCH):
        done = _simulate("--seed", str(seed), "--mutant", "publish-before-commit")
        if done.returncode == 1:
            break
    assert done.returncode == 1
    assert "I4: readers see" in done.stdout.splitlines()[-1]
    assert "publish" in done.stdout or "link" in done.stdout


BROKEN_ALONE = """\
from dataclasses import replace
from sim.substitutes import substituted
with substituted():
    from sim import campaign
    from sim.simulation import simulate
    from sim.world import join_product
join_product()
clean = simulate(1)
broken = replace(clean, seed=7, violation="P6: a row is missing")
crowded = replace(clean, often=frozenset({"lull"}))
worlds = {(1, ()): clean, (7, ()): broken, (7, ("lull",)): replace(crowded, seed=7)}
campaign.simulate = lambda seed, *, often=frozenset(): worlds[seed, tuple(often)]
totals = campaign.Totals()
kills = {"a": replace(clean, violation="I4"), "b": broken, "c": None}
kills["d"] = replace(crowded, seed=7, violation="I4")
found = campaign._without_broken(kills, totals, range(0), 1)
print([name for name, outcome in found.items() if outcome], [each.seed for each in totals.broken])
"""


def test_seed_that_breaks_a_promise_without_the_mutant_catches_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_ALONE], cwd=TESTS, capture_output=True, text=True, check=False
    )
    assert done.stdout == "['a', 'd'] [7]\n", done.stderr


def test_world_that_has_something_often_is_another_and_replays() -> None:
    crowd = ("--seed", "11", "--often", "creep_clock")
    plain, crowded, again = (_simulate(*told) for told in (("--seed", "11"), crowd, crowd))
    assert plain.stdout != crowded.stdout == again.stdout
    creeps = [world.stdout.count("s ahead from now on") for world in (plain, crowded)]
    assert creeps[0] < creeps[1] > 2


def test_world_knows_only_what_happens() -> None:
    done = _simulate("--seed", "4", "--often", "creep_clok")
    assert done.returncode == 1
    assert "nothing that happens is ['creep_clok']" in done.stderr
