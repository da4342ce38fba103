"""Origin headers: which rows are copies of another log's, and which of these the table has.

A mirror adds `<cluster>/<topic>/<partition>:<offset>@<record time>` to each row that it copies.
Processors forward headers together with their rows. So a header counts only if it names the log
that the route has left, and has the record time of its own row.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.sources.contract import Headers, SourceBatch, Split, SplitEnd, SplitReader
from sluiceway.sources.kept_rows import KeptRows

_NO_TIME: Final = -1
_PLACE = re.compile(rb"(0|[1-9][0-9]{0,18})@(-1|0|[1-9][0-9]{0,18})")


class OriginHeaders:
    """Reads the origins of rows. Used by one thread.

    Args:
        log: The log whose copies are found.
    """

    def __init__(self, log: OriginLog) -> None:
        self._header = log.header
        self._cluster = log.name.partition("/")[0].encode() + b"/"
        self._log = log.name.encode() + b":"

    def offset(self, headers: Headers, time_ms: int | None) -> int | None:
        """Offset in the log of the row that this one is a copy of; None for a row of its own.

        Args:
            headers: Headers of the row.
            time_ms: Its record time; None without one.

        Raises:
            OffsetsLostError: A header names the log, and no offset and time in it.
        """
        for name, value in reversed(headers):
            if name == self._header and value is not None and value.startswith(self._cluster):
                return self._offset_in(value, time_ms)
        return None

    def _offset_in(self, value: bytes, time_ms: int | None) -> int | None:
        """What the last header of the cluster says; one of another log says nothing."""
        if not value.startswith(self._log):
            return None
        found = _PLACE.fullmatch(value[len(self._log) :])
        if found is None:
            shown = value[:200].decode("ascii", "backslashreplace")
            raise OffsetsLostError(
                f"header `{self._header}` is `{shown}`: expected `<offset>@<record time>` after "
                f"the log's name",
                hint="it is unknown which rows the table has already. Find out what has "
                "written this header; only the transform of `sluiceway mirror-jar` may",
            )
        own = _NO_TIME if time_ms is None else time_ms
        return int(found[1]) if int(found[2]) == own else None


class OriginReader(SplitReader):
    """Drops copies of rows that the table has. Between a source's reader and the task.

    Copies of a log are in its order, also when the mirror begins again at a place before. So a
    copy below the greatest origin before it is there twice.

    Args:
        reader: Reader of the splits.
        splits: Some of them with an origin.
    """

    def __init__(self, reader: SplitReader, splits: Sequence[Split]) -> None:
        self._reader = reader
        self.reused = reader.reused
        self._partitions = [split.partition for split in splits]
        self._headers = [None if s.origin is None else OriginHeaders(s.origin) for s in splits]
        self._ends = [None if s.origin is None else int(s.origin.end) for s in splits]
        self._dropped = [0] * len(splits)

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`; also empty when all that has arrived was dropped.

        Raises:
            OffsetsLostError: As in `SplitReader.read`, and for an origin that cannot be read.
        """
        found = [self._without_copies(batch) for batch in self._reader.read(timeout_s)]
        return [batch for batch in found if batch is not None]

    def _without_copies(self, batch: SourceBatch) -> SourceBatch | None:
        index = batch.split_index
        headers, end = self._headers[index], self._ends[index]
        if headers is None or end is None or not batch.may_have_headers():
            return batch
        kept = np.ones(len(batch.values), bool)
        each = zip(batch.headers(), batch.timestamps_ms(), strict=True)
        for row, (of_row, time_ms) in enumerate(each):
            try:
                offset = headers.offset(of_row, None if time_ms is None else int(time_ms))
            except OffsetsLostError as error:
                raise self._placed(error, batch, row) from error
            if offset is None:
                continue
            if offset < end:
                kept[row] = False
            else:
                end = offset + 1
        self._ends[index] = end
        left = int(kept.sum())
        self._dropped[index] += len(kept) - left
        if left == len(kept):
            return batch
        return KeptRows(batch, np.flatnonzero(kept)) if left else None

    def _placed(self, error: OffsetsLostError, batch: SourceBatch, row: int) -> OffsetsLostError:
        where = f"{self._partitions[batch.split_index]} offset {int(batch.offsets[row])}"
        return OffsetsLostError(error.message, where=where, hint=error.hint)

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        return self._reader.finished()

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`: a row that was dropped is a gap."""
        return tuple(
            replace(
                end,
                rows=end.rows - dropped,
                gaps=end.gaps + dropped,
                copies=dropped,
                origin_end=origin_end,
            )
            for end, dropped, origin_end in zip(
                self._reader.ends(), self._dropped, self._ends, strict=True
            )
        )

    def close(self, *, reusable: bool) -> None:
        """See `SplitReader.close`."""
        self._reader.close(reusable=reusable)
