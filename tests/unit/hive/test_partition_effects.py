"""Partitions of a metastore are made as the ledger wants them, and no others are touched."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.catalog.hive_table import (
    AddOutcome,
    HiveColumn,
    HiveLayout,
    HivePartition,
    MetastoreTable,
    NewPartition,
    PartitionChange,
    RejectedPartition,
)
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.catalog.thrift_values import STATS_ACCURATE
from sluiceway.errors import InvariantError
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.sinks.hive.partition_effects import apply_partitions
from sluiceway.sinks.partition_path import DEFAULT_PARTITION
from sluiceway.storage.locations import normalise_location


class Metastore(MetastoreClient):
    """Partitions of one table in memory.

    Attributes:
        faster: Partitions that another process adds between a look and an add.
        refuses: Values that it does not take.
        missing_folders: Folders that were not there when a partition was added.
        calls: For each call that moves partitions where they were, how many, and whether at once.
    """

    def __init__(self, root: Path) -> None:
        super().__init__("thrift://127.0.0.1:9")
        layout = HiveLayout(f"file:{root}", "s", "i", "o", (HiveColumn("id", "bigint"),))
        self.table = MetastoreTable(
            "ods", "orders", "EXTERNAL_TABLE", layout, (HiveColumn("dt", "string"),), {}
        )
        self.root = root
        self.held: dict[tuple[str, ...], HivePartition] = {}
        self.faster: list[HivePartition] = []
        self.refuses: set[tuple[str, ...]] = set()
        self.missing_folders: list[str] = []
        self.writes = 0
        self.calls: list[tuple[set[tuple[str, str]], int, bool]] = []

    def get_partitions(
        self, database: str, table: str, names: Sequence[str]
    ) -> dict[tuple[str, ...], HivePartition]:
        asked = {name.partition("=")[2] for name in names}
        return {values: found for values, found in self.held.items() if values[0] in asked}

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[NewPartition]
    ) -> AddOutcome:
        self.held.update((each.values, each) for each in self.faster)
        existed, rejected = [], []
        for each in partitions:
            folder = normalise_location(each.location)
            if not Path(folder).is_dir():
                self.missing_folders.append(folder)
            if each.values in self.refuses:
                rejected.append(RejectedPartition(each.values, "a listener"))
            elif each.values in self.held:
                existed.append(each.values)
            else:
                self.writes += 1
                self.held[each.values] = self.partition(each.values[0], each.location)
        return AddOutcome(tuple(existed), tuple(rejected))

    def alter_partitions(
        self,
        database: str,
        table: str,
        changes: Sequence[PartitionChange],
        *,
        at_once: bool = False,
    ) -> tuple[tuple[str, ...], ...]:
        self.calls.append(({*self.places().items()}, len(changes), at_once))
        for change in changes:
            self.writes += 1
            found = self.held[change.values]
            location = change.location or found.layout.location
            layout = replace(
                found.layout, location=location, columns=change.columns or found.layout.columns
            )
            self.held[change.values] = replace(found, layout=layout, parameters={})
        return ()

    def drop_partition(self, database: str, table: str, values: Sequence[str]) -> None:
        self.writes += 1
        del self.held[tuple(values)]

    def partition(self, value: str, location: str) -> HivePartition:
        """As it is with the table's layout at that place."""
        return HivePartition((value,), replace(self.table.layout, location=location), {})

    def hold(self, value: str, location: str) -> None:
        """Somebody has put it there."""
        self.held[value,] = self.partition(value, location)

    def apply(self, *wanted: DesiredPartition) -> tuple[ParkedPartition, ...]:
        """What the catalog follower asks for."""
        return apply_partitions(self, self.table, wanted)

    def places(self) -> dict[str, str]:
        """Where readers find each partition, relative to the table."""
        return {
            values[0]: normalise_location(found.layout.location).removeprefix(f"{self.root}/")
            for values, found in self.held.items()
        }

    def wanted(self, value: str, folder: str = "") -> DesiredPartition:
        """A partition of this table, in its own folder unless another one is given."""
        first = f"{self.root}/dt={value}"
        place = f"{self.root}/{folder}" if folder else first
        return DesiredPartition(
            (value,), place, first=first, moves=f"file://{self.root}/_sluiceway-"
        )


@pytest.fixture
def metastore(tmp_path: Path) -> Metastore:
    return Metastore(tmp_path)


def test_partitions_are_added_once_in_folders_that_are_there_before(metastore: Metastore) -> None:
    wanted = [metastore.wanted("1"), metastore.wanted("2")]
    assert metastore.apply(*wanted) == ()
    assert metastore.places() == {"1": "dt=1", "2": "dt=2"}
    # The metastore would remove a folder that it has made, if it fails behind that.
    assert metastore.missing_folders == []
    assert metastore.apply(*wanted) == ()
    assert metastore.writes == 2


