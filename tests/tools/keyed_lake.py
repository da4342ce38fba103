"""A keyed lake table on disk, without a broker: changes are committed by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sluiceway.sinks.lake_options import LakeField, LakeOptions
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from tools.lake_under_test import LakeUnderTest
from tools.ledger_records import sources

KEYED = LakeOptions(
    publish_interval_s=0.0, key=("n",), offset_column="_offset", partition_column="_partition"
)
KEYED_BY_APP = LakeOptions(
    fields=(LakeField("app", "app"),),
    publish_interval_s=0.0,
    key=("n",),
    offset_column="_offset",
    partition_column="_partition",
)
ALL = 1 << 40
"""In place of a row: a truncate."""
LOST = 1 << 41
"""In place of a row: a dirty record with which a snapshot begins."""


KEYED_OF_TOPICS = replace(KEYED, topic_column="_topic")


class KeyedLake(LakeUnderTest):
    """Rows are `n -> app`; a negative number deletes the row of its positive one, ALL each row.

    Attributes:
        wanted: What a reader has to find.
        begins: A snapshot of the source begins with each row; LOST in place of a dirty one.
    """

    columns = Schema(
        (
            Field("n", IntegerType(64)),
            Field("app", StringType()),
            Field("_partition", IntegerType(32)),
            Field("_offset", IntegerType(64)),
        )
    )

    def __init__(self, folder: Path, options: LakeOptions = KEYED) -> None:
        super().__init__(folder, options)
        self.wanted: dict[int, str] = {}
        self.begins = False
        self._read = 0

    def commit(self, *rows: int, app: str = "a", topic: str = "orders", partition: int = 0) -> int:
        """See `LakeUnderTest.commit`."""
        self._read = partition
        return super().commit(*rows, app=app, topic=topic, partition=partition)

    def batch(self, rows: Sequence[int], app: str, offset: int) -> pa.RecordBatch:
        for row in rows:
            if row == ALL:
                self.wanted.clear()
            elif row == LOST:
                continue
            elif row < 0:
                self.wanted.pop(-row, None)
            else:
                self.wanted[row] = app
        image = RowKind.FIRST if self.begins else RowKind.IMAGE
        gone = RowKind.FIRST_GONE if self.begins else RowKind.DELETE
        special = {ALL: RowKind.TRUNCATE, LOST: RowKind.FIRST_LOST}
        kinds = [special.get(row, gone if row < 0 else image) for row in rows]
        columns = {
            "n": pa.array([None if row in special else abs(row) for row in rows], pa.int64()),
            "app": pa.array(
                [None if row < 0 or row in special else app for row in rows], pa.string()
            ),
            "_partition": pa.array([self._read] * len(rows), pa.int32()),
            "_offset": pa.array(range(offset, offset + len(rows)), pa.int64()),
            KIND_COLUMN: pa.array([int(kind) for kind in kinds], pa.int32()),
        }
        return pa.RecordBatch.from_pydict(columns)

    def assert_equal(self) -> None:
        """The table has each row as the last change left it, once."""
        found = self.table().scan().to_arrow()
        rows = list(zip(found["n"].to_pylist(), found["app"].to_pylist(), strict=True))
        assert sorted(rows) == sorted(self.wanted.items())

    def read_too(self, topic: str) -> None:
        """Have the route read a further topic."""
        (pin,) = sources(0).partitions
        pinned = replace(sources(0), partitions=(replace(pin, topic=topic),))
        self.writer.commit(replace(pinned, topics=("orders", topic)))

    def live(self) -> tuple[int, int]:
        """Data files and delete files at the head."""
        tasks = list(self.table().scan().plan_files())
        return len(tasks), len({each.file_path for task in tasks for each in task.delete_files})


class TopicsLake(KeyedLake):
    """One whose rows are of several topics."""

    columns = Schema((*KeyedLake.columns.fields, Field("_topic", StringType())))

    def __init__(self, folder: Path) -> None:
        self._topic = "orders"
        super().__init__(folder, KEYED_OF_TOPICS)

    def commit(self, *rows: int, app: str = "a", topic: str = "orders", partition: int = 0) -> int:
        """See `LakeUnderTest.commit`."""
        self._topic = topic
        return super().commit(*rows, app=app, topic=topic, partition=partition)

    def batch(self, rows: Sequence[int], app: str, offset: int) -> pa.RecordBatch:
        """See `LakeUnderTest.batch`."""
        made = super().batch(rows, app, offset)
        topics = pa.array([self._topic] * len(rows), pa.string())
        columns = {**dict(zip(made.schema.names, made.columns, strict=True)), "_topic": topics}
        kinds = columns.pop(KIND_COLUMN)
        return pa.RecordBatch.from_pydict({**columns, KIND_COLUMN: kinds})
