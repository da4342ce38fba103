"""Delimited lines: fields, quotes, escapes, nulls, lines that are none; both paths alike."""

import random
from datetime import date, datetime
from decimal import Decimal

import pytest

from sluiceway.formats.contract import Decoded
from sluiceway.formats.csv.decoder import CsvDecoder, native_lines
from sluiceway.formats.csv.layout import read_layout
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools.fetched_payloads import joined
from tools.format_fuzz import outcomes
from tools.made_csv import MadeCsv
from tools.payload_damage import damaged


def schema_of(**kinds: str) -> Schema:
    return Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in kinds.items()))


ABC = schema_of(a="string", b="string", c="string")


def decode(payload: bytes, schema: Schema = ABC, **options: str) -> Decoded:
    """All paths, which have to agree."""
    fast = CsvDecoder(schema, options).decode([payload])
    library = CsvDecoder(schema, options, native=False).decode([payload])
    slow = CsvDecoder(schema, options, exact_only=True).decode([payload])
    assert fast.rows.to_pylist() == library.rows.to_pylist() == slow.rows.to_pylist()
    assert fast.dirty == library.dirty == slow.dirty
    return fast


def row(payload: bytes, schema: Schema = ABC, **options: str) -> tuple[object, ...]:
    decoded = decode(payload, schema, **options)
    assert decoded.dirty == ()
    return tuple(decoded.rows.to_pylist()[0].values())


def fault(payload: bytes, schema: Schema = ABC, **options: str) -> tuple[str, str, str]:
    (dirty,) = decode(payload, schema, **options).dirty
    return dirty.stage, dirty.reason, dirty.path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"x,y,z", ("x", "y", "z")),
        (b"x,,z\r\n", ("x", None, "z")),
        (b'x,"",z\n', ("x", "", "z")),
        (b'"a,b","say ""hi""","two\r\nlines"', ("a,b", 'say "hi"', "two\r\nlines")),
        (b" x , 'y' ,\\N", (" x ", " 'y' ", "\\N")),
        ("北,é,😀".encode(), ("北", "é", "😀")),
        (b",,", (None, None, None)),
    ],
)
def test_line_as_rfc_4180_has_it(line: bytes, expected: tuple[object, ...]) -> None:
    assert row(line) == expected


@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        (b"x|+|y|z|+|", {"delimiter": "|+|"}, ("x", "y|z", None)),
        (b"x\ty\tz", {"delimiter": "tab"}, ("x", "y", "z")),
        (b"x\x01\\N\x01", {"delimiter": "ctrl-a", "null_text": "\\N"}, ("x", None, "")),
        (b"'a,b',c\"d,", {"quote": "'"}, ("a,b", 'c"d', None)),
        (b'5" pipe,"x",', {"quote": "none"}, ('5" pipe', '"x"', None)),
        (b'a\\,b,"c\\"\\n",\\\\', {"escape": "\\"}, ("a,b", 'c"\n', "\\")),
        (b"\\N,\\\\N,x", {"escape": "\\", "null_text": "\\N"}, (None, "\\N", "x")),
        (b'NULL,"NULL",null', {"null_text": "NULL"}, (None, "NULL", "null")),
        (b"x,y", {"missing": "null"}, ("x", "y", None)),
        (b"x,y,z,w,", {"unknown_fields": "ignore"}, ("x", "y", "z")),
        (b"1,2,3,4", {"fields": "b,skip,c,a"}, ("4", "1", "3")),
    ],
)
def test_line_by_options(
    line: bytes, options: dict[str, str], expected: tuple[object, ...]
) -> None:
    assert row(line, ABC, **options) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"x,y", "missing"),
        (b"x,y,z,", "unexpected_field"),
        (b"x,y,z\na,b,c", "broken"),
        (b"x,y,z\n\n", "broken"),
        (b"x,y\r,z", "broken"),
        (b'x,"y,z', "broken"),
        (b'x,"y"z,w', "broken"),
        (b'x,y"z,w', "broken"),
        (b"x,\xff,z", "encoding"),
        (b"\xef\xbb\xbfx,y,z", "encoding"),
        (b"\n", "missing"),
    ],
)
def test_line_that_is_none_is_dirty_with_its_reason(line: bytes, reason: str) -> None:
    assert fault(line) == ("decode", reason, "")


def test_backslash_that_escapes_nothing_is_dirty() -> None:
    assert fault(b"a\\x,b,c", escape="\\") == ("decode", "broken", "")
    assert fault(b"a,b,c\\", escape="\\") == ("decode", "broken", "")


