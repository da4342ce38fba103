"""What every sink's driver side must do: the catalog follows the ledger, and only it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from sluiceway.errors import (
    InvariantError,
    LedgerMismatchError,
    NotInThisVersionError,
    TableMismatchError,
    TableNotFoundError,
)
from sluiceway.sinks.contract import DesiredPartition, ShownPartition, TableSink, TableState
from sluiceway.sinks.partition_path import partition_folder, resolve_within
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage

_DAY = "20261120"
_MANY = 300
_AT_ONCE = 4
_ODD = ("bei jing", "北京", "a/b", "../../x", "a=b", "50%", "it's", "x" * 200, "A", "a", "#?&")


class SinkUnderTest(ABC):
    """One table that does not exist yet, with the string partition columns `dt` and `city`.

    All methods but `new_sink` change the table as another program would, without the sink.
    """

    @abstractmethod
    def new_sink(self) -> TableSink:
        """Another sink of this table, with its own connections; the suite closes it."""

    @abstractmethod
    def held(self) -> Mapping[tuple[str, ...], str]:
        """Partitions in the catalog: values -> folder, as the storage names it."""

    @abstractmethod
    def add_foreign(self, values: tuple[str, ...], location: str) -> None:
        """Add a partition at another writer's folder."""

    @abstractmethod
    def drop_partition(self, values: tuple[str, ...]) -> None:
        """Drop a partition from the catalog."""

    @abstractmethod
    def drop_table(self) -> None:
        """Drop the table from the catalog."""

    @abstractmethod
    def move_table(self, location: str) -> None:
        """Move the table to another folder."""


def desired(state: TableState, *values: str) -> DesiredPartition:
    """A partition where the ledger puts it: below the table, named after its values."""
    _, root = open_storage(state.identity.location)
    return DesiredPartition(
        values, resolve_within(root, partition_folder(state.partition_columns, values))
    )


Sinks = Callable[[], TableSink]


