"""Waiting for an announcement by reading the ledger."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.audit import partition_wait
from sluiceway.audit.partition_wait import PartitionWatch
from sluiceway.errors import RequestRefusedError, StorageUnavailableError, WrongUsageError
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import expire_body, ready_body
from tools.table_on_disk import TableOnDisk, table_on_disk

COLUMNS = (("dt", "yyyyMMdd"), ("hr", "HH"))
READY = ReadyRule(WatermarkRule(), COLUMNS, "UTC", whole_key=True)
SIX, SEVEN, EIGHT = (f"dt=20261120/hr={hour:02d}" for hour in (6, 7, 8))
EIGHT_US = 1_795_161_600_000_000


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    made = table_on_disk(tmp_path)
    marked = WatermarkRecord(BigInt(EIGHT_US), BigInt(EIGHT_US - 1))
    made.rows(SEVEN, newest_us=EIGHT_US - 1, mark=marked)
    return made


def config_of(table: TableOnDisk) -> RouteConfig:
    (route,) = load_job(table.job).spec.routes
    return replace(compile_route(route), ready=READY)


def watch(table: TableOnDisk, asked: str) -> PartitionWatch:
    return PartitionWatch(config_of(table), asked, clock_us=lambda: EIGHT_US)


def announce(table: TableOnDisk) -> None:
    later = BigInt(EIGHT_US + 1)
    risen = WatermarkRecord(later, BigInt(EIGHT_US))
    table.rows(EIGHT, newest_us=EIGHT_US, mark=risen)
    table.rows(closed=(SEVEN,), mark=WatermarkRecord(later, bound_us=BigInt(EIGHT_US)))
    table.writer.commit(lambda fold: ready_body(fold, SEVEN, EIGHT_US) or pytest.fail("closed"))
    table.writer.set_published()


def look_by_look(
    monkeypatch: pytest.MonkeyPatch, looks: dict[int, Callable[[], None]]
) -> list[float]:
    """Instead of pausing for the n-th time, do this."""
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        looks.get(len(pauses), lambda: None)()

    monkeypatch.setattr("sluiceway.audit.partition_wait.time.sleep", sleep)
    return pauses


def test_waits_until_it_is_announced_with_growing_pauses(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = look_by_look(monkeypatch, {9: lambda: announce(table)})
    waited = watch(table, SEVEN).wait(1, 3600)
    assert waited.facts is not None
    assert (waited.facts.version, waited.facts.rows, waited.facts.at_us) == (1, 10, EIGHT_US)
    assert (len(pauses), pauses[0], pauses[-1]) == (9, 0.5, 5.0)


def test_store_that_does_not_answer_for_a_while_is_waited_for(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, asked = LedgerLog.advance, []

    def fail_once(log: LedgerLog, fold: object) -> object:
        asked.append(fold)
        # The first one is part of reading the ledger at all.
        if len(asked) == 2:
            raise StorageUnavailableError("away")
        return advance(log, fold)  # type: ignore[arg-type]

    monkeypatch.setattr(LedgerLog, "advance", fail_once)
    look_by_look(monkeypatch, {1: lambda: announce(table)})
    assert watch(table, SEVEN).wait(1, 3600).facts is not None
    assert len(asked) >= 3


def test_time_that_is_over_leaves_the_reason(table: TableOnDisk) -> None:
    waited = watch(table, SEVEN).wait(1, 0.0)
    assert waited.facts is None
    assert waited.why.reason == "held"


def test_time_before_the_first_row_is_refused_at_once(table: TableOnDisk) -> None:
    with pytest.raises(RequestRefusedError, match=f"the first time with rows is {SEVEN}"):
        watch(table, SIX).wait(1, 3600)


def test_partition_that_is_dropped_while_it_is_waited_for_is_refused(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop() -> None:
        table.writer.commit(lambda fold: expire_body(fold, [SEVEN], "gone") or pytest.fail("there"))

    look_by_look(monkeypatch, {2: drop})
    with pytest.raises(RequestRefusedError, match="its owner has dropped it"):
        watch(table, SEVEN).wait(1, 3600)


def test_what_is_no_time_of_the_table_is_a_wrong_usage(table: TableOnDisk) -> None:
    with pytest.raises(WrongUsageError, match="is no time of this table"):
        watch(table, "dt=20261120").wait(1, 3600)


def test_second_version_is_waited_for_in_real_time(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_wait, "_FIRST_PAUSE_S", 0.01)
    announce(table)

    def again() -> None:
        table.rows(SEVEN, rows=5)
        table.writer.commit(lambda fold: ready_body(fold, SEVEN) or pytest.fail("late rows"))
        table.writer.set_published()

    late = threading.Timer(0.05, again)
    late.start()
    try:
        waited = watch(table, SEVEN).wait(2, 600)
    finally:
        late.join()
    assert waited.facts is not None
    assert (waited.facts.version, waited.facts.rows) == (2, 15)


def test_receiver_that_was_not_told_yet_is_named(table: TableOnDisk) -> None:
    announce(table)
    ready = replace(READY, webhook=HttpReceiver("http://h/", "h"))
    config = replace(config_of(table), ready=ready)
    found = PartitionWatch(config, SEVEN).check()
    assert found.announced_to == {"webhook": False}
    assert found.text.endswith("Not announced yet to: webhook")
    slot = table.writer.fold.closed[SEVEN].ready_seq
    place = Path(table.log.layout.announced("webhook"))
    place.write_text(f'{{"through":{slot + 1}}}')
    found = PartitionWatch(config, SEVEN).check()
    assert (found.announced_to, "Not announced" in found.text) == ({"webhook": True}, False)
