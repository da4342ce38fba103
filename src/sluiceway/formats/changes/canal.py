"""Canal's messages for tables with a key: each row of a message is a change, a new key is two."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import check_bytes, parse_object, reads_bad_text_anywhere
from sluiceway.convert.exact_values import compile_field
from sluiceway.convert.json_values import JsonObject
from sluiceway.formats.changes.envelopes import CANAL, SKIPPED_KINDS
from sluiceway.formats.changes.forms import ENVELOPE_PREFIX, OtherMessageError
from sluiceway.formats.changes.outcomes import (
    KIND_FIELD,
    OTHER_TABLE,
    TOMBSTONE,
    TRUNCATE,
    TRUNCATE_CHOICES,
    OtherMessages,
    with_kinds,
)
from sluiceway.formats.collected_rows import CollectedRows, count_tombstones
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason, shown
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema, inner_settings

ONE_PARTITION = "one_partition"
_DATA, _OLD, _UPDATE, _DELETE = "data", "old", "UPDATE", "DELETE"
_KINDS = {**dict.fromkeys(CANAL.plain, RowKind.IMAGE), _DELETE: RowKind.DELETE}
_Read = Callable[[Mapping[str, object]], object]
_Object = Mapping[str, object]


class CanalChangeDecoder(RowDecoder):
    """Decodes Canal's flat messages into changes of rows. Created once per task, by one thread.

    A message gives as many rows as it changed, in order. One dirty row makes the whole message
    dirty.

    Args:
        schema: The table's columns. A path that begins with `$` starts at the message, any other
            at each of its rows.
        options: `other_messages`, `tombstones` and `key` as in `ChangeLogDecoder`. `order`: with
            `one_partition` a row's key may change; else that is dirty, and the database's own key
            has to be the table's. `table`: the only table whose messages count, as `name` or
            `database.name`.

    Raises:
        ValueError: Options or columns are not valid.
    """

    def __init__(self, schema: Schema, options: Mapping[str, str]) -> None:
        known = {
            "other_messages": ("dirty", "skip"),
            "tombstones": CANAL.tombstones,
            "key": FREE,
            "order": FREE,
            "table": FREE,
            TRUNCATE: TRUNCATE_CHOICES,
        }
        chosen = known_options(CANAL.name, options, known)
        key = {name.lower() for name in json.loads(chosen["key"] or "[]")}
        self._other = OtherMessages(chosen, keyed=True)
        self._moves = chosen["order"] == ONE_PARTITION
        self._table = tuple(chosen["table"].lower().split(".")) if chosen["table"] else ()
        self._schema = arrow_schema(schema)
        self._collected = self._schema.append(KIND_FIELD)
        fields = [inner_settings(field) for field in schema.fields]
        check_bytes(Schema(tuple(fields)))
        self._lenient = reads_bad_text_anywhere(schema)
        self._of_message = [field.path[:1] == (ENVELOPE_PREFIX,) for field in fields]
        self._of_key = [field.name.lower() in key for field in fields]
        self._readers = [_reader(field) for field in fields]
        keys = [replace(of, required=False) for of in fields if of.name.lower() in key]
        self._key_readers = [_reader(field) for field in keys]
        self._key_steps = {(of.path or (of.name,))[-1].lower() for of in keys}

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`.

        Raises:
            SourceEmptiedError: The source's table was emptied.
        """
        collected = CollectedRows(self._collected)
        skips = self._other.tombstones_skipped
        rows = count_tombstones(payloads, collected, skipped=skips)
        if collected.skipped:
            collected.notes[TOMBSTONE] += collected.skipped
        messages = ((row, payloads[row] or b"") for row in rows.tolist())
        self._other.collect(messages, self._changes, collected, self._collected)
        return with_kinds(collected.decoded(), self._schema)

    def _changes(self, payload: bytes) -> list[list[object]]:
        """All changes of a message, in order."""
        message: _Object = parse_object(payload, lenient=self._lenient)
        marker = str(message.get("type"))
        if isinstance(message, JsonObject):
            twice = ", ".join(sorted(message.doubled))
            text = f"the message has twice: {shown(twice)}"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, text, stage="decode")
        other = CANAL.other_kind(message)
        if self._table and other not in SKIPPED_KINDS and not self._is_of_table(message):
            raise OtherMessageError(OTHER_TABLE)
        if message.get("isDdl") is True or marker not in _KINDS:
            kind = TRUNCATE if marker == "TRUNCATE" else other
            if kind is None:
                raise _no_change(f"type is {shown(marker)}, which is no change that canal writes")
            raise OtherMessageError(kind)
        self._check_own_key(message)
        rows = _objects(message, _DATA)
        if not rows:
            raise _no_change(f"a message {shown(marker)} has its rows in `data`, at least one")
        olds = _objects(message, _OLD) if marker == _UPDATE else []
        if marker == _UPDATE and len(olds) != len(rows):
            raise _no_change("an UPDATE has an object in `old` for each row in `data`")
        changes: list[list[object]] = []
        for number, row in enumerate(rows):
            try:
                if olds:
                    changes += self._left_behind(message, row, olds[number])
                changes.append(self._values(message, row, _KINDS[marker]))
            except DirtyValueError as error:
                raise error.under(_DATA, number) from None
        return changes

    def _is_of_table(self, message: _Object) -> bool:
        named = (str(message.get("database")).lower(), str(message.get("table")).lower())
        return named[-len(self._table) :] == self._table

    def _check_own_key(self, message: _Object) -> None:
        """Check that the database's key is the table's, unless there is one partition."""
        names = message.get("pkNames")
        if self._moves or not isinstance(names, list) or not names:
            return
        if {str(name).lower() for name in names} != self._key_steps:
            told = ", ".join(map(str, names))
            text = f"the database's key is {shown(told)}, so the order of this key is not kept"
            raise DirtyValueError(DirtyReason.KEY_MISMATCH, text, stage="decode").under("pkNames")

    def _left_behind(self, message: _Object, row: _Object, old: _Object) -> list[list[object]]:
        """The delete of the row's old key, where an update has changed it."""
        before = {**row, **old}
        if self._key(before) == self._key(row):
            return []
        if not self._moves:
            text = "the change is one of the row's key: the old row would stay"
            raise DirtyValueError(DirtyReason.KEY_CHANGED, text, stage="decode")
        return [self._values(message, before, RowKind.DELETE)]

    def _key(self, row: _Object) -> list[object]:
        return [read(row) for read in self._key_readers]

    def _values(self, message: _Object, row: _Object, kind: RowKind) -> list[object]:
        """One value a column, and the kind; for a delete only the key."""
        keys = iter(self._key_readers)
        columns = zip(self._readers, self._of_message, self._of_key, strict=True)
        values: list[object] = []
        for read, of_message, of_key in columns:
            if kind == RowKind.DELETE:
                values.append(next(keys)(row) if of_key else None)
            else:
                values.append(read(message if of_message else row))
        return [*values, kind]


def _reader(field: Field) -> _Read:
    path = field.path or (field.name,)
    path = path[1:] if path[0] == ENVELOPE_PREFIX else path
    if not path:
        raise ValueError(f"the path of {field.name} names nothing of the message")
    return compile_field(field, path)


def _objects(message: _Object, name: str) -> list[_Object]:
    """The rows under a name; empty when it holds no array of objects."""
    found = message.get(name)
    listed = found if isinstance(found, list) else []
    if not all(isinstance(each, dict) and not isinstance(each, JsonObject) for each in listed):
        text = f"`{name}` is an array of rows, each an object with each key once"
        raise DirtyValueError(DirtyReason.NOT_A_CHANGE, text, stage="decode").under(name)
    return listed


def _no_change(text: str) -> DirtyValueError:
    return DirtyValueError(DirtyReason.NOT_A_CHANGE, text, stage="decode")
