"""Which seeds announce their partitions, and by which job file."""

from sim.readiness import IDLE_AFTER_US, OUT_OF_ORDERNESS_US, Timed
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import CountsRule, ReadyRule
from sluiceway.sources.side_topics import SideTopic


def timed(seed: int) -> Timed | None:
    """Every third seed announces what it closes; the others go as they always did."""
    if seed % 3:
        return None
    kind = seed // 3
    counts = {1: "with_watermark", 3: "alone", 4: "with_watermark"}.get(kind % 7, "")
    late_us = kind % 4 // 3 * 60_000_000
    return Timed(on_ready=kind % 2 == 0, hold=kind % 5 == 0, lateness_us=late_us, counts=counts)


def ready_rule(found: Timed | None) -> ReadyRule | None:
    """The block `ready` of such a seed."""
    if found is None:
        return None
    return ReadyRule(
        watermark=WatermarkRule(OUT_OF_ORDERNESS_US, IDLE_AFTER_US, found.hold),
        columns=(("hr", "yyyyMMddHHmm"),),
        timezone="UTC",
        whole_key=True,
        lateness_us=found.lateness_us,
        on_ready=found.on_ready,
        reopen_every_s=5.0,
        counts=CountsRule(SideTopic((), "counts"), CountRule(alone=found.counts == "alone"))
        if found.counts
        else None,
    )