class SinkConformance:
    """Subclass it and override the fixture `table`."""

    @pytest.fixture
    def table(self) -> SinkUnderTest:
        """A new table for this test."""
        raise NotImplementedError

    @pytest.fixture
    def sinks(self, table: SinkUnderTest) -> Iterator[Sinks]:
        """Makes sinks of the table, and closes them after the test."""
        made: list[TableSink] = []

        def make() -> TableSink:
            made.append(table.new_sink())
            return made[-1]

        yield make
        for sink in made:
            sink.close()

    # The table

    def test_open_finds_what_an_earlier_open_made(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        created = sink.open()
        assert created.partition_columns == ("dt", "city")
        assert created.ledger is None
        assert created.schema.fields
        assert sink.open() == created
        assert sinks().open() == created
        assert table.held() == {}

    def test_mark_ledger_is_kept_and_refuses_another(self, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        for _ in range(2):
            sink.mark_ledger(state, "ledger-1")
        assert sinks().open().ledger == "ledger-1"
        for other in (sink, sinks()):
            other.open()
            with pytest.raises(LedgerMismatchError):
                other.mark_ledger(state, "ledger-2")
        assert sinks().open().ledger == "ledger-1"

    def test_close_may_be_repeated_and_harms_no_other_sink(self, sinks: Sinks) -> None:
        sink, other = sinks(), sinks()
        state = sink.open()
        other.open()
        sink.close()
        sink.close()
        assert other.apply([desired(state, _DAY, "x")]) == ()

    # Partitions

    def test_apply_is_idempotent(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, f"c{number}") for number in range(5)]
        assert sink.apply([]) == ()
        for applied in (wanted, wanted, wanted[:1], []):
            assert sink.apply(applied) == ()
            assert table.held() == _as_held(wanted)
        other = sinks()
        other.open()
        assert other.apply(wanted) == ()
        assert table.held() == _as_held(wanted)

    def test_apply_makes_the_desired_state_from_any_state(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, f"c{number}") for number in range(6)]
        assert sink.apply(wanted[:3]) == ()
        # A sink that only remembers its own calls would not see this.
        table.drop_partition(wanted[1].values)
        assert sink.apply(wanted) == ()
        assert table.held() == _as_held(wanted)

    def test_apply_takes_many_partitions(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, f"c{number:04}") for number in range(_MANY)]
        assert sink.apply(wanted[::7]) == ()
        assert sink.apply(wanted) == ()
        assert table.held() == _as_held(wanted)

    def test_apply_keeps_odd_values_apart(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, value) for value in _ODD]
        for _ in range(2):
            assert sink.apply(wanted) == ()
            assert table.held() == _as_held(wanted)

    def test_apply_parks_foreign_locations_and_does_the_others(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, name) for name in ("first", "theirs", "last")]
        foreign = desired(state, _DAY, "elsewhere").location
        table.add_foreign(wanted[1].values, foreign)
        for _ in range(2):
            (parked,) = sink.apply(wanted)
            assert parked.values == wanted[1].values
            assert parked.reason
            assert table.held() == _as_held(wanted) | {wanted[1].values: foreign}

    def test_apply_parks_a_partition_whose_location_switches(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        state = sink.open()
        wanted = desired(state, _DAY, "x")
        assert sink.apply([wanted]) == ()
        elsewhere = DesiredPartition(wanted.values, desired(state, _DAY, "y").location)
        assert [parked.values for parked in sink.apply([elsewhere])] == [wanted.values]
        assert table.held() == _as_held([wanted])

    def test_apply_by_several_at_once_gives_each_partition_once(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        several = [sinks() for _ in range(_AT_ONCE)]
        state = several[0].open()
        for sink in several[1:]:
            assert sink.open() == state
        wanted = [desired(state, _DAY, f"c{number}") for number in range(40)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(sink.apply, wanted[5 * i :]) for i, sink in enumerate(several)]
            parked = [future.result() for future in futures]
        assert parked == [()] * _AT_ONCE
        assert table.held() == _as_held(wanted)

    def test_apply_of_values_that_do_not_fit_the_columns_is_a_bug(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        state = sink.open()
        place = desired(state, _DAY, "x").location
        for values in ((_DAY,), (_DAY, "x", "y")):
            with pytest.raises(InvariantError):
                sink.apply([DesiredPartition(values, place)])
        assert table.held() == {}

    # Read-only commands. Facts that a sink cannot find without a driver are left out.

    def test_looks_create_nothing(self, sinks: Sinks) -> None:
        sink = sinks()
        for look in (sink.find, sink.inspect):
            with _optional(), pytest.raises(TableNotFoundError):
                look()
        with _optional():
            assert not sink.foresee().exists
        with _optional(), pytest.raises(TableNotFoundError):
            sinks().find()

    def test_looks_see_the_table_that_was_made(self, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        for ledger in (None, "ledger-1"):
            with _optional():
                assert sinks().find() == state.identity
            with _optional():
                seen = sinks().inspect()
                assert (seen.identity, seen.ledger) == (state.identity, ledger)
                assert replace(seen.state(), ledger=None) == state
            with _optional():
                foreseen = sinks().foresee()
                assert (foreseen.exists, foreseen.home) == (True, state.identity.home)
            sink.mark_ledger(state, "ledger-1")

    def test_looks_see_partitions_where_they_are(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        wanted = [desired(state, _DAY, value) for value in _ODD]
        sink.apply(wanted)
        with _optional():
            # Read before the last change: the answer comes from the catalog, not from memory.
            seen = sinks().inspect()
            late = desired(state, _DAY, "late")
            sink.apply([late])
            for some in (wanted[:3], [late], []):
                values = [each.values for each in some]
                found = seen.partitions([*values, (_DAY, "nowhere")])
                others = seen.other_partitions([*values, (_DAY, "nowhere")])
                assert _shown(found) == _places(some)
                assert _shown(others) == _places([*wanted, late]) - _shown(found)
            assert len(table.held()) == len(wanted) + 1

    # Another table of the same name

    def test_dropped_table_is_refused(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        sink.mark_ledger(state, "ledger-1")
        table.drop_table()
        with pytest.raises(TableMismatchError):
            sink.apply([desired(state, _DAY, "x")])
        with pytest.raises(TableMismatchError):
            sink.mark_ledger(state, "ledger-1")

    def test_opening_again_does_not_create_a_dropped_table(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        opened = sink.open()
        assert sink.open() == opened
        table.drop_table()
        for _ in range(2):
            with pytest.raises(TableMismatchError):
                sink.open()
        assert sinks().open().ledger is None

    def test_table_that_was_created_again_is_refused(
        self, table: SinkUnderTest, sinks: Sinks
    ) -> None:
        sink = sinks()
        state = sink.open()
        sink.mark_ledger(state, "ledger-1")
        table.drop_table()
        sinks().open()
        with pytest.raises(TableMismatchError):
            sink.apply([desired(state, _DAY, "x")])
        assert table.held() == {}

    def test_table_that_was_moved_is_refused(self, table: SinkUnderTest, sinks: Sinks) -> None:
        sink = sinks()
        state = sink.open()
        table.move_table(f"{state.identity.location.rstrip('/')}_moved")
        with pytest.raises(TableMismatchError):
            sink.apply([desired(state, _DAY, "x")])
        assert table.held() == {}


def _as_held(wanted: list[DesiredPartition]) -> dict[tuple[str, ...], str]:
    return {partition.values: partition.location for partition in wanted}


@contextmanager
def _optional() -> Iterator[None]:
    with suppress(NotInThisVersionError):
        yield


def _shown(found: Mapping[tuple[str, ...], ShownPartition]) -> set[tuple[tuple[str, ...], str]]:
    return {
        (values, open_storage(normalise_location(each.location))[1])
        for values, each in found.items()
    }


def _places(wanted: list[DesiredPartition]) -> set[tuple[tuple[str, ...], str]]:
    return {(each.values, each.location) for each in wanted}
