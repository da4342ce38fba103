"""`maintain`: compaction and expiry of a lake table, by this process, beside any driver."""

from dataclasses import dataclass

from sluiceway.config.config import RouteConfig
from sluiceway.errors import InvariantError
from sluiceway.observe.log import Log
from sluiceway.operate.lake_compact import FencedLog, compact_lake, foresee_lake
from sluiceway.sinks.iceberg.expiring import Expired
from sluiceway.sinks.iceberg.table import IcebergTableSink
from sluiceway.upkeep.compact_requests import Outcome


@dataclass(frozen=True, slots=True)
class Maintained:
    """What became of a table.

    Attributes:
        files_before: Data files of the partitions that were compacted.
        files_after: The same, afterwards.
        failed: Why partitions failed, each reason once.
        expired: What has gone; of a dry run what would go, without its files.
    """

    files_before: int
    files_after: int
    failed: tuple[str, ...]
    expired: Expired


def maintain_lake(
    config: RouteConfig, ledger: FencedLog, keep_s: float, *, dry_run: bool, log: Log
) -> Maintained:
    """Compact what is small, then expire what is old. Safe to end anywhere and to repeat.

    Args:
        config: Of a route with a lake table. A keyed one compacts within its publishes.
        ledger: Its own.
        keep_s: For how long snapshots stay.
        dry_run: Only say what would be done.
        log: Of this process.

    Raises:
        SluicewayError: The table cannot be looked at; what is done stays done.
    """
    lake = config.hive.lake
    if lake is None:
        raise InvariantError(f"route {config.route} has no lake table")
    before, after, failed = 0, 0, tuple[str, ...]()
    if config.key is None and dry_run:
        due = [each for each in foresee_lake(config, ledger, (), log) if not each.left]
        before, after = sum(each.files for each in due), sum(each.files_after for each in due)
    elif config.key is None:
        done = compact_lake(config, ledger, (), lambda *_: None, log).partitions
        good = [each for each in done if each.outcome == Outcome.COMPACTED]
        before = sum(each.files_before for each in good)
        after = sum(each.files_after for each in good)
        bad = (each.reason for each in done if each.outcome == Outcome.FAILED)
        failed = tuple(dict.fromkeys(bad))
    sink = IcebergTableSink(config.hive, lake, dict(config.catalog.options))
    try:
        expiry = sink.expiry(ledger.uuid, ledger.log, log)
        if dry_run:
            _, due_now = expiry.due(keep_s)
            expired = Expired(len(due_now.snapshots), len(due_now.tags))
        else:
            expired = expiry.expire(keep_s)
    finally:
        sink.close()
    return Maintained(before, after, failed, expired)
