"""The Spark data source, called as Spark calls it, but without Spark's JVM."""

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import sluiceway
from pyspark_sluiceway import DefaultSource
from pyspark_sluiceway.options import ReadOptions
from pyspark_sluiceway.source import Offset, StreamReader
from sluiceway.audit import read_point
from sluiceway.audit.read_point import TableRows, rows_place
from sluiceway.cli.app import run_command
from sluiceway.errors import (
    FileLostError,
    LedgerCorruptError,
    LedgerMismatchError,
    NotInThisVersionError,
    ReaderNameTakenError,
    RequestRefusedError,
    RowsLetGoError,
    WrongUsageError,
)
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.generations import Generation, claim_generation
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.reader_leases import read_reader_lease
from sluiceway.ledger.records import AdoptedRecord, DataRecord, record_hash
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.sinks.lake_options import LakeOptions
from sluiceway.types.strict_json import encode
from tools.ledger_records import LEDGER, fence
from tools.reader_lease_files import lease
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
ROWS = {"ts": LongType(), "app": StringType(), "dt": StringType(), "hr": StringType()}
META = {**ROWS, "_sw_slot": LongType(), "_sw_place": LongType()}
FILES = {
    "path": StringType(),
    "first_row": LongType(),
    "rows": LongType(),
    "partition": StringType(),
    "slot": LongType(),
}

Streams = list[StreamReader]


@pytest.fixture
def table(tmp_path: Path) -> RowsOnDisk:
    return rows_on_disk(tmp_path)


@pytest.fixture
def opened() -> Iterator[Streams]:
    streams: Streams = []
    yield streams
    for each in streams:
        each.stop()


def source(table: RowsOnDisk, **options: str) -> DefaultSource:
    return DefaultSource({"job": str(table.table.job), **options})


