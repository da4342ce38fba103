"""Decodes made-up payloads by a fast path and by the slow path, and compares every outcome.

`python -m tools.json_engine_fuzz --payloads 1000000 --engine native` in `tests/`; the first
difference is printed with its payload, and the exit code is 1.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from sluiceway.formats.contract import Decoded
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    DateType,
    Field,
    LocalTimestampType,
    Schema,
    TimestampType,
)

from .json_payloads import NUMBERS, SCHEMAS, TEXTS, PayloadMaker

BATCH_ROWS = 200
ODDNESS = (0.02, 0.1, 0.5, 1.0)
SCALARS = {
    **{f"i{bits}": kind for bits, kind in ((8, "tinyint"), (32, "int"), (64, "bigint"))},
    "f": "float",
    "d": "double",
    "m": "decimal(18,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "b": "boolean",
    "t": "timestamp",
    "a": "date",
    "l": "array<string>",
    "k": "map<string,double>",
    "n": "map<int,date>",
    "o": "struct<s:string,t:timestamp,x:struct<d:double>>",
}
EPOCHS = ("s", "ms", "us", "ns")
_SCALAR_FIELDS = (
    *(Field(name, parse_hive_type(hive)) for name, hive in SCALARS.items()),
    *(Field(f"e{unit}", TimestampType(), time_unit=unit) for unit in EPOCHS),
    Field("tl", LocalTimestampType()),
)
SCALAR_SCHEMA = Schema(_SCALAR_FIELDS)
_LENIENT = Policy(
    on_overflow="clamp",
    on_lossy="round(half_up)",
    non_finite="keep",
    on_bad_text="replace",
    trim=True,
)
POLICY_SCHEMAS = (
    Schema(tuple(replace(field, policy=_LENIENT) for field in _SCALAR_FIELDS)),
    Schema(
        (*_SCALAR_FIELDS[:4], Field("a", DateType(), time_unit="s", policy=Policy(timezone="UTC")))
    ),
    Schema(
        (*_SCALAR_FIELDS[:4], Field("t", TimestampType(), policy=Policy(timezone="Asia/Tokyo")))
    ),
)
PIECES = (
    *("a", "z ", "\u00e9", "\u4f60", "\U0001f600", "\x7f", "\u2028", "\\n", '\\"', "\\\\", "\\/"),
    *("\\u0041", "\\ud83d\\ude00", "\\u00e9", "abcdefghijklmnopq", "0123456789abcdef", "{", "]"),
)
BAD_PIECES = ("\\u0000", "\\ud800", "\\udc00", "\\x", "\\u12", "\t", "\x00", "\\", '"', "\\U0041")


class ScalarMaker:
    """Makes payloads whose values lie near the edges of the types, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._mutate = PayloadMaker(seed).mutated

    def batch(self, count: int, oddness: float) -> list[bytes]:
        """Make payloads; `oddness` is the share of values of any kind, and of changed bytes."""
        return [self._payload(oddness) for _ in range(count)]

    def _payload(self, oddness: float) -> bytes:
        rng = self._random
        names = [field.name for field in SCALAR_SCHEMA.fields]
        if rng.random() < 0.3:
            rng.shuffle(names)
        names = names[: rng.randrange(1, len(names) + 1)]
        members = (f'"{name}":{self._value(name, oddness)}' for name in names)
        data = f"{{{','.join(members)}}}".encode("utf-8", "surrogatepass")
        return self._mutate(data) if rng.random() < oddness * 0.3 else data

    def _value(self, name: str, oddness: float) -> str:
        draw = self._random.random()
        if draw < 0.05:
            return "null"
        if draw < 0.05 + oddness * 0.1:
            name = self._random.choice("isbtadlkno")
        if name[0] in "lkno":
            return self._nested(name, oddness)
        match name[0]:
            case "s":
                return self._text(oddness)
            case "b":
                return self._random.choice(("true", "false"))
            case "t":
                return f'"{self._instant()}"'
            case "a":
                return f'"{self._day()}"'
            case _:
                return self._number({"i8": 3, "i32": 10, "i64": 19, "es": 11}.get(name, 16))

    def _nested(self, name: str, oddness: float) -> str:
        texts = [self._text(oddness) for _ in range(self._few())]
        match name:
            case "l":
                return f"[{','.join(texts)}]"
            case "k":
                members = {text: self._number(8) for text in texts}
            case "n":
                numbers = [self._random.randrange(90) for _ in texts]
                members = {f'"{number}"': f'"{self._day()}"' for number in numbers}
            case _:
                inner = f'{{"d":{self._number(9)}}}'
                text, instant = self._text(oddness), self._instant()
                members = {'"s"': text, '"t"': f'"{instant}"', '"x"': inner}
        return f"{{{','.join(f'{key}:{value}' for key, value in members.items())}}}"

    def _few(self) -> int:
        return self._random.choice((0, 1, 2, 3, 3, 20))

    def _digits(self, most: int) -> str:
        rng = self._random
        return "".join(rng.choice("0123456789") for _ in range(rng.randrange(most) + 1))

    def _number(self, digits: int) -> str:
        rng = self._random
        draw = rng.random()
        if draw < 0.1:
            return rng.choice(NUMBERS)
        if draw < 0.15:
            digits = 40
        whole = self._digits(digits).lstrip("0") or "0"
        text = rng.choice(("", "", "", "-")) + whole
        if rng.random() < 0.3:
            text += f".{self._digits(rng.choice((2, 6, 20)))}"
        if rng.random() < 0.15:
            sign, power = rng.choice(("", "+", "-")), rng.choice((3, 25, 60, 400))
            text += f"{rng.choice('eE')}{sign}{rng.randrange(power)}"
        if rng.random() < 0.15:
            odd = rng.choice(("", "", "0", "+", " ", ".")), rng.choice(("", "", ".", "e", "0"))
            text = f'"{odd[0]}{text}{odd[1]}"'
        return text

    def _day(self) -> str:
        rng = self._random
        if rng.random() < 0.1:
            return rng.choice(TEXTS)
        year = rng.choice((0, 1, 4, 1582, 1900, 1970, 2000, 2024, 2026, 9999, rng.randrange(10000)))
        return f"{year:04}-{rng.randrange(1, 14):02}-{rng.randrange(1, 33):02}"

    def _instant(self) -> str:
        rng = self._random
        if rng.random() < 0.1:
            return rng.choice(TEXTS)
        text = f"{self._day()}{rng.choice('TTTT t')}{rng.randrange(25):02}:{rng.randrange(61):02}"
        if rng.random() < 0.9:
            text += f":{rng.randrange(61):02}"
            if rng.random() < 0.5:
                text += f".{self._digits(rng.choice((3, 6, 9, 19)))}{rng.choice(('', '000'))}"
        offset = f"{rng.randrange(25):02}{rng.choice(('', ':'))}{rng.randrange(61):02}"
        zones = ("Z", "Z", "Z", f"+{offset}", f"-{offset}", f"\\u002b{offset}", "+08", "", "z")
        return text + rng.choice(zones)

    def _text(self, oddness: float) -> str:
        rng = self._random
        pieces = [rng.choice(PIECES) for _ in range(rng.randrange(6))]
        if rng.random() < oddness * 0.1:
            pieces.insert(rng.randrange(len(pieces) + 1), rng.choice(BAD_PIECES))
        return f'"{"".join(pieces)}"'


