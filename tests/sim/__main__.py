"""Simulate the driver from seeds; the last line of output is JSON.

python -m sim --seeds 20000            seeds that no kept run has had, then all mutants
python -m sim --seed 1234              one seed, with all that happens in it
python -m sim --seed 8 --mutant record-renamed
"""

import argparse
import gc
import sys
from pathlib import Path

from sim.substitutes import substituted

with substituted():
    from sim.campaign import KEPT, Plan, named, next_seed, run_campaign
    from sim.mutants import patched
    from sim.simulation import simulate
    from sim.world import join_product

_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def main() -> int:
    """Run what the arguments say; 0 when nothing is broken and every mutant is caught."""
    arguments = _parse()
    join_product()
    # A seed leaves its world behind in one piece; to look for garbage meanwhile costs a tenth.
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if arguments.seed is not None:
        return _replay(arguments.seed, arguments.mutant, arguments.often)
    kept = None if arguments.results == Path("-") else arguments.results
    first = arguments.first
    if first is None:
        first = 0 if kept is None else next_seed(kept)
    plan = Plan(
        first,
        arguments.seeds,
        arguments.mutant_seeds,
        arguments.jobs,
        kept,
        _names(arguments.often),
    )
    return run_campaign(plan)


def _replay(seed: int, name: str | None, often: str) -> int:
    mutant = named(name) if name else None
    with patched(mutant):
        outcome = simulate(seed, traced=True, often=mutant.often if mutant else _names(often))
    print("\n".join(outcome.trace))
    print(f"seed {seed}: {outcome.violation or 'nothing is broken'}, {outcome.steps} steps")
    return int(bool(outcome.violation))


def _names(often: str) -> frozenset[str]:
    return frozenset(filter(None, often.split(",")))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sim", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds")
    parser.add_argument("--first", type=int, help="the first one; else the next that is not kept")
    parser.add_argument("--seed", type=int, help="run this one only, and print its trace")
    parser.add_argument("--mutant", help="with --seed: this wrong variant of the product")
    parser.add_argument(
        "--often", default="", help="what happens often, A,B; keep no results of such worlds"
    )
    parser.add_argument("--mutant-seeds", type=int, default=6000, help="tries to catch a mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--results", type=Path, default=KEPT, help="kept results; - keeps none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
