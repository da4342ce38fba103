"""What is told of a lake table before its first run: nothing that the run does otherwise."""

from pathlib import Path

import pytest

from sluiceway.sinks.iceberg.table import find_iceberg_table, foresee_iceberg_table
from sluiceway.sinks.table_options import HiveTableOptions
from tools.lake_under_test import BY_APP, COLUMNS, NAME, LakeUnderTest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_folder_of_a_ledger_to_be_has_no_id_that_nothing_has_yet(tmp_path: Path) -> None:
    (tmp_path / "wh").mkdir()
    connection = {
        "kind": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/wh",
    }
    options = HiveTableOptions("", *NAME, schema=COLUMNS, partition_columns=(), lake=BY_APP)
    before = foresee_iceberg_table(options, connection)
    assert not before.exists
    assert before.shown_home.endswith(f"/_sluiceway/{NAME[1]}-<uuid>")
    assert foresee_iceberg_table(options, connection).shown_home == before.shown_home
    LakeUnderTest(tmp_path)
    after = foresee_iceberg_table(options, connection)
    found = find_iceberg_table(options, connection)
    assert after.exists
    assert after.shown_home == found.home == before.shown_home.replace("<uuid>", found.uuid[:8])
