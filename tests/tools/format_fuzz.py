"""Feeds damaged payloads to the decoders of formats, in processes that are watched.

`python -m tools.format_fuzz --format all --payloads 1000000 --workers 2` in `tests/`

Whatever comes, a decoder answers for every payload, with a row, a dirty row, or skipped, and as it
answers for that payload alone. The last line of output is JSON; the exit code is 1 when any of
this failed.
"""

import argparse
import json
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from sluiceway.formats.contract import Decoded, RowDecoder
from tools.fuzz_subjects import SUBJECTS, Subject
from tools.payload_damage import HUGE_BYTES, damaged, huge

BATCH = 250
# Of a batch so many payloads are decoded alone too.
ALONE = 5
HANG_S = 300.0
# A process starts, and imports what it needs, in this time on the busiest machine.
START_S = 600.0
MAX_HUGE = 20
MAX_MIB = 6_000
# A decoder serves so many batches, as in a task, before a new one takes over.
BATCHES_A_DECODER = 20
_SHOWN = 5


@dataclass(slots=True)
class FuzzReport:
    """What came of the payloads.

    Attributes:
        crashes: Batches in which a decoder raised, or its process died.
        hangs: Batches without an answer in time.
        unaccounted: Payloads without an outcome, or with another one than alone.
        rows: Payloads that became rows.
        dirty: Payloads that became dirty rows.
        skipped: Payloads that were skipped.
        huge: Payloads with a text of 100 MB.
        peak_mib: Most memory that a process held.
        examples: The first faults, for people.
    """

    format: str
    payloads: int = 0
    crashes: int = 0
    hangs: int = 0
    unaccounted: int = 0
    rows: int = 0
    dirty: int = 0
    skipped: int = 0
    huge: int = 0
    peak_mib: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, batch: dict[str, Any]) -> None:
        """Take in a batch's findings."""
        for name in ("payloads", "crashes", "hangs", "unaccounted", "rows", "dirty", "skipped"):
            setattr(self, name, getattr(self, name) + batch.get(name, 0))
        self.huge += batch.get("huge", 0)
        self.peak_mib = max(self.peak_mib, batch.get("peak_mib", 0))
        self.examples += batch.get("examples", [])[: _SHOWN - len(self.examples)]

    @property
    def sound(self) -> bool:
        """Whether all is as it has to be."""
        return not (self.crashes or self.hangs or self.unaccounted) and self.peak_mib <= MAX_MIB

    def shown(self) -> dict[str, Any]:
        """For the last line."""
        found = asdict(self)
        del found["examples"]
        return found


def outcomes(decoded: Decoded, count: int) -> list[object]:
    """What became of each payload, `lost` for one that is nowhere or twice."""
    found: list[object] = ["skipped"] * count
    taken: set[int] = set()
    rows = zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True)
    for index, outcome in (
        *((index, repr(row)) for index, row in rows),
        *((row.index, (row.stage, row.reason, row.path, row.message)) for row in decoded.dirty),
    ):
        if not 0 <= index < count or index in taken:
            return ["lost"] * count
        taken.add(index)
        found[index] = outcome
    return found if count - len(taken) == decoded.skipped else ["lost"] * count


def judge(
    decoder: RowDecoder, payloads: Sequence[bytes | None], alone: Sequence[tuple[int, RowDecoder]]
) -> dict[str, Any]:
    """Decode a batch and hold it against what was promised.

    Args:
        decoder: Decodes the batch.
        payloads: The batch.
        alone: Positions that are decoded on their own too, each with a decoder.
    """
    decoded = decoder.decode(payloads)
    decoded.rows.validate(full=True)
    found = outcomes(decoded, len(payloads))
    wrong = [f"{payloads[at]!r:.200} is lost" for at, one in enumerate(found) if one == "lost"]
    for place, other in alone:
        (wanted,) = outcomes(other.decode([payloads[place]]), 1)
        if found[place] != wanted:
            wrong.append(f"{payloads[place]!r:.200}: {found[place]!s:.200}, alone {wanted!s:.200}")
    return {
        "payloads": len(payloads),
        "rows": len(decoded.indices),
        "dirty": len(decoded.dirty),
        "skipped": decoded.skipped,
        "unaccounted": len(wrong),
        "examples": wrong[:_SHOWN],
    }


