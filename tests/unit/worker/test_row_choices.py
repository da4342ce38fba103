"""Rows after defaults, constants, computed columns and `where`."""

from decimal import Decimal

import pyarrow as pa
import pytest

from sluiceway.expressions.tree import ExpressionError
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.plan import EventTimeRule, PartitionRule
from sluiceway.worker.row_check import row_problem
from sluiceway.worker.row_choices import ChosenRows, RowChooser, read_plain_value
from sluiceway.worker.row_rules import RowChoices, RowColumn, payload_fields


def column(name: str, kind: str, **more: object) -> RowColumn:
    own = {key: more.pop(key) for key in ("required", "path", "time_unit") if key in more}
    field = Field(name, parse_hive_type(kind), **own)  # type: ignore[arg-type]
    return RowColumn(field, **more)  # type: ignore[arg-type]


def choose(columns: list[RowColumn], payloads: list[bytes], where: str | None = None) -> ChosenRows:
    schema = Schema(payload_fields(columns))
    decoded = JsonDecoder(schema).decode(payloads)
    assert decoded.dirty == ()
    return RowChooser(schema, RowChoices(tuple(columns), where)).apply(decoded.rows)


def test_columns_come_from_payload_default_constant_and_expression_in_their_order() -> None:
    chosen = choose(
        [
            column("origin", "string", constant='"web"'),
            column("total", "decimal(12,2)", expression="amount + fee"),
            column("amount", "decimal(10,2)", required=True, default='"1.50"'),
            column("fee", "decimal(10,2)", path=("costs", "fee"), default="0"),
        ],
        [b'{"amount":"2.25","costs":{"fee":1}}', b'{"amount":null}', b"{}"],
    )
    assert chosen.columns.to_pydict() == {
        "origin": ["web"] * 3,
        "total": [Decimal("3.25"), Decimal("1.50"), Decimal("1.50")],
        "amount": [Decimal("2.25"), Decimal("1.50"), Decimal("1.50")],
        "fee": [Decimal(1), Decimal(0), Decimal(0)],
    }
    assert (chosen.dirty, chosen.matching) == ((), None)


def test_where_sees_all_columns_and_null_does_not_match() -> None:
    columns = [
        column("n", "bigint"),
        column("kind", "string", constant='"a"'),
        column("twice", "bigint", expression="n * 2"),
    ]
    payloads = [b'{"n":1}', b'{"n":2}', b"{}", b'{"n":3}']
    chosen = choose(columns, payloads, "twice > 3 AND KIND = 'a'")
    assert chosen.matching is not None
    assert chosen.matching.tolist() == [False, True, False, True]
    assert choose(columns, payloads[3:], "n = 3").matching is None


def test_row_that_where_leaves_out_is_not_dirty() -> None:
    columns = [
        column("kind", "string"),
        column("text", "string"),
        column("n", "int", required=True, expression="cast(text as int)"),
    ]
    payloads = [
        b'{"kind":"a","text":"1"}',
        b'{"kind":"a","text":"x"}',
        b'{"kind":"b","text":"x"}',
        b'{"kind":"a"}',
        b'{"kind":"b"}',
        b'{"text":"x"}',
    ]
    chosen = choose(columns, payloads, "kind = 'a'")
    found = [(row.index, row.reason, row.path) for row in chosen.dirty]
    assert found == [(1, DirtyReason.BAD_TEXT, "n"), (3, DirtyReason.NULL, "n")]
    assert chosen.matching is not None
    assert chosen.matching.tolist() == [True, True, False, True, False, False]


def test_where_without_an_exact_value_makes_the_row_dirty_once() -> None:
    columns = [column("n", "bigint"), column("more", "bigint", expression="n + 1")]
    payloads = [b'{"n":9223372036854775807}', b'{"n":1}', b'{"n":5}']
    for where in ("n + 1 > 3", "more > 3"):
        chosen = choose(columns, payloads, where)
        found = [(row.index, row.reason, row.path) for row in chosen.dirty]
        assert found == [(0, DirtyReason.OVERFLOW, "where")]
        assert chosen.matching is not None
        assert chosen.matching.tolist() == [False, False, True]


def test_first_bad_column_of_a_row_is_told() -> None:
    columns = [
        column("s", "string"),
        column("a", "int", expression="cast(s as int)"),
        column("b", "decimal(1,0)", expression="cast(s as decimal(1,0))"),
    ]
    chosen = choose(columns, [b'{"s":"x"}', b'{"s":"12"}', b'{"s":"3"}'])
    found = [(row.index, row.reason, row.path) for row in chosen.dirty]
    assert found == [(0, DirtyReason.BAD_TEXT, "a"), (1, DirtyReason.OVERFLOW, "b")]


def test_chooser_without_columns_takes_those_of_the_payload() -> None:
    schema = Schema((Field("n", parse_hive_type("bigint")),))
    chosen = RowChooser(schema, RowChoices(where="n > 1")).apply(
        pa.record_batch([pa.array([1, 2], pa.int64())], names=["n"])
    )
    assert chosen.columns.schema.names == ["n"]
    assert chosen.matching is not None
    assert chosen.matching.tolist() == [False, True]


def test_expression_sees_no_computed_or_constant_column() -> None:
    with pytest.raises(ExpressionError, match=r"there is no column b here; there are a$"):
        choose(
            [
                column("a", "int"),
                column("b", "int", constant="1"),
                column("c", "int", expression="b"),
            ],
            [b"{}"],
        )


@pytest.mark.parametrize(
    ("kind", "unit", "text", "expected"),
    [
        ("decimal(4,2)", None, '"0.10"', Decimal("0.10")),
        ("bigint", None, '"12"', 12),
        ("timestamp", "ms", "0", "1970-01-01 00:00:00"),
        ("timestamp", None, '"1970-01-01T00:00:00Z"', "1970-01-01 00:00:00"),
        ("boolean", None, "true", True),
    ],
)
def test_plain_value_is_read_like_a_payload(
    kind: str, unit: str | None, text: str, expected: object
) -> None:
    found = read_plain_value(Field("x", parse_hive_type(kind), time_unit=unit), text).as_py()
    assert (str(found) if kind == "timestamp" else found) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [("tinyint", "300"), ("int", '"x"'), ("boolean", "1"), ("bigint", "Infinity"), ("int", "null")],
)
def test_plain_value_that_does_not_fit_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_plain_value(Field("x", parse_hive_type(kind)), text)


def test_row_problem_looks_at_columns_after_the_choices() -> None:
    columns = (column("ts", "bigint"), column("app", "string", expression="cast(ts as string)"))
    schema, choices = Schema(payload_fields(columns)), RowChoices(columns)
    partitions = (PartitionRule("app", None, "app"),)
    event_time = EventTimeRule(("ts",), "ms", "UTC")
    assert row_problem(schema, event_time, partitions, choices) is None
    assert "no column app" in str(row_problem(schema, event_time, partitions))
    bad = RowChoices(columns, "app > 1")
    assert "compares values of one plain type" in str(row_problem(schema, None, (), bad))
