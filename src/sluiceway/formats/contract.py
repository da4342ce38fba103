"""What every input format provides. Built and called inside a task, once per batch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class DirtyReason(StrEnum):
    """Stable reason codes of rows that cannot be converted."""

    BROKEN = "broken"
    ENCODING = "encoding"
    EMPTY = "empty"
    NOT_AN_OBJECT = "not_an_object"
    DUPLICATE_KEY = "duplicate_key"
    MISSING = "missing"
    NULL = "null"
    WRONG_TYPE = "wrong_type"
    NOT_INTEGRAL = "not_integral"
    OVERFLOW = "overflow"
    SCALE = "scale"
    BAD_TEXT = "bad_text"
    BAD_TIME = "bad_time"
    UNEXPECTED_FIELD = "unexpected_field"
    TOO_DEEP = "too_deep"
    BAD_PARTITION_VALUE = "bad_partition_value"


@dataclass(frozen=True, slots=True)
class DirtyRow:
    """Why row `index` of a batch is dirty.

    Attributes:
        index: Position in the batch that was handed to `decode`, from 0.
        stage: `decode`, `convert`, `event_time` or `partition`.
        reason: Stable code.
        path: Field, as `geo.tags[3]`; empty when the whole payload is meant.
        message: For people; never longer than 300 characters.
    """

    index: int
    stage: str
    reason: DirtyReason
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """Outcome of one batch: every payload is in exactly one of clean, dirty, skipped.

    Attributes:
        rows: Clean rows, in payload order; columns as the decoder's `arrow_schema`.
        indices: int64, the payload position of each clean row, rising.
        dirty: The dirty ones, by rising index.
        skipped: Payloads that are no row by the format's rules (tombstones).
    """

    rows: pa.RecordBatch
    indices: pa.Array
    dirty: tuple[DirtyRow, ...]
    skipped: int


class RowDecoder(ABC):
    """Turns payloads into typed columns. Created once per task, used by one thread."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the schema it was made for."""

    @abstractmethod
    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads.

        Called once per fetched batch. A payload's outcome depends on that payload alone,
        never on its neighbours. No value changes silently: it is converted exactly or the
        row is dirty.

        Args:
            payloads: Record values in read order; None is a tombstone.

        Returns:
            Clean, dirty and skipped, which add up to `len(payloads)`.
        """
