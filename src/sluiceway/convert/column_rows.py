"""Rows that come as columns, where other sources have payloads."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from sluiceway.types.payloads import Payload, PayloadRows


class ColumnRows(PayloadRows):
    """Rows of a table. As payloads they are JSON, which is made of those alone that are asked for.

    Args:
        columns: Values of the rows, as the file has them.
        texts: Makes one JSON object a row, as strings.
    """

    def __init__(
        self, columns: pa.RecordBatch, texts: Callable[[pa.RecordBatch], pa.Array]
    ) -> None:
        self.columns = columns
        self._texts = texts

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows

    def payload(self, row: int) -> Payload:
        """See `PayloadRows`."""
        return self.payloads([row])[0]

    def __iter__(self) -> Iterator[Payload]:
        return iter(self.payloads(range(len(self))))

    def payloads(self, rows: Sequence[int]) -> list[Payload]:
        """Some rows as JSON, in the order asked for."""
        taken = self.columns.take(pa.array(rows, pa.int64()))
        return [text.encode().rstrip(b"\n") for text in self._texts(taken).to_pylist()]
