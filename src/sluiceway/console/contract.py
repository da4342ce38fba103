"""The page's questions about a job; the commands of `cli/` answer them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Document = Mapping[str, Any]
"""An answer for programs: values of JSON, times in milliseconds under names that end with `_ms`."""

MOST_RECORDS = 200
"""Most records of a ledger in one answer."""

MOST_ROWS = 100
"""Most dirty rows in one answer."""


@dataclass(frozen=True, slots=True)
class DirtyChoice:
    """Selects dirty rows; None excludes nothing."""

    reason: str | None = None
    path: str | None = None
    state: str = "open"
    limit: int = 20


class JobAnswers(Protocol):
    """Answers of one job file, each the document of the named command.

    Any thread may call, several at once. Nothing outside is changed. Every method raises a
    SluicewayError when the job file, a store, the metastore or a ledger cannot be read. It raises a
    WrongUsageError for an unknown route, partition or code.
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
