"""Tries proposed columns on their records, and says what would be dirty."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.errors import JobFileError
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.jobfile.compile.choices import row_columns
from sluiceway.jobfile.compile.compile import format_choice
from sluiceway.jobfile.loader import parse_job
from sluiceway.types.dirty import shown
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.row_rules import payload_fields

if TYPE_CHECKING:
    from sluiceway.formats.contract import DirtyRow

_JOB = """\
version: 1
name: trial
connections:
  main: {{kafka: {{bootstrap_servers: "h:1"}}}}
  hms: {{metastore: {{uri: "thrift://h:1"}}}}
source: {{connection: main, topics: [t]}}
format: {{{form}}}
table:
  hive: {{connection: hms, name: a.b}}
  partition_by: []
  columns:
{columns}
"""
_LINE = re.compile(r'  - \{name: "?(\w+)"?, ')
_MESSAGE_CHARS = 120
_WHOLE = "decode"
"""The stage of rows that are dirty whatever the columns are."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of trying a column.

    Attributes:
        rows: How many rows were tried.
        dirty: How many of these the column makes dirty.
        message: Why the first of them is dirty.
    """

    rows: int
    dirty: int
    message: str

    @property
    def text(self) -> str:
        """The outcome in words."""
        return f"{self.dirty:,} of {self.rows:,} records would be dirty: {self.message}"

    @property
    def doubt(self) -> str:
        """The outcome as a comment."""
        return f"DOUBT: {self.text}"


def tried(form: str, lines: Sequence[str], payloads: Sequence[bytes | None]) -> Mapping[str, Trial]:
    """Columns that make records dirty; an empty name has records that are dirty with any columns.

    Args:
        form: The text within `format: {}`.
        lines: Lines of a `columns` block.
        payloads: Records to try, as the decoder gets them.
    """
    columns = [line for line in lines if line.startswith("  - ")]
    if not columns or not payloads:
        return {}
    choice, fields = _read(form, columns)
    dirty = _dirty(choice, fields, payloads)
    whole = [row for row in dirty if row.stage == _WHOLE]
    found = {"": _trial(whole, len(payloads))} if whole else {}
    if len(whole) == len(dirty):
        return found
    for field in fields:
        # A dirty row names one column only, so each column is tried alone.
        own = [row for row in _dirty(choice, [field], payloads) if row.stage != _WHOLE]
        if own:
            found[field.name] = _trial(own, len(payloads))
    return found


def refused(line: str) -> str:
    """Why no job file can have a line of a `columns` block; empty when one can."""
    try:
        if line.startswith("  - "):
            _read("json: {}", [line])
    except JobFileError as error:
        return shown(str(error), _MESSAGE_CHARS)[1:-1]
    return ""


def _trial(dirty: "Sequence[DirtyRow]", rows: int) -> Trial:
    return Trial(rows, len(dirty), shown(dirty[0].message, _MESSAGE_CHARS)[1:-1])


def with_trials(lines: Sequence[str], trials: Mapping[str, Trial]) -> Iterator[str]:
    """The lines, each with what its column makes dirty, unless it already says so."""
    for line in lines:
        told = _LINE.match(line)
        trial = trials.get(told[1]) if told else None
        if trial is None or " dirty" in line:
            yield line
        else:
            yield f"{line}{'; ' if ' # ' in line else ' # '}{trial.doubt}"


def _read(form: str, columns: Sequence[str]) -> tuple[FormatChoice, Sequence[Field]]:
    text = _JOB.format(form=form, columns="\n".join(f"  {line}" for line in columns))
    (route,) = parse_job(text.encode(), Path("trial.yaml"), {}).spec.routes
    return format_choice(route), payload_fields(row_columns(route) or ())


def _dirty(
    choice: FormatChoice, fields: Sequence[Field], payloads: Sequence[bytes | None]
) -> "tuple[DirtyRow, ...]":
    return open_decoder(choice, Schema(tuple(fields))).decode(list(payloads)).dirty
