"""Sinks with a planted fault: the suite has to find each of them."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from sluiceway.catalog.hive_table import MetastoreTable
from sluiceway.conformance.sinks import SinkConformance
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.contract import (
    DesiredPartition,
    ParkedPartition,
    ShownPartition,
    TableIdentity,
    TableSink,
    TableState,
    Values,
)
from sluiceway.sinks.hive.table import HiveTableSink, InspectedHiveTable
from sluiceway.sinks.table_options import TableOptions
from tools.hive_under_test import TABLE, HiveUnderTest
from tools.raw_metastore import raw_client
from tools.suite_runs import fails, names_of_tests

Partitions = Sequence[DesiredPartition]
Parked = tuple[ParkedPartition, ...]


class ParksWhatItMadeItself(HiveTableSink):
    """Takes "it exists already" for someone else's partition."""

    def apply(self, partitions: Partitions) -> Parked:
        with raw_client(self._options.metastore) as raw:
            found = raw.get_partitions(self._options.database, TABLE, -1)
        there = {tuple(one.values) for one in found}
        known = [p for p in partitions if p.values in there]
        parked = super().apply([p for p in partitions if p.values not in there])
        return (*parked, *(ParkedPartition(p.values, "it exists") for p in known))


class RemembersWhatItDid(HiveTableSink):
    def __init__(self, options: TableOptions) -> None:
        super().__init__(options)
        self._done: set[tuple[str, ...]] = set()

    def apply(self, partitions: Partitions) -> Parked:
        parked = super().apply([p for p in partitions if p.values not in self._done])
        self._done |= {p.values for p in partitions}
        return parked


