"""How often the catalog is asked, and how soon a table that is gone is noticed."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluiceway.errors import MetastoreUnavailableError, SluicewayError, TableMismatchError
from sluiceway.job.effects import EffectsApplier
from sluiceway.job.moved_partitions import MovedPartitions
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableSink, TableState
from sluiceway.storage.local import LocalStorage

PATIENCE_S = 60.0


class CountingSink(TableSink):
    """Notes what each call asks for; raises `error` if there is one."""

    def __init__(self, error: SluicewayError | None = None) -> None:
        self.calls: list[list[str]] = []
        self._error = error

    def open(self) -> TableState:
        raise AssertionError

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        raise AssertionError

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.calls.append([partition.values[0] for partition in partitions])
        if self._error is not None:
            raise self._error
        return ()

    def close(self) -> None:
        return


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def applier(sink: TableSink) -> tuple[EffectsApplier, list[int]]:
    through: list[int] = []
    log = stderr_log(level="error")
    moved = MovedPartitions(LedgerLog(LocalStorage(), LedgerLayout("/t", "r")), log)
    made = EffectsApplier(sink, log, through.append, moved)
    made.start()
    return made, through


def test_commits_that_bring_no_partition_cost_the_catalog_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.job.effects._LOOK_INTERVAL_S", 3600.0)
    sink = CountingSink()
    made, through = applier(sink)
    for seq in range(1, 50):
        made.want([], seq)
    wait_for(lambda: through[-1:] == [49])
    assert sink.calls == []
    # Before the end the table is looked at once more, and only then.
    assert made.settle(PATIENCE_S)
    made.close()
    assert sink.calls == [[]]


def test_table_that_is_gone_is_noticed_without_another_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.job.effects._LOOK_INTERVAL_S", 0.5)
    made, through = applier(CountingSink(TableMismatchError("the table was dropped")))
    made.want([], 1)
    wait_for(lambda: through == [1])
    wait_for(lambda: made.failure is not None)
    made.close()
    assert isinstance(made.failure, TableMismatchError)


def test_table_that_is_gone_is_noticed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.job.effects._LOOK_INTERVAL_S", 3600.0)
    made, _ = applier(CountingSink(TableMismatchError("the table was dropped")))
    made.want([], 1)
    made.settle(PATIENCE_S)
    made.close()
    assert isinstance(made.failure, TableMismatchError)


def test_partition_is_applied_at_once_however_lately_the_table_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.job.effects._LOOK_INTERVAL_S", 3600.0)
    sink = CountingSink()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    wait_for(lambda: through == [2])
    made.want([DesiredPartition(("2",), "/t/dt=2")], 3)
    wait_for(lambda: through[-1] == 3)
    made.close()
    assert sink.calls == [["1"], ["2"]]


class SlowSink(CountingSink):
    """Takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.go_on = threading.Event(), threading.Event()

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.called.set()
        assert self.go_on.wait(PATIENCE_S)
        return super().apply(partitions)


def test_end_of_a_run_waits_for_what_the_catalog_is_at_work_on() -> None:
    sink = SlowSink()
    made, _ = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    assert sink.called.wait(PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(made.settle, 0.0)
        with pytest.raises(TimeoutError):
            settled.result(0.2)
        sink.go_on.set()
        assert settled.result(PATIENCE_S)
    made.close()
    assert sink.calls == [["1"]]


def test_end_of_a_run_does_not_wait_for_a_catalog_that_is_down() -> None:
    made, _ = applier(CountingSink(MetastoreUnavailableError("down")))
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    assert not made.settle(0.5)
    made.close()
