"""Many seeds and all mutants, on several processes; what is kept of it."""

import json
import multiprocessing
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from sim.mutants import MUTANTS, Mutant, patched
from sim.simulation import Outcome, simulate
from tools.last_kills import LastKills
from tools.mutant_fit import refuse_outdated

KEPT = Path(__file__).parents[2] / "bench" / "results" / "sim.jsonl"
LAST_KILLS = LastKills(Path(__file__).parent / "last_kills.json", "sim")
Item = TypeVar("Item")
Done = TypeVar("Done")
_CHUNK = 50
_RARE = 1500
_TRACE_LINES = 60
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """One line of the kept results.

    Attributes:
        commit: Of the code; ends in `-dirty` when it was changed since.
        first: First seed; `last` belongs to it.
        seconds: On the clock, with `jobs` processes.
    """

    commit: str
    first: int
    last: int
    steps: int
    violations: int
    mutants: int
    mutants_killed: int
    seconds: float
    jobs: int


@dataclass(slots=True)
class Totals:
    """What a run of seeds adds up to."""

    seeds: int = 0
    steps: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    broken: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Take a seed in."""
        self.seeds += 1
        self.steps += outcome.steps
        self.seen += outcome.seen
        if outcome.violation:
            self.broken.append(outcome)


def _run_chunk(often: frozenset[str], seeds: range) -> list[Outcome]:
    return [simulate(seed, often=often) for seed in seeds]


def run_seeds(first: int, count: int, jobs: int, often: frozenset[str] = frozenset()) -> Totals:
    """Run `count` seeds from `first` on, in worlds with that often; each violation is kept."""
    totals = Totals()
    last = first + count
    chunks = [range(at, min(at + _CHUNK, last)) for at in range(first, last, _CHUNK)]
    for outcomes in _spread(partial(_run_chunk, often), chunks, jobs):
        for outcome in outcomes:
            totals.add(outcome)
    return totals


def _first_kill(budget: int, name: str) -> Outcome | None:
    """The first seed that catches the mutant; None when none of the budget does.

    The seed that caught it last comes first.
    """
    mutant = named(name)
    with patched(mutant):
        for seed in [*LAST_KILLS.seeds(name), *range(budget)]:
            outcome = simulate(seed, often=mutant.often)
            if outcome.violation:
                refuse_outdated(name, outcome.violation)
                return outcome
    return None


def _without_broken(
    kills: dict[str, Outcome | None], totals: Totals, ran: range, jobs: int
) -> dict[str, Outcome | None]:
    """Kills by seeds that break nothing without the mutant; the others are added to the broken.

    Args:
        kills: Of each mutant.
        totals: Of the seeds that were run without one.
        ran: These seeds.
        jobs: Processes.
    """
    worlds = {(outcome.seed, outcome.often) for outcome in kills.values() if outcome}
    worlds -= {(seed, frozenset()) for seed in ran}
    ordered = sorted(worlds, key=lambda world: (world[0], sorted(world[1])))
    totals.broken += [alone for alone in _spread(_simulate_in, ordered, jobs) if alone.violation]
    broken = {(alone.seed, alone.often) for alone in totals.broken}
    return {
        name: outcome if outcome and (outcome.seed, outcome.often) not in broken else None
        for name, outcome in kills.items()
    }


def _simulate_in(world: tuple[int, frozenset[str]]) -> Outcome:
    seed, often = world
    return simulate(seed, often=often)


def named(name: str) -> Mutant:
    """The mutant of that name.

    Raises:
        LookupError: There is none.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise LookupError(f"no mutant {name}; there are {', '.join(each.name for each in MUTANTS)}")


def kill_mutants(budget: int, jobs: int) -> dict[str, Outcome | None]:
    """Which seed catches which mutant, of the first `budget` seeds."""
    names = [mutant.name for mutant in MUTANTS if budget >= _RARE or not mutant.rare]
    kills = _spread(partial(_first_kill, budget), names, jobs)
    return dict(zip(names, kills, strict=True))


def _spread(work: Callable[[Item], Done], items: Sequence[Item], jobs: int) -> Iterator[Done]:
    if jobs == 1:
        yield from map(work, items)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(work, items)


def show_broken(totals: Totals) -> None:
    """Print the violations, and of the first ones the end of their trace."""
    for outcome in totals.broken[:_MOST_SHOWN]:
        again = simulate(outcome.seed, traced=True, often=outcome.often)
        print(f"seed {outcome.seed}: {outcome.violation}")
        for line in again.trace[-_TRACE_LINES:]:
            print(f"    {line[:240]}")
        often = f" OFTEN={','.join(sorted(outcome.often))}" if outcome.often else ""
        print(f"    make proofs NAME=sim SEED={outcome.seed}{often} shows all of it")
    for outcome in totals.broken[_MOST_SHOWN:]:
        print(f"seed {outcome.seed}: {outcome.violation}")


def read_kept(path: Path) -> list[Kept]:
    """All lines of the kept results; none when there are none."""
    if not path.exists():
        return []
    return [Kept(**json.loads(line)) for line in path.read_text().splitlines() if line]


def next_seed(path: Path) -> int:
    """The first seed that no kept run has had."""
    return max((kept.last + 1 for kept in read_kept(path)), default=0)


def keep(path: Path, kept: Kept) -> None:
    """Add a line to the kept results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(kept)) + "\n")


def commit_name() -> str:
    """Of the code that runs; `unknown` outside of a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        found = subprocess.run(
            command, cwd=KEPT.parent.parent, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return "unknown"
    return found.stdout.strip() or "unknown"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command has to run."""

    first: int
    seeds: int
    budget: int
    jobs: int
    results: Path | None
    often: frozenset[str] = frozenset()


def run_campaign(plan: Plan) -> int:
    """Run the seeds and the mutants; the last line printed is JSON. 0 when all is well."""
    commit, began = commit_name(), time.monotonic()
    totals = run_seeds(plan.first, plan.seeds, plan.jobs, plan.often)
    seconds = time.monotonic() - began
    kills = kill_mutants(plan.budget, plan.jobs) if plan.budget else {}
    kills = _without_broken(kills, totals, range(plan.first, plan.first + plan.seeds), plan.jobs)
    show_broken(totals)
    for name, outcome in kills.items():
        found = f"seed {outcome.seed}: {outcome.violation[:140]}" if outcome else "SURVIVED"
        print(f"{name}: {found}")
    killed = sum(outcome is not None for outcome in kills.values())
    last = plan.first + plan.seeds - 1
    minute = round(totals.seeds * 60 / seconds) if seconds else 0
    seen = ", ".join(f"{count:,} {name}" for name, count in sorted(totals.seen.items()))
    print(f"seeds {plan.first} to {last} in {seconds:.0f} s, {minute:,} a minute: {seen}")
    violations = len(totals.broken)
    if plan.results is not None and plan.seeds:
        times = (round(seconds, 1), plan.jobs)
        counts = (totals.steps, violations, len(kills), killed)
        keep(plan.results, Kept(commit, plan.first, last, *counts, *times))
    caught = {name: outcome.seed for name, outcome in kills.items() if outcome}
    LAST_KILLS.note(caught, keep=plan.results is not None)
    closing = {
        "seeds": totals.seeds,
        "steps": totals.steps,
        "violations": violations,
        "mutants": len(kills),
        "mutants_killed": killed,
    }
    print(json.dumps(closing))
    return int(violations > 0 or killed < len(kills))
