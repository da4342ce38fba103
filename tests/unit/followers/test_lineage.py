"""Events of lineage: each run begins and ends once, with totals that are what it committed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.naming.dataset import HDFS, S3, Hive, Kafka, LocalFileSystem

from sluiceway.errors import FencedError, Retriable
from sluiceway.followers.lineage import FileLineage, LineageFollower, LineageReceiver
from sluiceway.followers.lineage_events import (
    LineageRoute,
    catalog_namespace,
    run_id,
    source_namespace,
    table_name,
)
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.schema import DecimalType, Field, IntegerType, Schema
from tools.ledger_records import LEDGER, fence
from tools.lineage_client import through_the_client
from tools.table_on_disk import TableOnDisk, table_on_disk

IDENTITY = TableIdentity("thrift://m:9083", "ods", "orders", 7, "/w/ods.db/orders")
TABLE = TableState(
    IDENTITY,
    Schema((Field("id", IntegerType(64)), Field("price", DecimalType(10, 2)))),
    ("dt", "hr"),
    LEDGER,
)
ROUTE = LineageRoute("prod", "orders.orders", LEDGER, "kafka://k:9092", ("orders",), TABLE)
DAY = "dt=20261120/hr=08"


class Remembering(LineageReceiver):
    """Notes what it is told; may be away."""

    place = "somewhere"

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.away = False

    def send(self, event: bytes) -> None:
        if self.away:
            raise Retriable("answers 503")
        self.told.append(json.loads(event))

    @property
    def said(self) -> list[tuple[str, int, int]]:
        """State, term and rows of each event."""
        terms = {run_id(LEDGER, term): term for term in range(1, 9)}
        return [
            (each["eventType"], terms[each["run"]["runId"]], rows_of(each)) for each in self.told
        ]


def rows_of(event: dict[str, Any]) -> int:
    (table,) = event["outputs"]
    return int(table["outputFacets"]["outputStatistics"]["rowCount"])


class Driver:
    """One that follows the ledger, from its START."""

    def __init__(self, disk: TableOnDisk, receiver: LineageReceiver, interval_s: float = 0) -> None:
        self._disk = disk
        log = disk.log
        self.follower = LineageFollower(ROUTE, receiver, log.layout, log.storage, interval_s)
        self.follower.update(disk.writer.fold, 0, again=True)

    def go_on(self, *, last: bool = False) -> int:
        fold = self._disk.writer.fold
        self.follower.update(fold, 0)
        return self.follower.follow(LogView(self._disk.log, fold.next_seq, last=last))


@pytest.fixture
def disk(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


@pytest.fixture
def receiver() -> Remembering:
    return Remembering()


def taken_over(disk: TableOnDisk, driver: str = "d2") -> TableOnDisk:
    """The same table, once another driver has fenced."""
    log = LedgerLog(disk.log.storage, disk.log.layout)
    writer = LedgerWriter(log, log.fold(), lambda *_: None)
    writer.fence(fence(driver=driver), lambda: None)
    return replace(disk, writer=writer)


def test_run_begins_goes_on_and_ends_with_what_it_has_committed(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    disk.rows(DAY, rows=10)
    driver.go_on()
    disk.rows(DAY, rows=7)
    disk.rows(DAY, rows=3)
    assert driver.go_on() == disk.writer.fold.next_seq
    driver.go_on(last=True)
    assert receiver.said == [
        ("START", 1, 0),
        ("RUNNING", 1, 10),
        ("RUNNING", 1, 20),
        ("COMPLETE", 1, 20),
    ]


def test_events_are_what_the_client_of_openlineage_writes(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    disk.rows(DAY, rows=10)
    driver.go_on()
    for event in receiver.told:
        assert through_the_client(event) == event
    (table,), (topic,) = receiver.told[1]["outputs"], receiver.told[1]["inputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://k:9092", "orders")
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 10
    assert (table["namespace"], table["name"]) == ("file", "/w/ods.db/orders")
    assert table["facets"]["schema"]["fields"] == [
        {"name": "id", "type": "bigint"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "dt"},
        {"name": "hr"},
    ]
    assert table["facets"]["symlinks"]["identifiers"] == [
        {"namespace": "hive://m:9083", "name": "ods.orders", "type": "TABLE"}
    ]


def test_run_of_a_driver_that_died_is_ended_by_the_next_one_with_all_that_it_committed(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    disk.rows(DAY, rows=10)
    driver.go_on()
    disk.rows(DAY, rows=5)
    after = taken_over(disk)
    following = Driver(after, receiver)
    following.go_on()
    after.rows(DAY, rows=2)
    following.go_on()
    assert receiver.said[2:] == [
        ("ABORT", 1, 15),
        ("START", 2, 0),
        ("RUNNING", 2, 2),
    ]


def test_run_that_ended_in_order_is_ended_once(disk: TableOnDisk, receiver: Remembering) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    driver.go_on(last=True)
    Driver(taken_over(disk), receiver).go_on()
    assert [state for state, _, _ in receiver.said] == ["START", "COMPLETE", "START"]


def test_receiver_that_was_away_is_told_all_and_nothing_twice(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    place = driver.follower.place()
    receiver.away = True
    for rows in (10, 7):
        disk.rows(DAY, rows=rows)
        with pytest.raises(Retriable):
            driver.go_on()
        assert driver.follower.place() == place
    receiver.away = False
    driver.go_on()
    assert receiver.said[1:] == [("RUNNING", 1, 17)]


def test_next_driver_of_a_receiver_that_was_away_tells_each_run(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    receiver.away = True
    disk.rows(DAY, rows=10)
    disk = taken_over(disk)
    disk.rows(DAY, rows=4)
    disk = taken_over(disk, "d3")
    disk.rows(DAY, rows=1)
    driver = Driver(disk, receiver)
    with pytest.raises(Retriable):
        driver.go_on()
    receiver.away = False
    driver.go_on()
    assert receiver.said[1:] == [
        ("ABORT", 1, 10),
        ("START", 2, 0),
        ("ABORT", 2, 4),
        ("START", 3, 0),
        ("RUNNING", 3, 1),
    ]


def test_driver_that_goes_on_adds_to_what_was_told(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    Driver(disk, receiver).go_on()
    disk.rows(DAY, rows=10)
    Driver(disk, receiver).go_on()
    disk.rows(DAY, rows=10)
    Driver(disk, receiver).go_on()
    assert receiver.said == [("START", 1, 0), ("RUNNING", 1, 10), ("RUNNING", 1, 20)]


def test_events_keep_their_interval_but_for_the_end(
    disk: TableOnDisk, receiver: Remembering
) -> None:
    driver = Driver(disk, receiver, interval_s=3600.0)
    disk.rows(DAY, rows=1)
    for _ in range(3):
        driver.go_on()
        disk.rows(DAY, rows=1)
    assert 0.0 < (driver.follower.rest_s() or 0.0) <= 3600.0
    driver.go_on(last=True)
    assert receiver.said == [("START", 1, 0), ("RUNNING", 1, 1), ("COMPLETE", 1, 4)]


def test_end_is_told_when_all_is_in_the_table(disk: TableOnDisk, receiver: Remembering) -> None:
    driver = Driver(disk, receiver)
    disk.rows(DAY, rows=1)
    fold = disk.writer.fold
    driver.follower.update(fold, 0)
    driver.follower.follow(LogView(disk.log, fold.next_seq - 1, last=True))
    assert [state for state, _, _ in receiver.said] == ["START"]
    driver.go_on(last=True)
    assert receiver.said[-1] == ("COMPLETE", 1, 1)


def test_fenced_driver_tells_nothing(disk: TableOnDisk, receiver: Remembering) -> None:
    driver = Driver(disk, receiver)
    driver.go_on()
    disk.rows(DAY, rows=1)

    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    disk.log.check_held = fenced
    with pytest.raises(FencedError):
        driver.go_on()
    assert len(receiver.told) == 1


def test_file_gets_a_line_an_event_of_all_that_share_it(disk: TableOnDisk, tmp_path: Path) -> None:
    path = tmp_path / "lineage.jsonl"
    path.write_text('{"eventType": "START"}\n')
    driver = Driver(disk, FileLineage(str(path)))
    driver.go_on()
    disk.rows(DAY, rows=1)
    driver.go_on()
    told = [json.loads(line)["eventType"] for line in path.read_text().splitlines()]
    assert told == ["START", "START", "RUNNING"]


def test_file_that_cannot_be_written_is_told_with_its_path(
    disk: TableOnDisk, tmp_path: Path
) -> None:
    path = tmp_path / "missing" / "lineage.jsonl"
    driver = Driver(disk, FileLineage(str(path)))
    with pytest.raises(Retriable, match="No such file or directory") as caught:
        driver.go_on()
    assert caught.value.where == str(path)
    path.parent.mkdir()
    driver.go_on()
    assert path.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("/w/ods.db/orders", LocalFileSystem("/w/ods.db/orders")),
        ("file:///w/ods.db/orders/", LocalFileSystem("/w/ods.db/orders")),
        ("s3a://lake/ods.db/orders", S3("lake", "ods.db/orders")),
        ("hdfs://nn:8020/w/orders", HDFS("nn", "8020", "/w/orders")),
    ],
)
def test_tables_have_the_names_that_other_engines_give_them(location: str, named: Any) -> None:
    assert table_name(location) == (named.get_namespace(), named.get_name())


def test_topics_and_catalogs_have_the_names_that_other_tools_give_them() -> None:
    topic, table = Kafka("k1", "9092", "orders"), Hive("m", "9083", "ods", "orders")
    kafka = SourceAccess("kafka", (("bootstrap.servers", "k1:9092, k2:9092"), ("token", "s3cret")))
    assert source_namespace(kafka) == topic.get_namespace()
    rocketmq = SourceAccess("rocketmq", (("name_servers", "n:9876,o:9876"),))
    assert source_namespace(rocketmq) == "rocketmq://n:9876"
    assert catalog_namespace(IDENTITY) == table.get_namespace()
    assert str(IDENTITY) == table.get_name()
