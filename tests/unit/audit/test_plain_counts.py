"""Numbers of things: one of them is no plural, and thousands are told apart."""

import pytest

from sluiceway.audit.format_times import counted


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (12_000, "12,000 files")]
)
def test_number_of_things_is_told_as_people_say_it(number: int, told: str) -> None:
    assert counted(number, "file") == told
