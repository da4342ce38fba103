"""Tables that values have named: written once, in order, whoever writes."""

from pathlib import Path

import pytest

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.storage.registry import open_storage
from sluiceway.types.log_key import LogKey

ENDS: dict[tuple[str, LogKey], int] = {("events", 0): 5, ("events", 1): 2**60}

LATER: dict[tuple[str, LogKey], int] = {("events", 0): 9}


@pytest.fixture
def layout(tmp_path: Path) -> LedgerLayout:
    made = LedgerLayout(str(tmp_path), "rest")
    Path(made.stage).mkdir(parents=True)
    return made


def opened(layout: LedgerLayout) -> ValueTableLog:
    return ValueTableLog(open_storage(layout.table_root)[0], layout)


def test_another_driver_reads_them_in_their_order(layout: LedgerLayout) -> None:
    log = opened(layout)
    assert log.add(["ods.b", "ods.a"], ENDS, 10) == ()
    assert log.add(["ods.a", "ods.c"], LATER, 10) == ()
    other = opened(layout)
    other.read_on()
    assert [*other.tables] == ["ods.b", "ods.a", "ods.c"]
    starts = {name: [int(each.offset) for each in t.starts] for name, t in other.tables.items()}
    assert starts == {"ods.b": [5, 2**60], "ods.a": [5, 2**60], "ods.c": [9]}


def test_no_more_than_there_is_room_for(layout: LedgerLayout) -> None:
    log = opened(layout)
    assert log.add(["ods.a", "ods.b", "ods.c"], ENDS, 2) == ("ods.c",)
    assert log.add(["ods.b", "ods.d"], ENDS, 2) == ("ods.d",)
    assert [*log.tables] == ["ods.a", "ods.b"]


def test_first_of_two_drivers_says_where_a_table_begins(layout: LedgerLayout) -> None:
    replaced, driver = opened(layout), opened(layout)
    driver.add(["ods.a"], ENDS, 10)
    # It has not seen that, and adds what it has found by itself.
    assert replaced.add(["ods.b", "ods.a"], LATER, 10) == ()
    driver.read_on()
    assert [*driver.tables] == [*replaced.tables] == ["ods.a", "ods.b"]
    assert [int(each.offset) for each in driver.tables["ods.a"].starts] == [5, 2**60]
