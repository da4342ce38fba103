"""Rows that a mirror had not copied when a route continued in its copy: none of them may come.

The position was exact only because the mirror never continues. A row of the lost room that comes
after it shows that the mirror does, and that others may be in the table twice.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.log_tail import row_hash, tail_runs
from sluiceway.sources.contract import SourceBatch, Split, SplitEnd, SplitReader

_NO_TIME: Final = -1


def hashed_rows(batch: SourceBatch, rows: range) -> Iterator[tuple[int, int]]:
    """`row_hash` and record time of rows of a fetch, in order; -1 for a row without one."""
    found = batch.records(rows)
    times = [_NO_TIME if each is None else each for each in found.timestamps_ms]
    return zip(map(row_hash, found.keys, found.values, times), times, strict=True)


def row_hashes(batch: SourceBatch) -> Iterator[int]:
    """`row_hash` of each row of a fetch, in order."""
    return (row for row, _ in hashed_rows(batch, range(len(batch.values))))


class MissingRowsReader(SplitReader):
    """Refuses rows that were missing. Between a source's reader and the task.

    Args:
        reader: Reader of the splits.
        splits: Some of them with missing rows.
    """

    def __init__(self, reader: SplitReader, splits: Sequence[Split]) -> None:
        self._reader = reader
        self.reused = reader.reused
        self._splits = splits
        self._missing = [frozenset(run.row for run in tail_runs(each.missing)) for each in splits]

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`.

        Raises:
            OffsetsLostError: As in `SplitReader.read`, and for a row that was missing.
        """
        batches = self._reader.read(timeout_s)
        for batch in batches:
            missing = self._missing[batch.split_index]
            if not missing:
                continue
            for offset, row in zip(batch.offsets, row_hashes(batch), strict=True):
                if row in missing:
                    raise self._refused(batch.split_index, int(offset))
        return batches

    def _refused(self, index: int, offset: int) -> OffsetsLostError:
        one = self._splits[index].partition
        place = f"--partition {one.topic}:{one.partition} --to {offset + 1} --accept-gap"
        return OffsetsLostError(
            "the mirror of the lost room continues, though `mirror_closed` was confirmed: this "
            "row was missing then, and rows before it may be in the table twice",
            where=f"{one} offset {offset}",
            hint="stop the mirror; once you know which rows it has copied, "
            f"`sluiceway offsets reset JOB {place} --reason TEXT` continues after them",
        )

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        return self._reader.finished()

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`."""
        return self._reader.ends()

    def close(self, *, reusable: bool) -> None:
        """See `SplitReader.close`."""
        self._reader.close(reusable=reusable)
