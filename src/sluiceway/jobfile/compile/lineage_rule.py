"""A job file's settings of lineage, as values."""

from dataclasses import dataclass

from sluiceway.host.http import HttpReceiver
from sluiceway.jobfile.blocks.http_receiver import http_receiver
from sluiceway.jobfile.blocks.lineage import LineageSpec


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
