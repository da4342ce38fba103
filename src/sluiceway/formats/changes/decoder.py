"""Change-log messages -> typed columns: plain changes by columns, all others one by one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import check_bytes, parse_object, reads_bad_text_anywhere
from sluiceway.convert.extra_keys import ExtraKeys
from sluiceway.convert.json_values import JsonObject
from sluiceway.formats.changes.canal import ONE_PARTITION, CanalChangeDecoder
from sluiceway.formats.changes.connect_values import schema_marks
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL, Envelope
from sluiceway.formats.changes.forms import MessageForm, OtherMessageError, from_message
from sluiceway.formats.changes.outcomes import (
    KIND_FIELD,
    TOMBSTONE,
    TRUNCATE,
    TRUNCATE_CHOICES,
    OtherMessages,
    with_kinds,
)
from sluiceway.formats.changes.plain_changes import PlainChanges
from sluiceway.formats.collected_rows import CollectedRows, Rows, add_tombstones, count_tombstones
from sluiceway.formats.connect_blocks import WrappedSchemas
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.schema_registry.settings import PREFIX
from sluiceway.formats.unavailable import marks_of, without_unavailable
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads, rows_with, taken_out
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Schema, inner_settings

# If fewer messages of a batch have the form that was tried, the next batch tries the other first.
_HALF = 2
EVOLVE = "evolve"
_IMAGE = pa.scalar(int(RowKind.IMAGE), pa.int8())
_FIRST = pa.scalar(int(RowKind.FIRST), pa.int8())
_NONE = np.empty(0, np.int64)


class ChangeLogDecoder(RowDecoder):
    """Decodes messages of a change log, one row each. Created once per task, by one thread.

    Args:
        envelope: The kind of change log.
        schema: The table's columns. A path that begins with `$` starts at the message, any other at
            the changed row.
        options: `other_messages`: handles messages that change no row. `tombstones`. `key`: as
            JSON, columns by which changes find their rows, which then have kinds. `order`: with
            `one_partition` a message may change the key of its row. `truncate`: `halt` or `apply`.
            `unknown_fields`: with `evolve` a row is dirty when it has a value under a key that no
            column reads.
        exact_only: Whether to decide every message on its own; the results are equal.

    Raises:
        ValueError: Options or columns are not valid.
    """

    def __init__(
        self,
        envelope: Envelope,
        schema: Schema,
        options: Mapping[str, str],
        *,
        exact_only: bool = False,
    ) -> None:
        known = {
            "other_messages": ("dirty", "skip"),
            "tombstones": envelope.tombstones,
            "key": FREE,
            TRUNCATE: TRUNCATE_CHOICES,
            "order": FREE,
            "unknown_fields": ("ignore", EVOLVE),
        }
        chosen = known_options(envelope.name, options, known)
        if not schema.fields:
            raise ValueError("the table has no column to read")
        key = tuple(json.loads(chosen["key"] or "[]"))
        self._keyed = bool(key)
        moves = self._keyed and chosen["order"] == ONE_PARTITION
        self._other = OtherMessages(chosen, keyed=self._keyed)
        self._schema = arrow_schema(schema)
        self._collected = self._schema.append(KIND_FIELD) if key else self._schema
        schema = Schema(tuple(inner_settings(field) for field in schema.fields))
        check_bytes(schema)
        wrappers: list[tuple[str, ...]] = [()]
        if envelope.wrapper:
            wrappers.append((envelope.wrapper,))
        self._envelope = envelope
        self._forms = [
            MessageForm(schema, envelope, wrapper, key, moves=moves) for wrapper in wrappers
        ]
        self._untold_marks = marks_of(schema.fields)
        self._lenient = reads_bad_text_anywhere(schema)
        self._marks = schema_marks(schema)
        of_rows = Schema(tuple(field for field in schema.fields if not from_message(field)))
        self._extra = (
            ExtraKeys(of_rows, None, only_held=True) if chosen["unknown_fields"] == EVOLVE else None
        )
        # The fast path does not see keys that no column reads.
        exact_only = exact_only or self._extra is not None
        self._schemas = WrappedSchemas()
        fast = [
            PlainChanges.of_form(form, schema, envelope, self._collected, self._schemas)
            for form in self._forms
        ]
        self._fast = [] if exact_only else [one for one in fast if one is not None]
        # A form that has no wrapper needs none.
        self._knows_no_schemas = bool(self._fast and envelope.wrapper) and not any(
            one.knows_schemas for one in self._fast
        )

    takes_any_sequence = True

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        collected = CollectedRows(self._collected)
        forms = tuple(self._fast)
        told = _NONE
        if forms and isinstance(payloads, JoinedPayloads) and forms[0].can_read(payloads):
            told = self._rows_by_schema(payloads)
            left, empty = forms[0].read_fetched(payloads, told, collected)
            add_tombstones(empty.tolist(), collected, skipped=self._other.tombstones_skipped)
            self._prefer_others(len(payloads) - len(empty) - len(told), len(left))
            forms = forms[1:]
        else:
            payloads = list(payloads)
            left = count_tombstones(payloads, collected, skipped=self._other.tombstones_skipped)
            told = self._rows_by_schema(payloads)
            left = np.setdiff1d(left, told, assume_unique=True)
        if collected.skipped:
            collected.notes[TOMBSTONE] += collected.skipped
        for form in forms:
            if len(left):
                found = form.read(taken_out(payloads, left), left, collected)
                self._prefer_others(len(left), len(left) - len(found))
                left = np.delete(left, found)
        left = np.concatenate([told, left])
        self._decode_exactly(taken_out(payloads, left), left.tolist(), collected)
        return self._with_kinds(payloads, collected.decoded())

    def _rows_by_schema(self, payloads: Sequence[bytes | None]) -> Rows:
        """Payloads that may hold text that is a number or a local time by their own schema.

        The fast path reads no schema, and the text can look like another value.
        """
        return rows_with(payloads, self._marks) if self._knows_no_schemas else _NONE

    def _prefer_others(self, tried: int, left: int) -> None:
        """Begin the next batch with the other form, where this one fits few of its messages."""
        if _HALF * (tried - left) < tried:
            self._fast = self._fast[::-1]

    def _with_kinds(self, payloads: Sequence[bytes | None], decoded: Decoded) -> Decoded:
        """The kinds of rows with a key; and which dirty ones begin a snapshot."""
        if not self._keyed:
            return decoded
        decoded = with_kinds(decoded, self._schema)
        mark = self._envelope.first
        began = rows_with(payloads, [mark]) if mark else _NONE
        if len(began):
            is_first = pa.array(np.isin(decoded.indices.to_numpy(), began))
            of_images = pc.and_(is_first, pc.equal(decoded.kinds, _IMAGE))
            decoded = replace(decoded, kinds=pc.if_else(of_images, _FIRST, decoded.kinds))
        if self._envelope is DEBEZIUM:
            decoded = without_unavailable(decoded, payloads, self._untold, self._untold_marks)
        if not len(began) or not decoded.dirty:
            return decoded
        dirty = {row.index for row in decoded.dirty}
        return replace(decoded, begins=tuple(n for n in began.tolist() if n in dirty))

    def _decode_exactly(
        self, payloads: list[bytes], rows: list[int], collected: CollectedRows
    ) -> None:
        messages = zip(rows, payloads, strict=True)
        self._other.collect(messages, self._read, collected, self._collected)

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`: fields of the row after the change."""
        try:
            found = parse_object(payload, lenient=self._lenient)
            return self._forms[self._is_wrapped(found)].row(found, meant=True)
        except DirtyValueError:
            return {}

    def _untold(self, payload: bytes) -> str | None:
        try:
            found = self._schemas.parse(payload, lenient=self._lenient)
            return self._forms[self._is_wrapped(found)].untold(found)
        except DirtyValueError:
            return None

    def _is_wrapped(self, found: Mapping[str, object]) -> bool:
        wrapper, marker = self._envelope.wrapper, self._envelope.marker[0]
        return bool(wrapper) and wrapper in found and found.get(marker) is None

    def _read(self, payload: bytes) -> list[list[object]]:
        """The changes of a message: one, or two with the delete of an old key."""
        found = self._schemas.parse(payload, lenient=self._lenient)
        wrapper, wrapped = self._envelope.wrapper, self._is_wrapped(found)
        if wrapped and found[wrapper] is None and not isinstance(found, JsonObject):
            raise OtherMessageError(TOMBSTONE)
        form = self._forms[wrapped]
        values = form.read(found)
        if self._extra is not None:
            self._extra.column_value(form.row(found))
        left_behind = form.left_behind(found)
        return [values] if left_behind is None else [left_behind, values]


def open_debezium(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`. A registry means Avro."""
    if any(name.startswith(PREFIX) for name in options):
        # Not imported for JSON, which does not need it.
        found: RowDecoder = import_module("sluiceway.formats.changes.framed").FramedChangeDecoder(
            schema, options
        )
        return found
    return ChangeLogDecoder(DEBEZIUM, schema, options)


def open_canal(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`. Keyed rows come apart."""
    if options.get("key"):
        return CanalChangeDecoder(schema, options)
    return ChangeLogDecoder(CANAL, schema, options)


open_maxwell = partial(ChangeLogDecoder, MAXWELL)
