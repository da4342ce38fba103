"""`maintain`: few files, no old snapshots, no orphans; this process does it next to any driver."""

from dataclasses import dataclass

from sluiceway.errors import InvariantError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.operate.lake_compact import FencedLog, compact_lake, foresee_lake
from sluiceway.route.table_keys import with_table_key
from sluiceway.sinks.iceberg.compact.expiring import Expired
from sluiceway.sinks.iceberg.compact.orphans import Orphans
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from sluiceway.upkeep.partition_requests import CompactionOutcome


@dataclass(frozen=True, slots=True)
class Maintained:
    """What became of a table.

    Attributes:
        files_before: Data files of the partitions that were compacted.
        files_after: Data files of these partitions afterwards.
        failed: Why partitions failed, each reason once.
        expired: What has gone; of a dry run what would go, without its files.
        orphans: Files that no snapshot names; None when they were not asked for.
    """

    files_before: int
    files_after: int
    failed: tuple[str, ...]
    expired: Expired
    orphans: Orphans | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """What is to be done.

    Attributes:
        keep_s: How long snapshots stay, in seconds.
        orphan_age_s: Files that no snapshot names go when they are older; None leaves them.
        dry_run: Only say what would be done.
    """

    keep_s: float
    orphan_age_s: float | None = None
    dry_run: bool = False


def maintain_lake(
    config: RouteConfig, ledger: FencedLog, wanted: MaintenanceRequest, log: Log
) -> Maintained:
    """Compact what is small, expire what is old, remove orphans. Safe to end and to repeat.

    Args:
        config: A route with a lake table. A keyed one compacts within its publishes.
        ledger: Its own.
        wanted: What is to be done.
        log: Log of this process.

    Raises:
        SluicewayError: The table cannot be read; what is done stays done.
    """
    config = with_table_key(config)
    lake = config.table.lake
    if lake is None:
        raise InvariantError(f"route {config.route} has no lake table")
    before, after, failed = 0, 0, tuple[str, ...]()
    if config.key is None and wanted.dry_run:
        due = [each for each in foresee_lake(config, ledger, (), log) if not each.left]
        before, after = sum(each.files for each in due), sum(each.files_after for each in due)
    elif config.key is None:
        done = compact_lake(config, ledger, (), lambda *_: None, log).partitions
        good = [each for each in done if each.outcome == CompactionOutcome.COMPACTED]
        before = sum(each.files_before for each in good)
        after = sum(each.files_after for each in good)
        bad = (each.reason for each in done if each.outcome == CompactionOutcome.FAILED)
        failed = tuple(dict.fromkeys(bad))
    sink = IcebergTableSink(config.table, lake, dict(config.catalog.options))
    try:
        expiry = sink.expiry(ledger.uuid, ledger.log, log)
        if wanted.dry_run:
            _, due_now = expiry.due(wanted.keep_s)
            expired = Expired(len(due_now.snapshots), len(due_now.tags))
        else:
            expired = expiry.expire(wanted.keep_s)
        orphans = _orphans(sink, ledger, wanted, log)
    finally:
        sink.close()
    return Maintained(before, after, failed, expired, orphans)


def _orphans(
    sink: IcebergTableSink, ledger: FencedLog, wanted: MaintenanceRequest, log: Log
) -> Orphans | None:
    if wanted.orphan_age_s is None:
        return None
    found = sink.orphans(ledger.uuid, ledger.log, log)
    act = found.find if wanted.dry_run else found.remove
    return act(wanted.orphan_age_s)