def _struct(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def read(
    table: RowsOnDisk, kinds: dict[str, DataType] | None = None, /, **options: str
) -> list[dict[str, Any]]:
    """All rows of a batch, through the bytes that Spark sends to its workers."""
    reader = source(table, **options).reader(_struct(kinds or ROWS))
    return _rows(reader, reader.partitions())


def _rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    reader, partitions = pickle.loads(  # noqa: S301 - just written
        pickle.dumps((reader, list(partitions)))
    )
    return [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["ts"] for row in rows)


def stream(table: RowsOnDisk, opened: Streams, **options: str) -> StreamReader:
    columns = FILES if options.get("content") == "files" else ROWS
    opened.append(source(table, **options).streamReader(_struct(columns)))
    return opened[-1]


def offset(slot: int, ledger: str = LEDGER) -> Offset:
    return {"ledger": ledger, "slot": slot}


def batch(reader: StreamReader, start: Any, end: Any) -> list[int]:
    copy = StreamReader(reader._options, reader._schema)
    return numbers(_rows(copy, reader.partitions(start, end)))


def test_columns_are_those_of_the_table_and_what_is_asked_for(table: RowsOnDisk) -> None:
    def texts(**options: str) -> str:
        return str(source(table, **options).schema().simpleString())

    assert texts() == "struct<ts:bigint,app:string,dt:string,hr:string>"
    assert texts(columns="HR, ts") == "struct<hr:string,ts:bigint>"
    pruned = texts(columns="ts", meta="true")
    assert pruned == "struct<ts:bigint,_sw_slot:bigint,_sw_place:bigint>"
    files = texts(content="files")
    assert files.startswith("struct<path:string,first_row:bigint,rows:bigint")
    with pytest.raises(WrongUsageError, match="no column nope"):
        source(table, columns="nope").schema()


def test_batch_reads_the_rows_of_a_slot_whatever_compaction_did_since(table: RowsOnDisk) -> None:
    first = table.add(SEVEN, EIGHT)
    table.merge(EIGHT)
    second = table.add(EIGHT)
    third = table.add(EIGHT, SEVEN)
    then = {slot: read(table, asOf=f"slot:{slot}") for slot in (first, second, third)}
    assert numbers(then[first]) == list(range(8))
    assert numbers(then[second]) == list(range(12))
    assert numbers(then[third]) == list(range(20))
    assert {(row["dt"], row["hr"]) for row in then[first]} == {
        ("20261120", "07"),
        ("20261120", "08"),
    }
    table.merge(EIGHT, 5)
    table.merge(SEVEN, 3)
    for slot, rows in then.items():
        assert numbers(read(table, asOf=f"slot:{slot}")) == numbers(rows)
    assert numbers(read(table)) == list(range(20))


def test_a_session_reads_each_record_of_a_ledger_once(
    table: RowsOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = [table.add(SEVEN, EIGHT), table.merge(EIGHT, 3), table.add(EIGHT)]
    found: list[int] = []
    as_it_is = LedgerLog.read_slot

    def read_slot(log: LedgerLog, seq: int) -> Any:
        found.append(seq)
        return as_it_is(log, seq)

    monkeypatch.setattr(LedgerLog, "read_slot", read_slot)
    assert numbers(read(table, asOf=f"slot:{slots[0]}")) == list(range(8))
    assert sorted(found) == list(range(slots[-1] + 2))
    later = table.swap(EIGHT, [100])
    found.clear()
    assert numbers(read(table)) == [0, 1, 2, 3, 100]
    assert found == list(range(slots[-1] + 1, later + 2))
    # Rows before the SWAP are not in the table any more, whenever they are asked for.
    with pytest.raises(RowsLetGoError, match=f"slot {later} has replaced them"):
        read(table, asOf=f"slot:{slots[-1]}")


def test_a_table_that_was_made_again_is_read_from_its_own_ledger(table: RowsOnDisk) -> None:
    table.add(SEVEN)
    config = ReadOptions.of({"job": str(table.table.job)}).config()
    rows = TableRows(rows_place(config))
    layout = table.table.log.layout
    assert rows.is_of(rows_place(config), by_slot=False)
    assert not rows.is_of(rows_place(config), by_slot=True)
    other = Owner("0" * 32, config.job, config.route, layout.table_root)
    Path(layout.owner).write_bytes(encode(other))
    assert not rows.is_of(rows_place(config), by_slot=False)


def test_meta_columns_say_slot_and_place_and_stay_so(table: RowsOnDisk) -> None:
    slots = [table.add(SEVEN, EIGHT), table.add(EIGHT)]
    before = read(table, META, meta="true")
    table.merge(EIGHT, 3)
    after = read(table, META, meta="true")
    assert sorted(before, key=lambda row: row["ts"]) == sorted(after, key=lambda row: row["ts"])
    # `ts` is the number of a row in the order of the log.
    assert all(row["_sw_place"] == row["ts"] for row in after)
    assert {row["_sw_slot"] for row in after} == set(slots)
    only = read(table, {"_sw_place": LongType()}, columns="ts", meta="true")
    assert sorted(row["_sw_place"] for row in only) == list(range(12))


def test_batch_at_a_time_has_what_was_prepared_by_then(
    table: RowsOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add(SEVEN)
    table.merge(SEVEN)
    table.add(EIGHT)
    table.add(SEVEN)
    hour = 1_795_161_600_000

    def at_ms(body: object) -> int:
        """The first epoch at eight, the second at nine, the third at ten."""
        return hour + 3_600_000 * body.epoch if isinstance(body, DataRecord) else 0

    monkeypatch.setattr(read_point, "prepared_ms", at_ms)
    found = {
        text: numbers(read(table, asOf=text))
        for text in ("2026-11-20T07:59:59Z", "2026-11-20T16:00:00+08:00", "2026-11-20T09:30:00Z")
    }
    assert list(map(len, found.values())) == [0, 4, 8]
    assert len(read(table, asOf="2026-11-21T00:00:00Z")) == 12


def test_rows_that_were_replaced_before_they_were_read_end_the_query_unless_it_skips_them(
    table: RowsOnDisk, opened: Streams
) -> None:
    table.add(SEVEN, EIGHT)
    at = table.swap(EIGHT, [100])
    reader = stream(table, opened)
    start, end = reader.initialOffset(), reader.latestOffset()
    with pytest.raises(RowsLetGoError, match=f"slot {at} has replaced them") as told:
        reader.partitions(start, end)
    assert "`backfill` did" in told.value.hint
    assert "onCorrection" in told.value.hint


def test_ledger_of_a_newer_version_is_refused(table: RowsOnDisk, opened: Streams) -> None:
    slot = table.add(EIGHT)
    reader = stream(table, opened)
    reader.latestOffset()
    Path(table.table.log.layout.record(slot + 1)).write_bytes(b'{"format":4}\n')
    for fails in (lambda: read(table), reader.latestOffset):
        with pytest.raises(LedgerCorruptError, match="run the newer version"):
            fails()


def test_lake_table_is_left_to_the_source_of_iceberg(table: RowsOnDisk) -> None:
    config = ReadOptions.of({"job": str(table.table.job)}).config()
    lake = replace(config, table=replace(config.table, lake=LakeOptions()))
    with pytest.raises(NotInThisVersionError, match="iceberg"):
        read_point.open_rows(lake)


def test_announced_time_is_read_as_it_was_announced(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    with pytest.raises(RequestRefusedError, match="partitions why"):
        read(table, ready=SEVEN)
    table.table.rows(closed=(SEVEN,))
    table.announce(SEVEN)
    table.add(EIGHT)
    assert numbers(read(table, ready=SEVEN)) == [0, 1, 2, 3]


def test_spans_of_files_have_each_row_once(table: RowsOnDisk) -> None:
    slots = [table.add(EIGHT), table.add(EIGHT), table.add(EIGHT)]
    table.merge(EIGHT, 5)
    found = read(table, FILES, content="files", asOf=f"slot:{slots[1]}")
    assert [(row["first_row"], row["rows"], row["slot"]) for row in found] == [
        (0, 4, slots[0]),
        (4, 1, slots[1]),
        (0, 3, slots[1]),
    ]
    assert all(row["path"].startswith("file:///") and row["partition"] == EIGHT for row in found)


def test_slot_that_is_not_published_is_refused(table: RowsOnDisk) -> None:
    slot = table.add(EIGHT)
    with pytest.raises(RequestRefusedError, match=rf"the newest that is, is {slot}"):
        read(table, asOf=f"slot:{slot + 1}")


def test_rows_that_were_let_go_of_are_refused_or_left_out(table: RowsOnDisk) -> None:
    slot = table.add(SEVEN, EIGHT)
    gone = table.expire(SEVEN)
    table.add(SEVEN)
    with pytest.raises(RowsLetGoError, match=rf"slot {gone}.*wrong.*partitions forget") as told:
        read(table, asOf=f"slot:{slot}")
    assert told.value.code == "SW463"
    assert numbers(read(table, asOf=f"slot:{slot}", onCorrection="skip")) == [4, 5, 6, 7]
    # As of now nothing is missing.
    assert numbers(read(table)) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_file_that_is_gone_or_another_one_is_no_rows_but_an_error(table: RowsOnDisk) -> None:
    table.add(EIGHT)
    reader = source(table).reader(_struct(ROWS))
    planned = list(reader.partitions())
    (file,) = table.root.rglob("*.parquet")
    kept = file.read_bytes()
    file.unlink()
    with pytest.raises(FileLostError, match="run the query again"):
        _rows(reader, planned)
    file.write_bytes(kept[:-20])
    with pytest.raises(FileLostError, match="cannot be read"):
        _rows(reader, planned)
    table._write(str(file.relative_to(table.root)), [1, 2], "x")
    with pytest.raises(FileLostError, match="4 rows that was committed"):
        _rows(reader, planned)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"asof": "yesterday"}, "slot:1204"),
        ({"asOf": "2026-11-28T08:00:00"}, "with its zone"),
        ({"asOf": "slot:1", "ready": SEVEN}, "exclude each other"),
        ({"content": "file"}, "expected rows or files"),
        ({"maxRowsPerTrigger": "0"}, "a number from 1"),
        ({"start": "2026-11-28T08:00:00Z"}, "earliest, latest or slot:N"),
        ({"asoff": "slot:1"}, "no option asoff"),
        ({"route": "nope"}, "no route `nope`"),
    ],
)
def test_wrong_option_is_refused(table: RowsOnDisk, options: dict[str, str], told: str) -> None:
    with pytest.raises(WrongUsageError, match=told):
        source(table, **options).schema()


