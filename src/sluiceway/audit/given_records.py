"""Records that a person gives instead of a queue, and the rows that a table would get of them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sluiceway.audit.planned_route import PlannedRoute, foresee_route
from sluiceway.audit.row_preview import Preview, preview_batches
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.registry import ICEBERG, CatalogAccess
from sluiceway.sinks.table_options import FOLDER
from sluiceway.sources.contract import Headers, RawRecords, SourceBatch, SourcePartition, Split
from sluiceway.sources.registry import has_text_keys
from sluiceway.storage.access import NO_STORES
from sluiceway.types.log_key import LogKey


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A record as a queue would have it.

    Attributes:
        value: None is a tombstone.
        topic: Empty is the route's first.
        partition: Number of the topic's partition.
        timestamp_ms: The queue's own time of the record, ms since the epoch; None is now.
    """

    value: bytes | None
    key: bytes | None = None
    topic: str = ""
    partition: LogKey = 0
    timestamp_ms: int | None = None
    headers: Headers = ()


class _GivenBatch(SourceBatch):
    """Records of one source partition."""

    def __init__(self, split_index: int, split: Split, records: Sequence[GivenRecord]) -> None:
        self.split_index = split_index
        self.values = [each.value for each in records]
        self.offsets = list(range(len(records)))
        self._partition = split.partition
        self._records = records

    def timestamps_ms(self) -> Sequence[int | None]:
        """See `SourceBatch`."""
        now_ms = int(time.time() * 1000)
        return [now_ms if r.timestamp_ms is None else r.timestamp_ms for r in self._records]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        chosen, times = [self._records[row] for row in rows], self.timestamps_ms()
        return RawRecords(
            topics=[self._partition.topic] * len(rows),
            partitions=[self._partition.partition] * len(rows),
            offsets=list(rows),
            timestamps_ms=[times[row] for row in rows],
            keys=[each.key for each in chosen],
            values=[each.value for each in chosen],
            headers=[each.headers for each in chosen],
        )


def records_of_lines(path: Path) -> list[GivenRecord]:
    """Records whose values are the lines of a file; empty lines are none.

    Raises:
        WrongUsageError: It cannot be read, or has no line.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise WrongUsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    found = [GivenRecord(line.removesuffix(b"\r")) for line in lines if line.strip()]
    if not found:
        raise WrongUsageError("the file has no line", where=str(path), hint="a value a line")
    return found


def preview_given(config: RouteConfig, records: Sequence[GivenRecord]) -> Preview:
    """Make rows of records by the code that a task runs; asks no queue and no catalog.

    The table is the one that the job file would create. Only where its columns are those of an
    existing table is the catalog asked; a registry is asked where the format needs one.

    Args:
        config: The route.
        records: Each source partition's own in their order; their offsets count from 0.

    Raises:
        WrongUsageError: The key is what the records of the topic say.
        SluicewayError: As `row_preview.preview_rows`.
    """
    if config.awaits_key is not None:
        raise WrongUsageError(
            "the table's key is what the topic's records say, and no topic is asked here",
            hint="name the columns: `key: [id]`",
        )
    batches = list(_batches(config, records))
    splits = [split for split, _ in batches]
    with TemporaryDirectory(prefix="sluiceway-") as folder:
        route = _foresee_alone(config, folder)
        return preview_batches(route, splits, [batch for _, batch in batches])


def _batches(
    config: RouteConfig, records: Sequence[GivenRecord]
) -> Iterator[tuple[Split, _GivenBatch]]:
    texts = has_text_keys(config.source)
    by_log: dict[SourcePartition, list[GivenRecord]] = {}
    for each in records:
        number: LogKey = str(each.partition) if texts else each.partition
        log = SourcePartition(each.topic or next(iter(config.topics), ""), number)
        by_log.setdefault(log, []).append(each)
    for index, (log, of_log) in enumerate(sorted(by_log.items())):
        split = Split(log, 0, len(of_log))
        yield split, _GivenBatch(index, split, of_log)


def _foresee_alone(config: RouteConfig, folder: str) -> PlannedRoute:
    """The route as it would start with a new table, in a catalog in an empty folder."""
    of_table = config.sql is not None and config.sql.of_table
    if of_table or (config.columns is None and config.awaits_columns is None):
        return foresee_route(config)
    table = replace(
        config.table,
        metastore=f"{FOLDER}{folder}",
        metastore_options=(),
        create=True,
        location=None,
        stores=NO_STORES,
    )
    access = CatalogAccess()
    if table.lake is not None:
        place = (("uri", f"sqlite:///{folder}/catalog.db"), ("warehouse", f"file://{folder}"))
        access = CatalogAccess(ICEBERG, (("kind", "sql"), *place))
    return foresee_route(replace(config, catalog=access, table=table))
