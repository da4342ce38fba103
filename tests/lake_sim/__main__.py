"""Simulate publishing to a lake table from seeds; the last line of output is JSON.

python -m lake_sim --seeds 2000                 seeds of each world, then all mutants
python -m lake_sim --seed 12 [--mutant NAME]    one seed, with all that happens in it
                             [--world keyed]    of a keyed table; of an append table without
"""

import argparse
import json
import logging
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from lake_sim.keyed_world import KeyedWorld
from lake_sim.mutants import KEYED, MUTANTS, patched
from lake_sim.world import World, simulate
from tools.last_kills import LastKills

_BATCH = 10
_WORLDS = {"append": World, "keyed": KeyedWorld}
_LAST_KILLS = LastKills(Path(__file__).parent / "last_kills.json", "lake-sim")


@contextmanager
def _folder() -> Iterator[Path]:
    shared = Path("/dev/shm")  # noqa: S108 - nothing in it has to outlive the seed
    folder = Path(tempfile.mkdtemp(prefix="lake-sim-", dir=shared if shared.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_seed(seed: int, mutant: str, world: str = "") -> tuple[int, str, Counter[str]]:
    """One seed: the violation, and what it has seen. A mutant has a world of its own."""
    world_of = _WORLDS[world or _world_of(mutant)]
    with _folder() as folder, patched(mutant), warnings.catch_warnings():
        # The library warns of partition-wide deletes by others; they are asked for.
        warnings.simplefilter("ignore")
        violation, lived = simulate(seed, folder, world_of)
    return seed, violation, lived.seen


def _world_of(mutant: str) -> str:
    return "keyed" if mutant in KEYED else "append"


def main() -> int:
    """Run what the arguments say; 0 when nothing is broken and every mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m lake_sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS])
    parser.add_argument("--world", choices=_WORLDS, help="only this one; both without")
    parser.add_argument("--mutant-seeds", type=int, default=300, help="tries to catch a mutant")
    parser.add_argument("--only", action="append", help="mutants to catch; -: none")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    if given.seed is not None:
        return _replay(given.seed, given.mutant, given.world or _world_of(given.mutant))
    with ProcessPoolExecutor(given.jobs) as pool:
        return _campaign(pool, given)


def _replay(seed: int, mutant: str, world: str) -> int:
    with _folder() as folder, patched(mutant):
        violation, lived = simulate(seed, folder, _WORLDS[world])
    print("\n".join(lived.trace))
    print(f"seed {seed}: {violation or 'nothing is broken'}")
    return int(bool(violation))


def _campaign(pool: ProcessPoolExecutor, given: argparse.Namespace) -> int:
    seeds = range(given.first, given.first + given.seeds)
    seen: Counter[str] = Counter()
    broken = 0
    worlds = [given.world] if given.world else list(_WORLDS)
    for world in worlds:
        lives = pool.map(run_seed, seeds, repeat(""), repeat(world), chunksize=_BATCH)
        for seed, violation, found in lives:
            seen += found
            if violation:
                broken += 1
                print(f"{world} seed {seed}: {violation}")
    killed: dict[str, int] = {}
    chosen = [name for name in MUTANTS if given.only is None or name in given.only]
    for name in chosen:
        # The seed that caught it last mostly does so again.
        batches = [range(seed, seed + 1) for seed in _LAST_KILLS.seeds(name)]
        every = range(given.mutant_seeds)
        batches += [every[first : first + _BATCH] for first in every[::_BATCH]]
        for batch in batches:
            tries = pool.map(run_seed, batch, repeat(name))
            caught = next(((seed, said) for seed, said, _ in tries if said), None)
            if caught is not None:
                killed[name] = caught[0]
                print(f"{name}: caught by seed {caught[0]}: {caught[1][:120]}", flush=True)
                break
        else:
            print(f"{name}: survives {given.mutant_seeds} seeds", flush=True)
    _LAST_KILLS.note(killed, keep=given.only is None)
    closing = {
        "seeds": given.seeds * len(worlds),
        "violations": broken,
        "mutants": len(chosen),
        "mutants_killed": len(killed),
        "seen": dict(sorted(seen.items())),
    }
    print(json.dumps(closing))
    return int(broken > 0 or len(killed) < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
