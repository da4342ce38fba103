"""The proof of partition values, small: what it counts, and that it finds planted mistakes."""

from collections.abc import Callable

import pytest

from partition_oracle import ours
from partition_oracle.ours import Tally, batches, judge, sample
from sluiceway.sinks import partition_path
from tools.hostile_payloads import hostile_payloads


def _judged(count: int) -> tuple[Tally, list[tuple[str, str]]]:
    tally = Tally()
    return tally, [pair for values in batches(7, count) for pair in judge(values, tally)]


def test_values_come_back_or_are_refused_and_none_leaves_the_table() -> None:
    tally, kept = _judged(8_000)
    assert tally.examples == []
    assert (tally.escaped, tally.unequal) == (0, 0)
    assert tally.values >= 8_000
    # Null is the one value with a folder that has no text.
    assert len(kept) + 1 + tally.refused.total() == tally.values
    assert len(tally.refused) == 4
    folders = {folder for _, folder in kept}
    texts = {text for text, _ in kept}
    assert len(folders) == len(texts) >= 7_000


def test_sample_is_of_different_names_and_has_hostile_ones() -> None:
    _, kept = _judged(8_000)
    taken = sample(kept, 400)
    assert len({text.rstrip(" ") for text in taken}) == len(taken) == 400
    assert len(set(taken) & set(hostile_payloads())) >= 50


@pytest.mark.parametrize(
    ("name", "wrong", "escapes"),
    [
        ("escape", lambda text: text, True),
        ("escape", lambda text: text.replace("/", "%2F"), False),
        ("escape", lambda text: text.casefold(), True),
        ("unescape", lambda text: text, False),
    ],
)
def test_planted_mistake_is_found(
    name: str,
    wrong: Callable[[str], str],
    escapes: bool,  # noqa: FBT001 - a row of a table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_path, name, wrong)
    tally, _ = _judged(3_000)
    assert tally.unequal > 0
    assert (tally.escaped > 0) == escapes
    assert tally.examples


def test_value_that_is_altered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "_plain", lambda value: None if value is None else f"{value} ")
    tally, _ = _judged(500)
    assert tally.unequal > 300
