"""Which snapshots of others keep `verify` from counting rows."""

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from sluiceway.audit.lake_verify import changes_rows

LEDGER = "f" * 32


def snapshot(operation: Operation, **told: str) -> Snapshot:
    return Snapshot(snapshot_id=1, manifest_list="m", summary=Summary(operation=operation, **told))


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        (Operation.APPEND, True),
        (Operation.OVERWRITE, True),
        (Operation.DELETE, True),
        (Operation.REPLACE, False),
    ],
)
def test_a_compaction_of_others_leaves_rows_countable(operation: Operation, changes: bool) -> None:  # noqa: FBT001
    assert changes_rows(snapshot(operation), LEDGER) is changes


def test_our_own_snapshots_change_no_rows_that_the_ledger_does_not_know() -> None:
    ours = snapshot(Operation.APPEND, **{"sluiceway.ledger": LEDGER})
    assert not changes_rows(ours, LEDGER)
    assert changes_rows(ours, "0" * 32)
    assert changes_rows(Snapshot(snapshot_id=1, manifest_list="m"), LEDGER)
