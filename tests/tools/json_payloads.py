"""Payloads for the JSON decoder's properties: right ones, odd ones and broken ones, from a seed."""

import random
from collections.abc import Callable

from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema


def _column(
    name: str, hive: str, *path: str, required: bool = False, unit: str | None = None
) -> Field:
    return Field(name, parse_hive_type(hive), required=required, path=path, time_unit=unit)


SCHEMAS = (
    Schema(
        (
            _column("i", "int"),
            _column("l", "bigint", required=True),
            _column("s", "string"),
            _column("d", "decimal(18,2)"),
            _column("f", "double"),
            _column("b", "boolean"),
        )
    ),
    Schema(
        (
            _column("g", "struct<x:double,y:array<string>,z:struct<n:tinyint,s:string>>"),
            _column("deep", "bigint", "g", "q", "v"),
            _column("n", "tinyint", "g", "z", "n"),
            _column("ls", "array<struct<x:int,d:date>>"),
            _column("lt", "array<timestamp>"),
            _column("ll", "array<array<decimal(9,4)>>"),
        )
    ),
    Schema(
        (
            _column("ts", "timestamp", "t", unit="s"),
            _column("tms", "timestamp", unit="ms"),
            _column("tus", "timestamp", unit="us"),
            _column("tns", "timestamp", unit="ns"),
            _column("ti", "timestamp"),
            _column("da", "date", required=True),
            _column("ltm", "array<timestamp>", unit="ms"),
        )
    ),
    Schema(
        (
            _column("d0", "decimal(38,0)"),
            _column("d18", "decimal(38,18)"),
            _column("d38", "decimal(38,38)"),
            _column("d5", "decimal(5,2)"),
            _column("d37", "decimal(38,37)"),
            _column("d1", "decimal(1,0)"),
            _column("f4", "float"),
            _column("lf", "array<float>"),
            _column("lg", "array<double>"),
            _column("i2", "smallint"),
        )
    ),
    Schema((_column("m", "map<string,int>"), _column("i", "int"), _column("f", "double"))),
    Schema((_column("a", "bigint", "i"), _column("b", "string", "i"), _column("s", "string"))),
)