def test_stream_has_each_row_once_and_the_same_rows_when_it_plans_again(
    table: RowsOnDisk, opened: Streams
) -> None:
    table.add(SEVEN, EIGHT)
    reader = stream(table, opened)
    end = reader.latestOffset()
    begin = reader.initialOffset()
    assert begin == {"ledger": LEDGER, "slot": -1}
    assert batch(reader, begin, end) == list(range(8))
    assert reader.latestOffset() == end
    table.merge(EIGHT)
    # Nothing has come: no empty batch.
    assert reader.latestOffset() == end
    table.add(EIGHT)
    after = reader.latestOffset()
    reader.commit(end)
    assert batch(reader, end, after) == [8, 9, 10, 11]
    reader.stop()
    table.merge(EIGHT, 5)
    # As Spark goes on from a checkpoint whose last batch was not finished.
    again = stream(table, opened)
    assert again.partitions(after, after) == []
    assert batch(again, end, after) == [8, 9, 10, 11]
    assert again.latestOffset() == after


def test_stream_takes_so_many_rows_a_batch_and_no_part_of_a_record(
    table: RowsOnDisk, opened: Streams
) -> None:
    slots = [table.add(EIGHT, rows=rows) for rows in (3, 3, 9, 3)]
    reader = stream(table, opened, maxRowsPerTrigger="6")
    ends = []
    at = reader.initialOffset()
    for _ in slots:
        end = reader.latestOffset()
        reader.partitions(at, end)
        reader.commit(end)
        ends.append(end["slot"])
        at = end
    # Three and three; nine by themselves; the rest.
    assert ends == [slots[1], slots[2], slots[3], slots[3]]


