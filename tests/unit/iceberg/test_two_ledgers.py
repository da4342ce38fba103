"""Two ledgers mark one new table at one time: the later mark stays, and the other's owner halts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from sluiceway.errors import LedgerMismatchError
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.publish.lake_table import LEDGER_PROPERTY
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from tools.lake_under_test import LakeUnderTest
from tools.ledger_records import LEDGER

_OTHER = "another@elsewhere"


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    """A table that is marked, and one slot that it does not have."""
    found = LakeUnderTest(tmp_path)
    found.commit(1, 2)
    return found


def mark_late(lake: LakeUnderTest) -> None:
    """The mark of another ledger lands, which was asked for when the table had none."""
    table = lake.table()
    request = CommitRequest(
        (SetPropertiesUpdate(updates={LEDGER_PROPERTY: _OTHER}),),
        (AssertTableUUID(uuid=table.metadata.table_uuid),),
    )
    assert not lake.faulty().send(table, request)


def refused(lake: LakeUnderTest, act: Callable[[], object]) -> None:
    """What it does is refused, and the table has no row of it."""
    with pytest.raises(LedgerMismatchError, match=f"is {_OTHER}, expected {LEDGER}@"):
        act()
    assert lake.rows() == []


def test_a_publisher_never_takes_the_mark_of_another_for_its_own(lake: LakeUnderTest) -> None:
    mark_late(lake)
    refused(lake, lake.publisher().publish)


def test_a_publisher_halts_at_a_mark_that_lands_behind_its_start(lake: LakeUnderTest) -> None:
    publisher = lake.publisher()
    mark_late(lake)
    refused(lake, publisher.publish)


def test_upkeep_never_takes_the_mark_of_another_for_its_own(lake: LakeUnderTest) -> None:
    mark_late(lake)
    sink = IcebergTableSink(lake.table_options, lake.options, lake.connection)
    known = LEDGER, lake.log, stderr_log(level="error")
    refused(lake, lambda: sink.orphans(*known).find(0.0))
    refused(lake, lambda: sink.expiry(*known).due(0.0))
    refused(lake, lambda: sink.compaction(*known).plan(all_of_them=True))
    sink.close()
