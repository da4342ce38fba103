import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.errors import (
    FencedError,
    LeaseHeldError,
    LedgerMismatchError,
    MetastoreUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.ledger import driver_term
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lease import Lease, wait_until_free
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.steps import Step, ignore_step
from sluiceway.route import takeover
from sluiceway.route.takeover import ReleasedLedger, TakeoverHooks, refuse_older_ledger, take_over
from sluiceway.sinks.contract import (
    DesiredPartition,
    ParkedPartition,
    TableIdentity,
    TableSink,
    TableState,
)
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.contract import Storage
from sluiceway.types.schema import Schema
from tools.ledger_records import sources

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.ledger.driver_term import OwnedLedger


class _Hive:
    create_location = False
    lake = None


class _Route:
    job = "orders"
    route = "orders"
    stores = NO_STORES
    table = _Hive()
    rooms = None


class _Sink(TableSink):
    """A table whose property is set by another driver after the first look at it."""

    def __init__(self, folder: Path) -> None:
        identity = TableIdentity("thrift://m:1", "ods", "orders", 7, str(folder))
        self.state = TableState(identity, Schema(()), (), None)
        self.stale_looks = 0
        self.marks_in_vain = 0

    def open(self) -> TableState:
        if self.stale_looks:
            self.stale_looks -= 1
            return replace(self.state, ledger=None)
        return self.state

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        if self.marks_in_vain:
            self.marks_in_vain -= 1
            raise MetastoreUnavailableError("down")
        self.state = replace(self.state, ledger=ledger)

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        raise AssertionError(partitions)

    def close(self) -> None:
        raise AssertionError


def test_ledger_made_after_the_table_was_looked_at_is_recognised(tmp_path: Path) -> None:
    sink = _Sink(tmp_path)
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, lambda seconds: None)
    config = cast("RouteConfig", _Route())
    first = take_over(config, sink, hooks)
    first.writer.commit(sources(0))
    first.lease.release()
    sink.stale_looks = 1
    second = take_over(config, sink, hooks)
    second.lease.release()
    assert second.writer.term == 2
    assert second.state.ledger is not None


def test_table_that_lies_on_a_disk_that_is_not_mounted_is_refused_and_nothing_made(
    tmp_path: Path,
) -> None:
    sink, config = _Sink(tmp_path / "disk" / "ods.db" / "orders"), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, lambda seconds: None)
    with pytest.raises(UnhealthyEnvironmentError, match=r"ods\.db does not exist"):
        take_over(config, sink, hooks)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "disk" / "ods.db").mkdir(parents=True)
    take_over(config, sink, hooks).lease.release()


@pytest.mark.parametrize("replaces", [None, 1])
def test_driver_that_fences_while_another_looks_around_is_not_fenced_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaces: int | None
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())

    def hooks(term: int | None = None) -> TakeoverHooks:
        return TakeoverHooks(ignore_step, lambda attempts, error: None, time.sleep, term)

    first = take_over(config, sink, hooks())
    first.writer.commit(sources(0))
    first.lease.release()
    live: list[OwnedLedger] = []
    look = refuse_older_ledger

    def slow_look(log: LedgerLog, fold: Fold) -> None:
        if not live:
            # The table is large, and another driver starts meanwhile.
            monkeypatch.setattr(takeover, "refuse_older_ledger", look)
            live.append(take_over(config, sink, hooks()))
        look(log, fold)

    monkeypatch.setattr(takeover, "refuse_older_ledger", slow_look)
    with pytest.raises(LeaseHeldError):
        take_over(config, sink, hooks(replaces))
    (winner,) = live
    winner.writer.commit(sources(1))
    winner.lease.release()
    assert winner.writer.fold.term == 2


def test_driver_that_fences_just_after_its_lease_was_found_free_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None)
    first = take_over(config, sink, hooks)
    first.writer.commit(sources(0))
    first.lease.release()
    live: list[OwnedLedger] = []
    wait = wait_until_free

    def slow_wait(storage: Storage, path: str, *, sleep: Callable[[float], None]) -> Lease | None:
        found = wait(storage, path, sleep=sleep)
        if not live:
            # This process is put aside for a moment, and another driver starts meanwhile.
            monkeypatch.setattr(takeover, "wait_until_free", wait)
            live.append(take_over(config, sink, replace(hooks, driver="another")))
        return found

    monkeypatch.setattr(takeover, "wait_until_free", slow_wait)
    with pytest.raises(LeaseHeldError):
        take_over(config, sink, replace(hooks, driver="third"))
    (winner,) = live
    winner.writer.commit(sources(1))
    winner.lease.release()
    assert winner.writer.fold.term == 2


