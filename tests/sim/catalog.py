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
        wanted = list(partitions)

        def effect() -> None:
            for each in wanted:
                self._table.partitions.setdefault(each.values, each.location)

        self._weather.ask_metastore("apply", effect)
        return ()

    def close(self) -> None:
        return
