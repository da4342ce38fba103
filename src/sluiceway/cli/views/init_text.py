"""A job file as text with comments, from the records of a topic and the columns of a table."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluiceway.cli.views.proposed_columns import (
    as_comment,
    column_line,
    column_settings,
    proposed_line,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.cli.views.proposed_columns import Proposal
    from sluiceway.formats.json.survey import ProposedColumn

_PATTERNS = (
    (r"\d{8}", "yyyyMMdd"),
    (r"\d{4}-\d{2}-\d{2}", "yyyy-MM-dd"),
    (r"\d{10}", "yyyyMMddHH"),
    (r"\d{4}-\d{2}-\d{2} \d{2}", "yyyy-MM-dd HH"),
    (r"\d{6}", "yyyyMM"),
    (r"\d{4}-\d{2}", "yyyy-MM"),
    (r"\d{4}", "yyyy"),
    (r"\d{2}", "HH"),
)
_USUAL = {
    **dict.fromkeys(("dt", "ds", "day", "date", "pt", "p_date"), "yyyyMMdd"),
    **dict.fromkeys(("hr", "hour", "hh", "h", "p_hour"), "HH"),
}


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column with the event time.

    Attributes:
        field: Its name, or the path to it inside of a column.
        unit: Unit of a number since 1970; empty for a time as text or of the record itself.
    """

    field: str
    unit: str = ""

    @property
    def is_inner(self) -> bool:
        """Whether it is inside of a column."""
        return "." in self.field


RECORD_TIME = EventTime("$record_time")
"""The queue's own time of a record."""


def time_columns(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Columns whose values are times, with few exceptions; columns of all rows come first."""
    found = []
    for column in columns:
        units = [time.unit for time in column.times if time.sure and not time.path]
        if units:
            found.append((column.nulls, -column.rows, EventTime(column.name, units[0])))
    return [each for *_, each in sorted(found, key=lambda one: one[:2])]


def column_lines(found: "Proposal", time: EventTime) -> list[str]:
    """The items of a `columns` block; doubts as comments, and what would be dirty."""
    lines = list(found.before)
    for column in found.columns:
        if column.name != time.field:
            lines.append(proposed_line(column, found.rows))
            continue
        unit = [f"unit: {time.unit}"] if time.unit else []
        settings = [*unit, *column_settings(column), "required: true"]
        notes = ["When a row happened.", *time_doubts(column)]
        lines.append(column_line(column.name, "timestamp", notes, settings))
    return found.noted(lines)


def time_doubts(column: "ProposedColumn") -> list[str]:
    """Doubts about a column of event times: what of it is dirty, or a guess."""
    said = ("may be ", "times as text; ")
    return [f"DOUBT: {each}" for each in column.doubts if not each.startswith(said)]


def time_pattern(name: str, value: str | None) -> str | None:
    """Time pattern of a partition column, by one of its values or by its name; None for none."""
    for form, pattern in _PATTERNS:
        if value is not None and re.fullmatch(form, value):
            return pattern
    return _USUAL.get(name.lower()) if value is None else None


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of the table, as a job file has it.

    Attributes:
        sink: The block below `table`: `hive` or `iceberg`.
        connection: Name of the connection.
        catalog: Text of the connection, without its braces.
    """

    sink: str
    connection: str
    catalog: str


def hive_place(metastore: str) -> TablePlace:
    """A table of a Hive Metastore, `thrift://host:port`."""
    return TablePlace("hive", "hms", f"metastore: {{uri: {quoted(metastore)}}}")


@dataclass(frozen=True, slots=True)
class JobText:
    """The contents of the file; texts are YAML already.

    Attributes:
        place: The place of the table.
        format_line: `format: ...`.
        columns: Lines of the block below `table`, without indent.
        partitions: Items of `partition_by`.
        time: Event time; None without partitions by time.
        notes: Comments at the file's head.
        registry: URL of a schema registry; empty without one.
        announce: Whether readers see an hour only when it is complete.
        meta: Columns for the queue's own fields of a record.
        key: Lines about a table's key, without indent; empty without one.
    """

    name: str
    bootstrap_servers: str
    place: TablePlace
    topic: str
    table: str
    format_line: str
    columns: tuple[str, ...]
    partitions: tuple[str, ...]
    time: EventTime | None
    notes: tuple[str, ...] = ()
    registry: str = ""
    announce: bool = False
    meta: tuple[str, ...] = ("topic", "partition", "offset", "timestamp")
    key: tuple[str, ...] = ()

    def with_notes(self, *notes: str) -> "JobText":
        """A copy with further comments."""
        return replace(self, notes=(*self.notes, *notes))

    def text(self) -> str:
        """The whole file."""
        lines = [
            as_comment(
                f"{self.topic} into {self.table}. Each key is in docs/reference/job-file.md."
            ),
            *map(as_comment, self.notes),
            "version: 1",
            f"name: {self.name}",
            "",
            "connections: # Addresses and secrets may be ${env:NAME} or ${file:/path}.",
            f"  main: {{kafka: {{bootstrap_servers: {quoted(self.bootstrap_servers)}}}}}",
            f"  {self.place.connection}: {{{self.place.catalog}}}",
        ]
        if self.registry:
            lines.append(f"  registry: {{schema_registry: {{url: {quoted(self.registry)}}}}}")
        lines += [
            "",
            "# Where a new source partition begins: earliest, latest, {timestamp: }, {group: }.",
            f"source: {{connection: main, topics: [{quoted(self.topic)}], start: earliest}}",
            self.format_line,
            "",
            "table:",
            f"  {self.place.sink}: {{connection: {self.place.connection}, name: {self.table}, "
            "create: if_missing}",
            *(f"  {line}" for line in self.key),
            *(f"  {line}" for line in self.columns),
            *self._partition_lines(),
        ]
        if self.meta:
            lines.append(f"  meta: [{', '.join(self.meta)}] # Where each row came from.")
        return "\n".join([*lines, *self._time_lines(), *_LAST]) + "\n"

    def _partition_lines(self) -> list[str]:
        if not self.partitions:
            return ["  partition_by: []"]
        return ["  partition_by: # In path order.", *(f"    - {each}" for each in self.partitions)]

    def _time_lines(self) -> list[str]:
        if self.time is None:
            return []
        unit = f", unit: {self.time.unit}" if self.time.unit else ""
        shown = "success_file: true" if self.place.sink == "hive" else "property: true"
        return [
            "",
            "# Rows may be so much out of order; then an hour is closed, and later rows are late.",
            f"event_time: {{field: {self.time.field}{unit}, timezone: UTC, out_of_orderness: 5m}}",
            "# Readers see an hour when it is complete; without the block, at once.",
            f"{'' if self.announce else '# '}ready: {{{shown}}}",
        ]


_LAST = (
    "# Halt when more than a tenth of the rows does not fit (docs/guides/dirty-rows.md).",
    "dirty: {max_rate: {ratio: 0.1, window: 10m}}",
    "run: {interval: 10s} # From one commit to the next.",
)
