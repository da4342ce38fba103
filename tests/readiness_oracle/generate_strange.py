"""Source partitions that come back or never have a row, and clocks that step: in most histories.

Drawn apart from the rest, and not for all seeds, so that seeds that once went wrong stay as they
were.
"""

from dataclasses import replace
from random import Random

from readiness_oracle.history import DAY, SECOND, EpochPlan, History, Kind, SourceLog

_SHARE = 7
_PLAIN = (1, 5, 6)
_LEAST_STEP = 20 * SECOND


def with_strange_sources(history: History, unit: int, times: tuple[int, int]) -> History:
    """The history with some more oddities.

    Args:
        history: Without counts yet.
        unit: Length of an hour of the route.
        times: Begin and end of what happens before all is read to its end.
    """
    if history.seed % _SHARE in _PLAIN:
        return history
    rng = Random(history.seed * 1_000_003 + 17)  # noqa: S311 - has to be the same each time
    logs = list(history.logs)
    if rng.random() < 0.5:
        logs = [_coming_back(rng, log, number, unit, times) for number, log in enumerate(logs)]
    if rng.random() < 0.4:
        spared = rng.randrange(len(logs)) if rng.random() < 0.9 else -1
        logs = [
            _rowless(rng, log) if number != spared and rng.random() < 0.5 else log
            for number, log in enumerate(logs)
        ]
    epochs = history.epochs
    if rng.random() < 0.5:
        epochs = tuple(_stepping(rng, history, unit))
    epochs = tuple(
        # Nobody moves an end to what is not there.
        replace(
            each, resets=tuple((s, end) for s, end in each.resets if end <= len(logs[s].entries))
        )
        for each in epochs
    )
    return replace(history, logs=tuple(logs), epochs=epochs)


def _coming_back(
    rng: Random, log: SourceLog, number: int, unit: int, times: tuple[int, int]
) -> SourceLog:
    retires = log.retires_at
    if retires is None and number and rng.random() < 0.4:
        retires = rng.randint(*times)
    if retires is None or rng.random() < 0.3:
        return replace(log, retires_at=retires)
    return replace(log, retires_at=retires, returns_at=retires + int(rng.random() * 2 * unit))


def _rowless(rng: Random, log: SourceLog) -> SourceLog:
    """Nothing stands in it, or nothing that has a time: of aborted transactions, or unreadable."""
    how = rng.choice(("empty", "aborted", "unreadable"))
    if how == "empty":
        return replace(log, entries=())
    entries = tuple(
        replace(entry, kind=Kind.ABORTED)
        if how == "aborted" and entry.kind is Kind.ROW
        else replace(entry, event=None)
        for entry in log.entries
    )
    return replace(log, entries=entries)


def _stepping(rng: Random, history: History, unit: int) -> list[EpochPlan]:
    """Epochs after which the driver's clock is wrong for one look."""
    found: list[EpochPlan] = []
    steps = (history.route.idle_after, unit, DAY)
    for epoch in history.epochs:
        before = found[-1].clock_wrong if found else 0
        wrong = 0
        if not before and rng.random() < 0.3:
            step = max(_LEAST_STEP, int(rng.choice(steps) * rng.uniform(0.5, 2.0)))
            wrong = rng.choice((1, 1, 1, -1)) * step
        found.append(replace(epoch, clock_wrong=wrong))
    return found
