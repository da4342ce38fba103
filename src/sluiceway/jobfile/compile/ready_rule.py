"""What a job file says of readiness, as values."""

from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.host.http import HttpReceiver
from sluiceway.sources.side_topics import SideTopic


@dataclass(frozen=True, slots=True)
class CountsRule:
    """Where audited counts come from.

    Attributes:
        topic: With the connection's options, as the client takes them.
        decide: Which prefixes need one.
    """

    topic: SideTopic
    decide: CountRule


@dataclass(frozen=True, slots=True)
class ReadyRule:
    """When the prefixes of a route's table are complete, and what is done about it.

    Attributes:
        watermark: How the route's watermark is made.
        columns: Name and pattern of each leading time column.
        timezone: That their texts are in.
        whole_key: Whether there are no other partition columns.
        lateness_us: How long behind its end a prefix stays open, in event time.
        on_ready: Whether partitions are in the metastore only once they are announced.
        success_file: Whether each announced folder has a file `_SUCCESS`.
        table_property: Whether the table's property says how far it is complete.
        webhook_body: What it is sent, as a template; None is the announcement as it is.
        reopen_every_s: How often rows that came late are announced anew, at most.
        counts: Audited counts that prefixes wait for; None without.
    """

    watermark: WatermarkRule
    columns: tuple[tuple[str, str], ...]
    timezone: str
    whole_key: bool
    lateness_us: int = 0
    on_ready: bool = True
    success_file: bool = False
    table_property: bool = True
    webhook: HttpReceiver | None = None
    webhook_body: str | None = None
    topic: SideTopic | None = None
    reopen_every_s: float = 3600.0
    counts: CountsRule | None = None

    def periods(self) -> PrefixPeriods:
        """Periods of the table's prefixes; a new object for each caller."""
        return PrefixPeriods(self.columns, self.timezone)
