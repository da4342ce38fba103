"""The block `event_time` of a job file: when a row happened, and when it is too late or early."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import (
    DottedPath,
    Line,
    TimeZone,
    duration,
    instant_us,
    is_table_name,
    parse_duration_ms,
    wrong,
)

RECORD_TIME = "$record_time"
PROCESSING_TIME = "$processing_time"
OWN_FIELDS = (RECORD_TIME, PROCESSING_TIME)
"""Event times that no column holds."""

UNLIMITED: Final = "unlimited"
DEFAULT_ARCHIVE_WINDOW_MS = 86_400_000
TABLE_IN_NAME: Final = "{table}"
"""Stands in a late table's name for the name of the route's own table, without its database."""

_LONGEST = "3650000d"
_LONGEST_MS = parse_duration_ms(_LONGEST)


def _check_field(field: str) -> str:
    if field.startswith("$") and field not in OWN_FIELDS:
        raise wrong(f"a path, or one of {', '.join(OWN_FIELDS)}", "correct it")
    return field


def late_table_name(text: str, table: str) -> str:
    """The table over a route's late place, in lower case.

    Args:
        text: `database.table` as written, perhaps with `{table}`.
        table: Name of the route's own table, without its database.
    """
    return text.replace(TABLE_IN_NAME, table).lower()


def _check_late_table(text: str) -> str:
    if not is_table_name(late_table_name(text, "t")):
        todo = f"plain letters, digits and `_`; {TABLE_IN_NAME} stands for the route's own table"
        raise wrong("`database.table` of a Hive table", todo)
    return text


def parse_instant_us(text: object) -> int:
    """Microseconds since the epoch of a date with time and zone. Called by pydantic.

    Raises:
        ValueError: The text is no such date.
    """
    at_us = instant_us(text)
    if at_us is None:
        todo = "write date, time and zone, in quotes"
        raise wrong("a time such as `2020-01-01T00:00:00Z`", todo)
    return at_us


def _parse_window(text: object) -> int | str:
    if text == UNLIMITED:
        return UNLIMITED
    value_ms = parse_duration_ms(text)
    if value_ms > _LONGEST_MS:
        raise wrong(f"a duration from 0s to {_LONGEST}, or `{UNLIMITED}`", "choose one")
    return value_ms


class EventTimeSpec(Block):
    """Event time of a row.

    Attributes:
        field: Dotted path that begins with a column, `$record_time` or `$processing_time`.
        unit: Unit of a numeric event time; text with an offset is `iso8601` by itself. None only
            for text or `format`.
        format: Pattern of a text event time, or `iso8601` with an optional offset; None goes by
            `unit`.
        timezone: Time zone of partition values, and of texts without an offset.
        max_future_ms: How far a row may be ahead of the clock; beyond it the row is dirty.
        min_time_us: Earliest event time; an earlier row is dirty. None sets no limit.
        out_of_orderness_ms: How far the watermark of the route stays behind the greatest event
            times.
        archive_window_ms: How far a row may be behind the greatest event time of its source
            partition before it is late; None is `1d` with `late` or `ready`, else no limit.
        idle_after_ms: How long a source partition without new rows holds the watermark.
        late: What happens to late rows; None is `side_output`.
        late_table: Hive table over the late rows, `database.table`, which may contain `{table}`;
            None creates none.
        reopen_every_ms: Shortest time between two announcements of an hour with late rows.
    """

    field: Annotated[DottedPath, AfterValidator(_check_field)]
    unit: Literal["s", "ms", "us", "ns", "iso8601"] | None = None
    format: Line | None = None
    timezone: TimeZone = "UTC"
    max_future_ms: Annotated[int, *duration("0s", _LONGEST)] = Field(
        default=3_600_000, alias="max_future"
    )
    min_time_us: Annotated[int | None, BeforeValidator(parse_instant_us)] = Field(
        default=None, alias="min_time"
    )
    out_of_orderness_ms: Annotated[int, *duration("0s", "365d")] = Field(
        default=60_000, alias="out_of_orderness"
    )
    archive_window_ms: Annotated[
        int | Literal["unlimited"] | None, BeforeValidator(_parse_window)
    ] = Field(default=None, alias="archive_window")
    idle_after_ms: Annotated[int, *duration("1s", "30d")] = Field(
        default=300_000, alias="idle_after"
    )
    late: Literal["side_output", "redirect", "reopen", "dirty"] | None = None
    late_table: Annotated[str, AfterValidator(_check_late_table)] | None = None
    reopen_every_ms: Annotated[int, *duration("1m", "30d")] = Field(
        default=3_600_000, alias="reopen_every"
    )

    @property
    def is_own(self) -> bool:
        """Whether no column holds the event time."""
        return self.field in OWN_FIELDS

    @property
    def asks_for_late(self) -> bool:
        """Whether it has rules for late rows; then rows can be late by their age alone."""
        return self.late is not None or self.late_table is not None
