"""What the judge asks of the code under test, in the order in which a driver would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from readiness_oracle.history import CountMessage, Look, Span


class RefusedError(Exception):
    """A record that the code under test has made breaks a rule of its own ledger."""


class Fate(StrEnum):
    """Where a row went. A late row that is written all the same is late."""

    WRITTEN = "written"
    LATE = "late"
    DIRTY = "dirty"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one row.

    Attributes:
        prefix: Where it is written; None when it is in no partition.
    """

    fate: Fate
    prefix: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a task found in one range: event times of its rows, in offset order."""

    span: Span
    events: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Announced:
    """A READY record.

    Attributes:
        counted: Whether the record that has closed it says that its count was there.
    """

    prefix: str
    version: int
    counted: bool = False


class Decider(Protocol):
    """The code under test, as one driver after another uses it."""

    def pin(self, sources: Sequence[int], at: int) -> None:
        """Sources are new; they start at offset 0."""

    def resume(self, sources: Sequence[int], at: int) -> None:
        """Sources that were gone are there again; they go on at their committed ends."""

    def retire(self, sources: Sequence[int]) -> None:
        """Sources are gone."""

    def reset(self, source: int, new_end: int) -> None:
        """An operator has moved a committed end."""

    def plan(self, at: int) -> Any:
        """Plan an epoch; it may begin before the one before has landed."""

    def read(self, plan: Any, read_at: int, tasks: Sequence[Sequence[Batch]]) -> list[Outcome]:
        """Run the tasks; fates in the order of tasks, batches and rows."""

    def commit(
        self, plan: Any, looked_at: int, looks: Mapping[int, Look], clock_wrong: int
    ) -> int | None:
        """Land an epoch's record, or none when it has read nothing; the route's watermark then.

        The driver's clock is ahead by `clock_wrong` when the log ends are read, and was right
        when the epoch was planned.
        """

    def beside(self, looked_at: int, looks: Mapping[int, Look]) -> int | None:
        """Put what is due although nothing was read; no epoch is in flight. The watermark then."""

    def asks(self) -> bool:
        """Whether something is to be put for which no epoch may be in flight."""

    def count(self, topic: Sequence[CountMessage]) -> None:
        """Put what the topic of counts says, from where the ledger has read it to its end now."""

    def waits(self) -> str | None:
        """The hour that nothing but its count holds, as people are told; no epoch is in flight."""

    def announce(self, in_flight: Sequence[Any]) -> list[Announced]:
        """Put all READY records that can be put; `in_flight` are plans that have not landed."""

    def restart(self) -> None:
        """The driver is gone; what another finds are the records."""
