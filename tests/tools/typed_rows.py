"""Rows with values at the bounds of every type, and how Spark SQL shows them unchanged."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_NESTED = "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
_MOMENT = "date_format({}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column; `options` are further keys of it in the job file."""

    name: str
    type: str
    options: str = ""

    def sql(self) -> str:
        """What shows its value as text."""
        if self.type == "timestamp":
            return _MOMENT.format(self.name)
        if self.type == "binary":
            return f"base64({self.name})"
        if self.is_nested():
            return f"to_json({self.name}, {_NESTED})"
        return f"cast({self.name} AS string)"

    def is_nested(self) -> bool:
        return "<" in self.type

    def yaml(self) -> str:
        return f'    - {{name: {self.name}, type: "{self.type}"{self.options}}}\n'


COLUMNS = (
    TypedColumn("id", "bigint"),
    TypedColumn("flag", "boolean"),
    TypedColumn("i8", "tinyint"),
    TypedColumn("i16", "smallint"),
    TypedColumn("i32", "int"),
    TypedColumn("f", "float", ", non_finite: keep"),
    TypedColumn("g", "double", ", non_finite: keep"),
    TypedColumn("dec3", "decimal(38,3)"),
    TypedColumn("dec38", "decimal(38,38)"),
    TypedColumn("s", "string"),
    TypedColumn("v", "varchar(5)"),
    TypedColumn("c", "char(5)"),
    TypedColumn("bin", "binary", ", format: base64"),
    TypedColumn("d", "date"),
    TypedColumn("t", "timestamp"),
    TypedColumn("l", "array<string>"),
    TypedColumn("m", "map<string,int>"),
    TypedColumn("st", "struct<a:int,b:struct<x:string>>"),
    TypedColumn("ls", "array<struct<a:int,t:timestamp>>"),
    TypedColumn("mm", "map<string,array<int>>"),
)

LARGEST, LEAST, NULLS, JULIAN, FRACTION, ONE_EMPTY, NOT_FINITE, MICROS, DELIMITERS = range(9)

ROWS: Mapping[int, dict[str, Any]] = {
    LARGEST: {
        "flag": True,
        "i8": 127,
        "i16": 32767,
        "i32": 2**31 - 1,
        "f": 0.1,
        "g": 1.25e-300,
        "dec3": "99999999999999999999999999999999999.999",
        "dec38": "0.99999999999999999999999999999999999999",
        "s": "北京 📦",
        "v": "北京 x",
        "c": "ab",
        "bin": "AP8KCQ==",
        "d": "9999-12-31",
        "t": "9999-12-31T23:59:59.999Z",
        "l": ["a", "", "b"],
        "m": {"k": 1, "": 2, "n": None},
        "st": {"a": 1, "b": {"x": "y"}},
        "ls": [{"a": 1, "t": "2026-11-20T08:09:10.123Z"}, None],
        "mm": {"a": [1, None, 3], "b": None},
    },
    LEAST: {
        "flag": False,
        "i8": -128,
        "i16": -32768,
        "i32": -(2**31),
        "f": -1.5,
        "g": 5e-324,
        "dec3": "-99999999999999999999999999999999999.999",
        "dec38": "-0.00000000000000000000000000000000000001",
        "s": "",
        "v": "",
        "c": "",
        "bin": "",
        "d": "1582-10-15",
        "t": "1883-11-18T12:03:58Z",
        "l": [],
        "m": {},
        "st": {"a": None, "b": {"x": "z"}},
        "ls": [],
        "mm": {"": []},
    },
    NULLS: {},
    JULIAN: {"d": "0001-01-01", "t": "1582-10-04T23:59:59Z"},
    FRACTION: {"t": "1969-12-31T23:59:59.000001Z"},
    ONE_EMPTY: {"l": [""]},
    NOT_FINITE: {"f": "NaN", "g": "-Infinity"},
    MICROS: {"t": "2026-11-20T08:09:10.123456Z", "g": -0.0, "s": " \\N ", "v": "\\N"},
    DELIMITERS: {
        "s": "a\x01b\x02c\x03d\n\r\t\\n\"'|,;\u2028\x7f\\",
        "l": ["x\x02y\\", "\\N", None],
        "m": {"k\x03\x02": 1},
        "st": {"a": 5, "b": {"x": "\x04\x03"}},
    },
}


def payload(number: int) -> bytes:
    """The row as JSON."""
    return json.dumps({"id": number, **ROWS[number]}).encode()


def select(table: str, columns: Sequence[TypedColumn] = COLUMNS) -> str:
    """SQL that shows all rows of a table."""
    shown = ", ".join(column.sql() for column in columns)
    return f"SELECT {shown} FROM {table} ORDER BY id"  # noqa: S608


def expected(number: int, columns: Sequence[TypedColumn] = COLUMNS) -> list[Any]:
    """A row as it is put in, in the form of `comparable`."""
    row = {"id": number, **ROWS[number]}
    return [_put_in(column, row.get(column.name)) for column in columns]


def comparable(shown: Sequence[Any], columns: Sequence[TypedColumn] = COLUMNS) -> list[Any]:
    """A row of `select`, with one form for each value."""
    return [_read_back(column, text) for column, text in zip(columns, shown, strict=True)]


def _put_in(column: TypedColumn, value: Any) -> Any:
    if value is None:
        return None
    if column.is_nested():
        return _moments(value)
    if column.type == "timestamp":
        return _moment(value)
    if column.type.startswith("char"):
        return value.ljust(5)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _read_back(column, text)


def _read_back(column: TypedColumn, text: str | None) -> Any:
    if text is None:
        return None
    if column.is_nested():
        return json.loads(text)
    if column.type in ("float", "double"):
        return repr(float(text))
    if column.type.startswith("decimal"):
        return Decimal(text)
    return text


def _moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _moment(inner) if key == "t" and inner else _moments(inner)
            for key, inner in value.items()
        }
    return [_moments(inner) for inner in value] if isinstance(value, list) else value


def _moment(text: str) -> str:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole.replace('T', ' ')}.{fraction:0<6}"
