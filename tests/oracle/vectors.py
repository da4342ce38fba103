"""Values from a seed: right ones, odd ones, and those right beside a type's ends."""

import base64
import math
import random
import struct
from typing import Any

from .model import ABSENT, LONE, NonFinite, Num, Obj
from .type_text import split_type

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
UNITS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SPECIAL = (
    *("0", "-0", "0.0", "-0.0", "0e5", "0e-400", "1e400", "-1e400", "1e-400", "-1e-400", "1e-320"),
    *("1.8e308", "1.8e309", "-1.8e309", "1.7976931348623157e308", "1.7976931348623159e308"),
    *(
        "4.9e-324",
        "2.4e-324",
        "2.5e-324",
        "3.4028235e38",
        "3.4028236e38",
        "1e-46",
        "7e-46",
        "8e-46",
    ),
    *("9007199254740991", "9007199254740992", "9007199254740993", "9007199254740994"),
    *("9007199254740992.5", "4503599627370497.5", "16777216", "16777217", "16777218", "16777217.5"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "6.02e23"),
    *("-9223372036854775809", "12.0", "12.5", "-12.5", "0.125", "0.10", "1.00000000000000000001"),
    *("1e1000000000", "-1e1000000000", "1e-10000000", "-1e-10000000", "0e-99999999999999999999"),
    *("1e-99999999999999999999", "1e99999999999999999999", "9" * 400, "0." + "0" * 400 + "1"),
    *("9" * 60 + ".5", "9" * 61 + ".5", "-" + "9" * 61 + ".5", "999.999", "0.5", "1.5", "2.5"),
    # Beside the middle of two floats of 32 bits, and on it when it comes through one of 64.
    "1.000000178813934326171874999999999999",
    "1.00000005960464477539062500000000000000001",
)
ODD_BOOLEANS = (
    *("", " true", "false ", "TRUE", "False", "t", "f", "1", "0", "yes", "no", "Y", "N", "y", "n"),
    *("true\n", "tru", "truefalse", "Y/N", "null", "on", "\uff11", "true\0"),
)
NOT_NUMBERS = (
    *(
        "",
        "abc",
        " 12",
        "12 ",
        "\t7\n",
        "1_000",
        "0x10",
        "1,5",
        "--1",
        "+",
        ".",
        "1e",
        "\u0661",
        "12a",
    ),
    *("NaN", "-NaN", "Infinity", "-Infinity", "Inf", "-Inf", "+Inf", "nan", "infinity", "1 2"),
)
TEXTS = (
    *(
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "abcdefghij",
        "a ",
        "ab  ",
        "   ",
        " a",
        "\u4f60\u597d",
        "true",
    ),
    *("\U0001f600\U0001f600\U0001f600\U0001f600", "e\u0301e\u0301", "a\0b", f"a{LONE}b", "\udcff"),
    *("x\udcc3", "\ufffd", "\u00e9", "NULL", "tab\tnl\n", '"\\/', "\x7f", "\u2028", "\ud7ff\ue000"),
)
DAYS = (
    *("2026-11-20", "0001-01-01", "9999-12-31", "0000-12-31", "2024-02-29", "2023-02-29"),
    *("1900-02-29", "2000-02-29", "1582-10-10", "2026-13-01", "2026-00-10", "2026-04-31", "26-1-1"),
    *("infinity", "-Infinity", "infinite", "0000-00-00", "+294247-01-10", "20000-01-01"),
    *("-0044-03-15", "4713-01-01 BC", "2026-11-20Z", "2026-11-20z"),
    *(
        "1969-12-31",
        "1970-01-01",
        "2026-11-20T00:00:00Z",
        " 2026-11-20",
        "2026-11-20\n",
        "20261120",
    ),
)
CLOCKS = (
    "00:00:00",
    "23:59:59",
    "08:00:00",
    "24:00:00",
    "23:59:60",
    "12:60:00",
    "02:30:00",
    "08:00",
    "00:00:00 BC",
)
FRACTIONS = ("", "", ".5", ".123456", ".1234560", ".1234567", ".0000005", ".999999999", ".9999995")
OFFSETS = ("Z", "Z", "+08:00", "-00:30", "+0800", "+08", "", "", "+24:00", "-23:59", "z", " Z")
KEYS = ("a", "b", "7", "07", "k k", "\u4f60", "x")


