"""Check the models from the command line; the last line of output is JSON.

python -m model --small            all mutants and the small cases, under a minute
python -m model --large            all mutants and the large cases; goes on where it stopped
python -m model --large --only packs
"""

import argparse
import json
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from model.cases import LARGE, MUTANTS, SMALL, Case, check_case, check_mutant
from model.checker import Limits
from model.results import KEPT, Result, keep_result, kept_result, read_results, result_of

_MOST_BYTES = 12 << 30


@dataclass(slots=True)
class _Totals:
    states: int = 0
    violations: int = 0
    unfinished: int = 0
    killed: int = 0


def main() -> int:
    """Run what the arguments say; 0 when all holds and every mutant dies."""
    arguments = _parse()
    limits = Limits(seconds=arguments.seconds)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    del soft
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, hard))
    totals = _Totals()
    for case in LARGE if arguments.large else SMALL:
        if arguments.only in case.name:
            result = _result(case, limits, arguments.results if arguments.large else None)
            totals.states += result.states if result.verdict == "holds" else 0
            totals.violations += result.verdict == "violated"
            totals.unfinished += result.verdict == "incomplete"
    mutants = [mutant for mutant in MUTANTS if arguments.only in mutant.name]
    for mutant in mutants:
        verdict = check_mutant(mutant, limits)
        totals.killed += verdict.violation is not None
        print(f"{mutant.name}: {verdict.violation or 'SURVIVED'} (depth {verdict.depth})")
        print(f"    {'; '.join(verdict.trace)}", flush=True)
    closing = {
        "states": totals.states,
        "violations": totals.violations,
        "mutants": len(mutants),
        "mutants_killed": totals.killed,
    }
    print(json.dumps(closing))
    return int(totals.violations + totals.unfinished > 0 or totals.killed < len(mutants))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--small", action="store_true", help="bounds of the test suite")
    size.add_argument("--large", action="store_true", help="bounds of `make proofs NAME=model`")
    parser.add_argument("--only", default="", help="cases and mutants with this in their name")
    parser.add_argument("--seconds", type=float, default=600.0, help="longest time for a case")
    parser.add_argument("--results", type=Path, default=KEPT, help="kept results of large cases")
    return parser.parse_args()


def _result(case: Case, limits: Limits, kept: Path | None) -> Result:
    result = kept_result(case, read_results(kept)) if kept is not None else None
    origin = "kept"
    if result is None:
        verdict = check_case(case, limits)
        result, origin = result_of(case, verdict), "checked"
        if verdict.violation is not None:
            print(f"{case.name}: {verdict.violation}\n    {'; '.join(verdict.trace)}")
        if kept is not None:
            keep_result(kept, result)
    print(
        f"{case.name}: {result.verdict}, {result.states:,} states, {result.steps:,} steps, "
        f"depth {result.depth}, {result.seconds:.0f} s ({origin})",
        flush=True,
    )
    return result


if __name__ == "__main__":
    sys.exit(main())
