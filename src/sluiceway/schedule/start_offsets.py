"""Where new source partitions begin: the job file's start, resolved against the source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluiceway.errors import OffsetsLostError
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition


@dataclass(frozen=True, slots=True)
class ResolvedStart:
    """First offset of a partition, and how it was found: a `PinnedPartition.how`."""

    offset: int
    how: str


def resolve_start(
    start: StartAt,
    partitions: Sequence[SourcePartition],
    bounds: Mapping[SourcePartition, LogBounds],
    source: SourceClient,
) -> dict[SourcePartition, ResolvedStart]:
    """Resolve a start for partitions that are new to the ledger. Once for each, ever.

    Offsets and groups that say nothing of a partition leave it to its earliest offset. What a group
    has not committed it may not have read.

    Args:
        start: Start as the job file says.
        partitions: Source partitions to resolve.
        bounds: Bounds of at least these.
        source: Asked for a timestamp and for a group.

    Raises:
        OffsetsLostError: A given offset is outside of its log; says both.
        SourceUnavailableError: The source does not answer.
    """
    if not partitions:
        return {}
    match start.kind:
        case "earliest":
            given: dict[SourcePartition, int] = {}
        case "latest":
            given = {one: bounds[one].end_offset for one in partitions}
        case "timestamp":
            given = source.offsets_at(partitions, start.timestamp_ms)
        case "offsets":
            given = {SourcePartition(t, number): offset for t, number, offset in start.offsets}
        case "group":
            given = source.committed(start.group, partitions)
    resolved = {}
    for one in partitions:
        if one in given:
            resolved[one] = ResolvedStart(given[one], start.kind)
            _check(one, given[one], bounds[one], start)
        else:
            resolved[one] = ResolvedStart(bounds[one].start_offset, "earliest")
    return resolved


def _check(partition: SourcePartition, offset: int, log: LogBounds, start: StartAt) -> None:
    # A time is resolved by the log itself; it may have moved on since its bounds were read.
    if start.kind not in ("offsets", "group"):
        return
    if not log.start_offset <= offset <= log.high_watermark:
        whose = f"group {start.group}" if start.kind == "group" else "the job file"
        raise OffsetsLostError(
            f"{whose} starts at offset {offset}, the log runs from {log.start_offset} "
            f"to {log.high_watermark}",
            where=str(partition),
            hint="rows between them are gone, or it is another log of this name; "
            "choose another start",
        )