def test_stream_begins_where_it_is_told(table: RowsOnDisk, opened: Streams) -> None:
    first, second = table.add(EIGHT), table.add(EIGHT)
    late = stream(table, opened, start="latest", query="a")
    assert late.latestOffset() == late.initialOffset() == {"ledger": LEDGER, "slot": second}
    some = stream(table, opened, start=f"slot:{first}", query="b")
    end = some.latestOffset()
    assert batch(some, some.initialOffset(), end) == [4, 5, 6, 7]
    with pytest.raises(WrongUsageError, match="not published"):
        stream(table, opened, start="slot:99", query="c").initialOffset()


def test_lease_says_what_is_done(table: RowsOnDisk, opened: Streams) -> None:
    def slot() -> int:
        log = table.table.log
        held = read_reader_lease(log.storage, log.layout.reader("spark-orders"))
        assert held is not None
        return held.slot

    first = table.add(EIGHT)
    reader = stream(table, opened)
    end = reader.latestOffset()
    begin = reader.initialOffset()
    assert slot() == -1
    reader.partitions(begin, end)
    assert slot() == -1
    moved = table.merge(EIGHT)
    # Spark asks for the next batch when the one before is done; nothing of the files before the
    # move is needed any more.
    assert reader.latestOffset() == end
    assert slot() == moved
    second = table.add(EIGHT)
    after = reader.latestOffset()
    reader.commit(end)
    reader.partitions(end, after)
    assert slot() == moved
    reader.commit(after)
    assert (slot(), first, second) == (second, end["slot"], after["slot"])


def test_second_query_of_the_same_name_is_refused(table: RowsOnDisk, opened: Streams) -> None:
    table.add(EIGHT)
    first = stream(table, opened)
    end = first.latestOffset()
    log = table.table.log
    place = log.layout.reader("spark-orders")
    # Another host's query has taken the name.
    log.storage.overwrite(place, encode(lease(-1, reader="r2")))
    with pytest.raises(ReaderNameTakenError, match="elsewhere pid 1"):
        first.commit(end)
    with pytest.raises(ReaderNameTakenError):
        first.latestOffset()


