"""Simulate routes that read a table, from seeds; the last line of output is JSON.

python -m chain_sim --seeds 500                 seeds, then all mutants
python -m chain_sim --seed 12 [--mutant NAME]   one seed, with all that happens in it
python -m chain_sim ... --units                 of a route that computes units of a table
python -m chain_sim ... --lakes                 of a route that reads an Iceberg table of others
python -m chain_sim ... --corrections           of two that follow each other, and are corrected
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from chain_sim.corrections import CorrectedWorld
from chain_sim.lakes import LakeWorld
from chain_sim.mutants import (
    ALL_MUTANTS,
    CORRECTION_MUTANTS,
    LAKE_MUTANTS,
    MUTANTS,
    UNIT_MUTANTS,
    patched,
)
from chain_sim.units import UnitWorld
from chain_sim.world import World, simulate
from tools.mutant_fit import Patch


def main() -> int:
    """Run what the arguments say; 0 when nothing is broken and every mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m chain_sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutant", default="", choices=["", *ALL_MUTANTS])
    parser.add_argument("--units", action="store_true", help="compute units of the table")
    parser.add_argument("--lakes", action="store_true", help="read an Iceberg table of others")
    parser.add_argument("--corrections", action="store_true", help="follow two tables in a row")
    parser.add_argument("--mutant-seeds", type=int, default=100, help="tries to catch a mutant")
    given = parser.parse_args()
    shared = Path("/dev/shm")  # noqa: S108 - nothing in it has to outlive the seed
    place = shared if shared.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="chain-sim-", dir=place) as folder:
        if given.seed is not None:
            return _replay(given, Path(folder))
        return _campaign(given, Path(folder))


def _kind(given: argparse.Namespace) -> tuple[type[World], dict[str, Sequence[Patch]]]:
    if given.lakes:
        return LakeWorld, LAKE_MUTANTS
    if given.corrections:
        return CorrectedWorld, CORRECTION_MUTANTS
    return (UnitWorld, UNIT_MUTANTS) if given.units else (World, MUTANTS)


def _replay(given: argparse.Namespace, folder: Path) -> int:
    with patched(given.mutant):
        violation, world = simulate(given.seed, folder, _kind(given)[0])
    print("\n".join(world.trace))
    print(f"seed {given.seed}: {violation or 'nothing is broken'}")
    return int(bool(violation))


def _campaign(given: argparse.Namespace, folder: Path) -> int:
    seen: Counter[str] = Counter()
    broken = 0
    kind, mutants = _kind(given)
    for seed in range(given.first, given.first + given.seeds):
        violation, world = simulate(seed, folder, kind)
        seen += world.seen
        if violation:
            broken += 1
            print(f"seed {seed}: {violation}")
    killed = 0
    for name in mutants:
        caught = _catch(name, kind, given.mutant_seeds, folder)
        killed += caught is not None
        print(f"{name}: {'survives' if caught is None else f'caught by seed {caught}'}", flush=True)
    closing = {
        "seeds": given.seeds,
        "violations": broken,
        "mutants": len(mutants),
        "mutants_killed": killed,
        "seen": dict(sorted(seen.items())),
    }
    print(json.dumps(closing))
    return int(broken > 0 or killed < len(mutants))


def _catch(name: str, kind: type[World], seeds: int, folder: Path) -> int | None:
    """The first seed that breaks a promise with the mutant."""
    for seed in range(seeds):
        with patched(name):
            violation, _ = simulate(seed, folder, kind)
        if violation:
            return seed
    return None


if __name__ == "__main__":
    sys.exit(main())