def test_columns_by_number() -> None:
    schema = Schema(
        (
            Field("last", parse_hive_type("string"), path=("4",)),
            Field("first", parse_hive_type("int"), path=("1",)),
        )
    )
    assert row(b"7,x,y,z,more", schema) == ("z", 7)
    assert fault(b"7,x,y", schema) == ("decode", "missing", "")
    with pytest.raises(ValueError, match="from 1 to"):
        CsvDecoder(Schema((*schema.fields, Field("x", parse_hive_type("int")))), {})


def test_every_plain_type_is_read_from_text() -> None:
    kinds = {
        "b": "boolean", "t": "tinyint", "l": "bigint", "f": "float", "d": "double",
        "m": "decimal(9,2)", "v": "varchar(3)", "c": "char(3)", "day": "date", "at": "timestamp",
    }  # fmt: skip
    line = (
        b"true,-128,9223372036854775807,0.5,1e3,-7.10,abc,ab,2026-11-20,2026-11-20T08:00:00+08:00"
    )
    assert row(line, schema_of(**kinds)) == (
        *(True, -128, 2**63 - 1, 0.5, 1000.0, Decimal("-7.10"), "abc", "ab"),
        *(date(2026, 11, 20), datetime.fromisoformat("2026-11-20")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (b"12.5", "bigint", "not_integral"),
        (b" 12", "bigint", "bad_text"),
        (b"9223372036854775808", "bigint", "overflow"),
        (b"128", "tinyint", "overflow"),
        (b"0.125", "decimal(9,2)", "scale"),
        (b"9007199254740993", "double", "overflow"),
        (b"NaN", "double", "bad_text"),
        (b"yes", "boolean", "bad_text"),
        (b"1", "boolean", "bad_text"),
        (b"abcd", "varchar(3)", "too_long"),
        (b"a\0b", "string", "encoding"),
        (b"2026-02-29", "date", "bad_time"),
        (b"2026-11-20 08:00:00", "timestamp", "bad_time"),
    ],
)
def test_text_that_is_no_value_is_dirty(text: bytes, kind: str, reason: str) -> None:
    assert fault(text, schema_of(v=kind)) == ("convert", reason, "v")


def test_required_field_that_is_null_is_dirty() -> None:
    schema = Schema((Field("a", parse_hive_type("int"), required=True), *ABC.fields[1:]))
    assert fault(b",x,y", schema) == ("convert", "null", "a")


@pytest.mark.parametrize(
    ("kind", "policy", "text", "expected"),
    [
        ("boolean", Policy(format="Y/N"), b"N", False),
        ("boolean", Policy(format="1/0", trim=True), b" 1 ", True),
        ("tinyint", Policy(on_overflow="clamp"), b"300", 127),
        ("date", Policy(format="dd.MM.yyyy"), b"20.11.2026", date(2026, 11, 20)),
        ("string", Policy(on_bad_text="replace"), b"a\xff\0", "a\ufffd\ufffd"),
        ("binary", Policy(format="utf8"), b"\xff\x00", b"\xff\x00"),
        ("binary", Policy(format="hex"), b"00ff", b"\x00\xff"),
    ],
)
def test_policies_hold_for_text(kind: str, policy: Policy, text: bytes, expected: object) -> None:
    assert row(text, Schema((Field("v", parse_hive_type(kind), policy=policy),))) == (expected,)


def test_time_from_number_needs_its_unit() -> None:
    kind = parse_hive_type("timestamp")
    assert row(b"1795161600000", Schema((Field("at", kind, time_unit="ms"),))) == (
        datetime.fromisoformat("2026-11-20T08:00"),
    )
    assert fault(b"1795161600000", Schema((Field("at", kind),)))[1] == "bad_time"


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "\n"}, {"delimiter": "x" * 17}, {"quote": '""'}, {"quote": ","},
        {"escape": "^"}, {"null_text": "a,b"}, {"fields": "a,b,c,a"}, {"fields": "a,b"},
        {"unknown_fields": "keep"}, {"header": "true"},
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        CsvDecoder(ABC, options)


def test_nested_column_is_refused() -> None:
    with pytest.raises(ValueError, match="one value, and v is array<int>"):
        CsvDecoder(schema_of(v="array<int>"), {})