def test_null_is_added_under_hives_name_for_it(metastore: Metastore) -> None:
    metastore.apply(replace(metastore.wanted("1"), values=("",)))
    assert list(metastore.held) == [(DEFAULT_PARTITION,)]


def test_value_that_no_metastore_can_hold_is_left_alone_and_the_others_are_added(
    metastore: Metastore,
) -> None:
    odd = metastore.wanted("x" * 300)
    (parked,) = metastore.apply(odd, metastore.wanted("2"))
    assert (parked.values, parked.reason.partition(":")[0]) == (odd.values, "dt")
    assert metastore.places() == {"2": "dt=2"}


def test_partition_of_other_columns_than_the_table_has_is_refused(metastore: Metastore) -> None:
    with pytest.raises(InvariantError, match="are not values of"):
        metastore.apply(replace(metastore.wanted("1"), values=("1", "2")))
    assert metastore.held == {}


def test_table_without_partitions_has_none_to_add(metastore: Metastore) -> None:
    metastore.table = replace(metastore.table, partition_columns=())
    assert metastore.apply(DesiredPartition((), str(metastore.root))) == ()
    assert metastore.held == {}


def test_partition_that_has_moved_sends_readers_to_its_new_folder(metastore: Metastore) -> None:
    metastore.apply(metastore.wanted("1"))
    assert metastore.apply(metastore.wanted("1", "_sluiceway-3-x/dt=1")) == ()
    assert metastore.places() == {"1": "_sluiceway-3-x/dt=1"}
    # From a folder of a move before, as a driver that died has left it.
    assert metastore.apply(metastore.wanted("1", "_sluiceway-9-y/dt=1")) == ()
    assert metastore.places() == {"1": "_sluiceway-9-y/dt=1"}


@pytest.mark.parametrize("folder", ["elsewhere/dt=1", "_sluiceway/orders/late/dt=1", "dt=12"])
def test_partition_that_somebody_has_put_elsewhere_is_left_alone(
    metastore: Metastore, folder: str
) -> None:
    metastore.hold("1", f"file:{metastore.root}/{folder}")
    wanted = metastore.wanted("1", "_sluiceway-3-x/dt=1")
    (parked,) = metastore.apply(wanted)
    assert parked.reason.startswith(f"location is file:{metastore.root}/{folder}, expected")
    # Nor is it dropped when it has to go.
    assert metastore.apply(replace(wanted, exists=False)) == ()
    assert (metastore.places(), metastore.writes) == ({"1": folder}, 0)


def test_of_an_adopted_table_any_folder_below_it_is_put_right(metastore: Metastore) -> None:
    wanted = replace(metastore.wanted("1"), moves=f"{metastore.root}/")
    metastore.hold("1", f"file:{metastore.root}/_sluiceway-8-cut/dt=1")
    assert metastore.apply(wanted) == ()
    assert metastore.places() == {"1": "dt=1"}
    metastore.hold("1", f"file:{metastore.root}-other/dt=1")
    (parked,) = metastore.apply(wanted)
    assert parked.reason.startswith("location is")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"serde": "x.Y"}, "SerDe is x.Y"),
        ({"bucket_count": 4}, "bucketed into 4"),
        ({"sort_columns": ("id",)}, "sorted by id"),
    ],
)
def test_partition_of_another_format_or_order_is_left_alone(
    metastore: Metastore, change: dict[str, Any], reason: str
) -> None:
    found = metastore.partition("1", f"file:{metastore.root}/dt=1")
    metastore.held["1",] = replace(found, layout=replace(found.layout, **change))
    (parked,) = metastore.apply(metastore.wanted("1", "_sluiceway-3-x/dt=1"))
    assert reason in parked.reason
    assert metastore.writes == 0


def test_partition_whose_rows_are_written_in_another_way_is_left_alone(
    metastore: Metastore,
) -> None:
    layout = replace(
        metastore.table.layout,
        serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        input_format="org.apache.hadoop.mapred.TextInputFormat",
        output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    )
    metastore.table = replace(metastore.table, layout=layout)
    found = metastore.partition("1", f"file:{metastore.root}/dt=1")
    other = replace(found.layout, serde_parameters={"field.delim": ";"})
    metastore.held["1",] = replace(found, layout=other)
    (parked,) = metastore.apply(metastore.wanted("1"))
    assert "other delimiters" in parked.reason
    metastore.held["1",] = found
    assert metastore.apply(metastore.wanted("1")) == ()


