"""Rows as Hive's LazySimpleSerDe reads them: `STORED AS TEXTFILE`.

Source: Hive `LazySerDeParameters.collectSeparators`, `LazyUtils.getByte`, `writeEscaped` and
`copyAndEscapeStringDataToText`, `LazyArray`, `LazyMap`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_letters
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.contract import FileChoice, TableFormat
from sluiceway.sinks.files.line_file import CODEC_ENDINGS, LineStagedFile
from sluiceway.sinks.files.old_times import between_calendars
from sluiceway.sinks.files.plain_text import (
    escaped,
    has_unescaped,
    joined,
    plain_text,
    with_nulls,
)
from sluiceway.sinks.files.row_masks import (
    Mask,
    any_inside,
    either,
    list_lengths,
    map_lengths,
    map_parts,
    null_mask,
    where_true,
)
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.schema import DataType, ListType, MapType, StructType

FIELD_DELIM = "field.delim"
SERIALIZATION_FORMAT = "serialization.format"
OLD_COLLECTION_DELIM = "colelction.delim"
COLLECTION_DELIM = "collection.delim"
MAPKEY_DELIM = "mapkey.delim"
ESCAPE_DELIM = "escape.delim"
NULL_FORMAT = "serialization.null.format"
MORE_LEVELS = "hive.serialization.extend.nesting.levels"
TEXT_SETTINGS = (
    FIELD_DELIM,
    SERIALIZATION_FORMAT,
    OLD_COLLECTION_DELIM,
    COLLECTION_DELIM,
    MAPKEY_DELIM,
    ESCAPE_DELIM,
    NULL_FORMAT,
    MORE_LEVELS,
)
_LEVELS = 8
_HIGHER = [*range(4, 9), 11, *range(14, 27), *range(28, 32)]
_JAVA_BYTE = re.compile(r"[+-]?\d{1,3}")
_ASCII = 128
_LINE_ENDS = "\n\r"
_IN_PLAIN_VALUES = frozenset("0123456789+-./=: " + ascii_letters)
# Read back as a line's end when they stand after the escape.
_LINE_ESCAPES = "nr"


@dataclass(frozen=True, slots=True)
class TextRules:
    """How a table's text is delimited.

    Attributes:
        separators: By level: of columns, of a column's elements, and so on.
        escape: None when the table declares none.
        null: What stands for null.
    """

    separators: tuple[str, ...]
    escape: str | None
    null: str


def text_rules(settings: Mapping[str, str]) -> TextRules:
    """Read the SerDe's properties as Hive does.

    Raises:
        ValueError: Rows could not be kept apart; says which property is to blame.
    """
    old, new = settings.get(OLD_COLLECTION_DELIM), settings.get(COLLECTION_DELIM)
    if old is not None and new is not None and old != new:
        raise ValueError(
            f"{OLD_COLLECTION_DELIM} and {COLLECTION_DELIM} differ, and readers follow either"
        )
    first = settings.get(FIELD_DELIM, settings.get(SERIALIZATION_FORMAT))
    separators = [
        _separator(FIELD_DELIM, first, "\x01"),
        _separator(COLLECTION_DELIM, new if old is None else old, "\x02"),
        _separator(MAPKEY_DELIM, settings.get(MAPKEY_DELIM), "\x03"),
        *(chr(code) for code in _HIGHER),
    ]
    if settings.get(MORE_LEVELS, "").lower() != "true":
        separators = separators[:_LEVELS]
    text = settings.get(ESCAPE_DELIM)
    escape = _separator(ESCAPE_DELIM, text, "\\") if text else None
    rules = TextRules(tuple(separators), escape, settings.get(NULL_FORMAT, "\\N"))
    _check(rules)
    return rules


def _separator(name: str, text: str | None, default: str) -> str:
    if not text:
        return default
    if _JAVA_BYTE.fullmatch(text) and -_ASCII <= int(text) < _ASCII:
        code = int(text)
    else:
        code = ord(text[0])
    if not 0 < code < _ASCII:
        raise ValueError(f"{name} is {text!r}: only single ASCII characters are written")
    return chr(code)


def _check(rules: TextRules) -> None:
    named = [*rules.separators[:3], *([rules.escape] if rules.escape else [])]
    if len(set(named)) != len(named):
        raise ValueError("two of its delimiters are the same character")
    for one in named:
        if one in _LINE_ENDS or (rules.escape and one in _LINE_ESCAPES):
            raise ValueError(f"the delimiter {one!r} reads like a line's end")
    if any(one in rules.null for one in (*rules.separators, *_LINE_ENDS)):
        raise ValueError(f"{NULL_FORMAT} is {rules.null!r}, which holds a delimiter")


def levels_of(data_type: DataType, level: int = 1) -> int:
    """Separators that a column of a type needs, with that of the columns.

    Args:
        data_type: Type of the column.
        level: Level of the separators that are used around it.
    """
    match data_type:
        case ListType(element):
            return levels_of(element, level + 1)
        case StructType(fields):
            return max(levels_of(field.type, level + 1) for field in fields)
        case MapType(_, value):
            return levels_of(value, level + 2)
        case _:
            return level


class HiveText:
    """Encodes columns by the rules of a table.

    Args:
        rules: Rules of the table.
    """

    def __init__(self, rules: TextRules) -> None:
        self._rules = rules
        separators = "".join(rules.separators)
        self._to_escape = separators if rules.escape is None else separators + rules.escape
        self._escapes_null = rules.escape is not None and rules.escape in rules.null

    def lines(self, rows: pa.RecordBatch) -> Any:
        """Each row as a line, its end included."""
        columns = [self._filled(column, 1) for column in rows.columns]
        return pc.binary_join_element_wise(
            pc.binary_join_element_wise(*columns, self._rules.separators[0]), "", "\n"
        )

    def unfit(self, values: Any, level: int = 1) -> Mask | None:
        """Which values of a column would be read back as others; None when none would.

        Args:
            values: A column, or what is inside of one.
            level: Level of the separators around it.
        """
        kind = values.type
        if pa.types.is_list(kind):
            return self._unfit_list(values, level)
        if pa.types.is_map(kind):
            keys, items = map_parts(values)
            inner = either([self.unfit(keys, level + 2), self.unfit(items, level + 2)])
            found = any_inside(inner, map_lengths(values))
            return either([found, self._like_null(values, level)])
        if pa.types.is_struct(kind):
            children = [self.unfit(child, level + 1) for child in values.flatten()]
            found = either(children)
            if kind.num_fields == 1:
                found = either([found, self._is_empty(values, level)])
            return either([found, self._like_null(values, level)])
        return self._unfit_plain(values, level)

    def _unfit_plain(self, values: Any, level: int) -> Mask | None:
        kind = values.type
        if pa.types.is_null(kind):
            return None
        separators = self._rules.separators[:level]
        if not pa.types.is_string(kind):
            # Only texts are escaped; these hold no control characters.
            mixed = "".join(one for one in separators if one in _IN_PLAIN_VALUES)
            found = has_unescaped(plain_text(values), mixed) if mixed else None
            found = either([found, between_calendars(values)])
            known = self._rules.null == "\\N"
            return either([found, None if known else self._like_null(values, level)])
        if self._rules.escape is None:
            found = has_unescaped(values, "".join(separators) + _LINE_ENDS)
            return either([found, self._like_null(values, level)])
        # With an escape \\N is written with two backslashes; any other null format is as it is.
        return None if self._escapes_null else self._like_null(values, level)

    def _unfit_list(self, values: Any, level: int) -> Mask | None:
        lengths = list_lengths(values)
        found = any_inside(self.unfit(values.flatten(), level + 1), lengths)
        # One empty text and no text at all are written alike.
        alone = self._is_empty(values, level)
        if alone is not None:
            found = either([found, alone & (lengths == 1)])
        return either([found, self._like_null(values, level)])

    def _is_empty(self, values: Any, level: int) -> Mask | None:
        found = where_true(pc.equal(self._texts(values, level), ""))
        return found if found.any() else None

    def _like_null(self, values: Any, level: int) -> Mask | None:
        """Values that are not null, and that readers would take for it."""
        found = where_true(pc.equal(self._texts(values, level), self._rules.null))
        if values.null_count:
            found &= ~null_mask(values)
        return found if found.any() else None

    def _filled(self, values: Any, level: int) -> Any:
        texts = self._texts(values, level)
        return pc.fill_null(texts, self._rules.null) if texts.null_count else texts

    def _texts(self, values: Any, level: int) -> Any:
        """Texts of values; null for null."""
        kind = values.type
        if pa.types.is_list(kind):
            parts = self._filled(values.flatten(), level + 1)
            texts = joined(parts, list_lengths(values), self._rules.separators[level])
            return with_nulls(texts, values)
        if pa.types.is_map(kind):
            return self._map_texts(values, level)
        if pa.types.is_struct(kind):
            children = [self._filled(child, level + 1) for child in values.flatten()]
            texts = pc.binary_join_element_wise(*children, self._rules.separators[level])
            return with_nulls(texts, values)
        if pa.types.is_null(kind):
            return values.cast(pa.string())
        texts = plain_text(values)
        return self._escaped(texts) if pa.types.is_string(kind) else texts

    def _map_texts(self, values: Any, level: int) -> Any:
        keys, items = map_parts(values)
        entries = pc.binary_join_element_wise(
            self._filled(keys, level + 2),
            self._filled(items, level + 2),
            self._rules.separators[level + 1],
        )
        lengths = np.asarray(map_lengths(values))
        texts = joined(entries, lengths, self._rules.separators[level])
        return with_nulls(texts, values)

    def _escaped(self, texts: Any) -> Any:
        escape = self._rules.escape
        if escape is None:
            return texts
        texts = escaped(texts, self._to_escape, escape)
        for character, letter in zip(_LINE_ENDS, _LINE_ESCAPES, strict=True):
            if pc.any(pc.match_substring(texts, character)).as_py():
                texts = pc.replace_substring(texts, character, f"{escape}{letter}")
        return texts


_UNFIT = (
    "the table's text would be read back as another value: see its delimiters and null format; "
    "and a day from 1582-10-05 to 1582-10-14 is another one to readers of text"
)


class TextFormat(TableFormat):
    """`STORED AS TEXTFILE`: delimited lines of LazySimpleSerDe.

    Args:
        schema: Schema of every batch.
        choice: Compression, the table's columns, and its SerDe's properties.

    Raises:
        ValueError: The properties allow no rows that can be kept apart.
    """

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self.extension = f".txt{CODEC_ENDINGS[choice.compression]}"
        self._arrangement = ColumnMapping(schema, choice.columns)
        self._text = HiveText(text_rules(dict(choice.settings)))
        self._compression = choice.compression

    def new_file(self, writer: StagedWriter) -> LineStagedFile:
        """See `TableFormat.new_file`."""
        return LineStagedFile(writer, self._arrangement, self._text.lines, self._compression)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`."""
        return unfit_rows(rows, [self._text.unfit] * rows.num_columns, _UNFIT)

    def footer_rows(self, handle: BinaryIO) -> None:
        """See `TableFormat.footer_rows`: lines have none."""
        del handle
