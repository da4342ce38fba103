"""Whether a table's history goes back to our last snapshot: what each kind of history is called."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.sinks.iceberg.table_history import LastSnapshot, Lineage, lineage

OURS = LastSnapshot(7, 100, 5, "abc")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """As table metadata names one."""

    snapshot_id: int
    sequence_number: int | None
    parent_snapshot_id: int | None


def _called(*history: Snapshot) -> Lineage:
    """Of snapshots that the metadata has, the head of main first."""
    metadata = SimpleNamespace(
        snapshot_by_name=lambda _: history[0] if history else None,
        snapshot_by_id={each.snapshot_id: each for each in history}.get,
    )
    return lineage(cast("Any", metadata), OURS)


HELD = Snapshot(100, 5, 99)


@pytest.mark.parametrize(
    "history",
    [
        [HELD],
        [Snapshot(101, 6, 100), HELD],
        [Snapshot(102, 7, 101), Snapshot(101, 6, 100), HELD],
    ],
    ids=["head", "a foreign one on top", "two on top"],
)
def test_history_that_meets_our_snapshot_is_good(history: list[Snapshot]) -> None:
    assert _called(*history) is Lineage.GOOD


@pytest.mark.parametrize(
    "history",
    [
        [],
        [Snapshot(99, 4, 98)],
        [Snapshot(99, None, 98)],
        [Snapshot(102, 6, 99), Snapshot(99, 4, 98), HELD],
        [Snapshot(103, 5, 98)],
        [Snapshot(201, 6, None)],
    ],
    ids=[
        "empty main",
        "rolled back, and what was before expired",
        "a snapshot of a table without numbers",
        "rolled back and written again",
        "another one of our number",
        "begun anew",
    ],
)
def test_history_that_cannot_have_our_snapshot_is_lost(history: list[Snapshot]) -> None:
    assert _called(*history) is Lineage.LOST


def test_history_with_an_expired_snapshot_above_ours_is_unproven() -> None:
    assert _called(Snapshot(102, 7, 101), HELD) is Lineage.UNPROVEN
