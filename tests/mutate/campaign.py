"""Mutant after mutant: the cheapest proof that may see it first, and the first kill ends it."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mutate.changes import Change
from mutate.forks import MOST_CPU_S, Request
from mutate.kept import Kept
from mutate.memory import REMEMBERED, Memory
from mutate.rules import ROOT, SOURCE, Subject, proof_hash, read_rules, subjects
from mutate.servers import Server, named_with_servers, proof_server, seed_server
from mutate.swap import write_shadow

_RECENT = 5
_LEAST_CPU_S = 2.0
_TIMES_AS_LONG = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command has to run.

    Attributes:
        seeds: For each mutant, at most.
        wide: Look for a test without servers that kills what survives, whoever names it.
        servers: Run the named tests on servers too.
        watched: First see which test and which seed comes to which line; worth it for many.
        stop_at: Begin no mutant after this moment of the monotonic clock.
        turn: Any text; which mutants a run with an end begins with goes by it.
    """

    seeds: int
    jobs: int
    wide: bool = False
    servers: bool = False
    watched: bool = True
    stop_at: float | None = None
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function."""

    subject: Subject
    change: Change

    @property
    def name(self) -> str:
        """The function, and what is changed in it."""
        return f"{self.subject.named.name}: {self.change.name}"

    @property
    def line(self) -> tuple[str, int]:
        """What has to be come to."""
        return self.subject.named.name, self.change.line


def mutants_of(subjects: Iterable[Subject]) -> list[Mutant]:
    """All of them; a run that is cut short has seen something of everything."""
    found = [Mutant(subject, change) for subject in subjects for change in subject.changes]
    return sorted(found, key=lambda mutant: zlib.crc32(mutant.name.encode()))


def is_due(mutant: Mutant, kept: Kept | None, plan: Plan) -> bool:
    """Whether what is known of it says too little."""
    if kept is None or kept.code != mutant.subject.code:
        return True
    if kept.by:
        return False
    changed = kept.proof != proof_hash(mutant.subject.named.tests)
    return changed or kept.seeds < plan.seeds or (plan.servers and not kept.servers)


def is_killed(mutant: Mutant, kept: Kept | None) -> bool:
    """Whether a test or a seed has killed it as it is."""
    return kept is not None and kept.code == mutant.subject.code and bool(kept.by)


def queue_of(mutants: Sequence[Mutant], known: Mapping[str, Kept], plan: Plan) -> list[Mutant]:
    """What a run judges, in this order: all of which too little is known.

    A run with an end goes on with mutants that were killed before. The least often judged ones come
    first, and among them each source begins with others, so that runs take turns.
    """
    due = [mutant for mutant in mutants if is_due(mutant, known.get(mutant.name), plan)]
    if plan.stop_at is None:
        return due
    again = [mutant for mutant in mutants if is_killed(mutant, known.get(mutant.name))]

    def turn(mutant: Mutant) -> tuple[int, int]:
        mixed = f"{plan.turn} {mutant.name}"
        return known[mutant.name].times, zlib.crc32(mixed.encode())

    return [*due, *sorted(again, key=turn)]


class NotAppliedError(Exception):
    """A mutant that could not be put in the place of the right function."""


@dataclass(slots=True)
class Reach:
    """Which tests and seeds come to which line, the quickest first."""

    tests: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    seeds: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def cpu_s(self, items: Iterable[str]) -> float:
        """More than this of the processor none of them takes, unless it has no end."""
        slowest = max((self.seconds.get(item, MOST_CPU_S) for item in items), default=0.0)
        return min(MOST_CPU_S, _LEAST_CPU_S + _TIMES_AS_LONG * slowest)


def measure(tests: Server, seeds: Server, count: int, memory: Memory) -> Reach:
    """Run once on the right product, lines watched, what is not remembered."""
    reach = Reach()
    for server, items, into in (
        (tests, tests.items, reach.tests),
        (seeds, [str(seed) for seed in range(count)], reach.seeds),
    ):
        unknown = tuple(item for item in items if memory.recall(item) is None)
        for each in server.run(Request(unknown, watched=True)) if unknown else ():
            if each.failure:
                reach.broken.append(f"{each.item}: {each.failure}")
            else:
                memory.keep(each)
        memory.save()
        ran = [known for item in items if (known := memory.recall(item)) is not None]
        if server is tests:
            ran.sort(key=lambda each: each.seconds)
        reach.seconds |= {each.item: each.seconds for each in ran}
        for each in ran:
            for name, line in each.reached:
                into.setdefault((name, line), []).append(each.item)
    return reach


class Campaign:
    """Runs mutants on some workers, each with servers of its own."""

    def __init__(self, plan: Plan, known: dict[str, Kept]) -> None:
        self._plan = plan
        self._known = known
        self._reach: Reach | None = None
        self._recent: dict[str, list[str]] = defaultdict(list)
        self._servers_lock = threading.Lock()

    def run(self, due: Sequence[Mutant], told: Callable[[Kept], None]) -> list[str]:
        """Run what is due.

        Args:
            due: The mutants.
            told: Called with each result, by one thread at a time.

        Returns:
            Which could not be put in place and why, a line each.

        Raises:
            RuntimeError: A test or a seed fails on the right product.
        """
        names = frozenset(name for mutant in due for name in mutant.subject.named.tests)
        waiting, lock = list(reversed(due)), threading.Lock()
        not_applied: list[str] = []
        with tempfile.TemporaryDirectory(prefix="sluiceway-mutate-") as scratch:
            if self._plan.servers:
                shutil.copytree(SOURCE, Path(scratch) / "src")

            def work(number: int) -> None:
                place = Path(scratch) / f"worker-{number}"
                wanted = None if self._plan.wide else names
                with proof_server(place, wanted) as tests, seed_server() as seeds:
                    with lock:
                        if self._plan.watched and self._reach is None:
                            self._reach = self._measured(tests, seeds)
                    worker = _Worker(self, tests, seeds, Path(scratch) / "src")
                    while True:
                        with lock:
                            over = self._plan.stop_at is not None
                            over = over and time.monotonic() > (self._plan.stop_at or 0.0)
                            if over or not waiting:
                                return
                            mutant = waiting.pop()
                        try:
                            kept = worker.judge(mutant)
                        except NotAppliedError as error:
                            not_applied.append(f"{mutant.name}: {error}")
                            continue
                        with lock:
                            told(kept)

            with ThreadPoolExecutor(self._plan.jobs) as pool:
                list(pool.map(work, range(self._plan.jobs)))
        return not_applied

    def _measured(self, tests: Server, seeds: Server) -> Reach:
        memory = Memory(REMEMBERED, {subject.named.name for subject in subjects(read_rules())})
        reach = measure(tests, seeds, self._plan.seeds, memory)
        if reach.broken:
            raise RuntimeError("fails without any change:\n" + "\n".join(reach.broken))
        return reach


class _Worker:
    def __init__(self, campaign: Campaign, tests: Server, seeds: Server, shadow: Path) -> None:
        self._plan = campaign._plan
        self._known = campaign._known
        self._reach = campaign._reach
        self._recent = campaign._recent
        self._servers_lock = campaign._servers_lock
        self._tests = tests
        self._seeds = seeds
        self._shadow = shadow
        self._spent = 0.0

    def judge(self, mutant: Mutant) -> Kept:
        """Who kills it, if anybody does.

        Raises:
            NotAppliedError: It cannot be put in place.
        """
        self._spent = 0.0
        known = self._known.get(mutant.name)
        is_same = known is not None and known.code == mutant.subject.code
        last = known.by if known is not None else ""
        named, others = self._tests_for(mutant)
        seeds = self._seeds_for(mutant)
        by = self._killed_by(mutant, [item for item in (last,) if item in named], [
            seed for seed in seeds if f"seed {seed}" == last
        ])  # fmt: skip
        by = by or self._killed_by(mutant, named, seeds)
        if not by and self._plan.servers:
            by = self._killed_on_servers(mutant)
        unnamed = ""
        if not by and self._plan.wide:
            unnamed = self._first_failing(self._tests, mutant, others)
        return Kept(
            mutant=mutant.name,
            code=mutant.subject.code,
            proof=proof_hash(mutant.subject.named.tests),
            by=by,
            seeds=0 if by else self._plan.seeds,
            servers=self._plan.servers and not by,
            unnamed=unnamed,
            seconds=round(self._spent, 2),
            times=1 + (known.times if known is not None and is_same else 0),
        )

    def _tests_for(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Tests without servers: the tests that its rules name, and all others."""
        if self._reach is None:
            # Tests that speak of the module come first.
            module = Path(mutant.subject.named.path).stem
            items = sorted(self._tests.items, key=lambda item: module not in _text_of(item))
        else:
            items = self._reach.tests.get(mutant.line, [])
        wanted = mutant.subject.named.tests
        named = [item for item in items if _function_of(item) in wanted]
        return named, [item for item in items if _function_of(item) not in wanted]

    def _seeds_for(self, mutant: Mutant) -> list[str]:
        seeds = [str(seed) for seed in range(self._plan.seeds)]
        if self._reach is not None:
            seeds = self._reach.seeds.get(mutant.line, [])
        recent = [seed for seed in self._recent[mutant.subject.named.name] if seed in seeds]
        return [*recent, *(seed for seed in seeds if seed not in recent)]

    def _killed_by(self, mutant: Mutant, tests: Sequence[str], seeds: Sequence[str]) -> str:
        by = self._first_failing(self._tests, mutant, tests)
        if by:
            return by
        seed = self._first_failing(self._seeds, mutant, seeds)
        if not seed:
            return ""
        recent = self._recent[mutant.subject.named.name]
        if seed not in recent:
            self._recent[mutant.subject.named.name] = [seed, *recent][:_RECENT]
        return f"seed {seed}"

    def _first_failing(self, server: Server, mutant: Mutant, items: Sequence[str]) -> str:
        if not items:
            return ""
        cpu_s = MOST_CPU_S if self._reach is None else self._reach.cpu_s(items)
        named = mutant.subject.named.name
        request = Request(tuple(items), named, mutant.change.name, cpu_s=cpu_s)
        failing = ""
        for ran in server.run(request):
            self._spent += ran.seconds
            if ran.failure.startswith("child: "):
                raise NotAppliedError(ran.failure.rstrip().rpartition("\n")[2])
            failing = ran.item if ran.failure else failing
        return failing

    def _killed_on_servers(self, mutant: Mutant) -> str:
        """By a test that starts processes of its own: they import a changed copy of the source."""
        for test in named_with_servers(mutant.subject.named.tests):
            with self._servers_lock:
                put_back = write_shadow(mutant.subject, mutant.change, self._shadow)
                try:
                    done = _run_on_servers(test, self._shadow)
                finally:
                    put_back()
            if done == 1:
                return test
            if done:
                raise RuntimeError(f"{test}: pytest ended with {done}")
        return ""


@cache
def _text_of_file(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def _text_of(item: str) -> str:
    return _text_of_file(item.partition("::")[0])


def _function_of(item: str) -> str:
    return item.partition("[")[0].rpartition("::")[2]


def _run_on_servers(test: str, shadow: Path) -> int:
    path, _, name = test.partition("::")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", path]
    done = subprocess.run(
        [*command, "-k", name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(shadow)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode
