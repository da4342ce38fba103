"""What the page asks of a job; the commands of `cli/` answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Document = Mapping[str, Any]
"""An answer for programs: values of JSON, times in milliseconds under names that end with `_ms`."""

MOST_RECORDS = 200
"""Records of a ledger in one answer."""

MOST_ROWS = 100
"""Dirty rows in one answer."""


@dataclass(frozen=True, slots=True)
class DirtyChoice:
    """Which dirty rows are wanted; None leaves nothing out."""

    reason: str | None = None
    path: str | None = None
    state: str = "open"
    limit: int = 20


class JobAnswers(Protocol):
    """Answers of one job file, each the document of the command that is named.

    Any thread may call, several at once. Nothing outside is changed. Every method raises a
    SluicewayError when the job file, a store, the metastore or a ledger cannot be read, and
    WrongUsageError where a route, a partition or a code is not known.
    """

    @property
    def path(self) -> Path:
        """The job file."""

    def status(self) -> Document:
        """`status`: may wait ten seconds for drivers on other hosts."""

    def partitions(self) -> Document:
        """`partitions list`."""

    def why(self, route: str, partition: str) -> Document:
        """`partitions why`."""

    def dirty(self) -> Document:
        """`dirty list`, with the command that replays each group of open rows."""

    def dirty_rows(self, route: str, choice: DirtyChoice) -> Document:
        """`dirty show`: `rows`, and whether there are `more`."""

    def ledger(self, route: str, start: int | None, limit: int) -> Document:
        """`ledger show`: `records` from slot `start` on, the last ones without it; `next_seq`."""