def test_rows_let_go_of_below_an_unread_slot_stop_the_stream(
    table: RowsOnDisk, opened: Streams
) -> None:
    table.add(SEVEN, EIGHT)
    gone = table.expire(SEVEN)
    begin, end = offset(-1), offset(gone)
    with pytest.raises(RowsLetGoError, match="onCorrection") as told:
        stream(table, opened, query="a").partitions(begin, end)
    assert told.value.commands == (f"sluiceway ledger show JOB --from {gone} --limit 1",)
    some = stream(table, opened, query="b", onCorrection="skip")
    assert batch(some, begin, end) == [4, 5, 6, 7]


def test_checkpoint_of_another_ledger_is_refused(table: RowsOnDisk, opened: Streams) -> None:
    slot = table.add(EIGHT)
    other = offset(slot, "e" * 32)
    with pytest.raises(LedgerMismatchError, match="new checkpoint"):
        stream(table, opened, query="a").partitions(other, other)
    begin, beyond = offset(-1), offset(slot + 9)
    with pytest.raises(LedgerMismatchError, match=f"ends with slot {slot}"):
        stream(table, opened, query="b").partitions(begin, beyond)


def test_checkpoint_of_a_slot_that_an_adopt_has_cut_is_refused(
    table: RowsOnDisk, opened: Streams
) -> None:
    first, second = table.add(EIGHT), table.add(EIGHT)
    old = table.table.log
    kept = next(raw for record, raw in old.records(first) if record.seq == first)
    claim = Generation(1, first, record_hash(kept), "b", "ann@host", "a is lost", ())
    claim_generation(old.storage, old.layout, claim)
    log = LedgerLog(old.storage, old.layout)
    fold = log.fold()
    log.storage.make_folders(log.layout.log_of(1))
    adopted = AdoptedRecord(
        1, fence().table, fold.term, fold.last_epoch, 1, 0, 0, "ann@host", "a is lost", ()
    )
    body = replace(fence(), site="b", format=3, min_reader=3, adopted=adopted)
    LedgerWriter(log, fold, lambda *_: None).fence(body, lambda: None)
    with pytest.raises(LedgerMismatchError, match=f"slot {second}, which the adopt .* room b"):
        stream(table, opened, query="a").partitions(offset(first), offset(second))
    reader = stream(table, opened, query="b")
    end = reader.latestOffset()
    assert (end["slot"], end["generation"]) == (second, 1)
    assert batch(reader, offset(first), end) == []


def test_rows_that_are_not_published_are_not_read_yet(table: RowsOnDisk, opened: Streams) -> None:
    first = table.add(EIGHT)
    # Committed, and its file is not at its final name.
    table.table.writer.set_published = lambda through=None: None  # type: ignore[method-assign]
    table.table.rows(EIGHT)
    reader = stream(table, opened)
    assert reader.latestOffset()["slot"] == first
    assert numbers(read(table)) == [0, 1, 2, 3]


def test_read_point_has_files_and_offsets_of_a_slot(
    table: RowsOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    first = table.add(SEVEN, EIGHT)
    table.add(EIGHT)
    table.merge(EIGHT)
    found = sluiceway.read_at(table.table.job, slot=first)
    assert [(each.partition, each.first_row, each.rows) for each in found.files] == [
        (SEVEN, 0, 4),
        (EIGHT, 0, 4),
    ]
    assert (found.slot, found.rows, found.ledger) == (first, 8, LEDGER)
    assert found.spark_offsets == {"orders": {"0": 8}}
    assert run_command(["at", str(table.table.job), "--slot", str(first), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["offsets"] == {
        "spark": {"orders": {"0": 8}},
        "flink": {"orders": "partition:0,offset:8"},
        "group": ["orders,0,8"],
    }
    assert [each["rows"] for each in told["files"]] == [4, 4]
    assert run_command(["at", str(table.table.job)]) == 0
    shown = capsys.readouterr().out
    assert "12 rows" in shown
    assert "offset orders,0,12" in shown
    assert run_command(["at", str(table.table.job), "--slot", "999"]) == 7
    assert "SW470" in capsys.readouterr().err