def difference(payloads: list[bytes], found: Decoded, expected: Decoded) -> str | None:
    """The first payload whose outcomes differ in any bit, and both; None when none does."""
    left, right = _outcomes(found), _outcomes(expected)
    for index, payload in enumerate(payloads):
        if left.get(index) != right.get(index):
            return f"{payload!r}\n  found    {left.get(index)}\n  expected {right.get(index)}"
    return None


def _outcomes(decoded: Decoded) -> dict[int, str]:
    # Unlike `==`, text shows a zero's sign.
    rows = map(repr, decoded.rows.to_pylist())
    outcomes = dict(zip(decoded.indices.to_pylist(), rows, strict=True))
    return outcomes | {row.index: repr(row) for row in decoded.dirty}


def batches(seed: int) -> Iterator[tuple[Schema, list[bytes]]]:
    """Endless batches of payloads, each for a schema."""
    rng = random.Random(seed)  # noqa: S311
    makers: list[PayloadMaker | ScalarMaker] = [PayloadMaker(seed), ScalarMaker(seed)]
    while True:
        maker = rng.choice(makers)
        scalars = rng.choice((SCALAR_SCHEMA, SCALAR_SCHEMA, *POLICY_SCHEMAS))
        schema = scalars if isinstance(maker, ScalarMaker) else rng.choice(SCHEMAS)
        yield schema, [p for p in maker.batch(BATCH_ROWS, rng.choice(ODDNESS)) if p]


def fuzz(engine: Engine, payloads: int, seed: int) -> tuple[int, int, str | None]:
    """Compare so many payloads; how many were, how many of them clean, and a difference."""
    done = clean = 0
    pairs = [
        (schema, JsonDecoder(schema, engine=engine), JsonDecoder(schema, engine="exact"))
        for schema in (*SCHEMAS, SCALAR_SCHEMA, *POLICY_SCHEMAS)
    ]
    decoders = {schema: (fast, slow) for schema, fast, slow in pairs}
    for schema, batch in batches(seed):
        fast, slow = decoders[schema]
        expected = slow.decode(batch)
        different = difference(batch, fast.decode(batch), expected)
        done, clean = done + len(batch), clean + len(expected.rows)
        if different or done >= payloads:
            return done, clean, different
    raise AssertionError("batches are endless")


def main() -> int:
    """Read the arguments, compare, print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m tools.json_engine_fuzz")
    parser.add_argument("--payloads", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=("native", "library"), default="native")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    done, clean, different = fuzz(given.engine, given.payloads, given.seed)
    if different:
        print(different)
    told = {"engine": given.engine, "seed": given.seed, "payloads": done, "clean": clean}
    print(json.dumps(told | {"equal": different is None}))
    return int(different is not None)


if __name__ == "__main__":
    sys.exit(main())
