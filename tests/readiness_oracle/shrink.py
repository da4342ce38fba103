"""Makes a failing history smaller, as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from readiness_oracle.history import EpochPlan, History, SourceLog
from readiness_oracle.simulate import Verdict

_MOST_RUNS = 3_000
_PLAIN = {
    "budgets": (),
    "blind": frozenset(),
    "tasks": 1,
    "committed": True,
    "ahead": False,
    "announces": True,
    "restart": False,
    "resets": (),
    "deaf": frozenset(),
    "clock_wrong": 0,
}


def shrunk(history: History, run: Callable[[History], Verdict]) -> History:
    """A smaller history whose first wrong decision is of the same kind."""
    wrong = run(history).violations
    if not wrong:
        return history
    runs, again = 0, True
    while again and runs < _MOST_RUNS:
        again = False
        for smaller in _smaller(history):
            runs += 1
            found = run(smaller).violations
            if found and found[0].kind == wrong[0].kind:
                history, again = smaller, True
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    """What is one step smaller, the big steps first."""
    for number in range(len(history.epochs)):
        epochs = history.epochs[:number] + history.epochs[number + 1 :]
        yield replace(history, epochs=epochs)
    if len(history.logs) > 1:
        yield from _without_last_log(history)
    for source, log in enumerate(history.logs):
        for fewer in _smaller_logs(log):
            logs = (*history.logs[:source], fewer, *history.logs[source + 1 :])
            yield replace(history, logs=logs)
    for number, epoch in enumerate(history.epochs):
        for plainer in _plainer(epoch):
            epochs = (*history.epochs[:number], plainer, *history.epochs[number + 1 :])
            yield replace(history, epochs=epochs)
    yield from _fewer_counts(history)
    for name in ("out_of_orderness", "lateness"):
        if getattr(history.route, name):
            exact: dict[str, Any] = {name: 0}
            yield replace(history, route=replace(history.route, **exact))


def _without_last_log(history: History) -> Iterator[History]:
    last = len(history.logs) - 1
    epochs = tuple(
        replace(
            epoch,
            budgets=tuple(each for each in epoch.budgets if each[0] != last),
            resets=tuple(each for each in epoch.resets if each[0] != last),
        )
        for epoch in history.epochs
    )
    yield replace(history, logs=history.logs[:-1], epochs=epochs)


def _fewer_counts(history: History) -> Iterator[History]:
    if history.route.counts is not None:
        yield replace(history, route=replace(history.route, counts=None), counts=())
    for number in range(len(history.counts)):
        yield replace(history, counts=history.counts[:number] + history.counts[number + 1 :])


def _smaller_logs(log: SourceLog) -> Iterator[SourceLog]:
    if log.entries:
        yield replace(log, entries=())
    for offset in range(len(log.entries)):
        yield replace(log, entries=log.entries[:offset] + log.entries[offset + 1 :])
    if log.retires_at is not None:
        yield replace(log, retires_at=None, returns_at=None)
    if log.returns_at is not None:
        yield replace(log, returns_at=None)


def _plainer(epoch: EpochPlan) -> Iterator[EpochPlan]:
    for name, plain in _PLAIN.items():
        if getattr(epoch, name) != plain:
            changed: dict[str, Any] = {name: plain}
            yield replace(epoch, **changed)