class Vectors:
    """Makes values for columns.

    Args:
        seed: Any integer; the same one makes the same values.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same values every time

    def value(self, hive: str, unit: str | None, shape: str, oddness: float) -> Any:
        """A value for a type; `oddness` is the share of those that no correct producer sends."""
        draw = self.random.random()
        if draw < oddness * 0.1:
            return self.random.choice((None, ABSENT))
        if draw < oddness * 0.45:
            return self.anything(2)
        return self._aimed(hive, unit, shape, oddness)

    def anything(self, depth: int) -> Any:
        """A value of any kind."""
        pick, kind = self.random.choice, self.random.randrange(9 if depth else 7)
        match kind:
            case 0 | 1:
                return self._number("bigint", 0.5)
            case 2 | 3:
                return pick((*TEXTS, *NOT_NUMBERS, *SPECIAL[:20], *DAYS))
            case 4:
                return pick((True, False))
            case 5:
                return NonFinite(pick(("NaN", "Infinity", "-Infinity", "Inf", "-Inf")))
            case 6:
                return pick((None, Obj(), [])) if depth < 2 else Obj()
            case 7:
                return [self.anything(depth - 1) for _ in range(self.random.randrange(3))]
            case _:
                return self._pairs(lambda: self.anything(depth - 1), KEYS)

    def _pairs(self, make: Any, keys: tuple[str, ...]) -> Obj:
        names = self.random.sample(keys, self.random.randrange(min(4, len(keys)) + 1))
        if names and self.random.random() < 0.03:
            names.append(names[0])
        return Obj((name, make()) for name in names)

    def _entries(self, pairs: Obj, oddness: float) -> list[Any]:
        """A map as an array of its entries."""
        found: list[Any] = []
        for key, value in pairs:
            odd = self.random.random() < oddness * 0.2
            name = self.anything(1) if odd else key
            as_object = self.random.random() < 0.5
            pair = Obj([("key", name), ("value", value)]) if as_object else [name, value]
            found.append(self.anything(1) if self.random.random() < oddness * 0.1 else pair)
        return found

    def _aimed(self, hive: str, unit: str | None, shape: str, oddness: float) -> Any:
        name, _, inner = split_type(hive)
        again = oddness * 0.5

        def item(of: str) -> Any:
            found = self.value(of, unit, shape, again)
            return None if found is ABSENT else found

        match name:
            case "array":
                return [item(inner[0][1]) for _ in range(self.random.randrange(4))]
            case "map":
                keys = KEYS if inner[0][1] in ("string", "varchar(2)") else ("1", "2", "-3", "12")
                odd = self.random.random() < oddness * 0.2
                found = self._pairs(lambda: item(inner[1][1]), KEYS if odd else keys)
                return self._entries(found, oddness) if self.random.random() < 0.2 else found
            case "struct":
                return self._fields(inner, item)
            case _:
                return self._plain(hive, unit, shape, oddness)

    def _plain(self, hive: str, unit: str | None, shape: str, oddness: float) -> Any:
        name, numbers, _ = split_type(hive)
        match name:
            case "boolean":
                return self._boolean(shape, oddness)
            case "string" | "varchar" | "char":
                return self._text(numbers[0] if numbers else 6, oddness)
            case "binary":
                return self._bytes(shape, oddness)
            case "date" | "timestamp" | "timestamp with local time zone":
                return self._time(name, unit, shape, oddness)
            case _:
                text = self._number(hive, oddness)
                quoted = self.random.random() < oddness * 0.4
                return self._quoted(text, oddness) if quoted else text

    def _boolean(self, shape: str, oddness: float) -> Any:
        if not shape and self.random.random() > oddness:
            return self.random.random() < 0.5
        if self.random.random() < oddness * 0.4:
            return self.random.choice(ODD_BOOLEANS)
        return self.random.choice(shape.split("/") if shape else ("true", "false"))

    def _fields(self, inner: tuple[tuple[str, str], ...], item: Any) -> Obj:
        members = [(field, item(of)) for field, of in inner if self.random.random() < 0.9]
        if members and self.random.random() < 0.02:
            members.append((members[0][0], None))
        self.random.shuffle(members)
        return Obj(members)

    def _number(self, hive: str, oddness: float) -> Num:
        pick, draw = self.random.choice, self.random.random()
        if draw < oddness * 0.3:
            return Num(pick(SPECIAL))
        name, numbers, _ = split_type(hive)
        if name in ("float", "double"):
            return Num(self._float(name))
        if name == "decimal":
            return Num(self._decimal(numbers[0], numbers[1], oddness))
        bits = BITS.get(name, 64)
        near = draw < 0.2 + oddness * 0.3
        power = bits - 1 if draw < oddness * 0.5 else self.random.randrange(1, bits)
        number = 2**power + self.random.randrange(-2, 3) if near else self.random.getrandbits(power)
        number = (
            max(min(number, 2 ** (bits - 1) - 1), 0) if self.random.random() > oddness else number
        )
        return Num(self._spelt(number if self.random.random() < 0.5 else -number, oddness))

    def _spelt(self, number: int, oddness: float) -> str:
        if self.random.random() > oddness:
            return str(number)
        zeros = self.random.randrange(4) if number else 0
        return self.random.choice(
            (
                *(
                    f"{number}.0",
                    f"{number}e0",
                    f"{number}.{'0' * 30}",
                    f"{number}{'0' * zeros}e-{zeros}",
                ),
                *(f"{number}.5", f"{number}.49999999999", f"{number}.50000000000000000001"),
                *(f"{number}E+{zeros}", f"{number}.{self.random.randrange(10**6):06}"),
            )
        )

    def _float(self, name: str) -> str:
        draw = self.random.random()
        if draw < 0.3:
            return repr(round(self.random.uniform(-1000, 1000), self.random.randrange(8)))
        if draw < 0.4:
            return f"{self.random.choice(('', '-'))}{self.random.randrange(2**60)}"
        form, size = ("<d", 8) if name == "double" else ("<f", 4)
        (value,) = struct.unpack(form, self.random.randbytes(size))
        if not math.isfinite(value):
            return "0.1"
        return repr(value) if draw < 0.8 else f"{value:.{self.random.randrange(30)}e}"

    def _decimal(self, precision: int, scale: int, oddness: float) -> str:
        odd = self.random.random() < oddness
        digits = self.random.randrange(1, precision + 1 + 3 * odd)
        places = min(self.random.randrange(scale + 1 + 3 * odd), 40)
        number = self.random.choice(
            (10**digits - 1, 10 ** (digits - 1), self.random.randrange(10**digits))
        )
        text = str(number).rjust(places + 1, "0")
        whole, fraction = (text[:-places], text[-places:]) if places else (text, "")
        sign = self.random.choice(("", "-"))
        plain = f"{sign}{whole}{'.' if fraction else ''}{fraction}"
        if odd and self.random.random() < 0.3:
            return f"{sign}{number}e{self.random.randrange(-scale - 2, 4)}"
        return plain + "00" if odd and fraction else plain

    def _quoted(self, text: str, oddness: float) -> str:
        if self.random.random() < oddness * 0.4:
            return self.random.choice((*NOT_NUMBERS, f" {text}", f"{text}\n", f"+{text}"))
        return str(text)

    def _text(self, length: int, oddness: float) -> str:
        if self.random.random() < oddness * 0.5:
            return self.random.choice(TEXTS)
        count = self.random.randrange(length + 1 + 2 * (self.random.random() < oddness))
        text = "".join(self.random.choices("abc \u00e9\u4f60\U0001f600", k=count))
        return text if self.random.random() < oddness else text.rstrip(" ")

    def _bytes(self, shape: str, oddness: float) -> str:
        odd = self.random.random() < oddness * 0.5
        data = self.random.randbytes(self.random.randrange(8))
        match shape:
            case "base64":
                text = base64.b64encode(data).decode()
                return text[:-1] + self.random.choice("A=B\n-") if odd else text
            case "hex":
                text = data.hex()
                return (
                    self.random.choice((text + "0", text + " ", text.upper(), "zz"))
                    if odd
                    else text
                )
            case _:
                return self.random.choice(TEXTS) if odd else data.hex()

    def _time(self, name: str, unit: str | None, shape: str, oddness: float) -> Any:
        if unit is not None:
            text = self._instant_number(unit, oddness)
            return self._quoted(text, oddness) if self.random.random() < oddness * 0.4 else text
        odd = self.random.random() < oddness
        if name == "date" and shape in ("", "iso8601") and odd and self.random.random() < 0.5:
            return self.random.choice(DAYS)
        year = self.random.choice((1, 1582, 1969, 1970, 1991, 2026, 2026, 2400, 9999))
        month, day = self.random.randrange(1, 13), self.random.randrange(1, 29 + 4 * odd)
        if odd and self.random.random() < 0.1:
            # Shanghai's clocks show one of these times twice and the other never.
            date, clock = self.random.choice(
                (((1991, 9, 15), "01:30:00"), ((1991, 4, 14), "02:30:00"))
            )
            return self._time_text(name, shape, date, clock=clock, odd=False)
        return self._time_text(name, shape, (year, month, day), odd=odd)

    def _time_text(
        self, name: str, shape: str, day: tuple[int, int, int], *, odd: bool, clock: str = ""
    ) -> str:
        pick = self.random.choice
        year, month, number = day
        local = bool(clock)
        clock = clock or (
            pick(CLOCKS)
            if odd
            else f"{self.random.randrange(24):02}:{self.random.randrange(60):02}:07"
        )
        fraction = pick(FRACTIONS) if odd else ".123456"
        if shape == "dd.MM.yyyy":
            text = f"{number:02}.{month:02}.{year:04}"
        elif shape == "" and name == "date":
            text = f"{year:04}-{month:02}-{number:02}"
        elif shape.startswith("dd"):
            offset = pick(OFFSETS) if odd else "+08:00"
            text = f"{number:02}.{month:02}.{year:04} {clock}.{fraction[1:8].ljust(7, '0')}{offset}"
        elif shape.startswith("yyyyMMdd"):
            day_text = f"{year:04}{month:02}{number:02}"
            text = f"{day_text} {clock.replace(':', '')}.{fraction[1:8].ljust(7, '0')}"
        else:
            offset = pick(OFFSETS) if odd else "" if local else pick(("Z", "+08:00", "-05:30"))
            text = f"{year:04}-{month:02}-{number:02}{pick('T ')}{clock}{fraction}{offset}"
        return pick((f" {text}", f"{text}\n", text, text, text)) if odd else text

    def _instant_number(self, unit: str, oddness: float) -> Num:
        per_s = UNITS_PER_S[unit]
        if self.random.random() < oddness * 0.5:
            ends = (-62_135_596_800, 253_402_300_800, -62_135_625_600, 253_402_272_000, 0)
            number = self.random.choice(ends) * per_s + self.random.randrange(-2, 3)
            return Num(
                f"{number}{self.random.choice(('', '.0', '.5', '.0000005', '.00000049', 'e3'))}"
            )
        number = self.random.randrange(-(10**10), 10**10) * per_s
        part = self.random.randrange(per_s)
        return Num(str(number + part - (part % 1000 if unit == "ns" else 0)))
