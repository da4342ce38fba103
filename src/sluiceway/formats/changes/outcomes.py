"""Common parts of change-log decoders: messages that change no row, and kinds of rows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.errors import SourceEmptiedError
from sluiceway.formats.changes.envelopes import SKIPPED_KINDS
from sluiceway.formats.changes.forms import OtherMessageError
from sluiceway.formats.collected_rows import CollectedRows
from sluiceway.formats.contract import Decoded
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind

TOMBSTONE = "tombstone"
TRUNCATE = "truncate"
OTHER_TABLE = "other_table"
"""Kind of messages about another table: always skipped."""
TRUNCATE_CHOICES = ("halt", "apply")
KIND_FIELD = pa.field(KIND_COLUMN, pa.int8())

Message = TypeVar("Message")


class OtherMessages:
    """Handles messages that change no row. Created once a task.

    Args:
        options: Checked options of the format. Messages that `other_messages` or `tombstones` does
            not skip are dirty; `SKIPPED_KINDS` are always skipped. A truncate empties a keyed table
            where `truncate` says so; else it halts the route.
        keyed: Whether rows have a key.
    """

    def __init__(self, options: Mapping[str, str], *, keyed: bool) -> None:
        self.tombstones_skipped = options["tombstones"] == "skip"
        self._skipped = options["other_messages"] == "skip"
        self._keyed = keyed
        self._applies = keyed and options[TRUNCATE] == "apply"

    def collect(
        self,
        messages: Iterable[tuple[int, Message]],
        read: Callable[[Message], list[list[object]]],
        collected: CollectedRows,
        schema: pa.Schema,
    ) -> None:
        """Read messages one by one: their changes, and the outcome of messages without a change.

        Args:
            messages: Position in the batch and payload of each message.
            read: Returns the changes of one, as lists of values for `schema`. It raises
                `OtherMessageError` for a message that changes no row, `DirtyValueError` for a dirty
                change.
            collected: Gets all of them.
            schema: Schema of the clean rows.

        Raises:
            SourceEmptiedError: As `count`.
        """
        values: list[list[object]] = []
        clean: list[int] = []
        for row, message in messages:
            try:
                try:
                    found = read(message)
                except OtherMessageError as other:
                    found = self._rows(other.kind, schema)
                    if not found:
                        self.count(other.kind, collected)
                values += found
                clean += [row] * len(found)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        collected.add_values(values, clean)

    def _rows(self, kind: str, schema: pa.Schema) -> list[list[object]]:
        """The row for a message of this kind, with its kind as the last value; empty for none."""
        if kind != TRUNCATE or not self._applies:
            return []
        return [[*([None] * (len(schema) - 1)), RowKind.TRUNCATE]]

    def count(self, kind: str, collected: CollectedRows) -> None:
        """Skip and count one message.

        Raises:
            DirtyValueError: The message is dirty.
            SourceEmptiedError: It removes all rows from a table that has to keep them.
        """
        if kind == TRUNCATE and self._keyed:
            raise SourceEmptiedError(
                "the source's table was emptied by a TRUNCATE, which has no keys",
                hint="write table.on_truncate: apply where the topic has one partition, else fill "
                "a new table from a new snapshot: docs/guides/keyed-tables.md, A table that was "
                "truncated",
            )
        if kind == TOMBSTONE:
            if not self.tombstones_skipped:
                raise DirtyValueError(DirtyReason.EMPTY, "the payload is empty", stage="decode")
        elif kind != OTHER_TABLE and kind not in SKIPPED_KINDS and not self._skipped:
            message = f"a message of the kind {kind} changes no row"
            raise DirtyValueError(DirtyReason.NOT_A_CHANGE, message, stage="decode")
        collected.skipped += 1
        collected.notes[kind] += 1


def with_kinds(decoded: Decoded, schema: pa.Schema) -> Decoded:
    """Move the kinds from the last column of the rows to `kinds`.

    Args:
        decoded: Rows with `KIND_FIELD` after the columns.
        schema: Schema of the columns.
    """
    *columns, kinds = decoded.rows.columns
    return replace(decoded, rows=pa.RecordBatch.from_arrays(columns, schema=schema), kinds=kinds)
