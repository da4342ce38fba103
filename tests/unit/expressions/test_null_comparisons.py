"""A comparison with a written null is never true, so it is said of each."""

import pytest

from sluiceway.expressions.null_comparisons import comparisons_with_null


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "country <> null",
            "`country <> null` is null for every row, never true: write",
        ),
        ("a.b = NULL", "`a.b = null` is null for every row, never true: write `a.b IS NULL`"),
        ("null != a", "`a <> null` is null for every row, never true: write `a IS NOT NULL`"),
        ("n > 1 AND NOT (n >= null)", "`n >= null` is null for every row, never true: compare"),
        ("upper(a) = null", "`the value = null` is null"),
        ("a NOT IN ('x', null)", "`a IN (..., null)` is never false, and `NOT IN` never true"),
        ("n BETWEEN null AND 3", "`n BETWEEN` a null is null for every row"),
        ("if(a = null, 'x', 'y') = 'y'", "`a = null`"),
    ],
)
def test_each_is_told_with_what_to_write(text: str, told: str) -> None:
    (found,) = comparisons_with_null(text)
    assert told in found


@pytest.mark.parametrize("text", ["a IS NULL", "a <> 'null'", "coalesce(a, null) = 'x'", "n > 0"])
def test_nothing_is_said_of_others(text: str) -> None:
    assert comparisons_with_null(text) == ()


def test_each_of_several_is_told() -> None:
    assert len(comparisons_with_null("a = null OR b = null OR c <> null")) == 3
