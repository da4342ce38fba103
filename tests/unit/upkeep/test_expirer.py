"""Partitions that are asked for or too old go by EXPIRE records, each decision at most once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import ExpireRecord
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.observe.log import stderr_log
from sluiceway.operate.forget import foresee, request_of
from sluiceway.storage.contract import Storage
from sluiceway.upkeep import expirer
from sluiceway.upkeep.expirer import Expirer
from sluiceway.upkeep.partition_bodies import abandon_body, intent_body
from sluiceway.upkeep.partition_requests import MOST_FORGOTTEN, ForgetRequest, Forgotten
from sluiceway.upkeep.requests import pop_refusal, put_request, read_requests
from tools.driver_thread import PATIENCE_S, Driver
from tools.reader_lease_files import put_lease
from tools.table_on_disk import table_on_disk
from tools.waiting import wait_for

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
EIGHT_US = 1_795_161_600_000_000
HOUR = 3_600_000_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    table = table_on_disk(tmp_path)
    table.rows(SEVEN, EIGHT, newest_us=EIGHT_US + 1)
    made = Driver(table)
    yield made
    made.end()


@pytest.fixture
def asked(driver: Driver) -> Iterator[Expirer]:
    made = Expirer(driver.record_queue, None, stderr_log(level="error"))
    yield made
    made.close()


def request_for(driver: Driver, *names: str, drop: bool = False) -> ForgetRequest:
    fold = driver.table.log.fold()
    found = foresee(fold, names, drop=drop)
    request = request_of(fold, found, "me@h", "too old", drop=drop)
    put_request(driver.table.log.storage, driver.table.log.layout, request)
    return request


def is_there(driver: Driver, request: ForgetRequest) -> bool:
    place = driver.table.log.layout.request(request.id)
    return driver.table.log.storage.status(place) is not None


def test_request_is_carried_out_once_and_taken_away(driver: Driver, asked: Expirer) -> None:
    request = request_for(driver, "dt=20261120")
    assert request.partitions == (Forgotten(SEVEN, 0), Forgotten(EIGHT, 0))
    asked.enqueue(request)
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    (record,) = driver.put(ExpireRecord)
    assert [each.partition for each in record.partitions] == [SEVEN, EIGHT]
    assert [each.removed for each in record.partitions] == [(), ()]
    assert record.reason == "me@h: too old"


def test_letter_of_a_driver_that_died_lets_go_of_no_rows_that_came_since(
    driver: Driver, asked: Expirer
) -> None:
    request = request_for(driver, SEVEN)
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    with driver.turn:
        driver.table.rows(SEVEN, rows=3)
    # As if it had died before it took the letter away.
    put_request(driver.table.log.storage, driver.table.log.layout, request)
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    assert len(driver.put(ExpireRecord)) == 1
    state = driver.table.log.fold().partitions[SEVEN]
    assert (state.expired, state.rows) == (False, 3)


def test_partition_that_is_worked_on_goes_when_that_is_done(driver: Driver, asked: Expirer) -> None:
    request = request_for(driver, SEVEN, EIGHT)
    seq = driver.record_queue.ask(lambda fold: intent_body(fold, SEVEN, "compact")).result(
        PATIENCE_S
    )
    assert seq is not None
    asked.enqueue(request)
    wait_for(lambda: len(driver.put(ExpireRecord)) == 1)
    assert [each.partition for each in driver.put(ExpireRecord)[0].partitions] == [EIGHT]
    driver.record_queue.ask(lambda fold: abandon_body(fold, seq, "over")).result(PATIENCE_S)
    wait_for(lambda: request.id not in asked._taken)
    assert is_there(driver, request)
    (letter,) = read_requests(driver.table.log.storage, driver.table.log.layout)
    assert letter.request == request
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    assert [each.partition for each in driver.put(ExpireRecord)[1].partitions] == [SEVEN]


def test_dropped_partition_goes_with_the_files_that_the_record_names(
    driver: Driver, asked: Expirer
) -> None:
    request = request_for(driver, SEVEN, drop=True)
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    (gone,) = driver.put(ExpireRecord)[0].partitions
    assert [int(file.rows) for file in gone.removed] == [10]
    assert SEVEN in driver.table.log.fold().left


def test_partition_whose_record_is_damaged_keeps_its_files_and_the_asker_is_told(
    driver: Driver, asked: Expirer
) -> None:
    request = request_for(driver, SEVEN, drop=True)
    log = driver.table.log
    with driver.turn:
        seq = driver.table.writer.fold.partitions[SEVEN].first_seq
        driver.table.rows(EIGHT)
        Path(log.layout.record(seq)).write_bytes(b"damaged")
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    answer = pop_refusal(log.storage, log.layout, request.id)
    assert answer is not None
    assert "a record is damaged" in answer


def test_request_for_too_many_is_refused(driver: Driver, asked: Expirer) -> None:
    many = tuple(Forgotten(f"dt={n}", 0) for n in range(MOST_FORGOTTEN + 1))
    request = ForgetRequest(1, "f" * 32, "forget", "me", "r", drop=False, partitions=many)
    log = driver.table.log
    put_request(log.storage, log.layout, request)
    asked.enqueue(request)
    wait_for(lambda: not is_there(driver, request))
    answer = pop_refusal(log.storage, log.layout, request.id)
    assert answer is not None
    assert "more than" in answer


def test_old_partitions_go_by_themselves_pass_by_pass(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_S", "_EVERY_S", "_AGAIN_S"):
        monkeypatch.setattr(expirer, name, 0.01)
    monkeypatch.setattr("sluiceway.jobfile.compile.retention.MOST_AT_ONCE", 1)
    columns = (("dt", "yyyyMMdd"), ("hr", "HH"))
    rule = RetentionRule(HOUR, "1h", drop=True, columns=columns, timezone="UTC", announced=False)
    work = Expirer(driver.record_queue, rule, stderr_log(level="error"))
    try:
        with driver.turn:
            driver.table.rows(EIGHT, newest_us=EIGHT_US + HOUR + 1)
        wait_for(lambda: len(driver.put(ExpireRecord)) == 1)
        with driver.turn:
            driver.table.rows(EIGHT, newest_us=EIGHT_US + 2 * HOUR)
        wait_for(lambda: len(driver.put(ExpireRecord)) == 2)
    finally:
        work.close()
    gone = [each.partition for record in driver.put(ExpireRecord) for each in record.partitions]
    assert gone == [SEVEN, EIGHT]
    assert {record.reason for record in driver.put(ExpireRecord)} == {"older than 1h"}


def test_partition_that_a_query_has_still_to_read_is_not_let_go_of(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_EVERY_S", "_FIRST_S", "_AGAIN_S"):
        monkeypatch.setattr(expirer, name, 0.01)
    with driver.turn:
        driver.table.rows(EIGHT, newest_us=EIGHT_US + 3 * HOUR)
        fold = driver.table.writer.fold
        seven, eight = (fold.partitions[name].last_seq for name in (SEVEN, EIGHT))
        assert seven < eight
    log = driver.table.log
    # The query has read the seventh hour, and not all of the eighth.
    put_lease(log, "q", seven)
    columns = (("dt", "yyyyMMdd"), ("hr", "HH"))
    rule = RetentionRule(HOUR, "1h", drop=True, columns=columns, timezone="UTC", announced=False)
    passes: list[int] = []

    def counted(storage: Storage, layout: LedgerLayout, now_ms: int) -> int | None:
        passes.append(now_ms)
        return slot_of_slowest(storage, layout, now_ms)

    monkeypatch.setattr(expirer, "slot_of_slowest", counted)
    work = Expirer(driver.record_queue, rule, stderr_log(level="error"))

    def gone() -> list[str]:
        return [each.partition for record in driver.put(ExpireRecord) for each in record.partitions]

    try:
        wait_for(lambda: gone() == [SEVEN])
        seen = len(passes)
        wait_for(lambda: len(passes) > seen + 3)
        assert gone() == [SEVEN]
        put_lease(log, "q", eight)
        wait_for(lambda: gone() == [SEVEN, EIGHT])
    finally:
        work.close()


def test_partition_that_is_forgotten_while_its_files_are_looked_up_ends_nothing(
    driver: Driver,
) -> None:
    work = Expirer(driver.record_queue, None, stderr_log(level="error"))
    try:
        found = work._live(["dt=20261120/hr=06", SEVEN])
    finally:
        work.close()
    assert list(found) == [SEVEN]


def test_bug_that_one_request_meets_leaves_the_others_alone(
    driver: Driver, asked: Expirer, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str] = []
    forget = Expirer._forget

    def fails_once(self: Expirer, request: ForgetRequest) -> None:
        met.append(request.id)
        if len(met) == 1:
            raise KeyError(request.id)
        forget(self, request)

    monkeypatch.setattr(Expirer, "_forget", fails_once)
    first, second = request_for(driver, SEVEN), request_for(driver, EIGHT)
    asked.enqueue(first)
    asked.enqueue(second)
    wait_for(lambda: not is_there(driver, second))
    assert is_there(driver, first)
    asked.enqueue(first)
    wait_for(lambda: not is_there(driver, first))
    assert met == [first.id, second.id, first.id]
