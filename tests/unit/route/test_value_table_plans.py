"""What the rest of a `route_by` is planned to read, and which tables its tasks know."""

from pathlib import Path

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.route.route_planner import with_value_tables
from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.worker.plan import RowShare
from tools.small_task import route_plan


def test_rest_reads_few_rows_until_a_table_is_known(tmp_path: Path) -> None:
    layout = LedgerLayout(str(tmp_path), "rest")
    Path(layout.stage).mkdir(parents=True)
    known = ValueTableLog(open_storage(str(tmp_path))[0], layout)
    route = route_plan(str(tmp_path), None, (), share=RowShare("v", "$.v", "ods.{value}"))
    splits = [
        PlannedSplit(Split(SourcePartition("t", 0), 50), 50, 9_000, 9_000),
        PlannedSplit(Split(SourcePartition("t", 1), 0, 20), 0, 20, 20),
    ]
    few, share = with_value_tables(known, splits, route, 2)
    assert [each.split.stop_offset for each in few] == [1_050, 20]
    assert share.share is not None
    assert (share.share.known, share.share.room) == (frozenset(), 2)
    known.add(["ods.a"], {("t", 0): 50}, 2)
    # Another driver has added one more meanwhile.
    ValueTableLog(known.storage, layout).add(["ods.b"], {("t", 0): 60}, 3)
    whole, share = with_value_tables(known, splits, route, 2)
    assert whole == splits
    assert share.share is not None
    assert (share.share.known, share.share.room) == (frozenset({"ods.a", "ods.b"}), 0)
