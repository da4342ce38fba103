"""Batches of values from a seed, each judged; and shapes that hypothesis thinks up."""

from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .columns import LEAVES, column_of, mixtures, variants
from .judge import Verdict, judge
from .model import ABSENT, Column, NonFinite, Num, Obj
from .vectors import NOT_NUMBERS, SPECIAL, TEXTS, Vectors

ODDNESS = (0.03, 0.6)
MIXTURES = 20
DUCK_EVERY = 4
OF_EACH_KIND = (ABSENT, None, True, Num("7"), NonFinite("NaN"), "7", [Num("7")], Obj([("a", None)]))


def run_round(number: int, batch: int, kinds: Collection[str] = ()) -> Verdict:
    """Judge a batch of each type, set up in each way, and of mixtures; see `judged`."""
    total = Verdict()
    for verdict in judged(number, batch, kinds):
        total.add(verdict)
    return total


def judged(number: int, batch: int, kinds: Collection[str] = ()) -> Iterator[Verdict]:
    """A round, batch by batch: who looks for one silent change may stop at it.

    Args:
        number: The seed.
        batch: Values of a batch.
        kinds: Names of types to judge alone; none means all.
    """
    made = Vectors(number)
    columns = [
        column_of(kind, variant, made.random)
        for kind, variant in variants()
        if not kinds or kind.value in kinds
    ]
    if not kinds:
        mixed = mixtures(made.random)
        columns += [next(mixed) for _ in range(MIXTURES)]
    for place, column in enumerate(columns):
        for oddness in ODDNESS:
            values = _values(column, made, batch, oddness)
            files = "both" if (place + number) % DUCK_EVERY == 0 else "pyarrow"
            yield judge(column, values, made, files=files)


def _values(column: Column, made: Vectors, batch: int, oddness: float) -> list[Any]:
    shape = column.policy.get("format") or ""
    values = [made.value(column.hive, column.unit, shape, oddness) for _ in range(batch)]
    if oddness == ODDNESS[-1]:
        values[: len(OF_EACH_KIND)] = OF_EACH_KIND
    return values


_TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda of: f"array<{of}>"),
        inner.map(lambda of: f"map<string,{of}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: (
                f"struct<{','.join(f'{n}:{of}' for n, of in zip('abx', types, strict=False))}>"
            )
        ),
    ),
    max_leaves=5,
)
_KEYS = st.sampled_from(("a", "b", "x", "7"))
_LEAF_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((*SPECIAL[:40], "7", "-3")).map(Num),
    st.integers(-(2**70), 2**70).map(lambda number: Num(str(number))),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: Num(f"{number:e}")),
    st.sampled_from((*TEXTS, *NOT_NUMBERS)),
    st.text(max_size=6),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"),
    st.dates().map(lambda day: day.isoformat()),
    st.sampled_from(("NaN", "-Infinity")).map(NonFinite),
)
_VALUES = st.recursive(
    _LEAF_VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(_KEYS, inner), max_size=3).map(Obj),
    ),
    max_leaves=6,
)


def run_shapes(number: int, examples: int) -> Verdict:
    """Judge nested types and values that hypothesis thinks up.

    Args:
        number: The seed.
        examples: How many types; each with up to 30 values.
    """
    total = Verdict()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_TYPES, st.lists(_VALUES, min_size=1, max_size=30))
    def look(hive: str, values: list[Any]) -> None:
        made = Vectors(number)
        aimed = [made.value(hive, None, "", 0.2) for _ in values]
        total.add(judge(Column(hive), [*values, *aimed], made))

    look()
    return total
