"""Landed files: decoded rows of one attempt that wait for the SQL, with what it does not see.

No record names them. They lie in an attempt's folder of their own, so the garbage rule takes them
as it takes any attempt that no record names.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.contract import MICROS, TIMESTAMPS, FileChoice, FileFormat
from sluiceway.sources.contract import RawRecords, SourceBatch
from sluiceway.storage.contract import Storage
from sluiceway.worker.dirty_file import dirty_schema, header_lists
from sluiceway.worker.late_rows import LateSplit
from sluiceway.worker.meta_columns import meta_fields
from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.plan import Place, RoutePlan, TaskPlan
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.row_files import RowFiles, WrittenFiles
from sluiceway.worker.staged_files import StagedFiles

HIDDEN = "__sw_"
"""How the names of columns begin that the SQL does not see."""
AT, SPLIT, EVENT, RECORD, NOW = (
    f"{HIDDEN}{name}" for name in ("at", "split", "event", "record", "now")
)
META, RAW = f"{HIDDEN}meta_", f"{HIDDEN}raw_"
CARRIED_FIELDS = (
    pa.field(AT, pa.int64()),
    pa.field(SPLIT, pa.int32()),
    pa.field(EVENT, pa.int64()),
    pa.field(RECORD, pa.int64()),
    pa.field(NOW, pa.int64()),
)
"""A record's number in its epoch, its split in the landing task, its times in microseconds."""

_NUMBER_BITS = 40
_FILES = FileChoice(FileFormat.PARQUET, "lz4", settings=((TIMESTAMPS, MICROS),))


def landing_tasks(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The task that landed each record, by the record's number."""
    return numbers >> _NUMBER_BITS


def first_number(task: int) -> int:
    """Number of the first record that a task lands; those after it follow."""
    return task << _NUMBER_BITS


def carried_fields(route: RoutePlan) -> list[pa.Field]:
    """What goes through the SQL with each row: its number, its times, its meta columns."""
    meta = [
        pa.field(f"{META}{index}", each.type) for index, each in enumerate(meta_fields(route.meta))
    ]
    return [*CARRIED_FIELDS, *meta]


def raw_fields(route: RoutePlan) -> list[pa.Field]:
    """What the queue has of a record, which is read again only for dirty rows."""
    schema = dirty_schema(text_keys=route.text_keys)
    names = [each.name for each in schema][: len(fields(RawRecords))]
    return [pa.field(f"{RAW}{name}", schema.field(name).type) for name in names]


class LandRows:
    """Gives rows the columns of landed files.

    Args:
        plan: The task.
        before: Schema of the rows before this stage.

    Attributes:
        schema: Schema of the files.
    """

    def __init__(self, plan: TaskPlan, before: pa.Schema) -> None:
        route = plan.route
        self._raw = raw_fields(route)
        self.schema = pa.schema([*before, *carried_fields(route), *self._raw])
        self._next = first_number(plan.task)

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        count = len(rows.indices)
        numbers = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        splits = np.zeros(count, np.int32)
        for split, begin, end in rows.spans():
            splits[begin:end] = split
        none = pa.nulls(count, pa.int64())
        now = pa.repeat(pa.scalar(rows.times.processing_us or rows.now_us, pa.int64()), count)
        event, record = rows.times.event, rows.times.record
        arrays = [
            *rows.columns.columns,
            pa.array(numbers),
            pa.array(splits),
            none if event is None else event.cast(pa.int64()),
            none if record is None else record.cast(pa.int64()),
            now,
            *(array.take(rows.indices) for array in rows.meta),
            *self._records(rows),
        ]
        rows.columns = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        rows.going = LateSplit([()], np.zeros(count, np.int32))

    def _records(self, rows: RowBatch) -> list[pa.Array]:
        found = rows.records(rows.indices.to_pylist())
        columns = [getattr(found, each.name) for each in fields(RawRecords)][:-1]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, self._raw, strict=False)
        ]
        return [*arrays, header_lists(found.headers)]


