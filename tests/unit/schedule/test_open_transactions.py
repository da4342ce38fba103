import json

import pytest

from sluiceway.observe.log import stderr_log
from sluiceway.schedule.partition_watch import OPEN_FOR_S, OpenTransactions
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.ledger_records import data, fence, fold_of, sources, span

FOLD = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10), span(1, 0, 5)))
LOG = SourcePartition("orders", 0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def watch() -> tuple[OpenTransactions, Clock]:
    clock = Clock()
    return OpenTransactions(stderr_log(level="warning"), clock), clock


def test_transaction_that_stays_open_is_told_once_with_the_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched, clock = watch()
    for _ in range(3):
        watched.update(FOLD, {LOG: LogBounds(0, 10, 25)})
        clock.now += OPEN_FOR_S - 1
    (line,) = told(capsys)
    assert line["event"] == "transaction_open"
    assert (line["partition"], line["since_offset"], line["waiting"]) == (str(LOG), 10, 15)
    clock.now += 600
    watched.update(FOLD, {LOG: LogBounds(0, 10, 25)})
    assert len(told(capsys)) == 1


@pytest.mark.parametrize(
    "later",
    [LogBounds(0, 25, 25), LogBounds(0, 12, 25), LogBounds(0, 10, 10)],
    ids=["ended", "goes on", "nothing behind it"],
)
def test_transaction_that_goes_on_or_ends_is_not_told(
    capsys: pytest.CaptureFixture[str], later: LogBounds
) -> None:
    watched, clock = watch()
    watched.update(FOLD, {LOG: LogBounds(0, 10, 25)})
    clock.now += OPEN_FOR_S + 1
    watched.update(FOLD, {LOG: later})
    assert told(capsys) == []


def test_rows_that_are_not_read_yet_are_lag_and_no_transaction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched, clock = watch()
    for _ in range(2):
        watched.update(FOLD, {SourcePartition("orders", 1): LogBounds(0, 8, 25)})
        clock.now += OPEN_FOR_S + 1
    assert told(capsys) == []
