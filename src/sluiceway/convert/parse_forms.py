"""The form in which Arrow's parser is asked for each column, as recent blocks made it.

A column is read in its narrow form until one of its numbers did not fit that; then in the wide
form, for some blocks. The wide form costs more, and a narrow call that fails costs all of it. No
outcome depends on which is taken.
"""

from collections.abc import Collection

import pyarrow as pa
from pyarrow import json as arrow_json

from sluiceway.convert.parse_schema import has_wide_form, parse_schema
from sluiceway.types.schema import Schema

WIDE_BLOCKS = 64


class ParseForms:
    """Forms of a table's columns. Created once a task, used by one thread.

    Args:
        schema: The table's columns.
        narrow: What the parser is asked for where nothing is known.
        wide: The same with every number in the wide form.
        refuses_extra: The parser fails for keys that no column reads, instead of ignoring them.
    """

    def __init__(
        self, schema: Schema, narrow: pa.Schema, wide: pa.Schema, *, refuses_extra: bool = False
    ) -> None:
        self._extra = "error" if refuses_extra else "ignore"
        self._schema = schema
        self._wide_schema = wide
        self._numeric = frozenset(
            index for index, column in enumerate(schema.fields) if has_wide_form(column)
        )
        self._left: dict[int, int] = {}
        self._options = {
            frozenset[int](): self._requested(narrow),
            self._numeric: self._requested(wide),
        }
        self._current = frozenset[int]()

    @classmethod
    def for_schema(cls, schema: Schema, *, refuses_extra: bool = False) -> "ParseForms | None":
        """Make the forms for a table. Called once a task.

        Returns:
            None when the fast path cannot read such a table.
        """
        every = range(len(schema.fields))
        narrow, wide = parse_schema(schema, wide=()), parse_schema(schema, wide=every)
        if narrow is None or wide is None:
            return None
        return cls(schema, narrow, wide, refuses_extra=refuses_extra)

    def _requested(self, schema: pa.Schema) -> arrow_json.ParseOptions:
        return arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=self._extra
        )

    @property
    def options(self) -> arrow_json.ParseOptions:
        """What to ask the parser for now."""
        found = self._options.get(self._current)
        if found is None:
            # Two columns of one key have one form: then all are wide.
            mixed = parse_schema(self._schema, wide=self._current)
            found = self._requested(self._wide_schema if mixed is None else mixed)
            self._options[self._current] = found
        return found

    def widen(self, columns: Collection[int] | None = None) -> bool:
        """Ask for the wide form of columns from now on, for `WIDE_BLOCKS` blocks.

        Args:
            columns: Their numbers; None is all.

        Returns:
            False when all of them that hold numbers had that form already.
        """
        wanted = self._numeric if columns is None else self._numeric.intersection(columns)
        if wanted <= self._current:
            return False
        self._left.update(dict.fromkeys(wanted, WIDE_BLOCKS))
        self._current = frozenset(self._left)
        return True

    def end_block(self) -> None:
        """Count a block; forms that were asked for long ago are forgotten."""
        if self._left:
            self._left = {index: left - 1 for index, left in self._left.items() if left > 1}
            self._current = frozenset(self._left)
