"""The Hive sink against a real metastore."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from pymetastore.hive_metastore import ttypes

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import (
    LedgerMismatchError,
    MetastoreUnavailableError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.lab.lab import Lab
from sluiceway.sinks.contract import DesiredPartition, TableState
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.sinks.partition_path import partition_folder, resolve_within
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.types.schema import Field, IntegerType, Schema, StringType, TimestampType
from tools.raw_metastore import proxy_without, raw_client, storage

SCHEMA = Schema(
    (
        Field("id", IntegerType(64)),
        Field("note", StringType()),
        Field("_timestamp", TimestampType()),
    )
)
COLUMNS = [("id", "bigint"), ("note", "string"), ("_timestamp", "timestamp")]

SinkFactory = Callable[[TableOptions], HiveTableSink]


@pytest.fixture
def options(metastore_uri: str) -> TableOptions:
    """A table of its own for each test."""
    return TableOptions(
        metastore=metastore_uri,
        database=f"db_{uuid4().hex[:8]}",
        table="events",
        schema=SCHEMA,
        partition_columns=(PartitionColumn("dt"), PartitionColumn("city")),
    )


@pytest.fixture
def new_sink() -> Iterator[SinkFactory]:
    """Makes sinks that are closed after the test."""
    made: list[HiveTableSink] = []

    def make(options: TableOptions) -> HiveTableSink:
        made.append(HiveTableSink(options))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


@pytest.fixture
def raw(metastore_uri: str) -> Iterator[Any]:
    """The metastore as another program uses it."""
    with raw_client(metastore_uri) as client:
        yield client


def create_foreign(raw: Any, options: TableOptions, warehouse: Path, **changes: Any) -> None:
    """A table made by someone else; `changes` are fields of the table or of its storage."""
    raw.create_database(ttypes.Database(name=options.database, parameters={}))
    described = storage(
        f"file:{warehouse}/{options.database}/{options.table}",
        changes.pop("columns", COLUMNS),
        format_name=changes.pop("format_name", "parquet"),
    )
    table = ttypes.Table(
        tableName=options.table,
        dbName=options.database,
        owner="someone",
        sd=described,
        partitionKeys=[ttypes.FieldSchema(name, "string", "") for name in ("dt", "city")],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    for name, value in changes.items():
        setattr(table if hasattr(table, name) else described, name, value)
    raw.create_table(table)


def desired(state: TableState, *values: str) -> DesiredPartition:
    folder = partition_folder(state.partition_columns, values)
    root = state.identity.location.removeprefix("file:")
    return DesiredPartition(values, resolve_within(root, folder))


@pytest.mark.parametrize("case", ["database_is_new", "table_is_new"])
def test_first_starts_at_once_keep_all_files_that_each_has_put(
    options: TableOptions, new_sink: SinkFactory, raw: Any, case: str
) -> None:
    if case == "table_is_new":
        raw.create_database(ttypes.Database(name=options.database, parameters={}))
    for attempt in range(4):
        again = replace(options, table=f"events_{attempt}")
        if case == "database_is_new":
            again = replace(options, database=f"{options.database}_{attempt}")
        sinks = [new_sink(again) for _ in range(3)]
        begin = Barrier(len(sinks))

        def first_start(sink: HiveTableSink, begin: Barrier = begin) -> Path:
            begin.wait()
            location = sink.open().identity.location.removeprefix("file:")
            put = Path(location) / "_sluiceway" / f"{id(sink)}.json"
            put.parent.mkdir(parents=True, exist_ok=True)
            put.write_text("{}")
            return put

        with ThreadPoolExecutor(len(sinks)) as drivers:
            files = list(drivers.map(first_start, sinks))
        assert [each for each in files if not each.exists()] == []


def test_open_missing_table_is_created_and_reopened_unchanged(
    options: TableOptions, new_sink: SinkFactory, raw: Any, warehouse: Path
) -> None:
    created = new_sink(options).open()
    sink = new_sink(options)
    assert sink.open() == created
    assert created.warnings == ()
    table = raw.get_table(options.database, "events")
    assert table.tableType == "EXTERNAL_TABLE"
    assert table.parameters["EXTERNAL"] == "TRUE"
    assert table.parameters["parquet.compression"] == "ZSTD"
    assert [(column.name, column.type) for column in table.sd.cols] == COLUMNS
    assert created.identity.created_at_s == table.createTime
    assert Path(table.sd.location.removeprefix("file:")).is_relative_to(warehouse)
    assert created.partition_columns == ("dt", "city")
    assert created.ledger is None


@pytest.mark.parametrize("below", ["", "/events"])
def test_open_at_a_location_that_cannot_be_made_halts_and_names_it(
    options: TableOptions, new_sink: SinkFactory, tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    place = f"file:{tmp_path}/file{below}"
    with pytest.raises(UnhealthyEnvironmentError, match="not a directory") as refused:
        new_sink(replace(options, location=place)).open()
    assert refused.value.where == place


def test_open_below_a_folder_that_is_missing_makes_nothing_unless_asked_to(
    options: TableOptions, new_sink: SinkFactory, tmp_path: Path
) -> None:
    place = tmp_path / "disk" / "not" / "mounted"
    there = replace(options, location=str(place))
    with pytest.raises(UnhealthyEnvironmentError, match=r"disk/not does not exist") as refused:
        new_sink(there).open()
    assert "mount its disk" in refused.value.hint
    assert list(tmp_path.iterdir()) == []
    state = new_sink(replace(there, create_location=True)).open()
    assert state.identity.location.endswith(str(place))


def test_open_with_location_creates_there_and_accepts_other_spellings(
    options: TableOptions, new_sink: SinkFactory, warehouse: Path
) -> None:
    place = warehouse / "elsewhere" / options.database
    place.parent.mkdir(exist_ok=True)
    state = new_sink(replace(options, location=str(place))).open()
    again = new_sink(replace(options, location=f"file://{place}/")).open()
    assert again.identity == state.identity
    with pytest.raises(TableMismatchError, match="its location is"):
        new_sink(replace(options, location=f"{place}2")).open()


def test_open_without_columns_takes_those_of_the_table(
    options: TableOptions, new_sink: SinkFactory
) -> None:
    with pytest.raises(TableMismatchError, match="columns cannot be taken"):
        new_sink(replace(options, schema=None)).open()
    with pytest.raises(TableMismatchError, match="does not exist"):
        new_sink(replace(options, create=False)).open()
    new_sink(options).open()
    state = new_sink(replace(options, schema=None, create=False)).open()
    assert [(field.name, field.type) for field in state.schema.fields] == [
        (field.name, field.type) for field in SCHEMA.fields
    ]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x"}, "VIRTUAL_VIEW"),
        ({"format_name": "rcfile"}, "no format that is written here"),
        ({"numBuckets": 4, "bucketCols": ["id"]}, "bucketed"),
        ({"sortCols": [ttypes.Order("id", 1)]}, "sorted by id"),
        ({"columns": COLUMNS[:2]}, "column _timestamp timestamp is missing"),
        ({"columns": [("id", "int"), *COLUMNS[1:]]}, "column id is int, expected bigint"),
        ({"partitionKeys": [ttypes.FieldSchema("dt", "string", "")]}, "partition columns are"),
        ({"skewedInfo": ttypes.SkewedInfo(["id"], [["1"]], {})}, "skewed by id"),
        (
            {"parameters": {"EXTERNAL": "TRUE", "storage_handler": "org.example.Handler"}},
            "storage handler org.example.Handler",
        ),
    ],
)
def test_open_unfit_table_is_refused(
    options: TableOptions,
    new_sink: SinkFactory,
    raw: Any,
    warehouse: Path,
    changes: dict[str, Any],
    word: str,
) -> None:
    create_foreign(raw, options, warehouse, **changes)
    with pytest.raises(TableMismatchError, match=word):
        new_sink(options).open()


def test_open_transactional_table_is_refused(
    options: TableOptions, new_sink: SinkFactory, raw: Any, warehouse: Path
) -> None:
    create_foreign(
        raw,
        options,
        warehouse,
        tableType="MANAGED_TABLE",
        parameters={"transactional": "true"},
        format_name="orc",
        numBuckets=2,
        bucketCols=["id"],
    )
    with pytest.raises(TableMismatchError, match="it is transactional"):
        new_sink(options).open()


def test_open_managed_table_is_accepted_with_a_warning(
    options: TableOptions, new_sink: SinkFactory, raw: Any, warehouse: Path
) -> None:
    create_foreign(raw, options, warehouse, tableType="MANAGED_TABLE", parameters={})
    state = new_sink(options).open()
    assert "DROP TABLE removes its files" in state.warnings[0]


def test_mark_ledger_twice_keeps_foreign_properties_and_refuses_another(
    options: TableOptions, new_sink: SinkFactory, raw: Any, warehouse: Path
) -> None:
    foreign = {
        "EXTERNAL": "TRUE",
        "owner.team": "crm",
        "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}',
    }
    create_foreign(raw, options, warehouse, parameters=foreign, retention=7)
    sink = new_sink(options)
    state = sink.open()
    sink.mark_ledger(state, "ledger-1")
    sink.mark_ledger(state, "ledger-1")
    table = raw.get_table(options.database, "events")
    assert table.parameters["sluiceway.ledger"] == "ledger-1"
    assert table.parameters["owner.team"] == "crm"
    assert "COLUMN_STATS_ACCURATE" not in table.parameters
    assert (table.retention, table.owner, table.createTime) == (
        7,
        "someone",
        state.identity.created_at_s,
    )
    assert new_sink(options).open().ledger == "ledger-1"
    with pytest.raises(LedgerMismatchError, match="is ledger-1, expected ledger-2"):
        sink.mark_ledger(state, "ledger-2")


def test_apply_twice_adds_odd_values_once_with_untrusted_statistics(
    options: TableOptions, new_sink: SinkFactory, raw: Any
) -> None:
    sink = new_sink(options)
    state = sink.open()
    cities = ["bei jing", "北京", "a/b", "../../x", "a=b", "50%", "it's", "x" * 250, "A", "a"]
    partitions = [desired(state, "20261120", city) for city in cities]
    assert sink.apply(partitions) == ()
    first = raw.get_partitions(options.database, "events", -1)
    assert sink.apply(partitions) == ()
    assert raw.get_partitions(options.database, "events", -1) == first
    assert sorted(found.values[1] for found in first) == sorted(cities)
    for found in first:
        folder = Path(found.sd.location.removeprefix("file:"))
        assert folder.is_dir()
        assert folder.name == partition_folder(["city"], [found.values[1]])
        assert "COLUMN_STATS_ACCURATE" not in found.parameters


def test_apply_null_value_is_hives_default_partition(
    options: TableOptions, new_sink: SinkFactory, raw: Any
) -> None:
    sink = new_sink(options)
    state = sink.open()
    partition = desired(state, "20261120", "")
    assert sink.apply([partition]) == ()
    assert sink.apply([partition]) == ()
    assert raw.get_partition_names(options.database, "events", -1) == [
        "dt=20261120/city=__HIVE_DEFAULT_PARTITION__"
    ]


def test_apply_trusted_statistics_lose_the_trust(
    options: TableOptions, new_sink: SinkFactory, raw: Any
) -> None:
    sink = new_sink(options)
    partition = desired(sink.open(), "20261120", "x")
    sink.apply([partition])
    found = raw.get_partition(options.database, "events", ["20261120", "x"])
    found.parameters |= {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "1"}
    raw.alter_partition(options.database, "events", found)
    assert sink.apply([partition]) == ()
    found = raw.get_partition(options.database, "events", ["20261120", "x"])
    assert "COLUMN_STATS_ACCURATE" not in found.parameters
    assert found.sd.location.endswith(partition.location)


def test_apply_foreign_location_and_format_are_parked_and_left_alone(
    options: TableOptions, new_sink: SinkFactory, raw: Any, warehouse: Path
) -> None:
    sink = new_sink(options)
    state = sink.open()
    foreign = f"file:{warehouse}/foreign_{options.database}"
    for city, format_name in (("moved", "parquet"), ("orc", "orc")):
        raw.add_partition(
            ttypes.Partition(
                values=["20261120", city],
                dbName=options.database,
                tableName="events",
                sd=storage(foreign, COLUMNS, format_name=format_name),
                parameters={},
            )
        )
    wanted = [desired(state, "20261120", city) for city in ("moved", "orc", "fine", "y" * 300)]
    parked = {item.values[1]: item.reason for item in sink.apply(wanted)}
    assert set(parked) == {"moved", "orc", "y" * 300}
    assert f"location is {foreign}" in parked["moved"]
    assert "OrcSerde" in parked["orc"]
    assert "longer than" in parked["y" * 300]
    found = raw.get_partition(options.database, "events", ["20261120", "moved"])
    assert found.sd.location == foreign
    assert "dt=20261120/city=fine" in raw.get_partition_names(options.database, "events", -1)


def test_apply_thousand_partitions_in_batches(
    options: TableOptions,
    new_sink: SinkFactory,
    metastore_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = new_sink(options)
    state = sink.open()
    partitions = [desired(state, "20261120", f"c{number:04}") for number in range(1000)]
    assert sink.apply(partitions[:300]) == ()
    assert sink.apply(partitions) == ()
    changes: list[object] = []

    def watched(name: str) -> None:
        real = getattr(MetastoreClient, name)

        def change(
            client: MetastoreClient, database: str, table: str, parts: list[Any], **how: bool
        ) -> Any:
            changes.extend(parts)
            return real(client, database, table, parts, **how)

        monkeypatch.setattr(MetastoreClient, name, change)

    watched("add_partitions")
    watched("alter_partitions")
    assert sink.apply(partitions) == ()
    # What is as it should be is looked at and not asked for again.
    assert changes == []
    client = MetastoreClient(metastore_uri)
    names = client.list_partition_names(options.database, "events")
    found = client.get_partitions(options.database, "events", names)
    client.close()
    assert set(found) == {partition.values for partition in partitions}


def test_apply_dropped_table_and_created_again_is_refused(
    options: TableOptions, new_sink: SinkFactory, raw: Any
) -> None:
    sink = new_sink(options)
    state = sink.open()
    sink.mark_ledger(state, "ledger-1")
    partition = desired(state, "20261120", "x")
    raw.drop_table(options.database, "events", False)  # noqa: FBT003
    with pytest.raises(TableMismatchError, match="was dropped"):
        sink.apply([partition])
    with pytest.raises(TableMismatchError, match="was dropped"):
        sink.mark_ledger(state, "ledger-1")
    new_sink(options).open()
    # Within the second only the lost property tells; later the creation time does too.
    with pytest.raises(TableMismatchError, match="created again"):
        sink.apply([partition])
    time.sleep(1.1)
    raw.drop_table(options.database, "events", False)  # noqa: FBT003
    new_sink(options).open()
    with pytest.raises(TableMismatchError, match="created again at"):
        sink.apply([partition])


def test_metastore_down_is_told_at_once_and_works_after_its_restart(
    lab: Lab, options: TableOptions, new_sink: SinkFactory
) -> None:
    sink = new_sink(options)
    state = sink.open()
    partition = desired(state, "20261120", "x")
    lab.kill_server("metastore")
    try:
        for call in (sink.open, lambda: sink.apply([partition])):
            with pytest.raises(MetastoreUnavailableError, match=r"no answer|cannot connect"):
                call()
    finally:
        lab.start_server("metastore")
    assert sink.open() == state
    assert sink.apply([partition]) == ()


def test_metastore_restarted_between_calls_is_not_noticed(
    lab: Lab, options: TableOptions, new_sink: SinkFactory
) -> None:
    sink = new_sink(options)
    state = sink.open()
    lab.stop_server("metastore")
    lab.start_server("metastore")
    assert sink.open() == state


def test_metastore_that_never_answers_is_told_after_the_time_out(
    options: TableOptions, new_sink: SinkFactory
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(MetastoreUnavailableError, match="read timeout"):
            new_sink(replace(options, metastore=uri, timeout_s=1.0)).open()


def test_metastore_first_address_dead_second_is_asked(
    options: TableOptions, new_sink: SinkFactory
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = f"thrift://127.0.0.1:{taken.getsockname()[1]}"
    state = new_sink(replace(options, metastore=f"{dead},{options.metastore}")).open()
    assert state.identity.name == "events"


@pytest.mark.parametrize("lacking", ["get_table", "get_table_req"])
def test_metastore_with_one_way_to_read_a_table_is_enough(
    options: TableOptions, new_sink: SinkFactory, lacking: str
) -> None:
    with proxy_without(options.metastore, [lacking]) as uri:
        sink = new_sink(replace(options, metastore=uri))
        state = sink.open()
        assert sink.apply([desired(state, "20261120", "x")]) == ()
        sink.close()


def test_add_partitions_one_refused_does_not_hold_up_the_others(
    options: TableOptions, new_sink: SinkFactory, raw: Any
) -> None:
    sink = new_sink(options)
    state = sink.open()
    wanted = [desired(state, "20261120", f"c{number}") for number in range(5)]
    # A file where the partition's folder should be is refused by the metastore itself.
    folder = Path(wanted[2].location)
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way", encoding="utf-8")
    parked = sink.apply(wanted)
    assert [item.values for item in parked] == [wanted[2].values]
    assert len(raw.get_partition_names(options.database, "events", -1)) == 4
