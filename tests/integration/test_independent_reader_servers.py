"""The independent reader against a real broker and a real metastore, on a table made by hand."""

import json
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from sluiceway.lab.order_events import COLUMNS
from tools import independent_reader as reader
from tools import row_oracle as oracle
from tools.lab_fixture import TopicFactory

START_MS = 1_795_161_600_000
COUNT = 3_000
META = {"_topic": "string", "_partition": "int", "_offset": "bigint", "_timestamp": "timestamp"}
DATABASE = "reader_test"


@pytest.fixture(scope="module")
def topic(bootstrap_servers: str, new_topic: TopicFactory) -> str:
    """Orders, an aborted transaction between them, and one that ends with a marker."""
    name = new_topic(3, prefix="orders")
    _produce_orders(bootstrap_servers, name)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    for order_id, finish in (
        (1, producer.abort_transaction),
        (2, producer.commit_transaction),
    ):
        producer.begin_transaction()
        payload = json.dumps({"order_id": order_id, "ts": START_MS})
        producer.produce(name, payload.encode(), partition=1)
        producer.flush(30)
        finish(30)
    _wait_until_stable(bootstrap_servers, name)
    return name


def _wait_until_stable(bootstrap_servers: str, topic: str) -> None:
    """A commit is answered before its markers are in the log, and readers wait for those."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    end = time.monotonic() + 180
    while _ends(admin, topic, IsolationLevel.READ_COMMITTED) != _ends(
        admin, topic, IsolationLevel.READ_UNCOMMITTED
    ):
        assert time.monotonic() < end
        time.sleep(0.1)


def _ends(admin: AdminClient, topic: str, level: IsolationLevel) -> list[int]:
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(3)}
    return [
        each.result().offset for each in admin.list_offsets(asked, isolation_level=level).values()
    ]


def _produce_orders(bootstrap_servers: str, topic: str) -> None:
    options = {
        "--bootstrap-servers": bootstrap_servers,
        "--topic": topic,
        "--count": str(COUNT),
        "--seconds": "0.2",
        "--start-ms": str(START_MS),
    }
    result = subprocess.run(
        [sys.executable, "-m", "sluiceway.lab.order_events", *chain.from_iterable(options.items())],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    done = json.loads(result.stdout)
    assert (done["produced"], done["broken"], done["start_ms"]) == (COUNT, 3, START_MS)
    assert done["seconds"] > 0


@pytest.fixture(scope="module")
def table(bootstrap_servers: str, metastore_uri: str, warehouse: Path, topic: str) -> Path:
    """A table that holds what the topic has; its folder."""
    root = warehouse / "reader_test_orders"
    view = reader.TableView(dict(COLUMNS) | META, ("dt", "hr"), (), ())
    records = reader.broker_records(bootstrap_servers, [topic])
    found = oracle.expect(records, view, reader.Expectation())
    partitions = _write_rows(found.fine, root)
    _write_dirty(found.broken, root / "_sluiceway" / "orders" / "dirty" / "1")
    _create_table(metastore_uri, root, partitions)
    return root


def _write_rows(rows: pa.Table, root: Path) -> list[list[str]]:
    values = rows.select(["dt", "hr"]).group_by(["dt", "hr"]).aggregate([]).to_pylist()
    for value in values:
        folder = root / f"dt={value['dt']}" / f"hr={value['hr']}"
        folder.mkdir(parents=True)
        (folder / "_temporary").write_bytes(b"not a data file")
        chosen = rows.filter((pc.field("dt") == value["dt"]) & (pc.field("hr") == value["hr"]))
        data = chosen.select([*COLUMNS, *META])
        pq.write_table(data, folder / "part-0.parquet", use_deprecated_int96_timestamps=True)
    return [[value["dt"], value["hr"]] for value in values]


def _write_dirty(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("stage", "reason", "path", "message", "schema_version"):
        rows = rows.append_column(name, pa.array(["decode"] * len(rows)))
    pq.write_table(rows, folder / "dirty-0.parquet")


def _create_table(metastore_uri: str, root: Path, partitions: list[list[str]]) -> None:
    host, _, port = metastore_uri.removeprefix("thrift://").partition(":")
    transport = TTransport.TBufferedTransport(TSocket.TSocket(host, int(port)))
    client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    transport.open()
    try:
        client.create_database(ttypes.Database(DATABASE, "", f"file:{root.parent}/db", {}))
        columns = [ttypes.FieldSchema(name, kind) for name, kind in (dict(COLUMNS) | META).items()]
        keys = [ttypes.FieldSchema(name, "string") for name in ("dt", "hr")]
        client.create_table(
            ttypes.Table(
                tableName="orders",
                dbName=DATABASE,
                sd=_storage(root, columns),
                partitionKeys=keys,
                parameters={"EXTERNAL": "TRUE"},
                tableType="EXTERNAL_TABLE",
            )
        )
        for values in partitions:
            folder = root / f"dt={values[0]}" / f"hr={values[1]}"
            client.add_partition(
                ttypes.Partition(
                    values=values,
                    dbName=DATABASE,
                    tableName="orders",
                    sd=_storage(folder, columns),
                    parameters={},
                )
            )
    finally:
        transport.close()


def _storage(folder: Path, columns: list[ttypes.FieldSchema]) -> ttypes.StorageDescriptor:
    package = "org.apache.hadoop.hive.ql.io.parquet"
    return ttypes.StorageDescriptor(
        cols=columns,
        location=f"file:{folder}",
        inputFormat=f"{package}.MapredParquetInputFormat",
        outputFormat=f"{package}.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(
            name="", serializationLib=f"{package}.serde.ParquetHiveSerDe", parameters={}
        ),
        parameters={},
    )


def test_verify_right_table_of_real_servers_is_ok(
    bootstrap_servers: str, metastore_uri: str, topic: str, table: Path
) -> None:
    report = reader.verify(bootstrap_servers, metastore_uri, DATABASE, "orders", [topic])
    assert table.is_dir()
    assert report.details == ()
    assert (report.read, report.written, report.dirty) == (COUNT + 1, COUNT - 2, 3)


def test_program_missing_file_is_reported_with_exit_1(
    bootstrap_servers: str, metastore_uri: str, topic: str, table: Path
) -> None:
    file = next(table.glob("dt=*/hr=*/part-0.parquet"))
    rows = pq.read_metadata(file).num_rows
    hidden = file.rename(file.with_name(".part-0.parquet"))
    program = Path(reader.__file__)
    try:
        result = subprocess.run(
            [
                sys.executable,
                str(program),
                *("--bootstrap-servers", bootstrap_servers),
                *("--metastore", metastore_uri),
                *("--table", f"{DATABASE}.orders"),
                *("--topic", topic),
            ],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        hidden.rename(file)
    found = json.loads(result.stdout)
    assert result.returncode == 1
    assert found["lost"] == rows
    assert found["doubled"] == found["altered"] == found["uncovered_dirty"] == 0
    assert f"lost: {rows}" in result.stderr
