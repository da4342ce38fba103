"""The contract of input formats. Decoders are created and called inside a task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluiceway.types.dirty import DirtyReason, DirtyRow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Decoded", "DirtyReason", "DirtyRow", "RowDecoder"]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result for one batch: every payload is in exactly one of clean, dirty, skipped.

    Attributes:
        rows: Clean rows, in payload order; columns as in the decoder's `arrow_schema`.
        indices: int64, the payload position of each clean row, ascending. With `kinds` a payload
            may have several rows, in the order of their changes.
        dirty: Dirty rows, by ascending index.
        skipped: Payloads that are no row by the format's rules (tombstones).
        notes: Counts for the log, by a short name, for example of skipped messages.
        kinds: int8, a `RowKind` for each clean row, from a decoder for changes of keyed rows; None
            where every row is an image. A DELETE has only its key, which is null where the message
            lacks it.
        begins: Dirty payloads with which a source begins to send all its rows; only for changes of
            keyed rows.
    """

    rows: "pa.RecordBatch"
    indices: "pa.Array"
    dirty: tuple[DirtyRow, ...]
    skipped: int
    notes: Mapping[str, int] = field(default_factory=dict)
    kinds: "pa.Array | None" = None
    begins: tuple[int, ...] = ()


class RowDecoder(ABC):
    """Turns payloads into typed columns. Created once per task, used by one thread.

    Attributes:
        takes_any_sequence: False for a decoder that needs a list; True for a decoder that takes the
            source's own sequence, which may create objects only for the payloads that are read.
        reads_schema_header: Whether a schema that a record's header names goes in front of its
            payload: see `types.schema_header`.
    """

    takes_any_sequence: bool = False
    reads_schema_header: bool = False

    @property
    @abstractmethod
    def arrow_schema(self) -> "pa.Schema":
        """Columns of `Decoded.rows`, in the order of the decoder's schema."""

    @abstractmethod
    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads.

        Called once per fetched batch. A payload's result depends on that payload alone, never on
        its neighbours. No value changes silently: it is converted exactly or the row is dirty.

        Args:
            payloads: Record values in read order; None is a tombstone.

        Returns:
            Clean, dirty and skipped, which add up to `len(payloads)`.

        Raises:
            Retriable: A server that decoding needs does not answer, such as a schema registry. The
                rows are read again later, and none is dirty for that.
            Fatal: Such a server refuses; the route halts.
        """

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """Values of a payload by field name, to report fields that no column reads.

        Called for a few payloads of a batch that was decoded.

        Args:
            payload: Not empty.

        Returns:
            Empty for a payload that is no row, and in a format without names.
        """
        del payload
        return {}
