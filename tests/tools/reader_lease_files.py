"""Leases of queries that read a table, as files of any age."""

import time
from dataclasses import asdict

from sluiceway.host.process import ProcessIdentity
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.reader_leases import YOUNG_MS, ReaderLease
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import LEDGER


def lease(slot: int, *, age_ms: int = 0, reader: str = "r1", ledger: str = LEDGER) -> ReaderLease:
    """Of a query on another host that is through all slots up to this one."""
    at_ms = BigInt(time.time_ns() // 1_000_000 - age_ms)
    place = ProcessIdentity("elsewhere", "b", 1, 1)
    return ReaderLease(1, ledger, slot, at_ms, reader, 7, released=False, **asdict(place))


def put_lease(log: LedgerLog, query: str, slot: int, *, old: bool = False) -> None:
    """Write the lease of a query: young, or of a day ago."""
    log.storage.make_folders(log.layout.readers)
    content = encode(lease(slot, age_ms=YOUNG_MS if old else 0))
    log.storage.overwrite(log.layout.reader(query), content)
