"""Columns to judge: every type in every way that the matrix lists, and mixtures of them."""

import random
from collections.abc import Iterator
from typing import Any

from sluiceway.types.matrix import MATRIX, ColumnKind, Variant

from .model import Column

ROUNDS = ("half_up", "half_down", "half_even", "up", "down", "ceiling", "floor")
LEAVES = (
    *(
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(9,4)",
        "string",
    ),
    *("varchar(4)", "char(4)", "date", "timestamp", "timestamp with local time zone"),
)


def variants() -> list[tuple[ColumnKind, Variant]]:
    """Each type with each way to set it up, once."""
    found = {(cell.target, cell.variant.label): cell.variant for cell in MATRIX}
    return [(kind, variant) for (kind, _), variant in sorted(found.items())]


def column_of(kind: ColumnKind, variant: Variant, pick: random.Random) -> Column:
    """A column of a type, set up in a way of the matrix."""
    policy: dict[str, Any] = {
        name: getattr(variant.policy, name) for name, _ in variant.policy.settings()
    }
    if kind is ColumnKind.BINARY and "format" not in policy:
        policy["format"] = pick.choice(("utf8", "base64", "hex"))
    gives_null = "null" in policy.values()
    required = not gives_null and pick.random() < 0.3
    return Column(hive_of(kind, pick), policy, variant.unit, required, variant.label)


def hive_of(kind: ColumnKind, pick: random.Random) -> str:
    """A type of a kind, with numbers and inner types by chance."""
    match kind:
        case ColumnKind.DECIMAL:
            precision = pick.choice((1, 5, 9, 18, 19, 38, 38))
            return f"decimal({precision},{pick.randrange(precision + 1)})"
        case ColumnKind.VARCHAR | ColumnKind.CHAR:
            return f"{kind.value}({pick.choice((1, 2, 3, 10, 200))})"
        case ColumnKind.ARRAY | ColumnKind.MAP | ColumnKind.STRUCT:
            return nested_type(pick, 3, kind.value)
        case _:
            return kind.value


def nested_type(pick: random.Random, depth: int, name: str = "") -> str:
    """A type that is nested up to so many levels."""
    name = name or pick.choice(("", "", "array", "map", "struct"))
    if depth == 0 or not name:
        return pick.choice(LEAVES)
    if name == "array":
        return f"array<{nested_type(pick, depth - 1)}>"
    if name == "map":
        return f"map<{pick.choice(('string', 'int', 'varchar(2)'))},{nested_type(pick, depth - 1)}>"
    fields = [f"{field}:{nested_type(pick, depth - 1)}" for field in "abx"[: pick.randrange(1, 4)]]
    return f"struct<{','.join(fields)}>"


def mixtures(pick: random.Random) -> Iterator[Column]:
    """Columns with several policies at once, without end."""
    while True:
        lossy = pick.choice(("dirty", "null", "truncate", *(f"round({mode})" for mode in ROUNDS)))
        overflow = pick.choice(("dirty", "null", "clamp"))
        policy: dict[str, Any] = {"on_lossy": lossy, "on_overflow": overflow, "trim": True}
        match pick.randrange(4):
            case 0:
                kind = pick.choice(("tinyint", "bigint", "decimal(5,2)", "decimal(38,10)"))
                yield Column(kind, policy)
            case 1:
                policy["on_lossy"] = pick.choice(("dirty", "null", "round(half_even)"))
                policy["non_finite"] = pick.choice(("dirty", "null", "keep"))
                yield Column(pick.choice(("float", "double", "array<double>")), policy)
            case 2:
                yield Column(
                    "timestamp",
                    {"on_lossy": lossy, "trim": True},
                    pick.choice(("s", "ms", "us", "ns")),
                )
            case _:
                texts = {"on_lossy": "text", "on_bad_text": pick.choice(("dirty", "replace"))}
                yield Column(pick.choice(("varchar(9)", "char(9)", "map<string,string>")), texts)
