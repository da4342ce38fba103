"""What every input format provides. Built and called inside a task, once per batch."""

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
    """Outcome of one batch: every payload is in exactly one of clean, dirty, skipped.

    Attributes:
        rows: Clean rows, in payload order; columns as the decoder's `arrow_schema`.
        indices: int64, the payload position of each clean row, rising. With `kinds` a payload
            may have several, one behind the other in the order in which they happened.
        dirty: The dirty ones, by rising index.
        skipped: Payloads that are no row by the format's rules (tombstones).
        notes: What else is worth a number in the log, by a short name: what was skipped, say.
        kinds: int8, a `RowKind` for each clean row, of a decoder that was asked for changes of
            keyed rows; None where every row is an image. Of a DELETE only the key is told, and
            that is null where the message does not have it.
        begins: Payloads that are dirty and with which a source begins to tell all its rows; of
            changes of keyed rows only.
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
        takes_any_sequence: False hands `decode` a list; True whatever the source has, which may
            make an object only of the payloads that are asked for.
        reads_schema_header: Whether a schema that a record's header names is put before its
            payload: see `types.schema_header`.
    """

    takes_any_sequence: bool = False
    reads_schema_header: bool = False

    @property
    @abstractmethod
    def arrow_schema(self) -> "pa.Schema":
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

        Raises:
            Retriable: Something outside that decoding needs does not answer, such as a schema
                registry; the rows are read again later, and none is dirty for that.
            Fatal: It refuses to; the route halts.
        """

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """What a payload holds by name, to tell of fields that no column reads.

        Called for a few payloads of a batch that was decoded.

        Args:
            payload: Not empty.

        Returns:
            Empty for one that is no row, and in a format without names.
        """
        del payload
        return {}
