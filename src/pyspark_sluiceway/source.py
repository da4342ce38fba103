"""What Spark calls: the data source, its reader of batches and its reader of streams."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_sluiceway.columns import spark_schema
from pyspark_sluiceway.options import ReadOptions
from pyspark_sluiceway.spans import SpanPartition, planned, task_batches
from pyspark_sluiceway.stream import RowStream
from sluiceway.audit.read_point import TableRows, rows_let_go, rows_place
from sluiceway.jobfile.compile.config import RouteConfig

_MOST_KNOWN = 4
Offset = dict[str, str | int]
"""`{"ledger": uuid, "slot": n}`: all rows up to slot n, with it; `generation` of adopted tables."""


class SluicewaySource(DataSource):  # type: ignore[misc]  # Spark's class has no types
    """The data source `sluiceway`; Spark makes and copies it."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "sluiceway"

    def schema(self) -> StructType:
        """Columns, as Spark has them.

        Raises:
            SluicewayError: An option is wrong, or the table cannot be read.
        """
        options = ReadOptions.of(self.options)
        return spark_schema(options.config(), options)

    def reader(self, schema: StructType) -> "BatchReader":
        """For `spark.read`."""
        return BatchReader(ReadOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        return StreamReader(ReadOptions.of(self.options), schema)


class _Reads:
    """What a task does; travels to executors with what it needs."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: SpanPartition | None) -> Iterator[pa.RecordBatch]:
        """Rows of a task, in batches. Spark hands over None where there is no task.

        Raises:
            FileLostError: A file is gone.
            StorageUnavailableError: The store failed.
        """
        if partition is not None:
            yield from task_batches(partition.value, to_arrow_schema(self._schema))


class BatchReader(_Reads, DataSourceReader):  # type: ignore[misc]  # Spark's class has no types
    """Reads a table at a point."""

    def partitions(self) -> Sequence[SpanPartition]:
        """Plan the tasks: read the ledger.

        Raises:
            RowsLetGoError: Rows of then are not in the table any more.
            SluicewayError: The ledger cannot be read, or does not have the point.
        """
        options = self._options
        config = options.config()
        rows = _known_rows(config, by_slot=options.meta or options.files)
        found = rows.at(options.point)
        if found.let_go and not options.skip:
            raise rows_let_go(found.let_go)
        return planned(config, rows.ledger, found.files, files=options.files)


_KNOWN: list[TableRows] = []
"""What this process has read of ledgers, newest last: Spark plans the reads of a session in it."""


def _known_rows(config: RouteConfig, *, by_slot: bool) -> TableRows:
    """The rows of a route's table, read on where an earlier read has known them."""
    place = rows_place(config)
    known = next((each for each in _KNOWN if each.is_of(place, by_slot=by_slot)), None)
    if known is None:
        known = TableRows(place, by_slot=by_slot)
    else:
        _KNOWN.remove(known)
        known.read_on()
    _KNOWN.append(known)
    del _KNOWN[:-_MOST_KNOWN]
    return known


class StreamReader(_Reads, DataSourceStreamReader):  # type: ignore[misc]  # likewise
    """Reads what comes. One process has one, as long as the query runs; copies only read tasks."""

    _stream: RowStream | None = None

    def _open(self) -> RowStream:
        if self._stream is None:
            self._stream = RowStream(self._options)
        return self._stream

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a new query begins.

        Raises:
            SluicewayError: As `RowStream.first`.
        """
        return self._open().first()

    def latestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the next batch ends; called when all batches before are done.

        Raises:
            SluicewayError: As `RowStream.next_end`.
        """
        return self._open().next_end()

    def partitions(self, start: Offset, end: Offset) -> Sequence[SpanPartition]:
        """Plan the tasks of a batch; the same rows whenever it is planned.

        Raises:
            SluicewayError: As `RowStream.between`.
        """
        stream = self._open()
        spans = stream.between(start, end)
        return planned(stream.config, stream.ledger, spans, files=self._options.files)

    def commit(self, end: Offset) -> None:
        """Everything up to there is done.

        Raises:
            SluicewayError: As `RowStream.commit`.
        """
        self._open().commit(end)

    def stop(self) -> None:
        """The query has ended."""
        if self._stream is not None:
            self._stream.close()
