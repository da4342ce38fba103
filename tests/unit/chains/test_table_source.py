"""A table as a source: places of rows, files that move, leases, and what is complete."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.chains import reader as reader_module
from sluiceway.chains.client import TableClient
from sluiceway.chains.options import ROOT, UpstreamOptions
from sluiceway.chains.reader import TableBatch, TableReader
from sluiceway.chains.row_texts import row_texts
from sluiceway.errors import (
    FileLostError,
    LedgerCorruptError,
    OffsetsLostError,
    SourceUnavailableError,
    TopicNotFoundError,
)
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.reader_leases import lease_name, slot_of_slowest
from sluiceway.sources.contract import (
    LEDGER_CLUSTER,
    LogBounds,
    SourceBatch,
    SourceIdentity,
    SourcePartition,
    Split,
)
from sluiceway.sources.registry import SourceAccess, open_client, reader_access
from sluiceway.storage.access import StoreAccess, Stores
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import LEDGER
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
LOG = SourcePartition("table:ods.orders", 0)
GROUP = "sluiceway-job-refined"


@pytest.fixture
def table(tmp_path: Path) -> RowsOnDisk:
    return rows_on_disk(tmp_path)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader_module, "_LOOK_AGAIN_S", 0.0)
    yield
    reader_module._KEPT.clear()


def options(table: RowsOnDisk) -> UpstreamOptions:
    return UpstreamOptions("ods.orders", "", root=str(table.root))


@pytest.fixture
def client(table: RowsOnDisk) -> Iterator[TableClient]:
    made = TableClient(options(table))
    yield made
    made.close()


def opened(table: RowsOnDisk, start: int, stop: int | None = None) -> TableReader:
    return TableReader([Split(LOG, start, stop)], options(table))


def columns_of(batch: SourceBatch) -> pa.RecordBatch:
    assert isinstance(batch, TableBatch)
    return batch.values.columns


def read(reader: TableReader, reads: int = 30) -> list[int]:
    found: list[int] = []
    for _ in range(reads):
        batches = reader.read(0.0)
        for batch in batches:
            assert list(batch.offsets) == columns_of(batch)["ts"].to_pylist(), (
                "a row's number is its place"
            )
            found += map(int, batch.offsets)
    return found


def test_log_begins_and_ends_where_rows_do(table: RowsOnDisk, client: TableClient) -> None:
    table.add(SEVEN, EIGHT)
    (found,) = client.discover([LOG.topic])
    assert (found.partition, found.identity.topic_id) == (LOG, LEDGER)
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 8, 8)}
    table.merge(EIGHT)
    table.add(EIGHT)
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 12, 12)}
    table.expire(SEVEN)
    # Its last row has place 3; nothing is missing of those that follow.
    assert client.bounds([LOG]) == {LOG: LogBounds(4, 12, 12)}
    with pytest.raises(TopicNotFoundError):
        client.discover(["table:ods.other"])
    assert client.committed(GROUP, [LOG]) == {}


def test_rows_come_in_the_order_of_the_log_whatever_files_have_them(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    table.add(EIGHT)
    table.merge(EIGHT, 5)
    table.add(EIGHT, SEVEN)
    assert read(opened(table, 0)) == list(range(20))
    assert read(opened(table, 3, 17)) == list(range(3, 17))
    table.merge(SEVEN)
    reader = opened(table, 6, 14)
    assert read(reader) == list(range(6, 14))
    assert reader.finished()
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.gaps) == (14, 8, 0)


def test_reader_goes_on_with_what_is_published_while_it_reads(table: RowsOnDisk) -> None:
    table.add(SEVEN)
    reader = opened(table, 0)
    assert read(reader) == list(range(4))
    table.add(EIGHT, SEVEN)
    assert read(reader) == list(range(4, 12))
    reader.close(reusable=True)
    again = opened(table, 12)
    table.add(SEVEN)
    assert read(again) == list(range(12, 16))
    # The ledger that was kept is read on behind these rows only: earlier ones need it whole.
    again.close(reusable=True)
    assert read(opened(table, 2)) == list(range(2, 16))


def test_rows_of_a_file_that_was_merged_away_are_read_from_the_new_one(table: RowsOnDisk) -> None:
    for _ in range(4):
        table.add(EIGHT)
    reader = opened(table, 0)
    first = [int(place) for batch in reader.read(0.0) for place in batch.offsets]
    table.merge(EIGHT, 7)
    assert [*first, *read(reader)] == list(range(16))


def test_file_that_is_gone_for_good_is_no_gap(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    # What a later record says is published is looked for no more.
    table.add(SEVEN)
    for path in (table.root / EIGHT).glob("*.parquet"):
        path.unlink()
    reader = opened(table, 0)
    with pytest.raises(FileLostError, match="gone"):
        read(reader)
    assert reader.ends()[0].end_offset == 4


def test_rows_that_were_let_go_of_before_they_were_read_are_lost(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    reader = opened(table, 4)
    table.expire(SEVEN)
    assert read(reader) == [4, 5, 6, 7]
    with pytest.raises(OffsetsLostError, match=r"row 0 of .*hr=07.*slot") as told:
        read(opened(table, 0))
    assert told.value.where == "table:ods.orders[0]"


def test_new_route_reads_all_that_is_left_and_counts_the_rest_as_gaps(
    table: RowsOnDisk, client: TableClient
) -> None:
    table.add(SEVEN, EIGHT)
    table.expire(SEVEN)
    table.add(SEVEN)
    table.expire(SEVEN)
    table.add(EIGHT)
    (found,) = client.discover([LOG.topic])
    # A late row of an hour that is gone hides no older row of another.
    assert client.bounds([LOG]) == {LOG: LogBounds(4, 16, 16)}
    reader = TableReader([Split(LOG, 4, newest_slot=found.newest_slot)], options(table))
    assert read(reader) == [*range(4, 8), *range(12, 16)]
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.gaps) == (16, 8, 4)
    table.expire(EIGHT)
    with pytest.raises(OffsetsLostError, match="--to 16 --accept-gap") as lost:
        read(TableReader([Split(LOG, 4, newest_slot=found.newest_slot)], options(table)))
    assert "row 4 of" in lost.value.message


def test_lease_keeps_files_until_their_rows_are_committed(
    table: RowsOnDisk, client: TableClient
) -> None:
    first, second = table.add(EIGHT), table.add(EIGHT)
    client.bounds([LOG])
    client.report(GROUP, {LOG: 5})
    log = table.table.log

    def slowest() -> int | None:
        return slot_of_slowest(log.storage, log.layout, time.time_ns() // 1_000_000)

    # Of the second record one row is read: it is not done.
    assert slowest() == first
    table.merge(EIGHT)
    assert len(list((table.root / EIGHT).glob("*.parquet"))) == 2
    client.report(GROUP, {LOG: 8})
    assert (slowest() or 0) >= second
    assert Path(log.layout.reader(GROUP)).is_file()
    assert len(lease_name("x" * 300)) <= 100


def test_times_are_those_of_the_epochs(table: RowsOnDisk, client: TableClient) -> None:
    table.add(EIGHT)
    assert client.offsets_at([LOG], 1) == {LOG: 4}
    assert client.offsets_at([LOG], 0) == {LOG: 0}


def test_table_that_is_not_there_is_waited_for_and_one_that_goes_is_told(tmp_path: Path) -> None:
    place = tmp_path / "catalog"
    place.mkdir()
    made = TableClient(UpstreamOptions("ods.orders", f"folder:{place}"))
    with pytest.raises(SourceUnavailableError, match="does not exist yet"):
        made.discover([LOG.topic])


def test_table_that_was_read_before_and_is_missing_was_dropped(tmp_path: Path) -> None:
    place = tmp_path / "catalog"
    place.mkdir()
    made = TableClient(UpstreamOptions("ods.orders", f"folder:{place}"))
    made.expect({LOG: SourceIdentity(LEDGER_CLUSTER, LEDGER)})
    with pytest.raises(TopicNotFoundError, match="was dropped"):
        made.discover([LOG.topic])


def test_ledger_of_a_newer_version_is_said_to_be_one(
    table: RowsOnDisk, client: TableClient
) -> None:
    table.add(EIGHT)
    layout = table.table.log.layout
    record = Path(layout.record(table.table.writer.fold.next_seq - 1))
    record.write_bytes(record.read_bytes().replace(b'"format":1', b'"format":4', 1))
    with pytest.raises(LedgerCorruptError, match="run the newer version"):
        client.bounds([LOG])
    with pytest.raises(LedgerCorruptError, match="record has format 4, this version reads up to 3"):
        read(opened(table, 0))


def test_task_does_not_take_the_ledger_of_another_folder(table: RowsOnDisk, tmp_path: Path) -> None:
    table.add(EIGHT)
    reader = opened(table, 0)
    assert read(reader) == list(range(4))
    reader.close(reusable=True)
    (tmp_path / "other").mkdir()
    # Made again elsewhere under the same name, while the old folder is still there.
    other = rows_on_disk(tmp_path / "other")
    other.add(EIGHT, rows=7)
    assert read(opened(other, 0)) == list(range(7))


def test_times_deep_in_a_dirty_row_are_texts_that_json_reads_as_times() -> None:
    at = datetime.fromisoformat("2026-11-20T08:09:00.120")
    kind = pa.timestamp("us")
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(
                [{"t": at, "l": [at, None]}, None], pa.struct([("t", kind), ("l", pa.list_(kind))])
            ),
            pa.array([[("k", at)], None], pa.map_(pa.string(), kind)),
            pa.array([[[at]], None], pa.list_(pa.list_(kind))),
        ],
        names=["geo", "seen", "all"],
    )
    text = "2026-11-20T08:09:00.120000Z"
    whole = {"geo": {"t": text, "l": [text, None]}, "seen": {"k": text}, "all": [[text]]}
    nothing = dict.fromkeys(whole)
    assert [json.loads(each) for each in row_texts(rows).to_pylist()] == [whole, nothing]
    assert [json.loads(each) for each in row_texts(rows.slice(1)).to_pylist()] == [nothing]


def test_another_ledger_is_another_log(table: RowsOnDisk, client: TableClient) -> None:
    table.add(EIGHT)
    client.discover([LOG.topic])
    owner = Owner("0" * 32, "orders", "orders", str(table.root))
    Path(table.table.log.layout.owner).write_bytes(encode(owner))
    (found,) = client.discover([LOG.topic])
    assert found.identity.topic_id == "0" * 32


def test_complete_is_what_was_announced_before_the_next_row(
    table: RowsOnDisk, client: TableClient
) -> None:
    read_at = BigInt(1_795_161_700_000_000)
    marked = WatermarkRecord(read_at, us=BigInt(1_795_161_500_000_000))
    table.table.rows(SEVEN, rows=4, newest_us=1_795_161_600_000_000, mark=marked)
    bound = WatermarkRecord(read_at, bound_us=marked.us)
    table.table.rows(EIGHT, closed=(SEVEN,), rows=2, mark=bound)
    slot = table.announce(SEVEN)
    table.table.rows(EIGHT, rows=2)
    client.bounds([LOG])
    before, passed = client.inheritance({LOG: 5}), client.inheritance({LOG: 6})
    assert before is not None
    assert passed is not None
    assert (before.watermark_us, before.ready) == (marked.us, ())
    (ready,) = passed.ready
    assert (ready.prefix, ready.version, ready.slot, ready.end) == (SEVEN, 1, slot, 6)
    assert client.inheritance({}) is None


def test_table_hands_over_at_the_end_of_a_slot_only(table: RowsOnDisk, client: TableClient) -> None:
    first, second = table.add(SEVEN, rows=4), table.add(EIGHT, rows=3)
    client.bounds([LOG])
    for place in (0, 2, 5):
        assert client.hand_over({LOG: place}, 1.0) is None, "a slot is read in part, or none is"
    for place, slot in ((4, first), (7, second)):
        found = client.hand_over({LOG: place}, 1.0)
        assert found is not None
        ((topic, start),) = found.starts
        assert (found.ledger, found.slot) == (LEDGER, slot)
        assert (str(topic.partition), topic.identity, start) == (
            "orders[0]",
            SourceIdentity("c1", "t1"),
            place,
        )
    assert client.hand_over({LOG: 4}, 0.0) is None, "it lags too far"
    assert client.hand_over({}, 1.0) is None


def test_dirty_row_is_kept_as_json(table: RowsOnDisk) -> None:
    table.add(SEVEN)
    (batch,) = opened(table, 0).read(0.0)
    records = batch.records([1, 3])
    assert [json.loads(each or b"") for each in records.values] == [
        {"ts": number, "app": SEVEN, "dt": "20261120", "hr": "07"} for number in (1, 3)
    ]
    assert list(records.offsets) == [1, 3]
    assert batch.values[0] == batch.records([0]).values[0]
    assert pa.types.is_int64(columns_of(batch)["ts"].type)


def test_options_reach_the_workers_as_texts() -> None:
    stores = Stores((StoreAccess("s3", (("endpoint", "x"),)),), ("hdfs",))
    given = UpstreamOptions("ods.raw", "thrift://h:1", (("a", "b"),), stores, ("id", "ts"))
    access = SourceAccess("table", given.texts())
    assert UpstreamOptions.of(dict(access.options)) == given
    client = open_client(access, 1.0)
    client.reader_options = lambda: {ROOT: "/t"}  # type: ignore[method-assign]
    told = UpstreamOptions.of(dict(reader_access(access, client).options))
    assert told == replace(given, root="/t")
