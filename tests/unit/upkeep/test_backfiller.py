"""A prefix for which rows still come is replaced by what the ledger says alone."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.errors import FencedError, RequestRefusedError
from sluiceway.upkeep.backfiller import Backfiller, refuse_open
from sluiceway.upkeep.partition_requests import RowOrigin
from tools.table_on_disk import table_on_disk

DAY, EIGHT, NINE = "dt=20261120", "dt=20261120/hr=08", "dt=20261120/hr=09"
OTHERS = tuple(each for each in RowOrigin if each is not RowOrigin.LEDGER)


@pytest.mark.parametrize("origin", OTHERS)
def test_open_prefix_is_read_from_the_ledger_alone(tmp_path: Path, origin: RowOrigin) -> None:
    table = table_on_disk(tmp_path)
    table.rows(EIGHT, NINE)
    # No announcement says that rows still come.
    refuse_open(table.writer.fold, EIGHT, origin)
    table.rows(closed=(EIGHT,))
    refuse_open(table.writer.fold, EIGHT, origin)
    for prefix in (DAY, NINE):
        with pytest.raises(RequestRefusedError, match=f"it is open: .* {origin} do not say"):
            refuse_open(table.writer.fold, prefix, origin)
        refuse_open(table.writer.fold, prefix, RowOrigin.LEDGER)
    table.rows(closed=(NINE,))
    refuse_open(table.writer.fold, DAY, origin)


def test_route_that_is_left_logs_no_correction_that_waits() -> None:
    """The end of a run cancels the reading: nothing is wrong."""
    logged: list[str] = []
    log: Any = SimpleNamespace(info=lambda event, **_: logged.append(event))
    queue: Any = SimpleNamespace(see=lambda _: None, log=None)

    def due(*_: object) -> None:
        raise FencedError("cancelled")

    reading: Any = SimpleNamespace(due=due, cancelled=Event())
    made = Backfiller(queue, reading, log, follows=False)
    made._follows, made._look_due = True, 0.0
    assert made._correct() is not None
    assert logged == ["correction_waits"]
    made.close()
    made._look_due = 0.0
    made._correct()
    assert logged == ["correction_waits"]