PIECES = (
    *("1", "-7", "300", "0.10", "1e5", "", "a", '"', '""', ",", "\n", "\r\n", "\\", "\\N", "é"),
    *(" ", "true", "false", "2026-11-20", "2026-11-20T08:00:00Z", "NaN", "9" * 25, "\0"),
)
MIXED = schema_of(
    n="tinyint", d="double", f="float", m="decimal(5,2)", s="string", v="char(3)", b="boolean",
    day="date", at="timestamp",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("escape", ["doubled", "\\"])
def test_fast_path_decides_as_the_slow_path_does(seed: int, escape: str) -> None:
    pick = random.Random(seed)  # noqa: S311
    payloads = []
    for _ in range(3000):
        oddness = pick.choice((0.0, 0.05, 0.3))
        fields = [
            "".join(pick.choices(PIECES, k=pick.randrange(3))) if pick.random() < oddness else plain
            for plain in ("7", "0.5", "-3", "1.25", "text", "ab", "true", "2026-11-20", "")
        ]
        payloads.append(",".join(fields).encode())
    payloads += [payload[: pick.randrange(len(payload))] + b"\xff" for payload in payloads[:50]]
    options = {"escape": escape}
    fast = CsvDecoder(MIXED, options).decode(payloads)
    slow = CsvDecoder(MIXED, options, exact_only=True).decode(payloads)
    assert fast.dirty == slow.dirty
    assert fast.indices.equals(slow.indices)
    assert fast.rows.equals(slow.rows)
    assert 0 < len(fast.dirty) < len(payloads)


@pytest.mark.parametrize("filler", ['"', '""', "\\", "x", "\r", ","])
def test_long_line_with_a_fault_is_decided_in_one_pass(filler: str) -> None:
    """With a pass for each of its places this would take days."""
    line = b'1,"' + filler.encode() * 1_500_000 + b'"x,2'
    for escape in ("doubled", "\\"):
        assert fault(line, escape=escape) == ("decode", "broken", "")


def test_fields_that_no_column_reads_are_told_by_name_or_number() -> None:
    named = CsvDecoder(
        schema_of(a="int", b="string"), {"fields": "a,x,b", "unknown_fields": "ignore"}
    )
    assert named.fields_of(b'1,"y,z",c,d') == {"x": "y,z", "4": "d"}
    assert named.fields_of(b'1,"') == {}
    placed = CsvDecoder(schema_of(a="int"), {"unknown_fields": "ignore"})
    assert placed.fields_of(b"1,2") == {"2": "2"}


@pytest.mark.parametrize("seed", range(60))
def test_any_layout_is_read_as_the_exact_path_reads_it(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    made = MadeCsv(pick)
    payloads: list[bytes | None] = [
        made.payload(oddness) for oddness in (0, 0.05, 0.3, 1) for _ in range(20)
    ]
    payloads += [damaged(lambda _: made.payload() or b"\0", pick) for _ in range(20)]
    payloads.append(None)
    expected = outcomes(made.decoder("exact").decode(payloads), len(payloads))
    for path in ("library", "native"):
        assert outcomes(made.decoder(path).decode(payloads), len(payloads)) == expected, path
    assert outcomes(made.decoder("native").decode(joined(payloads)), len(payloads)) == expected


@pytest.mark.skipif(native_module() is None, reason="the native module is not installed")
@pytest.mark.parametrize(
    ("payload", "row"),
    [
        (b"7,x,y", (7, "x", "y")),
        (b'7,"x ""y""",\r\n', (7, 'x "y"', None)),
        (b'"7","a,b","\r\n"\n', (7, "a,b", "\r\n")),
        (b"7,x", None),
        (b"7,x,y,z", None),
        (b'7,"x"y,z', None),
        (b'7,"x,y', None),
        (b"7,x\ry,z", None),
        (b"7,\xff,z", None),
        (b"\xef\xbb\xbf7,x,y", None),
        (b"7,\0,z", None),
        (b" 7,x,y", None),
    ],
)
def test_lines_are_vouched_for_or_left(payload: bytes, row: tuple[object, ...] | None) -> None:
    fields = (("a", "int"), ("b", "string"), ("c", "string"))
    schema = Schema(tuple(Field(name, parse_hive_type(of)) for name, of in fields))
    reader = native_lines(schema, read_layout(schema, {}))
    assert reader is not None
    batch, kept, left = reader.read([b"1,,", payload, b"2,,"], ())
    assert (kept.tolist(), left.tolist()) == (([0, 1, 2], []) if row else ([0, 2], [1]))
    if row:
        assert tuple(batch.to_pylist()[1].values()) == row
