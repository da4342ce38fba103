"""How a table's columns are read from a change log's messages: full paths, one by one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_field
from sluiceway.convert.schema_values import Meaning
from sluiceway.formats.changes.connect_values import SchemaView
from sluiceway.formats.changes.envelopes import Envelope, Message
from sluiceway.formats.unavailable import is_unavailable, untold_column
from sluiceway.types.dirty import DirtyReason, shown
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema, StringType

ENVELOPE_PREFIX = "$"
"""First key of a column's path that begins at the message, not at its row."""

_MARKER = Field("$marker", StringType())
_Read = Callable[[Mapping[str, object]], object]


class OtherMessageError(Exception):
    """A message that changes no row, of a known kind. Never leaves this package."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Image:
    """The reading of rows under one path.

    Attributes:
        path: From the payload's top.
        fields: The columns, with their paths from there.
        readers: One for each column.
    """

    path: tuple[str, ...]
    fields: tuple[Field, ...]
    readers: tuple[_Read, ...]


class MessageForm:
    """One form of messages: with or without a wrapper. Created once a task.

    Args:
        schema: The table's columns.
        envelope: The kind of change log.
        wrapper: Keys around the message.
        key: Columns by which changes find their rows; with a key, each row ends with its kind.
        moves: Whether a change of the key is allowed; see `left_behind` and `read`.

    Raises:
        ValueError: JSON cannot carry a column's type, or a path is not valid.
    """

    def __init__(
        self,
        schema: Schema,
        envelope: Envelope,
        wrapper: tuple[str, ...],
        key: tuple[str, ...] = (),
        *,
        moves: bool = False,
    ) -> None:
        self._envelope = envelope
        self._moves = moves
        self._key = frozenset(name.lower() for name in key)
        self._key_steps = [
            (field.path or (field.name,))[-1]
            for field in schema.fields
            if field.name.lower() in self._key
        ]
        self.key_places = tuple(
            place for place, field in enumerate(schema.fields) if field.name.lower() in self._key
        )
        self.wrapper = wrapper
        self.reads_rows = [not from_message(field) for field in schema.fields]
        self._marker_path = (*wrapper, *envelope.marker)
        self._marker = compile_field(_MARKER, self._marker_path)
        fields = {path: self.fields(schema, path) for path in set(envelope.images.values())}
        self._images = {
            marker: _Image(
                (*wrapper, *path),
                tuple(fields[path]),
                tuple(self._reader(field, marker) for field in fields[path]),
            )
            for marker, path in envelope.images.items()
        }

    def fields(self, schema: Schema, image: tuple[str, ...]) -> list[Field]:
        """The columns with their paths from the payload's top, where rows are under `image`."""
        return [replace(field, path=self._path(field, image)) for field in schema.fields]

    def _reader(self, field: Field, marker: str) -> _Read:
        """Reader of a column; in a change that deletes a keyed row, only the key counts."""
        if not self._key or marker not in self._envelope.deletes:
            return compile_field(field, field.path)
        if field.name.lower() not in self._key:
            return _nothing
        field = replace(field, required=False)
        return compile_field(field, field.path)

    @property
    def marker_field(self) -> Field:
        """A column that reads the marker."""
        return replace(_MARKER, path=self._marker_path)

    def _path(self, field: Field, image: tuple[str, ...]) -> tuple[str, ...]:
        if from_message(field):
            if len(field.path) == 1:
                raise ValueError(f"the path of {field.name} names nothing of the message")
            return (*self.wrapper, *field.path[1:])
        return (*self.wrapper, *image, *(field.path or (field.name,)))

    def read(self, payload: Mapping[str, object]) -> list[object]:
        """Convert one payload.

        Args:
            payload: Object of the payload.

        Returns:
            One value a column.

        Raises:
            DirtyValueError: The payload is dirty.
            OtherMessageError: The payload changes no row.
        """
        marker = self._marker(payload)
        image = self._images.get(str(marker)) if marker is not None else None
        if image is None:
            raise self._other(payload, marker)
        if any(self.reads_rows) and image.path:
            self._check_image(payload, image, str(marker))
        if not self.wrapper:
            values = [read(payload) for read in image.readers]
        else:
            seen = SchemaView(payload)
            # In a delete, values that no reader needs are not checked, however broken they are.
            values = [
                None if read is _nothing else read(seen.of(field))
                for field, read in zip(image.fields, image.readers, strict=True)
            ]
        if self._key:
            self._check_key_kept(payload, str(marker))
            deleted = marker in self._envelope.deletes
            values.append(RowKind.DELETE if deleted else RowKind.IMAGE)
        return values

    def row(self, payload: Mapping[str, object], *, meant: bool = False) -> Mapping[str, object]:
        """The row after a change, as it is in the message; empty for others.

        Values that the source left out are not in it: they show no column.

        Args:
            payload: Object of the payload.
            meant: Whether each value has its meaning by the schema, as in `SchemaView.meant_at`.
        """
        marker = self._marker(payload)
        image = self._images.get(str(marker)) if marker is not None else None
        if image is None or marker in self._envelope.deletes:
            return {}
        if meant and self.wrapper:
            found = SchemaView(payload).meant_at(image.path)
        else:
            found = self._at(payload, image.path)
        return {
            key: value
            for key, value in found.items()
            if not is_unavailable(value.value if isinstance(value, Meaning) else value)
        }

    def untold(self, payload: Mapping[str, object]) -> str | None:
        """The first column whose value the source left out; see `untold_column`.

        Args:
            payload: Object of the payload.
        """
        marker = self._marker(payload)
        image = self._images.get(str(marker)) if marker is not None else None
        if image is None or marker in self._envelope.deletes:
            return None
        return untold_column(image.fields, payload)

    def left_behind(self, payload: Mapping[str, object]) -> list[object] | None:
        """The delete of a row's old key, where the change that `read` returns is of its key.

        Called once a payload, after `read`.

        Raises:
            DirtyValueError: The old key cannot be read.
        """
        marker = str(self._marker(payload)) if self._moves else ""
        changed = self._changed_steps(payload, marker)
        if not changed:
            return None
        image = self._images[marker]
        held = self._at(payload, image.path)
        before: dict[str, object] = {**held, **self._at(payload, self._old_path(marker))}
        for step in reversed(image.path):
            before = {step: before}
        values = [
            read(before) if field.name.lower() in self._key else None
            for field, read in zip(image.fields, image.readers, strict=True)
        ]
        return [*values, RowKind.DELETE]

    def _old_path(self, marker: str) -> tuple[str, ...]:
        return (*self.wrapper, *self._envelope.old.get(marker, (ENVELOPE_PREFIX,)))

    def _changed_steps(self, payload: Mapping[str, object], marker: str) -> list[str]:
        """Key columns that the change of a row has changed."""
        old = self._at(payload, self._old_path(marker))
        return [step for step in self._key_steps if step in old]

    @staticmethod
    def _at(payload: Mapping[str, object], path: tuple[str, ...]) -> dict[str, object]:
        """The object under a path; an empty one where there is none."""
        found: object = payload
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _check_key_kept(self, payload: Mapping[str, object], marker: str) -> None:
        """Refuse a change of the key: it is two changes, whose keys may be in two partitions."""
        changed = self._changed_steps(payload, marker)
        if changed and not self._moves:
            message = f"the change is one of the row's key {changed[0]}: the old row would stay"
            raise DirtyValueError(DirtyReason.KEY_CHANGED, message, stage="decode").under("old")

    def _check_image(self, payload: Mapping[str, object], image: _Image, marker: str) -> None:
        found: object = payload
        for key in image.path:
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict) and not (
            found is None and marker in self._envelope.may_lack_image
        ):
            message = f"a message {shown(marker)} has its row there, as an object"
            raise DirtyValueError(DirtyReason.NOT_A_CHANGE, message, stage="decode").under(
                *image.path
            )

    def _other(self, payload: Mapping[str, object], marker: object) -> Exception:
        message: object = payload
        for key in self.wrapper:
            message = message.get(key) if isinstance(message, dict) else None
        kind = self._envelope.other_kind(_message(message))
        if kind is not None:
            return OtherMessageError(kind)
        what = "none" if marker is None else shown(str(marker))
        path = ".".join(self._marker_path)
        text = f"{path} is {what}, which is no change that {self._envelope.name} writes"
        return DirtyValueError(DirtyReason.NOT_A_CHANGE, text, stage="decode")


def _message(found: object) -> Message:
    return found if isinstance(found, dict) else {}


def _nothing(payload: Mapping[str, object]) -> None:
    del payload


def from_message(field: Field) -> bool:
    """Whether a column reads the message, not its row."""
    return field.path[:1] == (ENVELOPE_PREFIX,)