class DropsWhatIsNotAsked(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        parked = super().apply(partitions)
        wanted = {p.values for p in partitions}
        with raw_client(self._options.metastore) as raw:
            for found in raw.get_partitions(self._options.database, TABLE, -1):
                if tuple(found.values) not in wanted:
                    raw.drop_partition(self._options.database, TABLE, found.values, False)  # noqa: FBT003
        return parked


class TakesForeignPartitionsOver(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        for parked in super().apply(partitions):
            with raw_client(self._options.metastore) as raw:
                raw.drop_partition(self._options.database, TABLE, list(parked.values), False)  # noqa: FBT003
        return super().apply(partitions)


class HidesParkedPartitions(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        super().apply(partitions)
        return ()


class AppliesOneBatch(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        return super().apply(partitions[:100])


class LowersValues(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        lowered = {p.values[1].lower(): p for p in partitions if len(p.values) > 1}
        kept = [p for p in partitions if len(p.values) < 2 or p in lowered.values()]
        return super().apply(kept)


class IgnoresOddCounts(HiveTableSink):
    def apply(self, partitions: Partitions) -> Parked:
        return super().apply([p for p in partitions if len(p.values) == 2])


class LooksTheTableUpAnew(HiveTableSink):
    """Looks the table up anew instead of holding on to the one that was opened."""

    def _same_table(self, identity: TableIdentity) -> MetastoreTable:
        table = self._client.get_table(identity.database, identity.name)
        if table is None:
            raise TableMismatchError("the table is gone", where=str(identity))
        return table


class CreatesADroppedTable(HiveTableSink):
    def _same_table(self, identity: TableIdentity) -> MetastoreTable:
        table = self._client.get_table(identity.database, identity.name)
        if table is not None:
            return table
        with closing(HiveTableSink(self._options)) as other:
            return other._create()


class CreatesWhatItHasOpened(HiveTableSink):
    def _create(self) -> MetastoreTable:
        self._identity = None
        return super()._create()


class OverwritesTheLedger(HiveTableSink):
    def mark_ledger(self, state: TableState, ledger: str) -> None:
        self._client.alter_table_parameters(
            state.identity.database,
            state.identity.name,
            put={"sluiceway.ledger": ledger},
            remove=(),
        )


class ForgetsTheLedger(HiveTableSink):
    def mark_ledger(self, state: TableState, ledger: str) -> None:
        self._marked = (state, ledger)


class FailsBesideAnother(HiveTableSink):
    """Two sinks at one table at the same time are one too many."""

    busy = threading.Lock()

    def apply(self, partitions: Partitions) -> Parked:
        if not self.busy.acquire(blocking=False):
            raise RuntimeError("another sink is at it")
        try:
            time.sleep(0.1)
            return super().apply(partitions)
        finally:
            self.busy.release()


class FailsWhenClosedTwice(HiveTableSink):
    _closed = False

    def close(self) -> None:
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True
        super().close()


class CreatesWhatIsLookedAt(HiveTableSink):
    def find(self) -> TableIdentity:
        return self.open().identity


class LooksAtTheDatabaseOnly(HiveTableSink):
    def find(self) -> TableIdentity:
        return replace(super().find(), created_at_s=0)


class _Remembered(InspectedHiveTable):
    """Partitions as they were at the first look."""

    _held: dict[Values, ShownPartition] | None = None

    def other_partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        if self._held is None:
            self._held = super().other_partitions(())
        return {key: shown for key, shown in self._held.items() if key not in wanted}


class RemembersWhatItSaw(HiveTableSink):
    def inspect(self) -> InspectedHiveTable:
        seen = super().inspect()
        seen.__class__ = _Remembered
        seen.other_partitions(())
        return seen


class OpensAnotherTable(HiveTableSink):
    """Drops the table first, so that it is always new."""

    def open(self) -> TableState:
        with raw_client(self._options.metastore) as raw:
            if self._options.database in raw.get_all_databases():
                for name in raw.get_all_tables(self._options.database):
                    raw.drop_table(self._options.database, name, False)  # noqa: FBT003
        state = super().open()
        super().mark_ledger(state, "of-its-own")
        return super().open()


FAULTS: list[tuple[type[HiveTableSink], str]] = [
    (ParksWhatItMadeItself, "test_apply_is_idempotent"),
    (DropsWhatIsNotAsked, "test_apply_is_idempotent"),
    (RemembersWhatItDid, "test_apply_makes_the_desired_state_from_any_state"),
    (TakesForeignPartitionsOver, "test_apply_parks_foreign_locations_and_does_the_others"),
    (HidesParkedPartitions, "test_apply_parks_foreign_locations_and_does_the_others"),
    (TakesForeignPartitionsOver, "test_apply_parks_a_partition_whose_location_switches"),
    (AppliesOneBatch, "test_apply_takes_many_partitions"),
    (LowersValues, "test_apply_keeps_odd_values_apart"),
    (IgnoresOddCounts, "test_apply_of_values_that_do_not_fit_the_columns_is_a_bug"),
    (FailsBesideAnother, "test_apply_by_several_at_once_gives_each_partition_once"),
    (LooksTheTableUpAnew, "test_table_that_was_created_again_is_refused"),
    (LooksTheTableUpAnew, "test_table_that_was_moved_is_refused"),
    (CreatesADroppedTable, "test_dropped_table_is_refused"),
    (CreatesWhatItHasOpened, "test_opening_again_does_not_create_a_dropped_table"),
    (OverwritesTheLedger, "test_mark_ledger_is_kept_and_refuses_another"),
    (ForgetsTheLedger, "test_mark_ledger_is_kept_and_refuses_another"),
    (FailsWhenClosedTwice, "test_close_may_be_repeated_and_harms_no_other_sink"),
    (CreatesWhatIsLookedAt, "test_looks_create_nothing"),
    (LooksAtTheDatabaseOnly, "test_looks_see_the_table_that_was_made"),
    (RemembersWhatItSaw, "test_looks_see_partitions_where_they_are"),
    (OpensAnotherTable, "test_open_finds_what_an_earlier_open_made"),
]


class Broken(HiveUnderTest):
    def __init__(self, metastore_uri: str, sink: type[HiveTableSink]) -> None:
        super().__init__(metastore_uri)
        self._sink = sink

    def new_sink(self) -> TableSink:
        return self._sink(self.options)


def finds(test: str, table: HiveUnderTest) -> bool:
    made: list[TableSink] = []

    def sinks() -> TableSink:
        made.append(table.new_sink())
        return made[-1]

    make: Callable[[], TableSink] = sinks
    try:
        return fails(SinkConformance(), test, table=table, sinks=make)
    finally:
        for sink in made:
            HiveTableSink.close(sink)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fault", "test"), FAULTS)
def test_planted_fault_is_found(fault: type[HiveTableSink], test: str, metastore_uri: str) -> None:
    assert not finds(test, HiveUnderTest(metastore_uri))
    assert finds(test, Broken(metastore_uri, fault))


def test_every_test_of_the_suite_finds_a_fault() -> None:
    assert {test for _, test in FAULTS} == names_of_tests(SinkConformance)