def test_fence_of_a_start_in_vain_is_known_by_the_driver_and_not_by_its_process(
    tmp_path: Path,
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())

    def hooks(driver: str) -> TakeoverHooks:
        return TakeoverHooks(
            ignore_step, lambda attempts, error: None, lambda seconds: None, driver=driver
        )

    first = take_over(config, sink, hooks("a" * 32))
    left = ReleasedLedger.of(first)
    first.lease.release()
    sink.marks_in_vain = 1
    with pytest.raises(MetastoreUnavailableError):
        take_over(config, sink, hooks("a" * 32), left)
    again = take_over(config, sink, hooks("a" * 32), left)
    assert again.writer.term == 3
    again.lease.release()
    # Of this very process, and so of its host and pid; it is another driver all the same.
    take_over(config, sink, hooks("b" * 32)).lease.release()
    with pytest.raises(FencedError):
        take_over(config, sink, hooks("a" * 32), left)


def test_ledger_of_another_table_is_not_fenced(tmp_path: Path) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, lambda seconds: None)
    first = take_over(config, sink, hooks)
    first.writer.commit(sources(0))
    first.lease.release()
    # Dropped, and created again where the rows of the one before are.
    sink.state = replace(sink.state, identity=replace(sink.state.identity, created_at_s=8))
    with pytest.raises(LedgerMismatchError, match="this table is"):
        take_over(config, sink, hooks)
    assert first.log.fold().term == 1


def test_what_the_log_says_is_done_only_while_its_driver_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_term, "LOOK_EVERY_S", 0.0)
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, lambda seconds: None)
    first = take_over(config, sink, hooks)
    first.log.check_held()
    first.lease.release()
    second = take_over(config, sink, replace(hooks, driver="another"))
    second.lease.release()
    second.log.check_held()
    with pytest.raises(FencedError, match="term 2"):
        first.log.check_held()


def test_driver_that_starts_anew_is_fenced_by_one_that_came_and_went_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, lambda seconds: None)
    first = take_over(config, sink, hooks)
    left = ReleasedLedger.of(first)
    first.lease.release()
    look = refuse_older_ledger

    def slow_look(log: LedgerLog, fold: Fold) -> None:
        look(log, fold)
        # After this one has read the log, and before its own fence.
        monkeypatch.setattr(takeover, "refuse_older_ledger", look)
        take_over(config, sink, replace(hooks, driver="another")).lease.release()

    monkeypatch.setattr(takeover, "refuse_older_ledger", slow_look)
    with pytest.raises(FencedError, match="term 2"):
        take_over(config, sink, hooks, left)
    assert first.log.fold().term == 2


def no_sleep(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")


def test_driver_whom_nobody_is_before_waits_for_nothing_and_tries_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    class Probes:
        def probe(self, storage: Storage, folder: str, *, within: str) -> None:
            del storage, within
            tried.append(folder)

    monkeypatch.setattr(takeover, "process_probes", Probes)
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, no_sleep)
    first = take_over(config, sink, hooks)
    assert tried == [first.layout.stage]
    first.lease.release()
    take_over(config, sink, hooks).lease.release()


def test_live_driver_is_replaced_at_once_by_its_term_and_by_no_other(tmp_path: Path) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, no_sleep)
    live = take_over(config, sink, hooks)
    for term in (0, 2):
        with pytest.raises(LeaseHeldError, match=f"term {term} was to be replaced, the latest is"):
            take_over(config, sink, replace(hooks, replaces=term))
    assert live.log.fold().term == 1
    second = take_over(config, sink, replace(hooks, replaces=1))
    assert second.writer.term == 2
    for each in (live, second):
        each.lease.release()


def test_driver_that_is_replaced_may_commit_meanwhile_and_is_fenced_behind_it(
    tmp_path: Path,
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, no_sleep)
    live = take_over(config, sink, hooks)

    def commits(step: Step) -> None:
        if step is Step.FENCING:
            live.writer.commit(sources(0))

    second = take_over(config, sink, replace(hooks, replaces=1, observe=commits))
    assert (second.writer.term, second.fold.next_seq) == (2, 3)
    for each in (live, second):
        each.lease.release()


def test_driver_that_lost_its_fence_lets_the_winner_write_its_lease_before_it_looks(
    tmp_path: Path,
) -> None:
    sink, config = _Sink(tmp_path), cast("RouteConfig", _Route())
    slept: list[float] = []
    hooks = TakeoverHooks(ignore_step, lambda attempts, error: None, slept.append)
    live: list[OwnedLedger] = []

    def fences(step: Step) -> None:
        if step is Step.FENCING and not live:
            live.append(take_over(config, sink, replace(hooks, driver="another", sleep=no_sleep)))

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        live[0].lease.release()

    late = take_over(config, sink, replace(hooks, observe=fences, sleep=sleep))
    assert slept[0] == 1.0
    assert len(slept) == 1
    assert late.writer.term == 2
    late.lease.release()
