"""The metastore: tables, their ledger property and partitions; calls late, lost or refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluiceway.errors import LedgerMismatchError
from sluiceway.sinks.contract import (
    DesiredPartition,
    ParkedPartition,
    TableIdentity,
    TableSink,
    TableState,
)
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

SCHEMA = Schema((Field(name="id", type=parse_hive_type("bigint"), required=False, path=()),))


class Weather(Protocol):
    """How a call ends: its effect before, after or never, then perhaps an error."""

    def ask_metastore(self, request: str, effect: Callable[[], None]) -> None: ...


@dataclass(slots=True)
class SimTable:
    """A table as the metastore holds it."""

    name: str
    location: str
    ledger: str | None = None
    partitions: dict[tuple[str, ...], str] = field(default_factory=dict)
    ever: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    moved: Callable[[str, str], None] = lambda old, new: None
    refuses: Callable[[tuple[str, ...]], bool] = lambda _: False

    def make(self, wanted: DesiredPartition) -> None:
        """As a metastore makes what is asked for; all places are of this table's ledger."""
        before = self.partitions.get(wanted.values, "")
        if not wanted.exists:
            self.partitions.pop(wanted.values, None)
            self.moved(before, "")
            return
        if wanted.first or wanted.values not in self.partitions:
            self.partitions[wanted.values] = wanted.location
            if before != wanted.location:
                self.moved(before, wanted.location)
            self.ever.add((wanted.values, wanted.location))


@dataclass(frozen=True, slots=True)
class Shown:
    """What the monitor asks of the metastore, without a call.

    Attributes:
        table: Where readers are sent.
        by_owner: Whether the driver acts now that holds the fence.
    """

    table: SimTable
    by_owner: Callable[[], bool]

    def now(self, folder: str) -> bool:
        """Whether readers are sent to this folder."""
        return folder in self.table.partitions.values()

    def ever(self, value: str, folder: str) -> bool:
        """Whether they were ever sent there for this value."""
        return ((value,), folder) in self.table.ever


class SimSink(TableSink):
    """The driver's view of a table."""

    def __init__(self, table: SimTable, weather: Weather) -> None:
        self._table = table
        self._weather = weather

    def open(self) -> TableState:
        self._weather.ask_metastore("open", lambda: None)
        identity = TableIdentity("thrift://sim", "db", self._table.name, 7, self._table.location)
        return TableState(identity, SCHEMA, ("hr",), self._table.ledger)

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        def effect() -> None:
            self._table.ledger = self._table.ledger or ledger

        self._weather.ask_metastore("mark", effect)
        if self._table.ledger != ledger:
            raise LedgerMismatchError(f"the property is {self._table.ledger}")

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        refused = {each.values for each in partitions if self._table.refuses(each.values)}
        wanted = [each for each in partitions if each.values not in refused]

        def effect() -> None:
            for each in wanted:
                self._table.make(each)

        self._weather.ask_metastore("apply", effect)
        return tuple(ParkedPartition(values, "somebody holds it") for values in sorted(refused))

    def shown(self, partitions: Sequence[DesiredPartition]) -> dict[tuple[str, ...], str] | None:
        found: dict[tuple[str, ...], str] = {}

        def effect() -> None:
            held = self._table.partitions
            found.update((each.values, held[each.values]) for each in partitions
                         if each.values in held)  # fmt: skip

        self._weather.ask_metastore("read", effect)
        return found

    def close(self) -> None:
        return
