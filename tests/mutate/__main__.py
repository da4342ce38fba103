"""Change the code that the page of rules names, and see whether its proof notices; ends with JSON.

python -m mutate                      mutants of which too little is known; goes on where it stopped
python -m mutate --only PATTERN       those whose name matches, whatever is known
python -m mutate --rules R4,R5        those of some rules
python -m mutate --seconds 1800       in half an hour: these, then some that were killed before
python -m mutate --seconds 0          judges none: do all mutants, rules and kept names apply?
python -m mutate --drop               forgets kept results of lines that are not so any more
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

from mutate.applied import lost_names, lost_rules, unmade_changes
from mutate.campaign import Campaign, Mutant, Plan, is_killed, mutants_of, queue_of
from mutate.kept import EQUIVALENT, KEPT, Kept, drop, keep, read_equivalent, read_kept, tidy
from mutate.memory import source_hash
from mutate.rules import read_rules, subjects


def main() -> int:
    """Run what the arguments say; 0 when all apply and none survives."""
    given = _parse()
    path = None if given.results == Path("-") else given.results
    rules = read_rules()
    if lost := list(lost_rules(rules)):
        return _close({"not_applied": lost, "survived": []}, {})
    everything = mutants_of(subjects(rules))
    made = {mutant.name for mutant in everything}
    if given.drop:
        print("\n".join(drop(given.results, made)))
        return 0
    mutants = _chosen(given, everything)
    if given.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    known, equivalent = read_kept(path), read_equivalent()
    not_applied = [
        *lost_names(equivalent, made, EQUIVALENT.name),
        *lost_names(known, made, KEPT.name),
        *unmade_changes({id(mutant.subject): mutant.subject for mutant in mutants}.values()),
    ]
    began = time.monotonic()
    plan = Plan(
        seeds=given.seeds,
        jobs=given.jobs,
        wide=given.wide,
        servers=given.servers,
        watched=not given.only,
        stop_at=None if given.seconds is None else began + given.seconds,
        turn=source_hash(),
    )
    judged = 0

    def told(kept: Kept) -> None:
        nonlocal judged
        judged += 1
        known[kept.mutant] = kept
        if path is not None:
            keep(path, kept)
        by = kept.by or ("SURVIVED" + (f", but {kept.unnamed}" if kept.unnamed else ""))
        print(f"{judged} of {len(queue)}, {kept.seconds:.1f} s: {kept.mutant}: {by}", flush=True)

    queue = _queue(given, mutants, known, equivalent, plan)
    if queue and given.seconds != 0:
        not_applied += Campaign(plan, known).run(queue, told)
    if path is not None:
        tidy(path)
    print(f"{judged} mutants in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return _close(
        {"not_applied": not_applied, "survived": _survived(mutants, known, equivalent)},
        _counts(mutants, known, equivalent) | {"judged": judged},
    )


def _queue(
    given: argparse.Namespace,
    mutants: list[Mutant],
    known: dict[str, Kept],
    equivalent: dict[str, str],
    plan: Plan,
) -> list[Mutant]:
    if given.only:
        return mutants
    asked = [mutant for mutant in mutants if mutant.name not in equivalent]
    if given.again:
        return [mutant for mutant in asked if not is_killed(mutant, known.get(mutant.name))]
    return queue_of(asked, known, plan)


def _survived(
    mutants: list[Mutant], known: dict[str, Kept], equivalent: dict[str, str]
) -> list[str]:
    """Who lives through all that was asked, a line each."""
    found = []
    for mutant in mutants:
        kept = known.get(mutant.name)
        if mutant.name in equivalent or kept is None or kept.code != mutant.subject.code:
            continue
        if not kept.by:
            rules = " ".join(mutant.subject.named.rules)
            found.append(f"{rules} {mutant.name} {kept.unnamed}".rstrip())
    return found


def _counts(
    mutants: list[Mutant], known: dict[str, Kept], equivalent: dict[str, str]
) -> dict[str, int]:
    """What there is, and what is known of it; `left` has no verdict as its function is."""
    asked = [mutant for mutant in mutants if mutant.name not in equivalent]
    verdicts = [known[each.name] for each in asked if each.name in known]
    codes = {mutant.name: mutant.subject.code for mutant in asked}
    current = [kept for kept in verdicts if kept.code == codes[kept.mutant]]
    return {
        "rules": len({rule for mutant in mutants for rule in mutant.subject.named.rules}),
        "mutants": len(mutants),
        "killed": sum(bool(kept.by) for kept in current),
        "equivalent": len(mutants) - len(asked),
        "left": len(asked) - len(current),
    }


def _close(found: dict[str, list[str]], counts: dict[str, int]) -> int:
    """Print what is wrong, and the closing line."""
    for kind, lines in found.items():
        for line in lines:
            print(f"{kind.replace('_', ' ').upper()} {line}")
    print(json.dumps(counts | {kind: len(lines) for kind, lines in found.items()}))
    return int(any(found.values()))


def _chosen(given: argparse.Namespace, everything: list[Mutant]) -> list[Mutant]:
    wanted = set(given.rules.split(",")) if given.rules else set()
    found = [
        mutant for mutant in everything
        if not wanted or wanted.intersection(mutant.subject.named.rules)
    ]  # fmt: skip
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
    parser.add_argument("--drop", action="store_true", help="forget results that do not apply")
    parser.add_argument("--list", action="store_true", help="names, and nothing else")
    parser.add_argument("--seeds", type=int, default=300, help="for each mutant, at most")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at one time")
    parser.add_argument(
        "--seconds",
        type=float,
        help="begin none after this time; until then also judge again those that were killed",
    )
    parser.add_argument("--results", type=Path, default=KEPT, help="kept results; - keeps none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
