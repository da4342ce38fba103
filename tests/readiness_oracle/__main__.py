"""`make proofs NAME=readiness-oracle`: the last line is the outcome as JSON.

python -m readiness_oracle --histories 100000
python -m readiness_oracle --seed 1234            one history, with all that happens in it
python -m readiness_oracle --seed 8 --mutant idle-by-timer
"""

import argparse
import json
import sys
import time

from readiness_oracle.campaign import closing, kill_mutants, run_history, run_seeds, show_failed
from readiness_oracle.generate import generate
from readiness_oracle.mutants import named, patched


def main() -> int:
    """Run what the arguments say; 0 when nothing is wrong and every mutant is caught."""
    parser = argparse.ArgumentParser(
        prog="python -m readiness_oracle",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--histories", type=int, default=100_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one only, and print its trace")
    parser.add_argument("--mutant", help="with --seed: this wrong variant of the product")
    parser.add_argument("--budget", type=int, default=5_000, help="tries to catch a mutant")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument(
        "--keep", action="store_true", help="write into the project which seed caught which mutant"
    )
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(options.seed, options.mutant)
    return _campaign(options)


def _replay(seed: int, mutant: str | None) -> int:
    history = generate(seed)
    with patched(named(mutant) if mutant else None):
        verdict = run_history(history, traced=True)
    print(history.route)
    print(*verdict.trace, sep="\n")
    for violation in verdict.violations:
        print(f"{violation.kind}: {violation.text}")
    print(f"seed {seed}: {len(verdict.violations)} wrong decisions")
    return int(bool(verdict.violations))


def _campaign(options: argparse.Namespace) -> int:
    began = told = time.monotonic()
    for totals in run_seeds(options.first, options.histories, options.workers):
        if time.monotonic() - told >= 30:
            told = time.monotonic()
            spent = told - began
            print(f"{totals.histories} histories in {spent:.0f} s", file=sys.stderr, flush=True)
    spent = time.monotonic() - began
    show_failed(totals)
    kills = kill_mutants(options.budget, options.workers, keep=options.keep)
    for name, kill in kills.items():
        print(f"{name}: {f'history {kill[0]}: {kill[1][:150]}' if kill else 'SURVIVED'}")
    print(f"{totals.histories} histories in {spent:.0f} s: ", end="")
    print(", ".join(f"{count:,} {name}" for name, count in sorted(totals.met.items())))
    for name in totals.missing:
        print(f"never met: {name}")
    wrong = {kind: count for kind, count in totals.wrong.items() if count}
    print(f"wrong decisions by kind: {wrong or 'none'}")
    outcome = closing(totals, kills)
    print(json.dumps(outcome))
    survived = outcome["mutants_killed"] < outcome["mutants"]
    return int(bool(wrong or totals.missing or survived))


if __name__ == "__main__":
    sys.exit(main())
