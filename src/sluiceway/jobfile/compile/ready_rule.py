"""A job file's settings of readiness and lineage, as values."""

from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.blocks.http_receiver import http_receiver
from sluiceway.jobfile.blocks.lineage import LineageSpec
from sluiceway.sources.side_topics import SideTopic


@dataclass(frozen=True, slots=True)
class CountsRule:
    """The source of audited counts.

    Attributes:
        topic: The topic, with the options of its client.
        decide: Which prefixes need a count.
    """

    topic: SideTopic
    decide: CountRule


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnounceRule:
    """What follows an announcement.

    Attributes:
        success_file: Whether each announced folder has a file `_SUCCESS`.
        table_property: Whether a table property says up to which time it is complete.
        webhook_body: Template of the webhook's body; None sends the announcement itself.
    """

    success_file: bool = False
    table_property: bool = True
    webhook: HttpReceiver | None = None
    webhook_body: str | None = None
    topic: SideTopic | None = None


@dataclass(frozen=True, slots=True)
class ReadyRule(AnnounceRule):
    """When the prefixes of a route's table are complete, and what follows.

    Attributes:
        watermark: How the route's watermark is made.
        columns: Name and pattern of each leading time column.
        timezone: Time zone of their texts.
        whole_key: Whether these are all partition columns.
        lateness_us: How long after its end a prefix stays open, in event time, microseconds.
        on_ready: Whether partitions are in the metastore only once they are announced.
        reopen_every_s: Shortest time between two announcements of a prefix with late rows, in
            seconds.
        counts: Audited counts that prefixes wait for; None without.
    """

    watermark: WatermarkRule
    columns: tuple[tuple[str, str], ...]
    timezone: str
    whole_key: bool
    lateness_us: int = 0
    on_ready: bool = True
    reopen_every_s: float = 3600.0
    counts: CountsRule | None = None

    def periods(self) -> PrefixPeriods:
        """Periods of the table's prefixes; a new object for each caller."""
        return PrefixPeriods(self.columns, self.timezone)


@dataclass(frozen=True, slots=True)
class LineageRule:
    """The receiver of lineage events.

    Attributes:
        namespace: Namespace of the job's routes at the receiver.
        interval_s: Seconds between two events of a running route.
        http: Receiver of POSTs; None where `file` is given.
        file: Absolute path of a file of the driver's machine; None where `http` is given.
    """

    namespace: str
    interval_s: float
    http: HttpReceiver | None = None
    file: str | None = None


def lineage_rule(spec: LineageSpec | None) -> LineageRule | None:
    """The block as a value; None without one. Called when a route is compiled."""
    if spec is None:
        return None
    return LineageRule(
        namespace=spec.namespace,
        interval_s=spec.interval_ms / 1000,
        http=None if spec.http is None else http_receiver(spec.http),
        file=None if spec.file is None else spec.file.path,
    )
