"""Columns of what the queue has beside the payload."""

from collections.abc import Sequence

from sluiceway.sources.contract import (
    UNREADABLE_HEADERS,
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
)
from sluiceway.worker.meta_columns import META_TYPES, MetaValues, meta_fields, meta_values
from sluiceway.worker.plan import PlannedMetaColumn

LOG = SourcePartition("orders", 3)


class Batch(SourceBatch):
    """Records as a source has them that knows no faster way to keys and headers."""

    def __init__(self, records: Sequence[tuple[bytes | None, Headers]]) -> None:
        self.split_index = 0
        self.values = [b"{}"] * len(records)
        self.offsets = list(range(len(records)))
        self._records = records

    def timestamps_ms(self) -> list[int | None]:
        return [None] * len(self.values)

    def records(self, rows: Sequence[int]) -> RawRecords:
        keys, headers = zip(*(self._records[row] for row in rows), strict=True)
        count = len(rows)
        topics, partitions = [LOG.topic] * count, [LOG.partition] * count
        return RawRecords(topics, partitions, rows, [None] * count, keys, [b"{}"] * count, headers)


def read(kind: str, *batches: Batch) -> MetaValues:
    return meta_values([PlannedMetaColumn(kind, f"_{kind}")], batches, [LOG])


def test_keys_are_bytes_or_texts() -> None:
    batches = (Batch([(b"k1", ()), (None, ())]), Batch([(b"\xff", ()), ("北".encode(), ())]))
    assert read("key", *batches).arrays[0].to_pylist() == [b"k1", None, b"\xff", "北".encode()]
    texts = read("key_text", *batches)
    assert texts.arrays[0].to_pylist() == ["k1", None, None, "北"]
    assert [(row.index, row.reason, row.path) for row in texts.dirty] == [
        (2, "encoding", "_key_text")
    ]


class TimedBatch(Batch):
    """Records with these times."""

    def __init__(self, *times_ms: int | None) -> None:
        super().__init__([(None, ())] * len(times_ms))
        self._times_ms = list(times_ms)

    def timestamps_ms(self) -> list[int | None]:
        return self._times_ms


def test_time_that_no_calendar_has_is_none() -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    batches = (
        TimedBatch(0, None, first, first - 1),
        TimedBatch(last, last + 1, 2**63 - 1, -(2**63)),
    )
    (found,) = read("timestamp", *batches).arrays
    assert found.type == META_TYPES["timestamp"]
    micros = found.view("int64").to_pylist()
    assert micros == [0, None, first * 1000, None, last * 1000, None, None, None]


def test_headers_keep_order_duplicates_and_nulls() -> None:
    headers: Headers = (("a", b"1"), ("b", None), ("a", b""))
    (found,) = read("headers", Batch([(None, headers), (None, ())])).arrays
    assert found.to_pylist() == [[{"name": n, "value": v} for n, v in headers], []]
    (texts,) = read("headers_text", Batch([(None, headers)])).arrays
    assert [one["value"] for one in texts.to_pylist()[0]] == ["1", None, ""]


def test_headers_that_are_no_texts_make_the_row_dirty() -> None:
    batch = Batch([(None, (("a", b"\xff"),)), (None, UNREADABLE_HEADERS), (None, (("n\0", b"x"),))])
    assert [row.index for row in read("headers_text", batch).dirty] == [0, 1, 2]
    assert [row.index for row in read("headers", batch).dirty] == [1, 2]


def test_key_of_the_source_partition_is_a_number_or_a_text() -> None:
    logs = [SourcePartition("t", 3), SourcePartition("t", "a/0")]
    for kind, log, wanted in (("partition", logs[0], 3), ("partition_text", logs[1], "a/0")):
        (found,) = meta_values(
            [PlannedMetaColumn(kind, kind)], [Batch([(None, ())] * 2)], [log]
        ).arrays
        assert found.to_pylist() == [wanted] * 2


def test_fields_have_the_types_of_the_values() -> None:
    columns = [PlannedMetaColumn(kind, kind) for kind in META_TYPES]
    found = meta_values(columns, [Batch([(b"k", (("a", b"1"),))])], [LOG])
    assert [array.type for array in found.arrays] == [field.type for field in meta_fields(columns)]
