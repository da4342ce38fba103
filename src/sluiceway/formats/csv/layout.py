"""The layout of delimited lines, and the field of each column."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.formats.options import FREE, known_options
from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import Field, ListType, MapType, Schema, StructType

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "delimiter": FREE,
    "quote": FREE,
    "escape": FREE,
    "null_text": FREE,
    "fields": FREE,
    "missing": ("dirty", "null"),
    "unknown_fields": ("dirty", "ignore"),
    "tombstones": ("dirty", "skip"),
}
MAX_DELIMITER = 16
MAX_FIELDS = 10_000
NONE = "none"
DOUBLED = "doubled"
_DEFAULTS = {"delimiter": ",", "quote": '"', "escape": DOUBLED}
_NAMED = {"\\t": "\t", "tab": "\t", "\\u0001": "\x01", "ctrl-a": "\x01"}
_LINE_ENDS = frozenset("\r\n")


@dataclass(frozen=True, slots=True)
class LineLayout:
    """The layout of lines.

    Attributes:
        delimiter: Between fields; one character or more.
        quote: Around fields that hold delimiters or line ends; empty where there is none.
        backslash: Whether a backslash escapes, and quotes are not doubled.
        null_text: Text of a field without quotes that is null; None for no such text.
        width: How many fields a line has; None where only the columns' numbers are known.
        places: Field of each column, from 0.
        names: Names of the first fields; further fields have their number.
        missing_are_null: Whether missing fields of a line are null; else the row is dirty.
        ignores_extra: Whether fields beyond `width` are ignored; else the row is dirty.
        skips_tombstones: Whether tombstones are skipped; else they are dirty.
    """

    delimiter: str
    quote: str
    backslash: bool
    null_text: str
    width: int | None
    places: tuple[int, ...]
    names: tuple[str, ...]
    missing_are_null: bool
    ignores_extra: bool
    skips_tombstones: bool

    @property
    def needed(self) -> int:
        """Fewest fields of a line that has all columns."""
        return max(self.places) + 1 if self.width is None else self.width


def read_layout(schema: Schema, options: Mapping[str, str]) -> LineLayout:
    """The layout of a route's lines. Called when a decoder is made.

    Args:
        schema: Columns of the payload.
        options: As in the job file.

    Raises:
        ValueError: Options are unknown, or contradict each other or the columns.
    """
    chosen = known_options("csv", options, OPTIONS)
    delimiter, quote, escape = (options.get(name) or default for name, default in _DEFAULTS.items())
    delimiter = _NAMED.get(delimiter, delimiter)
    quote = "" if quote == NONE else quote
    _check_marks(delimiter, quote, escape)
    names = [name.strip() for name in chosen["fields"].split(",")] if chosen["fields"] else []
    _check_columns(schema, names)
    numbered = not names and any(field.path for field in schema.fields)
    null_text = chosen["null_text"]
    if _LINE_ENDS & set(null_text) or delimiter in null_text or (quote and quote in null_text):
        raise ValueError("null_text holds a delimiter, a quote or a line end")
    return LineLayout(
        delimiter=delimiter,
        quote=quote,
        backslash=escape == "\\",
        null_text=null_text,
        width=None if numbered else len(names or schema.fields),
        places=tuple(_places(schema, names)),
        names=tuple(names or (() if numbered else (field.name for field in schema.fields))),
        missing_are_null=chosen["missing"] == "null",
        ignores_extra=numbered or chosen["unknown_fields"] == "ignore",
        skips_tombstones=chosen["tombstones"] == "skip",
    )


def _check_marks(delimiter: str, quote: str, escape: str) -> None:
    if len(delimiter) > MAX_DELIMITER or _LINE_ENDS & set(delimiter) or "\\" in delimiter:
        raise ValueError(
            f"the delimiter is 1 to {MAX_DELIMITER} characters, no line end or backslash, "
            f"not {shown(delimiter)}"
        )
    if len(quote) > 1 or quote == "\\" or quote in _LINE_ENDS or (quote and quote in delimiter):
        raise ValueError(
            f"the quote is one character that the delimiter has not, or none, not {shown(quote)}"
        )
    if "\0" in delimiter + quote:
        raise ValueError("the delimiter and the quote are no NUL character")
    if escape not in (DOUBLED, "\\"):
        raise ValueError(f"escape is {DOUBLED}, or a backslash, not {shown(escape)}")


def _check_columns(schema: Schema, names: list[str]) -> None:
    if not schema.fields:
        raise ValueError("the table has no column to read")
    twice = sorted({name for name in names if names.count(name) > 1})
    if "" in names or twice or len(names) > MAX_FIELDS:
        what = f"names twice: {', '.join(twice)}" if twice else "an empty name, or too many"
        raise ValueError(f"fields are names with commas between, each once; it has {what}")
    for field in schema.fields:
        if isinstance(field.type, ListType | MapType | StructType):
            kind = format_hive_type(field.type)
            message = f"a field of delimited text is one value, and {field.name} is {kind}"
            raise ValueError(message)  # noqa: TRY004 - of the job file, not of an argument


def _places(schema: Schema, names: list[str]) -> list[int]:
    if names:
        wanted = [_named(field) for field in schema.fields]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(f"fields does not name {', '.join(missing)}")
        return [names.index(name) for name in wanted]
    if not any(field.path for field in schema.fields):
        return list(range(len(schema.fields)))
    return [_number(field) for field in schema.fields]


def _named(field: Field) -> str:
    return ".".join(field.path) or field.name


def _number(field: Field) -> int:
    text = ".".join(field.path)
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:6]) <= MAX_FIELDS:
        raise ValueError(
            f"without `fields`, the path of a column is its field's number from 1 to {MAX_FIELDS}, "
            f"for all columns or none; {field.name} has {text or 'none'}"
        )
    return int(text) - 1
