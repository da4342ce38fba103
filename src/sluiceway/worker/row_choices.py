"""Defaults, constants, computed columns and `where`, over decoded rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.expressions.evaluate import (
    Codes,
    Expression,
    compile_condition,
    compile_expression,
    dirty_row,
)
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.row_rules import RowChoices, RowColumn


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Outcome of one batch; the same rows as came in, with all columns.

    Attributes:
        columns: As the chooser's `arrow_schema`.
        dirty: Rows with a column or a `where` that has no exact value, by rising index.
        matching: Rows that `where` lets through; None when all are. Says nothing of dirty rows.
    """

    columns: pa.RecordBatch
    dirty: tuple[DirtyRow, ...]
    matching: NDArray[np.bool_] | None


class RowChooser:
    """Makes the rows of a table from the payload's. Created once per task, used by one thread.

    Args:
        schema: Columns that are decoded from the payload.
        choices: What is made of them; no columns means the payload's.

    Raises:
        ExpressionError: An expression is none, or does not fit the columns.
        ValueError: A constant or default is no value of its column.
    """

    def __init__(self, schema: Schema, choices: RowChoices) -> None:
        self._columns = choices.columns or tuple(RowColumn(field) for field in schema.fields)
        whole = Schema(tuple(column.field for column in self._columns))
        self._schema = arrow_schema(whole)
        self._payload_schema = arrow_schema(schema)
        places = {field.name: place for place, field in enumerate(schema.fields)}
        self._places = [places.get(column.field.name) for column in self._columns]
        self._defaults = {
            places[column.field.name]: read_plain_value(column.field, column.default)
            for column in self._columns
            if column.default is not None
        }
        self._constants = {
            index: read_plain_value(column.field, column.constant)
            for index, column in enumerate(self._columns)
            if column.constant is not None
        }
        self._computed = {
            index: compile_expression(
                column.expression, schema, column.field.type, salt=column.salt
            )
            for index, column in enumerate(self._columns)
            if column.expression is not None
        }
        self._where: Expression | None = None
        if choices.where is not None:
            self._where = compile_condition(choices.where, whole)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of the chosen rows, unwritten ones too."""
        return self._schema

    def apply(self, rows: pa.RecordBatch) -> ChosenRows:
        """Fill in defaults, constants and computed columns, and judge rows by `where`.

        Called once a batch. A row that `where` does not let through is never dirty, whatever its
        computed columns would be. Only a `where` without an exact value makes one.

        Args:
            rows: Decoded rows.
        """
        payload = self._with_defaults(rows)
        failures: dict[int, Codes] = {}
        arrays = []
        for index, place in enumerate(self._places):
            if index in self._computed:
                found = self._computed[index].evaluate(payload)
                if found.failed is not None:
                    failures[index] = found.failed
                arrays.append(found.value)
            elif index in self._constants:
                arrays.append(pa.repeat(self._constants[index], rows.num_rows))
            else:
                arrays.append(payload.column(place))
        columns = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return self._judged(columns, failures)

    def _with_defaults(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._defaults:
            return rows
        arrays = list(rows.columns)
        for place, default in self._defaults.items():
            if arrays[place].null_count:
                arrays[place] = pc.fill_null(arrays[place], default)
        return pa.RecordBatch.from_arrays(arrays, schema=self._payload_schema)

    def _judged(self, columns: pa.RecordBatch, failures: dict[int, Codes]) -> ChosenRows:
        dirty: dict[int, DirtyRow] = {}
        matching = None
        if self._where is not None:
            found = self._where.evaluate(columns, failures)
            matching = found.value.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
            if found.failed is not None:
                matching = matching & (found.failed == 0)
                dirty.update((row.index, row) for row in _failed(found.failed, "where"))
        for row in self._bad_columns(columns, failures):
            if matching is None or matching[row.index]:
                dirty.setdefault(row.index, row)
        ordered = tuple(dirty[index] for index in sorted(dirty))
        return ChosenRows(
            columns, ordered, None if matching is None or matching.all() else matching
        )

    def _bad_columns(
        self, columns: pa.RecordBatch, failures: dict[int, Codes]
    ) -> Iterator[DirtyRow]:
        for index in self._computed:
            field = self._columns[index].field
            failed = failures.get(index)
            if failed is not None:
                yield from _failed(failed, field.name)
            if field.required and columns.column(index).null_count:
                missing = pc.indices_nonzero(pc.is_null(columns.column(index))).to_pylist()
                message = f"{field.name} is required and its expression is null"
                for row in missing:
                    if failed is None or failed[row] == 0:
                        yield DirtyRow(row, "convert", DirtyReason.NULL, field.name, message)


def _failed(codes: Codes, path: str) -> Iterator[DirtyRow]:
    for row in np.flatnonzero(codes).tolist():
        yield dirty_row(row, int(codes[row]), path)


def read_plain_value(field: Field, json_text: str) -> pa.Scalar:
    """A constant or default as its column's value, read as a payload's value would be.

    Called once a column, for checks on the driver and in each task.

    Args:
        field: The column.
        json_text: The value as JSON.

    Raises:
        ValueError: It is no value of the column's type; says why.
    """
    # What is written in a job file is meant as it stands, whatever a payload's values become.
    written = Policy(format=field.policy.format, timezone=field.policy.timezone)
    column = replace(field, name="value", path=(), required=True, policy=written)
    decoder = JsonDecoder(Schema((column,)), engine="exact")
    decoded = decoder.decode([f'{{"value": {json_text}}}'.encode()])
    if decoded.dirty:
        raise ValueError(decoded.dirty[0].message)
    return decoded.rows.column(0)[0]
