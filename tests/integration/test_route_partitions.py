"""Partitions by values and by time, of any content: inside the table, readable, none lost."""

import json
import os
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pymetastore.hive_metastore import ttypes

from tools.job_files import event
from tools.raw_metastore import raw_client, storage
from tools.route_faults import NewRun, data_records, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

BY_CITY = "[{name: q, column: city}]"
BY_ITSELF = "[{name: city, column: city}]"
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
FINE = (
    *("../../x", "..", ".", "/", "/etc/passwd", "a/b", "a//b", "a=b", "=", "a%2Fb", "%", "%2"),
    *("%00", " a", "a ", " ", "\t", "a\nb", "a'b", 'a"b', "a\\b", "a:b", "a?b#c", "{x}", "[x]"),
    *("a^b", "*", "Berlin", "berlin", "BERLIN", "A", "\u0410", "é", "e\u0301", "\ufb01", "fi"),
    *("北京", "🙂", "a\u200bb"),
    *("null", "NULL", "None", "~", "x" * 253, "ä" * 126, "q=1", "_x", ".x", "_SUCCESS", "-1"),
    *("a.parquet", "_sluiceway", "_temporary", "file:/etc", "a,b", "a;b", "$x", "`x`", "\x7f"),
    "\x01",
)
DIRTY = ("", "x" * 254, "ä" * 150, "/" * 85, DEFAULT, "a\x00b")


def _city(number: int, city: str | None) -> bytes:
    return json.dumps({"id": number, "ts": 1, "city": city}).encode()


def _files(folder: Path) -> set[Path]:
    """All files; folders of other tests may vanish meanwhile, which `os.walk` passes over."""
    return {Path(base, name) for base, _, names in os.walk(folder) for name in names}


def _without_time(new_run: NewRun, partition_by: str = BY_CITY) -> tuple[RouteRun, str]:
    return new_run(partition_by=partition_by, event_time="")


def test_partition_values_of_any_content_stay_inside_and_read_back_equal(
    new_run: NewRun, writer: TopicWriter, warehouse: Path, metastore_uri: str
) -> None:
    run, topic = _without_time(new_run)
    values = [*FINE, None, *DIRTY]
    writer.write(topic, [_city(number, value) for number, value in enumerate(values)])
    before = _files(warehouse)
    run.catch_up()
    root = run.root()
    # Other tests may write into the same warehouse; whose a file is stands in its name.
    ours = {p for p in _files(warehouse) - before if p.name.startswith(f"{run.job.route.route}-")}
    assert len(ours) > len(FINE)
    assert all(path.is_relative_to(root) for path in ours)
    numbers = {value: [number] for number, value in enumerate(FINE)}
    numbers[DEFAULT] = [len(FINE)]
    database, table = run.job.table.split(".")
    with raw_client(metastore_uri) as client:
        held = {tuple(part.values): part for part in client.get_partitions(database, table, -1)}
        assert set(held) == {(value,) for value in numbers}
        for value in numbers:
            assert client.get_partition(database, table, [value]).values == [value]
    for (value,), partition in held.items():
        # Hadoop's paths are no URIs: what follows `file:` is the folder's very name.
        folder = Path(partition.sd.location.removeprefix("file:"))
        assert folder.parent == root
        assert folder.resolve() == folder
        (file,) = folder.iterdir()
        # Opened by us: a reader of names would take some of their letters for patterns.
        with file.open("rb") as stream:
            assert pq.read_table(stream).column("id").to_pylist() == numbers[value]
    assert run.dirty('"offset", reason') == [
        *((len(FINE) + 1 + n, "bad_partition_value") for n in range(len(DIRTY) - 1)),
        (len(values) - 1, "encoding"),
    ]
    run.assert_verified()


