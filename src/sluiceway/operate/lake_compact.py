"""`compact` of a lake table: by this process, while any driver may run and need not be asked.

Requests of a compaction assert what they were built on, so any number of them may live.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from sluiceway.errors import NotInThisVersionError, SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import is_below
from sluiceway.observe.log import Log
from sluiceway.operate.requested import Watch
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction
from sluiceway.sinks.iceberg.compact.small_files import SmallFiles, in_one_go
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.compaction_choice import PlannedCompaction, ideal_files
from sluiceway.upkeep.partition_requests import CompactAnswer, CompactionOutcome, PartitionDone

_POLL_S = 0.2
_FEW = "its files are few and large enough"


@dataclass(frozen=True, slots=True)
class FencedLog:
    """A ledger that a driver has begun with.

    Attributes:
        log: The log, to read.
        uuid: Its own.
    """

    log: LedgerLog
    uuid: str


@dataclass(slots=True)
class _Work:
    """What has been done so far.

    Attributes:
        left: Why partitions were left as they are.
        failed: Why they failed; the rest of such a partition is compacted all the same.
        ended: Partitions of which nothing more is tried.
        costs_s: Wall and CPU time of each, by its share of the bytes.
    """

    left: dict[str, str]
    failed: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    costs_s: dict[str, tuple[float, float]] = field(default_factory=dict)


@contextmanager
def _opened(config: RouteConfig, ledger: FencedLog, log: Log) -> Iterator[LakeCompaction]:
    where = f"{config.table.database}.{config.table.table}"
    lake = config.table.lake
    if lake is None or config.key is not None:
        raise NotInThisVersionError(
            "a keyed table is not compacted on demand",
            where=where,
            hint="each publish rewrites what is due: docs/guides/keyed-tables.md",
        )
    sink = IcebergTableSink(config.table, lake, dict(config.catalog.options))
    try:
        compaction = sink.compaction(ledger.uuid, ledger.log, log)
        try:
            yield compaction
        finally:
            compaction.close()
    finally:
        sink.close()


def foresee_lake(
    config: RouteConfig, ledger: FencedLog, names: Sequence[str], log: Log
) -> list[PlannedCompaction]:
    """What would become of partitions, as the table is now. Changes nothing.

    Args:
        config: The route.
        ledger: Its own.
        names: Partitions, or folders above some; none means all.
        log: Log of this process.

    Raises:
        NotInThisVersionError: The table has a key.
        SluicewayError: The table cannot be read.
    """
    with _opened(config, ledger, log) as compaction:
        groups, whole = compaction.plan(all_of_them=True)
        found = []
        for name, (files, size_bytes) in sorted(compaction.partitions().items()):
            if not _is_meant(name, names):
                continue
            mine = [group for group in groups if group.partition == name]
            after = files - sum(len(group.paths) - 1 for group in mine)
            after = max(after, ideal_files(size_bytes, config.rolling.target_bytes))
            left = whole or ("" if mine else _FEW)
            found.append(PlannedCompaction(name, files, size_bytes, files if left else after, left))
        return found


def compact_lake(
    config: RouteConfig,
    ledger: FencedLog,
    names: Sequence[str],
    watch: Watch[CompactAnswer],
    log: Log,
) -> CompactAnswer:
    """Compact partitions of a lake table. Safe to end anywhere and to repeat.

    A file that cannot be read fails its partition; all that can be compacted is.

    Args:
        config: The route.
        ledger: Its own.
        names: Partitions, or folders above some; none means all.
        watch: Called with the progress.
        log: Log of this process.

    Raises:
        NotInThisVersionError: The table has a key.
        SluicewayError: The table cannot be read; what is done stays done.
    """
    with _opened(config, ledger, log) as compaction:
        before = {n: v for n, v in compaction.partitions().items() if _is_meant(n, names)}
        groups, whole = compaction.plan(all_of_them=True)
        work = _Work(left=dict.fromkeys(before, whole) if whole else {})
        while groups := [
            group
            for group in groups
            if group.partition in before.keys() - work.left.keys() - work.ended
        ]:
            _one_go(compaction, in_one_go(groups), work, watch)
            groups, _ = compaction.plan(all_of_them=True)
        after = compaction.partitions()
    found = tuple(
        _done(name, before[name], after.get(name, (0, 0)), work) for name in sorted(before)
    )
    return CompactAnswer(finished=True, partitions=found, waiting=0)


def _one_go(
    compaction: LakeCompaction, groups: list[SmallFiles], work: _Work, watch: Watch[CompactAnswer]
) -> None:
    began_s, cpu_s = time.monotonic(), _children_s()
    compaction.begin(groups)
    while not compaction.is_over():
        watch(None, False)  # noqa: FBT003 - no other driver
        time.sleep(_POLL_S)
    try:
        for each in compaction.finish():
            if each.failed:
                work.failed.setdefault(each.partition, each.failed)
            elif each.left:
                work.left[each.partition] = each.left
    except SluicewayError as error:
        work.ended |= {group.partition for group in groups}
        work.failed |= {group.partition: error.message for group in groups}
    wall_s, cpu_s = time.monotonic() - began_s, _children_s() - cpu_s
    whole = sum(group.size_bytes for group in groups)
    for group in groups:
        share = group.size_bytes / whole
        wall, cpu = work.costs_s.get(group.partition, (0.0, 0.0))
        work.costs_s[group.partition] = wall + wall_s * share, cpu + cpu_s * share


def _children_s() -> float:
    """CPU of processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _is_meant(name: str, names: Sequence[str]) -> bool:
    # Lakes escape values as URLs do; a person may write them as they are.
    return not names or any(is_below(name, each) or unquote_plus(name) == each for each in names)


def _done(name: str, before: tuple[int, int], after: tuple[int, int], work: _Work) -> PartitionDone:
    outcome, reason = CompactionOutcome.COMPACTED, ""
    if name in work.failed:
        outcome, reason = CompactionOutcome.FAILED, work.failed[name]
    elif name in work.left or after[0] >= before[0]:
        outcome, reason = CompactionOutcome.LEFT, work.left.get(name, _FEW)
    wall_s, cpu_s = work.costs_s.get(name, (0.0, 0.0))
    return PartitionDone(
        partition=name,
        outcome=outcome,
        reason=reason,
        files_before=before[0],
        files_after=after[0],
        bytes_before=BigInt(before[1]),
        bytes_after=BigInt(after[1]),
        wall_ms=int(wall_s * 1000),
        cpu_ms=int(cpu_s * 1000),
    )
