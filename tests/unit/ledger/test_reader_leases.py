"""Leases of queries: one live query a name, and what all of them are through."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import LedgerMismatchError, ReaderNameTakenError, WrongUsageError
from sluiceway.host.process import own_identity
from sluiceway.ledger import reader_leases
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.reader_leases import (
    ReaderLeaseKeeper,
    read_reader_lease,
    slot_of_slowest,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import encode
from tools.ledger_records import LEDGER
from tools.reader_lease_files import lease, put_lease


@pytest.fixture
def log(tmp_path: Path) -> LedgerLog:
    return LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders"))


def keeper(log: LedgerLog, query: str = "q") -> ReaderLeaseKeeper:
    return ReaderLeaseKeeper(log.storage, log.layout, query, LEDGER)


def no_sleep(seconds: float) -> None:
    assert seconds > 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_slowest_young_lease_counts_and_old_ones_do_not(log: LedgerLog) -> None:
    assert slot_of_slowest(log.storage, log.layout, now_ms()) is None
    put_lease(log, "fast", 90)
    put_lease(log, "slow", 40)
    put_lease(log, "gone", 3, old=True)
    assert slot_of_slowest(log.storage, log.layout, now_ms()) == 40


def test_lease_that_nobody_can_read_keeps_everything_for_a_day(log: LedgerLog) -> None:
    put_lease(log, "fast", 90)
    Path(log.layout.reader("newer")).write_bytes(b"{}")
    assert slot_of_slowest(log.storage, log.layout, now_ms()) == -1
    later = now_ms() + reader_leases.YOUNG_MS
    assert slot_of_slowest(log.storage, log.layout, later) is None


def test_lease_of_long_ago_is_removed(log: LedgerLog) -> None:
    put_lease(log, "fast", 90)
    put_lease(log, "gone", 3, old=True)
    paths = [Path(log.layout.reader(name)) for name in ("fast", "gone")]
    last = now_ms() + reader_leases.FORGOTTEN_MS - reader_leases.YOUNG_MS - 60_000
    slot_of_slowest(log.storage, log.layout, last)
    assert [path.exists() for path in paths] == [True, True]
    slot_of_slowest(log.storage, log.layout, last + 120_000)
    assert [path.exists() for path in paths] == [True, False]


def test_lease_says_how_far_the_query_is_and_that_it_has_ended(log: LedgerLog) -> None:
    own = keeper(log)
    own.start(4)
    own.advance(9)
    own.advance(7)
    held = read_reader_lease(log.storage, log.layout.reader("q"))
    assert held is not None
    assert (held.slot, held.released, held.pid) == (9, False, os.getpid())
    own.release()
    own.release()
    held = read_reader_lease(log.storage, log.layout.reader("q"))
    assert held is not None
    assert (held.slot, held.released) == (9, True)
    # It protects what the next run of the query needs.
    assert slot_of_slowest(log.storage, log.layout, now_ms()) == 9


def test_second_query_of_the_same_name_is_refused_and_the_first_goes_on(log: LedgerLog) -> None:
    first, second = keeper(log), keeper(log)
    first.start(4)
    with pytest.raises(ReaderNameTakenError, match=r"under the name `q`.*option") as told:
        second.start(0, sleep=no_sleep)
    assert told.value.code == "SW464"
    first.advance(5)
    other = keeper(log, "r")
    other.start(0)
    other.release()
    first.release()
    second.start(5, sleep=no_sleep)
    second.release()


def test_query_that_was_killed_gives_its_name_to_its_next_run_at_once(log: LedgerLog) -> None:
    own = own_identity()
    # Its process id belongs to another process now.
    ticks = own.start_ticks + 1
    dead = replace(lease(4), host=own.host, boot_id=own.boot_id, pid=own.pid, start_ticks=ticks)
    log.storage.make_folders(log.layout.readers)
    log.storage.overwrite(log.layout.reader("q"), encode(dead))
    slept: list[float] = []
    again = keeper(log)
    again.start(4, sleep=slept.append)
    again.release()
    assert slept == []


def test_query_of_another_host_keeps_its_name_while_its_lease_moves(log: LedgerLog) -> None:
    put_lease(log, "q", 4)
    slept: list[float] = []
    own = keeper(log)
    own.start(4, sleep=slept.append)
    assert sum(slept) == reader_leases.DEAD_AFTER_S
    own.release()

    def renewed(seconds: float) -> None:
        del seconds
        moved = replace(lease(4), counter=8)
        log.storage.overwrite(log.layout.reader("p"), encode(moved))

    put_lease(log, "p", 4)
    with pytest.raises(ReaderNameTakenError):
        keeper(log, "p").start(4, sleep=renewed)


def test_query_whose_name_was_taken_stops_at_its_next_step(log: LedgerLog) -> None:
    own = keeper(log)
    own.start(4)
    log.storage.overwrite(log.layout.reader("q"), encode(lease(4, reader="r2")))
    with pytest.raises(ReaderNameTakenError):
        own.advance(5)
    with pytest.raises(ReaderNameTakenError):
        own.check()
    own.release()
    held = read_reader_lease(log.storage, log.layout.reader("q"))
    assert held is not None
    assert (held.reader, held.slot) == ("r2", 4)


def test_lease_of_a_table_that_was_made_again_is_refused(log: LedgerLog) -> None:
    log.storage.make_folders(log.layout.readers)
    log.storage.overwrite(log.layout.reader("q"), encode(lease(4, ledger="e" * 32)))
    with pytest.raises(LedgerMismatchError, match="new checkpoint"):
        keeper(log).start(4, sleep=no_sleep)


@pytest.mark.parametrize("name", ["", "../lease", "a/b", ".hidden", "x" * 101])
def test_name_that_is_no_name_of_a_file_is_refused(log: LedgerLog, name: str) -> None:
    with pytest.raises(WrongUsageError, match="name of a query"):
        keeper(log, name)
