"""Payloads of several fetches as one sequence."""

import pytest

from sluiceway.types.payloads import JoinedPayloads

PARTS: tuple[list[bytes | None], ...] = ([b"a", None], [], [b"", b"b", b"c"])
WHOLE = [b"a", None, b"", b"b", b"c"]


def test_joined_payloads_are_the_parts_in_order() -> None:
    joined = JoinedPayloads(PARTS)
    assert len(joined) == len(WHOLE)
    assert list(joined) == WHOLE
    assert [joined[row] for row in range(-5, 5)] == WHOLE + WHOLE
    assert joined[1:4] == WHOLE[1:4]


@pytest.mark.parametrize("row", [5, -6])
def test_joined_payloads_have_an_end(row: int) -> None:
    with pytest.raises(IndexError):
        JoinedPayloads(PARTS)[row]


def test_joined_payloads_of_nothing_are_empty() -> None:
    assert list(JoinedPayloads([])) == []
    assert len(JoinedPayloads([])) == 0
