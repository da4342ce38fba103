"""The block `retention` of a job file: how long partitions are kept."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from sluiceway.jobfile.blocks.block import Block, mapping
from sluiceway.jobfile.blocks.event_time import DEFAULT_ARCHIVE_WINDOW_MS, UNLIMITED
from sluiceway.jobfile.blocks.values import duration, parse_duration_ms
from sluiceway.jobfile.positions import Positions
from sluiceway.jobfile.problems import JobFileProblem

_PIECE = re.compile(r"yyyy|MM|dd|HH|mm")
_ORDER = ("yyyy", "MM", "dd", "HH", "mm")
_KEY = ("retention", "partitions")


class RetentionSpec(Block):
    """How long partitions are kept.

    Attributes:
        partitions_ms: How long a partition is kept after the end of its event time.
        drop: Whether the driver also removes the files.
    """

    partitions_ms: Annotated[int, *duration("1h", "36500d")] = Field(alias="partitions")
    drop: bool = False


def check_retention(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse a retention that drops partitions of rows that may still come.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    if "retention" not in data:
        return
    kept_ms = _duration_ms(mapping(data, "retention").get("partitions"))
    yield from _check_window(data, positions, kept_ms)
    parts = mapping(data, "table").get("partition_by")
    if not isinstance(parts, tuple) or not all(isinstance(part, Mapping) for part in parts):
        return
    patterns = []
    for part in parts:
        pattern = part.get("event_time")
        if not isinstance(pattern, str):
            break
        patterns.append(pattern)
    said = {piece for pattern in patterns for piece in _PIECE.findall(pattern)}
    named = tuple(piece for piece in _ORDER if piece in said)
    if not named or named != _ORDER[: len(named)]:
        text = "expected partition columns that begin with the year of an `event_time`"
        todo = "put the columns of the event time first, or remove `retention`"
        yield JobFileProblem(positions.key(("retention",)), text, todo)


def _check_window(
    data: Mapping[str, Any], positions: Positions, kept_ms: int | None
) -> Iterator[JobFileProblem]:
    window = mapping(data, "event_time").get("archive_window")
    if window == UNLIMITED:
        text = "expected an `event_time.archive_window`: unlimited takes rows of any age"
        yield JobFileProblem(positions.key(("retention",)), text, "write how old a row may be")
        return
    window_ms = DEFAULT_ARCHIVE_WINDOW_MS if window is None else _duration_ms(window)
    lateness = mapping(data, "ready").get("allowed_lateness")
    lateness_ms = 0 if lateness is None else _duration_ms(lateness)
    if kept_ms is None or window_ms is None or lateness_ms is None:
        return  # Reported elsewhere.
    if kept_ms < window_ms + lateness_ms:
        least = duration_text(window_ms + lateness_ms)
        text = f"expected at least {least}: event_time.archive_window and ready.allowed_lateness"
        yield JobFileProblem(positions.value(_KEY), text, "keep partitions longer")


def _duration_ms(text: object) -> int | None:
    try:
        return parse_duration_ms(text)
    except ValueError:
        return None


def duration_text(value_ms: int) -> str:
    """A duration in the largest unit of which it is a whole number."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if value_ms % unit_ms == 0:
            return f"{value_ms // unit_ms}{unit}"
    return f"{value_ms}ms"