class Batches:
    """The batches of a format, each from its number. One process.

    Args:
        subject: The format.
        huge_bytes: Size of huge payloads.
    """

    def __init__(self, subject: Subject, huge_bytes: int = HUGE_BYTES) -> None:
        self._subject = subject
        self._huge_bytes = huge_bytes
        self._decoders: dict[int, tuple[RowDecoder, int]] = {}
        self._lone = [make() for make in subject.decoders]

    def run(self, number: int, count: int, *, with_huge: bool) -> dict[str, Any]:
        """Make and judge a batch.

        Args:
            number: Seed of the batch.
            count: Payloads in it.
            with_huge: One of them is huge.
        """
        pick = random.Random(number)  # noqa: S311
        kind = number % len(self._subject.decoders)
        payloads = [damaged(self._subject.payload, pick) for _ in range(count)]
        if with_huge:
            sound = self._subject.payload(pick)
            payloads[pick.randrange(count)] = huge(sound, pick, self._huge_bytes)
        places = pick.sample(range(count), min(ALONE, count))
        found = judge(self._decoder(kind), payloads, [(at, self._lone[kind]) for at in places])
        return {**found, "huge": int(with_huge)}

    def _decoder(self, kind: int) -> RowDecoder:
        decoder, used = self._decoders.get(kind, (None, 0))
        if decoder is None or used >= BATCHES_A_DECODER:
            decoder, used = self._subject.decoders[kind](), 0
        self._decoders[kind] = (decoder, used + 1)
        return decoder


@dataclass(frozen=True, slots=True)
class Work:
    """What one process does: batches `first`, `first + step`, ... below `end`."""

    format: str
    first: int
    step: int
    end: int
    seed: int
    huge_every: int
    batch: int = BATCH


def run_batches(work: Work, answers: Connection) -> None:
    """Called in a process of its own; answers once before a batch, with its number, once after."""
    batches = Batches(SUBJECTS[work.format])
    for number in range(work.first, work.end, work.step):
        answers.send(number)
        with_huge = bool(work.huge_every) and number % work.huge_every == work.huge_every - 1
        try:
            found = batches.run(work.seed + number, work.batch, with_huge=with_huge)
        except Exception as error:  # noqa: BLE001 - any error is what is looked for
            batches = Batches(SUBJECTS[work.format])
            text = "".join(traceback.format_exception(error)[-3:])
            found = {"payloads": work.batch, "crashes": 1, "examples": [f"batch {number}: {text}"]}
        found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        answers.send(found)


@dataclass(slots=True)
class _Worker:
    work: Work
    process: BaseProcess
    answers: Connection
    number: int
    since: float
    begun: bool = False


def _started(work: Work) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=run_batches, args=(work, there), daemon=True)
    process.start()
    there.close()
    return _Worker(work, process, here, work.first, time.monotonic())


def fuzz(works: Sequence[Work], *, hang_s: float = HANG_S) -> FuzzReport:
    """Run processes to their end; one that dies or hangs is replaced behind the batch it was at.

    Args:
        works: One a process.
        hang_s: How long a batch may take.
    """
    report = FuzzReport(works[0].format)
    running = [_started(work) for work in works]
    while running:
        ready = set(wait([one.answers for one in running], timeout=5.0))
        for one in list(running):
            late = time.monotonic() - one.since > (hang_s if one.begun else START_S)
            if one.answers in ready:
                over = not _take(one, report)
                if not over:
                    continue
                one.process.join()
                fault = {} if one.process.exitcode == 0 else {"crashes": 1}
                example = f"batch {one.number} ended the process: {one.process.exitcode}"
            elif late:
                one.process.kill()
                one.process.join()
                fault, example = {"hangs": 1}, f"batch {one.number} took over {hang_s:.0f} s"
            else:
                continue
            running.remove(one)
            one.answers.close()
            if fault:
                report.add({**fault, "payloads": one.work.batch, "examples": [example]})
                rest = one.number + one.work.step
                if rest < one.work.end:
                    running.append(_started(_behind(one.work, rest)))
    return report


def _behind(work: Work, first: int) -> Work:
    return Work(work.format, first, work.step, work.end, work.seed, work.huge_every, work.batch)


def _take(one: _Worker, report: FuzzReport) -> bool:
    """Take an answer; False when there are no more."""
    try:
        found = one.answers.recv()
    except EOFError:
        return False
    one.since, one.begun = time.monotonic(), True
    if isinstance(found, int):
        one.number = found
    else:
        report.add(found)
    return True


def main() -> int:
    """Fuzz one format, or all of them; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.format_fuzz", description=__doc__)
    parser.add_argument("--format", default="all", choices=["all", *SUBJECTS])
    parser.add_argument("--payloads", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--huge", type=int, default=MAX_HUGE)
    options = parser.parse_args()
    names = list(SUBJECTS) if options.format == "all" else [options.format]
    reports = []
    for name in names:
        started = time.monotonic()
        batches = -(-options.payloads // BATCH)
        huge_every = -(-batches // options.huge) if options.huge else 0
        seed = options.seed * 1_000_000_007
        works = [
            Work(name, first, options.workers, batches, seed, huge_every)
            for first in range(min(options.workers, batches))
        ]
        report = fuzz(works)
        reports.append(report)
        for text in report.examples:
            print(text, file=sys.stderr)
        spent = time.monotonic() - started
        print(f"{spent:.0f} s: {json.dumps(report.shown())}", file=sys.stderr, flush=True)
    total = FuzzReport("all" if len(names) > 1 else names[0])
    for report in reports:
        total.add(asdict(report))
    print(json.dumps(total.shown()))
    return int(not all(report.sound for report in reports))


if __name__ == "__main__":
    sys.exit(main())
