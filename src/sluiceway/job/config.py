"""What a driver needs to know of a job file, as values."""

from dataclasses import dataclass
from typing import Literal

from sluiceway.sinks.hive.options import HiveTableOptions
from sluiceway.types.schema import Schema
from sluiceway.worker.plan import EventTimeRule, KafkaAccess, MetaColumn, PartitionRule


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """One route: topics into one table.

    Attributes:
        start: `earliest` or `latest`, for source partitions that the ledger does not know.
        columns: Declared payload columns; None takes them from the table.
        interval_s: Reading time of an epoch.
        straggler_timeout_s: How long after that a task may take to close its files.
    """

    job: str
    route: str
    topics: tuple[str, ...]
    start: str
    kafka: KafkaAccess
    hive: HiveTableOptions
    columns: Schema | None
    extra: Literal["ignore"]
    tombstones: Literal["skip", "dirty"]
    meta: tuple[MetaColumn, ...]
    event_time: EventTimeRule | None
    partitions: tuple[PartitionRule, ...]
    interval_s: float
    straggler_timeout_s: float

    @property
    def group(self) -> str:
        """Consumer group under which progress is reported to lag tools."""
        return f"sluiceway-{self.job}-{self.route}"
