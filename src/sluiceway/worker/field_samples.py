"""Says of which types the fields are that no column reads."""

from collections.abc import Sequence

from sluiceway.formats.json.infer_types import UntypedError, common_type, type_of
from sluiceway.formats.json.unknown_fields import UnknownFields
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import DataType, Schema
from sluiceway.worker.plan import SeenField

MOST_FIELDS = 100
_MOST_ROWS = 1_000

_Place = tuple[str, tuple[str, ...]]


class FieldSamples:
    """One task's, for a route that adds columns. Used by its thread.

    Only rows that are dirty for such a field are looked at, of each task the first thousand, and
    of these a hundred fields: a column that is missing makes all of them dirty.

    Args:
        schema: Columns that come from the payload.
    """

    def __init__(self, schema: Schema) -> None:
        self._unknown = UnknownFields(schema)
        self._types: dict[_Place, DataType | None] = {}
        self._untyped: dict[_Place, str] = {}
        self._rows = 0

    def take(self, payloads: Sequence[bytes | None], dirty: Sequence[DirtyRow]) -> None:
        """Look at dirty rows of a batch. Called once a batch.

        Args:
            payloads: Of the batch.
            dirty: What its decoder has refused; `index` counts among the payloads.
        """
        for row in dirty:
            if self._rows >= _MOST_ROWS:
                return
            payload = payloads[row.index]
            if payload and row.reason is DirtyReason.UNEXPECTED_FIELD:
                self._rows += 1
                self._sample(payload)

    def fields(self) -> tuple[SeenField, ...]:
        """What was seen. Called once, at the end."""
        return tuple(
            SeenField(
                column=column,
                path=path,
                type="" if found is None else format_hive_type(found),
                untyped=self._untyped.get((column, path), ""),
            )
            for (column, path), found in self._types.items()
        )

    def _sample(self, payload: bytes) -> None:
        for each in self._unknown.of(payload):
            place = (each.column, each.path)
            if place not in self._types and len(self._types) >= MOST_FIELDS:
                continue
            known = self._types.setdefault(place, None)
            try:
                self._types[place] = common_type((known, type_of(each.value)))
            except UntypedError as error:
                self._untyped.setdefault(place, str(error))
