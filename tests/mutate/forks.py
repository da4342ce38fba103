"""A process that has imported everything, and forks a child for each mutant.

Requests and answers are lines of JSON. A child reports each item that it has run; one that goes on
without an end is killed, which kills the mutant.
"""

import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mutate.rules import Subject
from mutate.swap import make_change, watch

HUNG = "goes on without an end"
MOST_CPU_S = 20.0
# A child that neither runs nor waits for a processor for so much of some time waits for ever.
_LOOK_EVERY_S = 5.0
_MOST_IDLE_LOOKS = 5
_LEAST_BUSY = 0.2
_MOST_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Request:
    """What a child does.

    Attributes:
        subject: Name of the function that is changed; empty changes none.
        change: Its name.
        items: Tests or seeds, in this order; the first that fails ends it.
        watched: Tell which lines of the subjects each item comes to, and go on after a failure.
        cpu_s: Of the processor for one item; more is without an end.
    """

    items: tuple[str, ...]
    subject: str = ""
    change: str = ""
    watched: bool = False
    cpu_s: float = MOST_CPU_S


@dataclass(slots=True)
class Ran:
    """One item of a child.

    Attributes:
        failure: Empty when it passed.
        reached: Function and line, when it was watched.
    """

    item: str
    failure: str = ""
    seconds: float = 0.0
    reached: list[tuple[str, int]] = field(default_factory=list)


Runner = Callable[[str], str]
"""Runs one item; its failure, or nothing."""


def serve(
    subjects: Sequence[Subject], requests: int, answers: int, run: Runner, ready: Sequence[str]
) -> None:
    """Answer requests until there are no more.

    Args:
        subjects: What can be changed.
        requests: Descriptor of the pipe that they come from.
        answers: Descriptor for the answers.
        run: Runs an item, in a child.
        ready: Names of all items, sent once.
    """
    by_name = {subject.named.name: subject for subject in subjects}
    with os.fdopen(answers, "w", buffering=1) as told, os.fdopen(requests) as asked:
        print(json.dumps(list(ready)), file=told)
        for line in asked:
            request = Request(**json.loads(line))
            for ran in _in_child(request, by_name, run):
                print(json.dumps(asdict(ran)), file=told)
            print("null", file=told)


def _in_child(request: Request, by_name: dict[str, Subject], run: Runner) -> Iterator[Ran]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live(request, by_name, run, writing)
    os.close(writing)
    try:
        yield from _listen(reading, request, child)
    finally:
        os.close(reading)
        _end(child)


def _listen(reading: int, request: Request, child: int) -> Iterator[Ran]:
    buffer, done, idle, before = b"", 0, 0, 0.0
    while idle < _MOST_IDLE_LOOKS:
        if not select.select([reading], [], [], _LOOK_EVERY_S)[0]:
            if os.getppid() == 1:
                # Whoever asked is gone.
                return
            busy = _busy_s(child)
            idle = idle + 1 if busy - before < _LEAST_BUSY * _LOOK_EVERY_S else 0
            before = busy
            continue
        idle = 0
        piece = os.read(reading, 1 << 20)
        if not piece:
            break
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if told is None:
                return
            done += 1
            yield Ran(**told)
    where = request.items[min(done, len(request.items) - 1)]
    yield Ran(where, failure=HUNG)


def _busy_s(group: int) -> float:
    """How long threads of a process group have run, or waited for a processor."""
    spent_ns = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text("ascii").rpartition(")")[2].split()
            if int(fields[2]) == group:
                for thread in (process / "task").iterdir():
                    spent_ns += sum(map(int, (thread / "schedstat").read_text().split()[:2]))
        except (FileNotFoundError, ProcessLookupError):
            # It has just ended.
            continue
    return spent_ns / 1e9


def _end(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _live(request: Request, by_name: dict[str, Subject], run: Runner, writing: int) -> None:
    """The whole life of a child; it never returns."""
    try:
        os.setsid()
        # What tests and the product say is nothing to a reader of the mutants.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.RLIM_INFINITY))
        reached = set()
        if request.watched:
            reached = watch(by_name.values())
        if request.subject:
            subject = by_name[request.subject]
            make_change(subject, subject.change(request.change))
        for item in request.items:
            # By the processor's time: a machine that is busy is no endless loop.
            signal.setitimer(signal.ITIMER_PROF, request.cpu_s)
            began = time.process_time()
            ran = Ran(item, run(item))
            ran.seconds = round(time.process_time() - began, 4)
            ran.reached = sorted(reached)
            reached.clear()
            _tell(writing, asdict(ran))
            if ran.failure and not request.watched:
                break
        _tell(writing, None)
    except BaseException:  # noqa: BLE001 - the end of the process, whatever it was
        _tell(writing, asdict(Ran("", failure=f"child: {traceback.format_exc()}")))
        _tell(writing, None)
    finally:
        os._exit(0)


def _tell(writing: int, what: dict[str, Any] | None) -> None:
    line = json.dumps(what).encode() + b"\n"
    while line:
        line = line[os.write(writing, line) :]