def test_partition_of_a_payload_column_of_the_same_name_moves_it_out_of_the_files(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = _without_time(new_run, BY_ITSELF)
    writer.write(topic, [_city(n, city) for n, city in enumerate(["a", "b", None, "a"])])
    run.catch_up()
    partitions = run.partitions()
    assert set(partitions) == {"a", "b", DEFAULT}
    database, table = run.job.table.split(".")
    with raw_client(metastore_uri) as client:
        found = client.get_table(database, table)
    assert [(column.name, column.type) for column in found.partitionKeys] == [("city", "string")]
    names = ["id", "ts", "amount", "_topic", "_partition", "_offset", "_timestamp"]
    assert [column.name for column in found.sd.cols] == names
    for value, numbers in {"a": [0, 3], "b": [1], DEFAULT: [2]}.items():
        read = duckdb.sql(f"FROM read_parquet('{partitions[value]}/*', hive_partitioning=false)")
        assert read.columns == names
        assert sorted(row[0] for row in read.fetchall()) == numbers
    run.assert_verified()


def test_partition_values_that_are_no_text_are_written_as_hive_has_them(
    new_run: NewRun, writer: TopicWriter
) -> None:
    columns = """\
    - {name: id, type: bigint, required: true}
    - {name: day, type: date}
    - {name: flag, type: boolean}
    - {name: price, type: "decimal(9,2)"}
"""
    run, topic = new_run(
        columns=columns,
        event_time="",
        partition_by="[{name: n, column: id}, {name: day, column: day}, {name: f, column: flag},"
        " {name: price, column: price}]",
    )
    writer.write(
        topic,
        [
            b'{"id":-5,"day":"2026-11-20","flag":true,"price":"1.5"}',
            b'{"id":9007199254740993,"day":null,"flag":null,"price":null}',
            b'{"id":-5,"day":"2026-11-20","flag":true,"price":1.50}',
        ],
    )
    run.catch_up()
    assert set(run.partitions()) == {
        "-5/2026-11-20/true/1.50",
        f"9007199254740993/{DEFAULT}/{DEFAULT}/{DEFAULT}",
    }
    assert run.rows() == offsets(0, range(3))
    run.assert_verified()


def test_table_without_partitions_is_filled_and_gone_on_with(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = _without_time(new_run, "[]")
    writer.write(topic, [_city(n, "a") for n in range(10)])
    run.catch_up()
    writer.write(topic, [_city(n, "a") for n in range(10, 15)])
    run.catch_up()
    assert run.rows("id") == [(n,) for n in range(15)]
    assert all(file.final.count("/") == 0 for r in data_records(run) for file in r.files)
    assert run.partitions() == {}
    run.assert_verified()


@pytest.mark.parametrize("partitioned", [True, False])
def test_columns_from_an_existing_table_are_filled_in_its_order(
    new_run: NewRun,
    writer: TopicWriter,
    metastore_uri: str,
    warehouse: Path,
    *,
    partitioned: bool,
) -> None:
    keys = '[{name: dt, event_time: "yyyyMMdd"}, {name: c, column: city}]' if partitioned else "[]"
    time = "{field: ts, unit: ms}" if partitioned else ""
    run, topic = new_run(columns="    from_table", partition_by=keys, event_time=time)
    names = ["dt", "c"] if partitioned else []
    _create_table(metastore_uri, warehouse, run.job.table, names)
    writer.write(topic, [event(n) for n in range(5)])
    writer.write(topic, [b'{"id":1,"ts":0,"amount":1.999}'])
    run.catch_up()
    assert run.rows("id, amount::VARCHAR, city, ts, _offset") == [
        (n, f"{n}.25", "Berlin", 1_795_161_600_000 + n * 1000, n) for n in range(5)
    ]
    assert run.dirty() == [(0, 5, "scale")]
    if partitioned:
        assert set(run.partitions()) == {"20261120/Berlin"}
    run.assert_verified()


def _create_table(uri: str, warehouse: Path, name: str, keys: list[str]) -> None:
    database, table = name.split(".")
    columns = [
        *(("city", "string"), ("amount", "decimal(18,2)"), ("id", "bigint"), ("ts", "bigint")),
        *(("_partition", "int"), ("_offset", "bigint"), ("_topic", "string")),
        ("_timestamp", "timestamp"),
    ]
    with raw_client(uri) as client:
        # Tests beside this one make the same database.
        with suppress(ttypes.AlreadyExistsException):
            client.create_database(ttypes.Database(name=database, parameters={}))
        client.create_table(
            ttypes.Table(
                tableName=table,
                dbName=database,
                owner="someone",
                sd=storage(f"file:{warehouse}/foreign/{table}", columns),
                partitionKeys=[ttypes.FieldSchema(key, "string", "") for key in keys],
                parameters={"EXTERNAL": "TRUE"},
                tableType="EXTERNAL_TABLE",
            )
        )


def test_more_partitions_than_open_files_in_one_epoch_lose_no_row(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(partition_by=BY_CITY, event_time="", interval="30s")
    writer.write(topic, [_city(n, f"city {n % 150}") for n in range(3000)])
    run.catch_up()
    assert run.rows() == offsets(0, range(3000))
    assert len(run.partitions()) == 150
    (record,) = data_records(run)
    # What is buffered only has no open file, so none has to be closed for another.
    assert len(record.files) == 150
    run.assert_verified()


def test_hours_of_a_zone_with_daylight_saving_hold_the_rows_of_the_local_hour(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(
        columns="    - {name: id, type: bigint}\n    - {name: ts, type: string}\n",
        event_time="{field: ts, unit: iso8601, timezone: Europe/Berlin, max_future: 365d}",
    )
    hours = {
        # Spring: the hour 02 does not exist. Autumn: it comes twice.
        "2026-03-29T00:59:59.999999Z": "20260329/01",
        "2026-03-29T01:00:00Z": "20260329/03",
        "2026-10-25T00:59:59Z": "20261025/02",
        "2026-10-25T01:00:00Z": "20261025/02",
        "2026-10-25T02:59:59+01:00": "20261025/02",
        "2026-10-25T02:00:00Z": "20261025/03",
        "2026-12-31T23:00:00Z": "20270101/00",
        "1969-12-31T22:59:59.999999Z": "19691231/23",
    }
    payloads = [f'{{"id":{n},"ts":"{text}"}}'.encode() for n, text in enumerate(hours)]
    writer.write(topic, payloads)
    run.catch_up()
    found: dict[str, str] = {}
    for values, folder in run.partitions().items():
        found |= dict.fromkeys(pq.read_table(folder).column("ts").to_pylist(), values)
    assert found == hours
    run.assert_verified()
