"""Change the code that docs/rules.md names, and see whether its proof notices; ends with JSON.

python -m mutate                      mutants of which too little is known; goes on where it stopped
python -m mutate --only PATTERN       those whose name matches, whatever is known
python -m mutate --rules R4,R5        those of some rules
python -m mutate --wide               looks also for tests that no rule names
python -m mutate --servers            runs the named tests on servers too
python -m mutate --list               their names
"""

import argparse
import json
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

from mutate.campaign import Campaign, Mutant, Plan, is_due, mutants_of
from mutate.kept import KEPT, Kept, keep, read_equivalent, read_kept, tidy
from mutate.rules import read_rules, subjects


def main() -> int:
    """Run what the arguments say; 0 when every mutant is killed or explained."""
    given = _parse()
    path = None if given.results == Path("-") else given.results
    mutants = _chosen(given)
    if given.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    known, equivalent = read_kept(path), read_equivalent()
    stop_at = None if given.seconds is None else time.monotonic() + given.seconds
    plan = Plan(
        seeds=given.seeds,
        jobs=given.jobs,
        wide=given.wide,
        servers=given.servers,
        watched=not given.only,
        stop_at=stop_at,
    )
    due = [
        mutant for mutant in mutants
        if mutant.name not in equivalent or given.only
        if given.only or (given.again and not _killed(known, mutant))
        or is_due(mutant, known.get(mutant.name), plan)
    ]  # fmt: skip
    began, done = time.monotonic(), 0

    def told(kept: Kept) -> None:
        nonlocal done
        done += 1
        known[kept.mutant] = kept
        if path is not None:
            keep(path, kept)
        by = kept.by or ("SURVIVED" + (f", but {kept.unnamed}" if kept.unnamed else ""))
        print(f"{done} of {len(due)}, {kept.seconds:.1f} s: {kept.mutant}: {by}", flush=True)

    if due:
        Campaign(plan, known).run(due, told)
    if path is not None:
        tidy(path, {mutant.name for mutant in mutants_of(subjects(read_rules()))})
    print(f"{done} mutants in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return _close(mutants, known, equivalent)


def _killed(known: dict[str, Kept], mutant: Mutant) -> bool:
    kept = known.get(mutant.name)
    return kept is not None and kept.code == mutant.subject.code and bool(kept.by)


def _close(mutants: list[Mutant], known: dict[str, Kept], equivalent: dict[str, str]) -> int:
    """Print who survives, and the closing line."""
    explained = [mutant for mutant in mutants if mutant.name in equivalent]
    killed = [mutant for mutant in mutants if _killed(known, mutant)]
    judged = [
        mutant for mutant in mutants
        if mutant.name in known and known[mutant.name].code == mutant.subject.code
    ]  # fmt: skip
    survived = [
        mutant for mutant in judged if mutant not in killed and mutant.name not in equivalent
    ]
    for mutant in survived:
        rules = " ".join(mutant.subject.named.rules)
        print(f"SURVIVED {rules} {mutant.name} {known[mutant.name].unnamed}".rstrip())
    closing = {
        "rules": len({rule for mutant in mutants for rule in mutant.subject.named.rules}),
        "mutants": len(mutants),
        "killed": len([mutant for mutant in killed if mutant.name not in equivalent]),
        "equivalent": len(explained),
        "survived": len(survived),
        "not_run": len(mutants) - len(
            {mutant.name for mutant in (*judged, *explained)}
        ),
    }  # fmt: skip
    print(json.dumps(closing))
    return int(closing["killed"] + closing["equivalent"] < closing["mutants"])


def _chosen(given: argparse.Namespace) -> list[Mutant]:
    rules = read_rules()
    wanted = set(given.rules.split(",")) if given.rules else {rule.name for rule in rules}
    found = mutants_of(subjects([rule for rule in rules if rule.name in wanted]))
    if not given.only:
        return found
    chosen: dict[str, Mutant] = {}
    for pattern in given.only:
        named = [
            mutant for mutant in found
            if mutant.name == pattern or fnmatchcase(mutant.name, pattern)
        ]  # fmt: skip
        if not named:
            raise SystemExit(f"error: no mutant is named {pattern}")
        chosen.update({mutant.name: mutant for mutant in named})
    return list(chosen.values())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mutate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", help="name of a mutant, or a shell pattern")
    parser.add_argument("--rules", default="", help="of these rules only, by comma")
    parser.add_argument("--again", action="store_true", help="also what has survived before")
    parser.add_argument("--wide", action="store_true", help="look for tests that no rule names")
    parser.add_argument("--servers", action="store_true", help="the named tests on servers too")
    parser.add_argument("--list", action="store_true", help="names, and nothing else")
    parser.add_argument("--seeds", type=int, default=300, help="for each mutant, at most")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at one time")
    parser.add_argument("--seconds", type=float, help="begin no mutant after this time")
    parser.add_argument("--results", type=Path, default=KEPT, help="kept results; - keeps none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
