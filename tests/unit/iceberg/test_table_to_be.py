"""What is told of a lake table before its first run: nothing that the run does otherwise."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from sluiceway.sinks.iceberg.publish.table import IcebergTableSink, open_iceberg_table
from sluiceway.sinks.table_options import TableOptions
from tools.lake_under_test import BY_APP, COLUMNS, NAME, LakeUnderTest

Seen = TypeVar("Seen")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_folder_of_a_ledger_to_be_has_no_id_that_nothing_has_yet(tmp_path: Path) -> None:
    (tmp_path / "wh").mkdir()
    connection = {
        "kind": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/wh",
    }
    options = TableOptions("", *NAME, schema=COLUMNS, partition_columns=(), lake=BY_APP)

    def look(how: Callable[[IcebergTableSink], Seen]) -> Seen:
        sink = open_iceberg_table(options, connection)
        assert isinstance(sink, IcebergTableSink)
        try:
            return how(sink)
        finally:
            sink.close()

    before = look(IcebergTableSink.foresee)
    assert not before.exists
    assert before.home_to_be.endswith(f"/_sluiceway/{NAME[1]}-<uuid>")
    assert look(IcebergTableSink.foresee).home_to_be == before.home_to_be
    LakeUnderTest(tmp_path)
    after = look(IcebergTableSink.foresee)
    found = look(IcebergTableSink.find)
    assert after.exists
    assert after.home == found.home == before.home_to_be.replace("<uuid>", found.uuid[:8])
    assert after.home_to_be == ""
