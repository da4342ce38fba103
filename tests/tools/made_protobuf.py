"""Messages of any shape, columns for them, and payloads, sound and odd, from a seed."""

import random
from dataclasses import dataclass, field

from sluiceway.formats.protobuf.decoder import ProtobufDecoder
from sluiceway.formats.protobuf.message_schemas import GivenMessage
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import protobuf_bytes as pb

_INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
             "sfixed32", "sfixed64")  # fmt: skip
# A type, and the columns that read it; the others, which seldom or never do.
_HIVE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_INTEGERS, ("int", "bigint", "bigint", "double", "decimal(38,10)")),
    "bool": ("boolean",),
    "float": ("float", "double"),
    "double": ("float", "double", "double"),
    "string": ("string", "string", "varchar(3)", "int", "decimal(9,2)"),
    "bytes": ("binary",),
    "E": ("string", "varchar(4)"),
    "google.protobuf.Timestamp": ("timestamp",),
    "google.protobuf.Duration": ("decimal(38,10)", "double"),
    "google.protobuf.Int64Value": ("bigint",),
    "google.protobuf.StringValue": ("string", "char(3)"),
    "google.protobuf.BoolValue": ("boolean",),
    "confluent.type.Decimal": ("decimal(38,10)", "struct<scale:int>"),
    "VariableScaleDecimal": ("decimal(9,2)", "double", "struct<value:binary>"),
    "google.type.Date": ("date", "struct<year:int,day:int>"),
}
_OTHERS = (
    *("tinyint", "smallint", "float", "decimal(9,2)", "timestamp", "date", "boolean", "binary"),
    *("char(3)", "int", "string"),
)
_PARTS = {
    "google.protobuf.Timestamp": ("seconds", "nanos"),
    "google.protobuf.Duration": ("seconds", "nanos"),
}
_HEAD = """
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
enum E { ZERO = 0; RED = 1; FAR = 900; LEAST = -5; }
message VariableScaleDecimal { int32 scale = 1; bytes value = 2; }
"""
_POLICIES = [
    *(Policy(), Policy(), Policy(), Policy(timezone="UTC"), Policy(timezone="Asia/Shanghai")),
    *(Policy(on_lossy="text"), Policy(on_lossy="truncate", on_overflow="clamp")),
    *(Policy(on_impossible_time="null", non_finite="keep"), Policy(on_bad_text="replace")),
]
_ODD = (*(0, 1, -1, 7, 200, 20000, 2**24, 2**31 - 1, 2**31, -(2**31), 2**53, 2**32 - 1, 2**32),
        *(1795161600000, 1795161600123456789, 2**63 - 1, -(2**63), 2**64 - 1))  # fmt: skip
_WORDS = (*("", "ab", "abc ", "北京", "12", "12.50", "true", "a\0b", "x" * 20, "\udcff"),
          *("2026-11-20", "2026-11-20T08:00:00Z", "2026-11-20 08:00:00.5"))  # fmt: skip
_USUAL = ("12", "7", "-3")
_MAP_KEYS = ("string", "int32", "bool", "sint64", "fixed32")


@dataclass
class MadeField:
    """A field: `of` is a scalar, a known message, or one that was made."""

    name: str
    number: int
    label: str
    of: str
    hive: str
    message: "MadeMessage | None" = None
    key: str = ""
    oneof: bool = False

    def declared(self) -> str:
        """As its message declares it."""
        inner = f"message {self.message.name} {self.message.text()} " if self.message else ""
        if self.label == "group":
            held = self.message.text() if self.message else "{}"
            return f"optional group {self.of} = {self.number} {held}"
        of = f"map<{self.key}, {self.of}>" if self.key else self.of
        return f"{inner}{self.label} {of} {self.name} = {self.number};"


@dataclass
class MadeMessage:
    """A message with its fields."""

    name: str
    fields: list[MadeField] = field(default_factory=list)

    def text(self) -> str:
        """Its declaration, without its name."""
        plain = [each for each in self.fields if not each.oneof]
        member = [each.declared() for each in self.fields if each.oneof]
        inner = [each.split("} ", 1) if "} " in each else ["", each] for each in member]
        nested = " ".join(f"{first}}}" for first, _ in inner if first)
        oneof = f"oneof o {{ {' '.join(rest for _, rest in inner)} }}" if member else ""
        return f"{{ {' '.join(each.declared() for each in plain)} {nested} {oneof} }}"