class LandedFiles(RowFiles):
    """The files of a landing attempt: landed ones in a folder of their own, and the dirty file.

    Args:
        storage: The table's storage.
        plan: The task.
        schema: Schema of landed rows.
    """

    def __init__(self, storage: Storage, plan: TaskPlan, schema: pa.Schema) -> None:
        route = replace(plan.route, partitions=(), files=_FILES)
        self._landed = StagedFiles(storage, replace(plan, route=route), schema)
        self._dirty = StagedFiles(storage, plan, schema)

    @property
    def attempt(self) -> str:
        """See `RowFiles`: where the dirty file is staged."""
        return self._dirty.attempt

    @property
    def held_bytes(self) -> int:
        """See `RowFiles`."""
        return self._landed.held_bytes + self._dirty.held_bytes

    @property
    def most_open(self) -> int:
        """See `RowFiles`."""
        return self._landed.most_open

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """See `RowFiles`."""
        self._landed.write(place, rows, shared)

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""
        self._dirty.write_dirty(rows)

    def close_due(self) -> None:
        """See `RowFiles`. No one reads landed files before the task has ended."""

    def free(self, kept_bytes: int) -> None:
        """See `RowFiles`."""
        self._landed.free(kept_bytes)
        self._dirty.free(kept_bytes)

    def close(self) -> WrittenFiles:
        """See `RowFiles`: the clean files are the landed ones."""
        landed, _, _ = self._landed.close()
        _, dirty, _ = self._dirty.close()
        return landed, dirty, ()

    def abort(self) -> None:
        """See `RowFiles`."""
        self._landed.abort()
        self._dirty.abort()


class LandedRecords:
    """Finds what the queue had of landed records. Used by one thread, for dirty rows only.

    Args:
        storage: The table's storage.
        files: (landing task, path) of all landed files of the epoch.
    """

    def __init__(self, storage: Storage, files: Sequence[tuple[int, str]]) -> None:
        self._storage = storage
        self._files = files

    def of(self, numbers: Sequence[int]) -> RawRecords:
        """What the queue had of records, in the order of their numbers.

        Raises:
            TaskFailedError: A record is in no landed file.
            StorageUnavailableError: The store failed.
        """
        tasks = set(landing_tasks(np.array(numbers, np.int64)).tolist())
        wanted = pa.array(numbers, pa.int64())
        found: dict[int, dict[str, Any]] = {}
        for task, path in self._files:
            if task in tasks:
                for row in self._matching(path, wanted):
                    found[row[AT]] = row
        if len(found) != len(numbers):
            raise TaskFailedError(
                f"{len(numbers) - len(found)} dirty records are in no landed file"
            )
        columns: dict[str, list[Any]] = {
            each.name: [found[number][name] for number in numbers]
            for each, name in zip(fields(RawRecords), _RAW_NAMES, strict=True)
        }
        pairs = [[(one["name"], one["value"]) for one in each or ()] for each in columns["headers"]]
        return RawRecords(**{**columns, "headers": pairs})

    def _matching(self, path: str, wanted: pa.Array) -> list[dict[str, Any]]:
        try:
            with self._storage.open_read(path) as handle:
                file = pq.ParquetFile(handle)
                found: list[dict[str, Any]] = []
                for group in range(file.num_row_groups):
                    kept = pc.is_in(file.read_row_group(group, [AT]).column(0), wanted)
                    if pc.any(kept).as_py():
                        rows = file.read_row_group(group, [AT, *_RAW_NAMES]).filter(kept)
                        found += rows.to_pylist()
                return found
        except OSError as error:
            raise StorageUnavailableError(f"cannot read {path}: {error}") from error


_RAW_NAMES = tuple(
    f"{RAW}{each.name}" for each in list(dirty_schema(text_keys=False))[: len(fields(RawRecords))]
)


class LandedBatch(SourceBatch):
    """Landed records of one split, as the stages after the SQL see them.

    Args:
        split_index: Which of the epoch's splits.
        numbers: Numbers of the records.
        records: Finds what the queue had of them.
    """

    def __init__(
        self, split_index: int, numbers: NDArray[np.int64], records: LandedRecords
    ) -> None:
        self.split_index = split_index
        # Payloads are read only of dirty rows; the stages ask how many there are.
        self.values = [None] * len(numbers)
        self.offsets = self._numbers = numbers
        self._records = records

    def timestamps_ms(self) -> Sequence[int | None]:
        """See `SourceBatch`: times were read before."""
        return [None] * len(self.values)

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        return self._records.of(self._numbers[list(rows)].tolist())
