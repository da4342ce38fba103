"""Which partitions the catalog is told of when readers see them once they are announced."""

import pytest

from sluiceway.followers.desired import is_to_be_shown
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix, PartitionState


@pytest.mark.parametrize(
    ("folder", "closed", "seen"),
    [
        ("hr=08", None, False),
        ("hr=08", ClosedPrefix(3), False),
        ("hr=08", ClosedPrefix(3, version=1, ready_seq=9), True),
        # Announced without a row, so it is in the catalog; rows of a replay have come since.
        ("hr=08", ClosedPrefix(3, version=1, ready_seq=4), True),
        # Nobody could know of this one when the hour was announced.
        ("hr=08/app=a", ClosedPrefix(3, version=1, ready_seq=4), False),
        ("hr=08/app=a", ClosedPrefix(3, version=2, ready_seq=9), True),
    ],
)
def test_partition_is_seen_from_its_announcement_on(
    folder: str, closed: ClosedPrefix | None, *, seen: bool
) -> None:
    fold = Fold()
    if closed is not None:
        fold.closed["hr=08"] = closed
    state = PartitionState.begun((folder.rpartition("=")[2],), folder, 6)
    assert is_to_be_shown(fold, state, on_ready=True) is seen
    assert is_to_be_shown(fold, state, on_ready=False)
