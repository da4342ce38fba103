"""Seeds of the simulation, for mutants: `python -m mutate.seed_server REQUESTS ANSWERS`."""

import sys

from mutate.forks import serve
from mutate.rules import read_rules, subjects
from sim.substitutes import substituted

with substituted():
    from sim.simulation import simulate
    from sim.world import join_product


def run_seed(item: str) -> str:
    """What the seed finds broken; nothing when all is well."""
    try:
        return simulate(int(item)).violation
    except Exception as error:  # noqa: BLE001 - whatever a mutant raises
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    join_product()
    serve(subjects(read_rules()), int(sys.argv[1]), int(sys.argv[2]), run_seed, ())
