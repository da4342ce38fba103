"""Many histories and all mutants, on several processes."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from readiness_oracle.count_mutants import COUNT_MUTANTS
from readiness_oracle.generate import generate
from readiness_oracle.history import History
from readiness_oracle.judge import EARLY, SILENT, STUCK
from readiness_oracle.mutants import MUTANTS, named, patched
from readiness_oracle.product import ProductDecider
from readiness_oracle.shrink import shrunk
from readiness_oracle.simulate import Verdict, simulate
from tools.last_kills import LastKills

MUST_MEET = (
    "ready",
    "ready, empty",
    "ready, ends in a fold",
    "row in a fold",
    "late, closed",
    "late, beyond the window",
    "reopened",
    "out of order",
    "future row",
    "dirty",
    "idle source",
    "all idle",
    "no source at all",
    "watermark beside the epochs",
    "open transaction",
    "no log end",
    "straggler",
    "new source",
    "retired source",
    "source comes back",
    "source comes back to rows",
    "held by one without a row",
    "idle without a row",
    "clock ahead",
    "clock behind",
    "restart",
    "restart, one in flight",
    "rescale",
    "thrown away",
    "two thrown away",
    "announced with one in flight",
    "reset back",
    "reset forward",
    "counts, beside",
    "counts, before",
    "counts, after",
    "count before `since`",
    "count for a closed hour",
    "count goes up",
    "count goes down",
    "same count again",
    "closed as the count came",
    "closed as the last rows came",
    "waits, no count",
    "waits, too few rows",
    "ready, counted",
    "ready, counted and empty",
    "ready, more rows than counted",
    "ready, before `since`",
    "ready, ahead of the watermark",
    "late, closed ahead of the watermark",
    "restart, a count waits",
    "open behind a closed one",
)
"""What has to occur in every campaign: a generator that ceases to make it proves nothing of it."""

LAST_KILLS = LastKills(Path(__file__).parent / "last_kills.json", "readiness")

_CHUNK = 100
_SHOWN = 3


@dataclass(slots=True)
class Totals:
    """What histories add up to."""

    histories: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, str]] = field(default_factory=list)

    def add(self, seed: int, verdict: Verdict) -> None:
        """Take one history in; it counts once for each kind of wrong decision."""
        self.histories += 1
        self.met += verdict.met
        self.wrong.update({violation.kind for violation in verdict.violations})
        if verdict.violations:
            first = verdict.violations[0]
            self.failed.append((seed, f"{first.kind}: {first.text}"))

    def join(self, other: "Totals") -> None:
        """Take those of another process in."""
        self.histories += other.histories
        self.wrong += other.wrong
        self.met += other.met
        self.failed += other.failed

    @property
    def missing(self) -> list[str]:
        """Situations that never occurred."""
        return [name for name in MUST_MEET if not self.met[name]]


def run_history(history: History, *, traced: bool = False) -> Verdict:
    """One history against the product."""
    return simulate(history, ProductDecider, traced=traced)


def _run_chunk(seeds: range) -> Totals:
    totals = Totals()
    for seed in seeds:
        totals.add(seed, run_history(generate(seed)))
    return totals


def run_seeds(first: int, count: int, jobs: int) -> Iterator[Totals]:
    """Run histories; yields all so far, now and then."""
    totals, last = Totals(), first + count
    chunks = [range(at, min(at + _CHUNK, last)) for at in range(first, last, _CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            totals.join(_run_chunk(chunk))
            yield totals
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for each in pool.imap_unordered(_run_chunk, chunks):
            totals.join(each)
            yield totals


def _first_kill(budget: int, name: str) -> tuple[int, str] | None:
    mutant = named(name)
    with patched(mutant):
        for seed in chain(LAST_KILLS.seeds(name), range(budget)):
            history = generate(seed)
            if mutant in COUNT_MUTANTS and history.route.counts is None:
                # It does nothing there.
                continue
            verdict = run_history(history)
            if verdict.violations:
                return seed, f"{verdict.violations[0].kind}: {verdict.violations[0].text}"
    return None


def kill_mutants(
    budget: int, jobs: int, *, keep: bool = False
) -> dict[str, tuple[int, str] | None]:
    """Which history catches which mutant: the one that did so last, or one of the first `budget`.

    What has caught them is remembered for the next time.
    """
    names = [mutant.name for mutant in MUTANTS]
    work = partial(_first_kill, budget)
    if jobs == 1:
        kills = dict(zip(names, map(work, names), strict=True))
    else:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            kills = dict(zip(names, pool.map(work, names, chunksize=1), strict=True))
    LAST_KILLS.note({name: kill[0] for name, kill in kills.items() if kill}, keep=keep)
    return kills


def closing(totals: Totals, kills: dict[str, tuple[int, str] | None]) -> dict[str, int]:
    """The outcome as it is printed."""
    return {
        "histories": totals.histories,
        EARLY: totals.wrong[EARLY],
        SILENT: totals.wrong[SILENT],
        STUCK: totals.wrong[STUCK],
        "mutants": len(kills),
        "mutants_killed": sum(kill is not None for kill in kills.values()),
    }


def show_failed(totals: Totals) -> None:
    """Print what was wrong, the first ones as small as they get."""
    for seed, text in sorted(totals.failed)[:_SHOWN]:
        print(f"seed {seed}: {text}")
        small = shrunk(generate(seed), run_history)
        for line in (
            *run_history(small, traced=True).trace,
            f"make proofs NAME=readiness-oracle SEED={seed}",
        ):
            print(f"    {line[:300]}")
    for seed, text in sorted(totals.failed)[_SHOWN : 10 * _SHOWN]:
        print(f"seed {seed}: {text}")