class MadeProtobuf:
    """A message of any shape, and columns for its fields.

    Args:
        pick: The seed.
    """

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._count = 0
        self._syntax = pick.choice(("proto3", "proto3", "proto3", "proto2"))
        self.row = self._message(2, pick.randrange(3, 8))
        self.text = f'syntax = "{self._syntax}"; {self._head()} message R {self.row.text()}'
        self.columns = self._columns()
        self._schema = compile_proto(self.text)

    def decoder(self, fast_rows: int | None) -> ProtobufDecoder:
        """The decoder of its payloads; without `fast_rows` the slow path alone."""
        messages = GivenMessage(self._schema, "R", connect=True)
        return ProtobufDecoder(self.columns, messages, skips_tombstones=False, fast_rows=fast_rows)

    def payload(self, oddness: float = 0.1) -> bytes:
        """A payload; `oddness` is the share of fields that come twice, or as something else."""
        return self._written(self.row, oddness)

    def _head(self) -> str:
        if self._syntax == "proto3":
            return _HEAD
        scale = (
            "message VariableScaleDecimal { optional int32 scale = 1; optional bytes value = 2; }"
        )
        return _HEAD.replace(_HEAD[_HEAD.index("message") :], scale)

    def _message(self, depth: int, count: int) -> MadeMessage:
        self._count += 1
        made = MadeMessage(f"M{self._count}")
        numbers = self._pick.sample(range(1, 40), count)
        for number in numbers if self._pick.random() < 0.5 else sorted(numbers):
            made.fields.append(self._field(number, depth))
        return made

    def _field(self, number: int, depth: int) -> MadeField:
        pick = self._pick
        self._count += 1
        name, of, hive, message = f"f{self._count}", "", "", None
        if depth and pick.random() < 0.35:
            message = self._message(depth - 1, pick.randrange(1, 4))
            of, hive = message.name, self._struct(message)
            if self._syntax == "proto2" and pick.random() < 0.3:
                return MadeField(of.lower(), number, "group", of, hive, message)
        else:
            of = pick.choice(tuple(_HIVE))
            hive = pick.choice(_HIVE[of] if pick.random() < 0.96 else _OTHERS)
        draw = pick.random()
        if draw < 0.2:
            return MadeField(name, number, "repeated", of, f"array<{hive}>", message)
        if draw < 0.35:
            key = pick.choice(_MAP_KEYS)
            column = "string" if key == "bool" else pick.choice(("string", "int"))
            return MadeField(name, number, "", of, f"map<{column},{hive}>", message, key)
        if draw < 0.5 and message is None:
            return MadeField(name, number, "", of, hive, oneof=True)
        plain = "" if self._syntax == "proto3" and pick.random() < 0.6 else "optional"
        return MadeField(name, number, plain, of, hive, message)

    def _struct(self, message: MadeMessage) -> str:
        pick = self._pick
        fields = [f"{of.name}:{of.hive}" for of in message.fields if pick.random() < 0.8]
        pick.shuffle(fields)
        fields += ["gone:int"] if pick.random() < 0.2 or not fields else []
        return f"struct<{','.join(fields)}>"

    def _columns(self) -> Schema:
        pick, found = self._pick, []
        for of in self.row.fields:
            if pick.random() < 0.3:
                continue
            unit = pick.choice((None, "ms", "s")) if of.hive == "timestamp" else None
            policy, required = pick.choice(_POLICIES), pick.random() < 0.1
            found.append(Field(of.name, parse_hive_type(of.hive), required, (), unit, policy))
            if of.message and not of.key and of.label != "repeated":
                inner = pick.choice(of.message.fields)
                path, kind = (of.name, inner.name), parse_hive_type(inner.hive)
                found.append(Field(f"{of.name}_in", kind, pick.random() < 0.1, path))
        found.append(Field("gone", parse_hive_type("int")))
        return Schema(tuple(found))

    def _written(self, message: MadeMessage, oddness: float) -> bytes:
        pick, parts = self._pick, []
        for of in message.fields:
            if pick.random() < 0.25:
                continue
            times = pick.randrange(4) if of.label == "repeated" or of.key else 1
            times += pick.random() < oddness * 0.3
            parts += [self._one(of, oddness) for _ in range(times)]
        if pick.random() < oddness:
            pick.shuffle(parts)
        if pick.random() < oddness:
            parts.append(pb.tagged(77, *pick.choice(((0, b"\1"), (2, b"abc"), (5, b"1234")))))
        return b"".join(parts)

    def _one(self, of: MadeField, oddness: float) -> bytes:
        pick = self._pick
        if of.key:
            key = self._value(of.key, None, oddness)
            value = self._value(of.of, of.message, oddness)
            entry = [pb.tagged(1, *key), pb.tagged(2, *value)]
            kept = [part for part in entry if pick.random() > oddness * 0.3]
            return pb.tagged(of.number, pb.LENGTH, b"".join(kept))
        if of.label == "group" and of.message is not None:
            begin, end = pb.varint(of.number << 3 | 3), pb.varint(of.number << 3 | 4)
            return begin + self._written(of.message, oddness) + end
        wire, body = self._value(of.of, of.message, oddness)
        if of.label == "repeated" and wire != pb.LENGTH and pick.random() < 0.5:
            more = (self._value(of.of, None, oddness)[1] for _ in range(pick.randrange(3)))
            return pb.tagged(of.number, pb.LENGTH, b"".join((body, *more)))
        if pick.random() < oddness * 0.05:
            wire, body = pick.choice(((0, b"\5"), (1, b"12345678"), (2, b"ab"), (5, b"1234")))
        return pb.tagged(of.number, wire, body)

    def _value(self, of: str, message: MadeMessage | None, oddness: float) -> tuple[int, bytes]:
        """Wire type and bytes of a value."""
        pick = self._pick
        if message is not None:
            return pb.LENGTH, self._written(message, oddness)
        if of in _INTEGERS or of in ("E", "bool"):
            return self._whole(of, oddness)
        match of:
            case "float" | "double":
                usual = (0.5, -3.0, 0.1, 16777216.0, 1e15, -0.0)
                odd = (float("nan"), float("-inf"), 2.0**62, 1e-45)
                bits = 64 if of == "double" else 32
                value = pick.choice(odd if pick.random() < oddness else usual)
                return (pb.FIXED64 if of == "double" else pb.FIXED32), pb.floating(value, bits)
            case "string":
                words = _WORDS if pick.random() < oddness else _USUAL
                return pb.LENGTH, pb.text(pick.choice(words))
            case "bytes":
                return pb.LENGTH, pick.randbytes(pick.randrange(4))
            case _:
                return pb.LENGTH, self._known(of, oddness)

    def _whole(self, of: str, oddness: float) -> tuple[int, bytes]:
        pick = self._pick
        number = pick.choice(_ODD if pick.random() < oddness else _ODD[:5])
        if of in ("E", "bool"):
            odd = pick.random() < oddness
            usual = (0, 1, 900, -5) if of == "E" else (0, 1)
            return pb.VARINT, pb.varint(pick.choice((2, 7, -9) if odd else usual))
        if "fixed" in of:
            bits = int(of[-2:])
            return (pb.FIXED64 if bits == 64 else pb.FIXED32), (number % 2**bits).to_bytes(
                bits // 8, "little"
            )
        if of.startswith("s"):
            return pb.VARINT, pb.zigzag(max(-(2**63), min(number, 2**63 - 1)))
        return pb.VARINT, pb.varint(number)

    def _known(self, of: str, oddness: float) -> bytes:
        pick = self._pick
        if of in _PARTS:
            seconds = pick.choice(
                (0, 1_795_161_600, -5, 2**40) if pick.random() < oddness else (7,)
            )
            nanos = pick.choice((0, 1000, 999_999_000, 1, 10**9, -1000))
            nanos = nanos if pick.random() < oddness else 5000
            parts = [pb.tagged(1, 0, pb.varint(seconds)), pb.tagged(2, 0, pb.varint(nanos))]
        elif of.endswith("Value"):
            kind = {"I": "int64", "S": "string", "B": "bool"}[of.rpartition(".")[2][0]]
            parts = [pb.tagged(1, *self._value(kind, None, oddness))]
        elif of == "google.type.Date":
            day = (2026, 11, 20) if pick.random() > oddness else (2026, 2, pick.choice((28, 30, 0)))
            parts = [pb.tagged(n, 0, pb.varint(part)) for n, part in enumerate(day, 1)]
        else:
            digits = pick.choice((125, 1250, -7, 10**20, 2**127, 2**128))
            body = digits.to_bytes(17, "big", signed=True).lstrip(b"\0") or b"\0"
            scale = pick.choice((0, 2, 2, -1, 2000)) if pick.random() < oddness else 2
            numbers = (1, 3) if of == "confluent.type.Decimal" else (2, 1)
            parts = [pb.tagged(numbers[0], 2, body), pb.tagged(numbers[1], 0, pb.varint(scale))]
        return b"".join(part for part in parts if pick.random() > oddness * 0.3)
