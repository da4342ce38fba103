"""Hive type texts <-> column types."""

import re
from difflib import get_close_matches

from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

MAX_TEXT_LENGTH = 64 * 1024
MAX_DEPTH = 50
MAX_PRECISION = 38
MAX_VARCHAR = 65_535
MAX_CHAR = 255

_TOKEN = re.compile(r"\s*([<>(),:]|`(?:[^`]|``)+`|[^\s<>(),:`]+)")
_SIMPLE: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(8),
    "smallint": IntegerType(16),
    "int": IntegerType(32),
    "integer": IntegerType(32),
    "bigint": IntegerType(64),
    "float": FloatType(32),
    "double": FloatType(64),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
_ELSEWHERE = {
    "bigint": ("long", "int64", "uint32", "bigserial", "int8"),
    "int": ("int32", "uint16", "mediumint", "int4", "serial"),
    "smallint": ("short", "int16", "uint8", "int2"),
    "tinyint": ("byte",),
    "decimal(20,0)": ("uint64", "ulong"),
    "decimal(18,2)": ("number", "money", "bigdecimal", "bignumeric"),
    "double": ("float64", "float8"),
    "float": ("real", "float32", "float4"),
    "boolean": ("bool", "bit"),
    "string": (
        *("text", "str", "varchar2", "nvarchar", "nchar", "clob", "keyword", "enum", "uuid"),
        *("longtext", "mediumtext", "tinytext", "character", "json", "jsonb", "variant"),
        *("utf8", "large_string", "time", "fixedstring"),
    ),
    "binary": ("bytes", "bytea", "blob", "varbinary", "fixed", "longblob", "image"),
    "date": ("date32", "localdate"),
    "timestamp": (
        *("datetime", "datetime2", "datetime64", "timestamp_ntz", "instant"),
        *("smalldatetime", "localdatetime", "timestamp_millis"),
    ),
    "timestamp with local time zone": ("timestamp_ltz", "timestamptz", "timestamp_tz"),
    "array<...>": ("list", "repeated", "set"),
    "struct<...>": ("record", "row", "object", "nested", "tuple"),
    "map<string,...>": ("dict",),
}
_MEANT = {other: name for name, others in _ELSEWHERE.items() for other in others}
"""What types of other systems are called here: Spark, Flink, Avro, SQL databases, Python."""
_OWN = (*_SIMPLE, "decimal", "numeric", "varchar", "char", "array", "map", "struct")
_LATER = frozenset({"interval_year_month", "interval_day_time", "uniontype", "void"})
_LOCAL_ZONE = ("with", "local", "time", "zone")
_NAMES = {of: name for name, of in _SIMPLE.items() if name != "integer"}
_NAMES[LocalTimestampType()] = "timestamp with local time zone"
_PLAIN_NAME = re.compile(r"[^\s<>(),:`]+(?: +[^\s<>(),:`]+)*")