KEYS = (
    *("i", "l", "s", "d", "f", "b", "g", "q", "v", "x", "y", "z", "n", "ls", "lt", "ll", "t"),
    *("tms", "tus", "tns", "ti", "da", "ltm", "d0", "d18", "d38", "d5", "d37", "d1", "f4"),
    *("lf", "lg", "i2", "m", "extra", "", "\\u0069", "s\\u0000"),
)
NUMBERS = (
    *("0", "-0", "1", "-1", "12", "12.0", "12.5", "1e2", "1.2e1", "1E+2", "1e-2", "127", "128"),
    *("-128", "-129", "32768", "2147483647", "2147483648", "9223372036854775807", "0.0", "-0.0"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0.10", "0.125"),
    *("9007199254740991", "9007199254740992", "9007199254740993", "16777216", "16777217", "0e5"),
    *("1.8e308", "1.8e309", "1e400", "1e-320", "1e-400", "4.9e-324", "0e400", "0e-400", "3.5e38"),
    *("3.4028235e38", "1e-46", "0.1", "999.99", "1000", "99999999999999999999999999999999999999"),
    *("1e37", "1e38", "12345678912345", "123456789012345678901.5", "1234567890123456789.25"),
    *("1795161600", "1795161600000", "1795161600000000", "1795161600000000000", "1795161600.5"),
    *("1795161600000000001", "-62135596800", "-62135596801", "253402300799", "253402300800"),
    *("-62135596800000", "-62135596800001", "253402300799999", "253402300800000", "6.02e23"),
    *("9007199254740992.5", "4503599627370497.5", "1.00000000000000000000001", "0.00000000"),
    *("1e-10000000", "1e-2000000000", "0e-99999999999999999999", "1e-38", "7.1e-38", "1e-99"),
    *("31278181345481252934705.9391241e-36", "0.1234567890123456789012345678901234567e-9"),
    *("1e-005", "1e-0100", "1.5e-5", "28237056566867", "1e-58", "100e-2"),
    "9" * 400,
    "1" * 6000,
    "0." + "0" * 400 + "1",
    "0." + "0" * 30,
    "0." + "0" * 46 + "1",
    "0." + "0" * 46 + "1e2",
    "0." + "0" * 46 + "1e-5",
    "-1" + "0" * 18 + ".0",
    "1." + "0" * 50,
)
NOT_NUMBERS = ("NaN", "Infinity", "-Infinity", "Inf", "-Inf", "-NaN", "+1", ".5", "5.", "01", "-")
TEXTS = (
    *("", "a", "12", "12.0", "12.5", " 12", "+0.1", ".5", "5.", "1e2", "abc", "true", "NaN"),
    *("2026-11-20", "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31"),
    *("2026-11-20T08:00:00Z", "2026-11-20T08:00:00+08:00", "2026-11-20 08:00:00.123456-00:30"),
    *("2026-11-20T08:00:00", "2026-11-20T24:00:00Z", "2026-11-20T23:59:60Z", "2026-11-20T08:00Z"),
    *("2026-11-20T08:00:00.1234567Z", "2026-11-20T08:00:00.1234560Z", "2026-13-01", "2026-04-31"),
    *("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-01:00"),
    *("2024-02-29T12:00:00+0800", "2026-11-20T08:00:00+24:00", "2026-11-20T08:00:00z"),
    *("\\u0000", "a\\u0000b", "\\ud83d\\ude00", "\\ud800", "\\udc00", "\\ud800\\u0041", "\\x"),
    *("\\\\ud800", "\\u0031", "h\u00e9", "\u4f60\u597d", "\U0001f600", "}", "{", "}null{", "[[["),
    *("1e-10000000", "1\\u0065-10000000", "1\\u0045\\u002d9999999", "1e-5", "3e-4f"),
    *("1795161600000", "e-5", "\\n", "\n", "\\/", "0" * 310, '{\\"a\\":{}}'),
)
SPACES = ("", "", "", "", " ", "\n", "\t", "\r\n  ")


LIMITS = {"n": 9, "d1": 9, "d37": 2, "tms": 10**15, "tus": 10**15}
LIMITS |= dict.fromkeys(("i", "x", "v", "f", "d", "f4", "d0", "d5", "l", "t", "i2"), 100)
MEMBERS = {"g": "xyzq", "q": "v", "z": "ns", "m": "ix"}
LISTS = {"y": "s", "lt": "ti", "ll": "i", "ls": "", "lf": "i", "lg": "i", "ltm": "tms"}
SHAPES: dict[str, Callable[[Callable[[int], int]], str]] = {
    "tns": lambda below: str(below(10**12) * 1000),
    "d18": lambda below: f"{below(1000)}.{below(1000)}",
    "d38": lambda below: f"0.{below(10**9)}",
    "s": lambda below: f'"text {below(1000)}"',
    "b": lambda below: ("true", "false")[below(2)],
    "da": lambda below: f'"20{10 + below(30)}-{1 + below(12):02}-{1 + below(28):02}"',
    "ti": lambda below: f'"20{10 + below(30)}-03-{1 + below(28):02}T0{below(10)}:11:12+08:00"',
}


class PayloadMaker:
    """Makes payloads from a seed.

    Args:
        seed: Any integer; the same one makes the same payloads.
        mutations: Share of payloads whose bytes are then changed at random.
    """

    def __init__(self, seed: int, mutations: float = 0.3) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._mutations = mutations

    def batch(self, count: int, oddness: float) -> list[bytes]:
        """Make payloads.

        Args:
            count: How many.
            oddness: Share of values that are drawn without regard to the key.
        """
        return [self._payload(oddness) for _ in range(count)]

    def _payload(self, oddness: float) -> bytes:
        keys = self._random.sample(KEYS, self._random.randrange(2, 14))
        keys += ["l", "da"]
        text = self._object(keys, oddness, 0)
        if self._random.random() < oddness * 0.1:
            text = self._wrapped(text)
        data = text.encode()
        return self.mutated(data) if self._random.random() < self._mutations * oddness else data

    def _wrapped(self, text: str) -> str:
        pick = self._random.choice
        return pick(
            (
                *(f"{text}{text}", f" {text}", f"{text}\n", f"{text}null{text}", "null", "5", ""),
                *(f"[{text}]", f"\ufeff{text}", f"{text}\0}}", f"{text},{text}", '"x"', "{}", "  "),
                *(f"{text}\n{text}", f"{text[:-1]}", f"{text}}}", f"{text} 5 {{}}", "{" * 3000),
                f'{{"x":{"[" * 100}{"]" * 100}}}',
                f'{{"x":{"[" * 99}{"]" * 99},"da":"2026-11-20","l":1}}',
                f'{{"da":"2026-11-20","l":1,"x":"{"[" * 200}"}}',
                f'{{"da":"2026-11-20","l":1,"x":[{"[]," * 200}[]]}}',
                f'{{"x":{"[" * 5000}',
            )
        )

    def _object(self, keys: list[str], oddness: float, depth: int) -> str:
        if self._random.random() < oddness * 0.05:
            keys = [*keys, self._random.choice(keys)]
        elif len(set(keys)) != len(keys):
            keys = list(dict.fromkeys(keys))
        space = self._space
        members = [
            f'{space()}"{key}"{space()}:{space()}{self._value(key, oddness, depth)}{space()}'
            for key in keys
        ]
        return "{" + ",".join(members) + "}"

    def _space(self) -> str:
        return self._random.choice(SPACES) if self._random.random() < 0.02 else ""

    def _value(self, key: str, oddness: float, depth: int) -> str:
        draw = self._random.random()
        if draw < oddness * 0.5:
            return self._any(oddness, depth)
        if draw < oddness * 0.6:
            return "null"
        return self._fitting(key, oddness, depth)

    def _any(self, oddness: float, depth: int) -> str:
        pick = self._random.choice
        kind = self._random.randrange(9 if depth < 4 else 6)
        if kind < 2:
            return pick(NUMBERS)
        if kind < 5:
            return f'"{pick(TEXTS)}"'
        if kind == 5:
            return pick(("true", "false", "null", pick(NOT_NUMBERS)))
        if kind == 6:
            inner = [self._any(oddness, depth + 1) for _ in range(self._random.randrange(4))]
            return f"[{','.join(inner)}]"
        keys = self._random.sample(KEYS, self._random.randrange(1, 4))
        return self._object(keys, oddness, depth + 1)

    def _fitting(self, key: str, oddness: float, depth: int) -> str:
        if key in LIMITS:
            return str(self._random.randrange(LIMITS[key]))
        if key in MEMBERS:
            return self._object(list(MEMBERS[key]), oddness, depth + 1)
        if key in LISTS:
            count = self._random.randrange(4)
            return f"[{','.join(self._item(key, oddness, depth) for _ in range(count))}]"
        if key in SHAPES:
            return SHAPES[key](self._random.randrange)
        return self._any(oddness, depth)

    def _item(self, key: str, oddness: float, depth: int) -> str:
        match key:
            case "ls":
                return self._object(["x", "da"], oddness, depth + 1)
            case "ll":
                return f"[{self._value('i', oddness, depth + 1)}]"
            case _:
                return self._value(LISTS[key], oddness, depth)

    def mutated(self, data: bytes) -> bytes:
        """Change some bytes at random."""
        changed = bytearray(data)
        for _ in range(self._random.randrange(1, 4)):
            self._mutate(changed)
        return bytes(changed)

    def _mutate(self, data: bytearray) -> None:
        at = self._random.randrange(len(data) + 1)
        match self._random.randrange(6):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + self._random.randrange(1, 5)]
            case 2:
                data[at:at] = bytes([self._random.randrange(256)])
            case 3:
                pieces = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b'"', b"\\", b"{", b"}", b"],[")
                data[at:at] = self._random.choice(pieces)
            case 4 if at < len(data):
                data[at] ^= 1 << self._random.randrange(8)
            case _:
                other = self._random.randrange(len(data) + 1)
                data[at:at] = data[other : other + 12]