@pytest.mark.parametrize("folder", ["dt=1", "_sluiceway-3-x/dt=1", "_sluiceway-2-w/dt=1"])
def test_partition_that_expired_is_dropped_from_any_folder_of_this_ledger(
    metastore: Metastore, folder: str
) -> None:
    metastore.hold("1", f"file:{metastore.root}/{folder}")
    metastore.hold("2", f"file:{metastore.root}/dt=2")
    gone = replace(metastore.wanted("1", "_sluiceway-3-x/dt=1"), exists=False)
    assert metastore.apply(gone) == ()
    assert metastore.places() == {"2": "dt=2"}
    assert metastore.apply(gone) == ()
    assert metastore.writes == 1


def test_columns_that_the_table_has_got_are_given_to_its_partitions(metastore: Metastore) -> None:
    metastore.apply(metastore.wanted("1"))
    columns = (HiveColumn("id", "bigint"), HiveColumn("more", "string"))
    metastore.table = replace(
        metastore.table, layout=replace(metastore.table.layout, columns=columns)
    )
    for _ in range(2):
        assert metastore.apply(metastore.wanted("1")) == ()
    assert metastore.held["1",].layout.columns == columns
    assert (metastore.places(), metastore.writes) == ({"1": "dt=1"}, 2)


def test_statistics_that_were_counted_before_rows_came_are_trusted_no_more(
    metastore: Metastore,
) -> None:
    found = metastore.partition("1", f"file:{metastore.root}/dt=1")
    metastore.held["1",] = replace(found, parameters={STATS_ACCURATE: "true"})
    for _ in range(2):
        assert metastore.apply(metastore.wanted("1")) == ()
    assert metastore.held["1",].parameters == {}
    assert metastore.writes == 1


def test_partition_that_the_metastore_refuses_is_left_alone_with_its_reason(
    metastore: Metastore,
) -> None:
    metastore.refuses = {("1",)}
    (parked,) = metastore.apply(metastore.wanted("1"), metastore.wanted("2"))
    assert parked == ParkedPartition(("1",), "the metastore refuses it: a listener")
    assert metastore.places() == {"2": "dt=2"}


@pytest.mark.parametrize(("folder", "left"), [("dt=1", 0), ("elsewhere/dt=1", 1)])
def test_partition_that_another_one_adds_meanwhile_is_looked_at_like_any_other(
    metastore: Metastore, folder: str, left: int
) -> None:
    metastore.faster = [metastore.partition("1", f"file:{metastore.root}/{folder}")]
    assert len(metastore.apply(metastore.wanted("1"), metastore.wanted("2"))) == left
    assert metastore.places() == {"1": folder, "2": "dt=2"}


def test_partitions_of_a_swap_move_by_one_call_and_new_ones_are_empty_before(
    metastore: Metastore,
) -> None:
    root = metastore.root
    metastore.hold("1", f"file:{root}/dt=1")
    wanted = [
        DesiredPartition(
            (value,),
            f"{root}/_sluiceway-7-{value}/dt={value}",
            first=f"{root}/dt={value}",
            moves=f"{root}/_sluiceway-",
            swapped=8,
        )
        for value in ("1", "2", "3")
    ]
    assert metastore.apply(*wanted) == ()
    ((before, moved, at_once), *others) = metastore.calls
    # Readers see the old rows of all three, which of the new ones are none, until the one call.
    assert before == {
        ("1", "dt=1"),
        ("2", "_sluiceway-7-2/empty"),
        ("3", "_sluiceway-7-3/empty"),
    }
    assert (moved, at_once, others) == (3, True, [])
    assert metastore.places() == {
        value: f"_sluiceway-7-{value}/dt={value}" for value in ("1", "2", "3")
    }
    assert metastore.missing_folders == []
    assert all(Path(each.location).is_dir() for each in wanted)


def test_swap_that_broke_off_before_its_call_is_completed(metastore: Metastore) -> None:
    root = metastore.root
    wanted = [
        DesiredPartition((value,), f"{root}/_sluiceway-7-{value}/dt={value}", swapped=8)
        for value in ("1", "2")
    ]
    wanted = [
        replace(each, first=f"{root}/dt={each.values[0]}", moves=f"{root}/_sluiceway-")
        for each in wanted
    ]
    metastore.hold("1", f"file:{root}/dt=1")
    metastore.hold("2", f"file:{root}/_sluiceway-7-2/empty")
    assert metastore.apply(*wanted) == ()
    assert metastore.places()["2"] == "_sluiceway-7-2/dt=2"
    assert [(moved, at_once) for _, moved, at_once in metastore.calls] == [(2, True)]
