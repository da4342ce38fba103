"""JSON in Confluent's wire format: a zero and a schema's id stand before the object."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.types.dirty import DirtyReason, DirtyRow


class FramedJsonDecoder(RowDecoder):
    """Reads what stands behind the schema's id as JSON. Created once per task, by one thread.

    The columns say what is read, so the schema of a payload is not asked for: rows of several
    versions are alike to it.

    Args:
        inner: Reads the objects.
    """

    reads_schema_header = True

    def __init__(self, inner: JsonDecoder) -> None:
        self._inner = inner

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._inner.arrow_schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        bodies: list[bytes | None] = []
        rows: list[int] = []
        dirty: list[DirtyRow] = []
        for row, payload in enumerate(payloads):
            try:
                bodies.append(_body(payload) if payload else payload)
                rows.append(row)
            except DirtyValueError as error:
                dirty.append(error.row(row))
        found = self._inner.decode(bodies)
        if not dirty:
            return found
        dirty += [_moved(each, rows[each.index]) for each in found.dirty]
        indices = pc.take(pa.array(rows, pa.int64()), found.indices)
        in_order = tuple(sorted(dirty, key=lambda each: each.index))
        return Decoded(found.rows, indices, in_order, found.skipped, found.notes)

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        try:
            return self._inner.fields_of(_body(payload))
        except DirtyValueError:
            return {}


def _body(payload: bytes) -> bytes:
    begin = confluent_frame(payload)[1]
    if begin == len(payload):
        message = "the payload is empty behind the schema's id"
        raise DirtyValueError(DirtyReason.EMPTY, message, stage="decode")
    return payload[begin:]


def _moved(row: DirtyRow, index: int) -> DirtyRow:
    """The same row at its place in the whole batch."""
    return replace(row, index=index)
