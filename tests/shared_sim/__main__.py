"""Simulate routes that share the reading of a topic; the last line of output is JSON.

python -m shared_sim --seeds 200                 seeds, then all mutants
python -m shared_sim --seed 12 [--mutant NAME]   one seed, with all that happens in it
python -m shared_sim ... --rooms lost            of two rooms, whose mirror copies the topic
python -m shared_sim ... --rooms back            the lost room returns, or was never lost
python -m shared_sim ... --rooms copied          of two rooms with a store each, and a copier
"""

import argparse
import gc
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

# Libraries have the real threads; only the product has simulated ones.
import pandas as pd  # noqa: F401
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import structlog  # noqa: F401
import typer  # noqa: F401

from sim.substitutes import substituted
from tools.last_kills import LastKills
from tools.mutant_fit import refuse_outdated

with substituted():
    import sluiceway.audit.open_table
    import sluiceway.catalog.metastore
    import sluiceway.formats.json.choice
    import sluiceway.sinks.hive.folder_catalog
    import sluiceway.sinks.hive.table  # noqa: F401
    from shared_sim.copied import CopiedWorld
    from shared_sim.mirror import MirrorWorld
    from shared_sim.mutants import (
        ALL_MUTANTS,
        COPY_MUTANTS,
        MIRROR_MUTANTS,
        MUTANTS,
        RETURN_MUTANTS,
        patched,
    )
    from shared_sim.returning import ReturningWorld
    from shared_sim.world import World, join_product, simulate

_KINDS = {
    "": (World, MUTANTS),
    "lost": (MirrorWorld, MIRROR_MUTANTS),
    "back": (ReturningWorld, RETURN_MUTANTS),
    "copied": (CopiedWorld, COPY_MUTANTS),
}
_LAST_KILLS = LastKills(Path(__file__).parent / "last_kills.json", "shared-sim")


def main() -> int:
    """Run what the arguments say; 0 when nothing is broken and every mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m shared_sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutant", default="", choices=["", *ALL_MUTANTS])
    parser.add_argument("--rooms", default="", choices=[*_KINDS], help="what becomes of a room")
    parser.add_argument("--mutant-seeds", type=int, default=60, help="tries to catch a mutant")
    parser.add_argument("--keep", action="store_true", help="keep which seed caught which mutant")
    given = parser.parse_args()
    join_product()
    gc.freeze()
    shared = Path("/dev/shm")  # noqa: S108 - nothing in it has to outlive the seed
    place = shared if shared.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="shared-sim-", dir=place) as folder:
        if given.seed is not None:
            return _replay(given, Path(folder))
        return _campaign(given, Path(folder))


def _kind(given: argparse.Namespace) -> type[World]:
    kind, _ = _KINDS[given.rooms]
    return kind


def _replay(given: argparse.Namespace, folder: Path) -> int:
    with patched(given.mutant):
        violation, world = simulate(given.seed, folder, _kind(given), traced=True)
    print("\n".join(world.trace or ()))
    print(f"seed {given.seed}: {violation or 'nothing is broken'}")
    return int(bool(violation))


def _campaign(given: argparse.Namespace, folder: Path) -> int:
    seen: Counter[str] = Counter()
    broken, began = 0, time.monotonic()
    for seed in range(given.first, given.first + given.seeds):
        violation, world = simulate(seed, folder, _kind(given))
        shutil.rmtree(folder / str(seed))
        seen += world.seen
        if violation:
            broken += 1
            print(f"seed {seed}: {violation}", flush=True)
    print(f"{given.seeds} seeds in {time.monotonic() - began:.0f} s")
    caught: dict[str, int] = {}
    _, all_of_them = _KINDS[given.rooms]
    mutants = all_of_them if given.mutant_seeds else {}
    for name in mutants:
        seed, violation = _catch(name, given, folder)
        if violation:
            caught[name] = seed
        print(f"{name}: {f'seed {seed}: {violation}' if violation else 'SURVIVED'}", flush=True)
    _LAST_KILLS.note(caught, keep=given.keep)
    killed = len(caught)
    closing = {
        "seeds": given.seeds,
        "violations": broken,
        "mutants": len(mutants),
        "mutants_killed": killed,
        "seen": dict(sorted(seen.items())),
    }
    print(json.dumps(closing))
    return int(broken > 0 or killed < len(mutants))


def _catch(name: str, given: argparse.Namespace, folder: Path) -> tuple[int, str]:
    """The first seed that breaks a promise with the mutant and none without it, and which."""
    for seed in dict.fromkeys([*_LAST_KILLS.seeds(name), *range(given.mutant_seeds)]):
        with patched(name):
            violation = _violation(seed, folder, _kind(given))
        if violation and not _violation(seed, folder, _kind(given)):
            refuse_outdated(name, violation)
            return seed, violation[:140]
    return -1, ""


def _violation(seed: int, folder: Path, kind: type[World]) -> str:
    violation, _ = simulate(seed, folder, kind)
    shutil.rmtree(folder / str(seed))
    return violation


if __name__ == "__main__":
    sys.exit(main())
