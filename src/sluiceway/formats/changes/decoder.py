"""Change-log messages -> typed columns: plain changes by columns, all others one by one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.arrow_blocks import BlockReader
from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import check_bytes, parse_object, reads_bad_text_anywhere
from sluiceway.convert.extra_keys import ExtraKeys
from sluiceway.convert.fast_rows import FastPath
from sluiceway.convert.json_values import JsonObject
from sluiceway.convert.native_blocks import NativeReader
from sluiceway.formats.changes.canal import ONE_PARTITION, CanalChangeDecoder
from sluiceway.formats.changes.connect_values import DECIMAL
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL, Envelope
from sluiceway.formats.changes.forms import MessageForm, OtherMessageError, from_message
from sluiceway.formats.changes.outcomes import (
    KIND_FIELD,
    TOMBSTONE,
    TRUNCATE,
    TRUNCATE_CHOICES,
    OtherMessages,
    with_kinds,
    without_unavailable,
)
from sluiceway.formats.collected_rows import CollectedRows, Rows
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.schema_registry.settings import PREFIX
from sluiceway.formats.tombstones import settle_tombstones
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import Field, Schema, StringType, inner_settings

# With fewer of a batch's messages in the form that was tried, the next one begins with the other.
_HALF = 2
EVOLVE = "evolve"
_IMAGE = pa.scalar(int(RowKind.IMAGE), pa.int8())
_FIRST = pa.scalar(int(RowKind.FIRST), pa.int8())
_DELETE = pa.scalar(int(RowKind.DELETE), pa.int8())
_MARK = DECIMAL.encode("ascii")
_WRAPPED = Field("$unwrapped", StringType())


class ChangeLogDecoder(RowDecoder):
    """Decodes messages of a change log, one row each. Created once per task, by one thread.

    Args:
        envelope: The kind of change log.
        schema: The table's columns. A path that begins with `$` starts at the message, any other
            at the row that was changed.
        options: `other`: what happens to messages that change no row; `tombstones`; `key`: as
            JSON, columns by which changes find their rows, which then have kinds; `order`: with
            `one_partition` a message may change the key of its row; `truncate`: `halt` or `apply`;
            `extra`: with `evolve` a row is dirty that has a value under a key that no column reads.
        exact_only: Decide every message on its own; the outcome is the same.

    Raises:
        ValueError: Options or columns that cannot be.
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
            "other": ("dirty", "skip"),
            "tombstones": envelope.tombstones,
            "key": FREE,
            TRUNCATE: TRUNCATE_CHOICES,
            "order": FREE,
            "extra": ("ignore", EVOLVE),
        }
        chosen = known_options(envelope.name, options, known)
        if not schema.fields:
            raise ValueError("the table has no column to read")
        key = tuple(json.loads(chosen["key"] or "[]"))
        self._keyed = bool(key)
        moves = self._keyed and chosen["order"] == ONE_PARTITION
        self._other = OtherMessages(
            skipped=chosen["other"] == "skip",
            tombstones_skipped=chosen["tombstones"] == "skip",
            keyed=self._keyed,
            applies=chosen[TRUNCATE] == "apply",
        )
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
        self._lenient = reads_bad_text_anywhere(schema)
        of_rows = Schema(tuple(field for field in schema.fields if not from_message(field)))
        self._extra = (
            ExtraKeys(of_rows, None, only_held=True) if chosen["extra"] == EVOLVE else None
        )
        # What reads by columns does not see keys that none of them reads.
        exact_only = exact_only or self._extra is not None
        fast = [_fast_form(form, schema, envelope, self._collected) for form in self._forms]
        self._fast = [] if exact_only else [one for one in fast if one is not None]

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        collected = CollectedRows(self._collected)
        rows = settle_tombstones(payloads, collected, skipped=self._other.tombstones_skipped)
        held = [payload for payload in payloads if payload]
        if collected.skipped:
            collected.notes[TOMBSTONE] += collected.skipped
        left = np.arange(len(held))
        told = _told_by_schema(held) if self._envelope.wrapper else left[:0]
        left = np.delete(left, told)
        for fast in tuple(self._fast):
            if len(left):
                found = fast.read([held[row] for row in left.tolist()], rows[left], collected)
                if _HALF * len(found) < len(left):
                    self._fast = self._fast[::-1]
                left = np.delete(left, found)
        left = np.concatenate([told, left])
        self._decode_exactly([held[row] for row in left.tolist()], rows[left].tolist(), collected)
        decoded = collected.decoded()
        if not self._keyed:
            return decoded
        decoded = with_kinds(decoded, self._schema)
        kinds = self._with_firsts(payloads, decoded.indices, decoded.kinds)
        decoded = replace(decoded, kinds=kinds)
        decoded = without_unavailable(decoded) if self._envelope is DEBEZIUM else decoded
        mark = self._envelope.first
        if not mark or not decoded.dirty:
            return decoded
        dirty = (row.index for row in decoded.dirty)
        return replace(decoded, begins=tuple(n for n in dirty if mark in (payloads[n] or b"")))

    def _with_firsts(
        self, payloads: Sequence[bytes | None], indices: pa.Array, kinds: pa.Array
    ) -> pa.Array:
        """Mark the images with which a snapshot begins."""
        mark = self._envelope.first
        if not mark:
            return kinds
        began = [mark in (payloads[row] or b"") for row in indices.to_pylist()]
        if not any(began):
            return kinds
        return pc.if_else(pc.and_(pa.array(began), pc.equal(kinds, _IMAGE)), _FIRST, kinds)

    def _decode_exactly(
        self, payloads: list[bytes], rows: list[int], collected: CollectedRows
    ) -> None:
        messages = zip(rows, payloads, strict=True)
        self._other.collect(messages, self._read, collected, self._collected)

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`: those of the row that a change leaves."""
        try:
            found = parse_object(payload, lenient=self._lenient)
            return self._forms[self._is_wrapped(found)].row(found)
        except DirtyValueError:
            return {}

    def _is_wrapped(self, found: Mapping[str, object]) -> bool:
        wrapper, marker = self._envelope.wrapper, self._envelope.marker[0]
        return bool(wrapper) and wrapper in found and found.get(marker) is None

    def _read(self, payload: bytes) -> list[list[object]]:
        """The changes that a message tells: one, or with the delete of an old key two."""
        found = parse_object(payload, lenient=self._lenient)
        wrapper, wrapped = self._envelope.wrapper, self._is_wrapped(found)
        if wrapped and found[wrapper] is None and not isinstance(found, JsonObject):
            raise OtherMessageError(TOMBSTONE)
        form = self._forms[wrapped]
        values = form.read(found)
        if self._extra is not None:
            self._extra.settle(form.row(found))
        left_behind = form.left_behind(found)
        return [values] if left_behind is None else [left_behind, values]


def _told_by_schema(payloads: list[bytes]) -> Rows:
    """Which payloads may hold text that their own schema says to be a number.

    The fast path reads no schema, and the text can look like another number.
    """
    return np.array(
        [row for row, payload in enumerate(payloads) if _MARK in payload or b"\\u" in payload],
        np.int64,
    )


class _FastForm:
    """Reads plain changes of one form by columns.

    Args:
        path: Reads the columns, then the marker, and then what may not be there.
        form: Which columns are of the row.
        envelope: Which markers are plain.
        schema: Of the rows, with their kind where they have one.
    """

    def __init__(
        self, path: FastPath, form: MessageForm, envelope: Envelope, schema: pa.Schema
    ) -> None:
        self._path = path
        self._keyed = KIND_COLUMN in schema.names
        # Which values a change of a key had before is for the slow path to see.
        plain = envelope.plain - (envelope.old.keys() if self._keyed else frozenset())
        self._plain = pa.array(sorted(plain), pa.string())
        self._deletes = pa.array(sorted(envelope.deletes), pa.string())
        self._width = len(schema) - self._keyed
        self._row_columns = [place for place, of_row in enumerate(form.reads_rows) if of_row]
        if all(path == () for path in envelope.images.values()):
            self._row_columns = []
        self._schema = schema

    def read(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> Rows:
        """Take the changes that are vouched for; positions of them among the payloads."""
        taken: list[Rows] = []
        for block in self._path.read(payloads):
            for batch, places in zip(block.batches, block.rows, strict=True):
                sound = self._plain_changes(batch)
                columns = batch.columns[: self._width]
                if self._keyed:
                    deleted = pc.is_in(batch.column(self._width), self._deletes)
                    columns.append(pc.if_else(deleted, _DELETE, _IMAGE))
                found = pa.RecordBatch.from_arrays(columns, schema=self._schema).filter(sound)
                kept = places[sound.to_numpy(zero_copy_only=False)]
                collected.add(found, rows[kept])
                taken.append(kept)
        return np.concatenate(taken) if taken else np.empty(0, np.int64)

    def _plain_changes(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows of a batch are what they look like."""
        width = self._width
        sound = pc.is_in(batch.column(width), self._plain)
        if batch.num_columns > width + 1:
            sound = pc.and_(sound, batch.column(width + 1).is_null())
        if self._row_columns:
            # Where none of them has a value, the row as a whole may not be there.
            held = batch.column(self._row_columns[0]).is_valid()
            for place in self._row_columns[1:]:
                held = pc.or_(held, batch.column(place).is_valid())
            sound = pc.and_(sound, held)
        return sound


def _fast_form(
    form: MessageForm, schema: Schema, envelope: Envelope, collected: pa.Schema
) -> _FastForm | None:
    (image,) = {envelope.images[marker] for marker in envelope.plain}
    fields = [*form.fields(schema, image), form.marker_field]
    if form.wrapper:
        # A message that has a marker outside of the wrapper is none that is wrapped.
        fields.append(Field(_WRAPPED.name, StringType(), path=envelope.marker))
    numbered = Schema(
        tuple(
            Field(f"c{n}", f.type, f.required, f.path, f.time_unit, f.policy)
            for n, f in enumerate(fields)
        )
    )
    path: FastPath | None = NativeReader.for_schema(numbered) or BlockReader.for_schema(numbered)
    return None if path is None else _FastForm(path, form, envelope, collected)


def open_debezium(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`. A registry means Avro."""
    if any(name.startswith(PREFIX) for name in options):
        # Not imported for JSON, which has no use for it.
        found: RowDecoder = import_module("sluiceway.formats.changes.framed").FramedChangeDecoder(
            schema, options
        )
        return found
    return ChangeLogDecoder(DEBEZIUM, schema, options)


def open_canal(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`. With a key, rows come apart."""
    if options.get("key"):
        return CanalChangeDecoder(schema, options)
    return ChangeLogDecoder(CANAL, schema, options)


open_maxwell = partial(ChangeLogDecoder, MAXWELL)