def parse_hive_type(text: str) -> DataType:
    """Read a type as Hive's metastore and job files write it.

    Called on the driver, once a column.

    Args:
        text: As `array<struct<a:int,b:decimal(10,2)>>`; letter case and spaces do not count.

    Returns:
        The column type; `decimal` alone is `decimal(10,0)`, as in Hive.

    Raises:
        ValueError: Not a type, not in this version, nested deeper than 50 levels or longer
            than 64 KiB; says where.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"a type of {len(text)} characters is longer than {MAX_TEXT_LENGTH}")
    parser = _TypeParser(text)
    found = parser.read_type(depth=1)
    parser.expect_end()
    return found


def format_hive_type(data_type: DataType) -> str:
    """Write a type as Hive's metastore does; `parse_hive_type` reads it back.

    Called on the driver, once a column.

    Args:
        data_type: Any column type.

    Returns:
        Lower-case text without spaces; struct field names keep their letters and their blanks
        inside. What Hive has no spelling for stands in backticks, which only we read.
    """
    match data_type:
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case VarcharType(length):
            return f"varchar({length})"
        case CharType(length):
            return f"char({length})"
        case ListType(element):
            return f"array<{format_hive_type(element)}>"
        case MapType(key, value):
            return f"map<{format_hive_type(key)},{format_hive_type(value)}>"
        case StructType(fields):
            parts = (f"{_format_name(of.name)}:{format_hive_type(of.type)}" for of in fields)
            return f"struct<{','.join(parts)}>"
        case _:
            return _NAMES[data_type]


def _meant(word: str) -> str | None:
    """The type that a word stands for elsewhere, or is nearly the name of."""
    found = _MEANT.get(word)
    if found is None:
        found = next(iter(get_close_matches(word, _OWN, n=1, cutoff=0.75)), None)
    return found


def _format_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return f"`{name.replace('`', '``')}`"


class _TypeParser:
    """Recursive descent over the tokens of one type text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def read_type(self, depth: int) -> DataType:
        if depth > MAX_DEPTH:
            raise ValueError(f"the type is nested deeper than {MAX_DEPTH} levels")
        word = self._read_token("a type").lower()
        if word == "timestamp" and self._peek().lower() == _LOCAL_ZONE[0]:
            return self._read_local_timestamp()
        if word in _SIMPLE:
            return _SIMPLE[word]
        found = self._read_with_numbers(word) or self._read_nested(word, depth)
        if found is not None:
            return found
        if word in _LATER:
            raise ValueError(f"the Hive type {word} is not in this version")
        meant = _meant(word)
        todo = f"; did you mean `{meant}`?" if meant else ""
        raise ValueError(f"{word!r} is not a Hive type{self._place()}{todo}")

    def expect_end(self) -> None:
        if self._next != len(self._tokens):
            raise ValueError(f"nothing expected after the type, but there is more{self._place(0)}")

    def _read_with_numbers(self, word: str) -> DataType | None:
        match word:
            case "decimal" | "numeric":
                return self._read_decimal()
            case "varchar":
                return VarcharType(self._read_length(word, MAX_VARCHAR))
            case "char":
                return CharType(self._read_length(word, MAX_CHAR))
            case _:
                return None

    def _read_nested(self, word: str, depth: int) -> DataType | None:
        match word:
            case "array":
                return self._read_array(depth)
            case "map":
                return self._read_map(depth)
            case "struct":
                return self._read_struct(depth)
            case _:
                return None

    def _read_decimal(self) -> DecimalType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._expect("(")
            precision = self._read_number()
            if self._peek() == ",":
                self._expect(",")
                scale = self._read_number()
            self._expect(")")
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            raise ValueError(
                f"decimal({precision},{scale}): the precision is 1 to {MAX_PRECISION}, "
                f"the scale 0 to the precision"
            )
        return DecimalType(precision, scale)

    def _read_length(self, word: str, most: int) -> int:
        self._expect("(")
        length = self._read_number()
        self._expect(")")
        if not 1 <= length <= most:
            raise ValueError(f"{word}({length}): the length is 1 to {most}")
        return length

    def _read_local_timestamp(self) -> LocalTimestampType:
        for wanted in _LOCAL_ZONE:
            word = self._read_token(repr(wanted)).lower()
            if word != wanted:
                raise ValueError(f"{wanted!r} is expected, not {word[:40]!r}{self._place()}")
        return LocalTimestampType()

    def _read_array(self, depth: int) -> ListType:
        self._expect("<")
        element = self.read_type(depth + 1)
        self._expect(">")
        return ListType(element)

    def _read_map(self, depth: int) -> MapType:
        self._expect("<")
        key = self.read_type(depth + 1)
        self._expect(",")
        value = self.read_type(depth + 1)
        self._expect(">")
        if isinstance(key, ListType | MapType | StructType):
            found = format_hive_type(key)
            raise ValueError(f"a map's key has a simple type, not {found}")  # noqa: TRY004
        return MapType(key, value)

    def _read_struct(self, depth: int) -> StructType:
        self._expect("<")
        fields = [self._read_field(depth)]
        while self._peek() == ",":
            self._expect(",")
            fields.append(self._read_field(depth))
        self._expect(">")
        names = [field.name.lower() for field in fields]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"a struct has fields of the same name: {', '.join(twice)}")
        return StructType(tuple(fields))

    def _read_field(self, depth: int) -> Field:
        word = self._read_token("a field name")
        if word in "<>(),:":
            raise ValueError(f"a field name is expected, not {word!r}{self._place()}")
        name = word[1:-1].replace("``", "`") if word.startswith("`") else self._name_with_blanks()
        self._expect(":")
        return Field(name, self.read_type(depth + 1))

    def _name_with_blanks(self) -> str:
        """The name whose first word was taken: Hive takes all up to the colon."""
        last, end = self._tokens[self._next - 1]
        start = end
        while self._peek() and self._peek()[0] not in "<>(),:`":
            last, end = self._tokens[self._next]
            self._next += 1
        return self._text[start : end + len(last)]

    def _read_number(self) -> int:
        token = self._read_token("a number")
        if not (token.isascii() and token.isdigit() and len(token) <= len(str(MAX_VARCHAR))):
            raise ValueError(f"a number is expected, not {token[:20]!r}{self._place()}")
        return int(token)

    def _expect(self, token: str) -> None:
        found = self._read_token(repr(token))
        if found != token:
            raise ValueError(f"{token!r} is expected, not {found[:40]!r}{self._place()}")

    def _read_token(self, what: str) -> str:
        if self._next == len(self._tokens):
            raise ValueError(f"{what} is expected, but the type ends")
        self._next += 1
        return self._tokens[self._next - 1][0]

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _place(self, back: int = 1) -> str:
        return f" at character {self._tokens[self._next - back][1] + 1}"

    def _split(self) -> list[tuple[str, int]]:
        tokens: list[tuple[str, int]] = []
        position = 0
        end = len(self._text.rstrip())
        while position < end:
            found = _TOKEN.match(self._text, position, end)
            if found is None:
                raise ValueError(f"{self._text[position]!r} is not expected in a type")
            tokens.append((found[1], found.start(1)))
            position = found.end()
        return tokens
