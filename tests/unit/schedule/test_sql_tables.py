"""Small tables that the SQL of a route joins: all of their rows, in the state that is pinned."""

import random
from pathlib import Path

import pytest

from sluiceway.chains.ledger_rows import whole_ledger_table
from sluiceway.chains.options import ROOT, UpstreamOptions
from sluiceway.errors import FileLostError, SourceUnavailableError
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.ledger.data_parts import TablePin
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.sources.registry import SourceAccess
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

EIGHT, NINE, TEN = (f"dt=20261120/hr={hour}" for hour in ("08", "09", "10"))


class Joined:
    """The table `users` of a query, over a table on this disk."""

    def __init__(self, folder: Path) -> None:
        self.table: RowsOnDisk = rows_on_disk(folder)
        options = UpstreamOptions("dim.users", "")
        access = SourceAccess("table", (*options.texts(), (ROOT, str(self.table.root))))
        rule = DimensionRule("users", "dim.users", 5.0, access)
        self.now_s = 0.0
        sql = SqlRule("SELECT 1", "UTC", (rule,), (), of_table=False, places=SqlPlaces())
        self.tables = SqlTables(sql, lambda: self.now_s)

    def read(self, pin: str = "") -> tuple[str, list[int]]:
        """State and rows, of the newest state after `refresh`."""
        self.now_s += 5.0
        found = self._table(pin)
        return found.pin, sorted(found.rows["ts"].to_pylist())

    def _table(self, pin: str) -> JoinedTable:
        (found,) = self.tables.read([TablePin("users", pin)] if pin else [])
        return found


@pytest.fixture
def joined(tmp_path: Path) -> Joined:
    return Joined(tmp_path)


def test_rows_that_a_swap_brought_are_joined(joined: Joined) -> None:
    joined.table.add(EIGHT, NINE, rows=2)
    pin, _ = joined.read()
    joined.table.swap(EIGHT, [7, 8, 9])
    corrected, rows = joined.read()
    assert rows == [2, 3, 7, 8, 9]
    assert corrected != pin


def test_table_of_swaps_alone_is_joined(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=1)
    joined.table.swap(EIGHT, [5])
    assert joined.read()[1] == [5]


def test_partition_that_was_dropped_among_others_does_not_halt_the_route(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=1)
    joined.table.add(NINE, rows=1)
    joined.table.add(EIGHT, rows=1)
    joined.table.expire(NINE)
    assert joined.read()[1] == [0, 2]


def test_rows_are_those_of_the_pinned_state_while_they_are_there(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=2)
    pin, rows = joined.read()
    joined.table.add(EIGHT, NINE, rows=2)
    joined.table.merge(EIGHT)
    assert joined.read(pin) == (pin, rows)
    newest = joined.read()
    assert newest[1] == [*range(6)]
    joined.table.swap(EIGHT, [9])
    assert joined.read(pin) == joined.read()
    assert joined.read(newest[0])[1] == [4, 5, 9]


def test_state_of_another_ledger_or_of_later_slots_is_read_as_it_is_now(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=2)
    pin, rows = joined.read()
    ledger = pin.partition("@")[0]
    assert joined.read("other@1") == (pin, rows)
    assert joined.read(f"{ledger}@99") == (pin, rows)


def test_merge_is_no_new_state(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=4)
    pin, _ = joined.read()
    joined.table.merge(EIGHT, 2)
    assert joined.read()[0] == pin


def test_rows_are_kept_until_they_are_due(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=1)
    joined.read()
    joined.table.add(EIGHT, rows=1)
    joined.now_s -= 5.0
    assert joined.read()[1] == [0]
    assert joined.read()[1] == [0, 1]


def test_table_without_a_row_is_waited_for(joined: Joined) -> None:
    with pytest.raises(SourceUnavailableError, match="has no row; the route waits"):
        joined.read()
    joined.table.add(EIGHT, rows=1)
    joined.table.expire(EIGHT)
    with pytest.raises(SourceUnavailableError, match="has no row; the route waits"):
        joined.read()


def test_table_that_changes_while_it_is_read_is_read_again(joined: Joined) -> None:
    joined.table.add(EIGHT, NINE, rows=2)
    options = UpstreamOptions("dim.users", "", root=str(joined.table.root))
    rows = whole_ledger_table(options, "").rows
    assert next(rows)["ts"].to_pylist() == [0, 1]
    joined.table.merge(NINE)
    with pytest.raises(SourceUnavailableError, match="changed while it was read"):
        next(rows)


def test_lost_file_is_said_so(joined: Joined) -> None:
    joined.table.add(EIGHT, rows=2)
    joined.table.add(NINE, rows=2)
    for path in joined.table.root.glob(f"{EIGHT}/*.parquet"):
        path.unlink()
    with pytest.raises(FileLostError):
        joined.read()


@pytest.mark.parametrize("seed", range(6))
def test_each_state_has_the_rows_of_its_slot(joined: Joined, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    table, rows, kept = joined.table, dict[str, list[int]](), dict[str, list[int]]()
    changed = dict[str, int]()
    for step in range(20):
        hour, act = rng.choice((EIGHT, NINE, TEN)), rng.random()
        if act < 0.5 or not rows.get(hour):
            first = table.written
            table.add(hour, rows=2)
            rows[hour] = [*rows.get(hour, []), first, first + 1]
        elif act < 0.7:
            table.merge(hour, rng.randint(1, 5))
        elif act < 0.9:
            rows[hour], changed[hour] = [1000 + step], step
            table.swap(hour, rows[hour])
        else:
            table.expire(hour)
            del rows[hour]
            changed[hour] = step
        if not any(rows.values()):
            continue
        now = sorted(row for each in rows.values() for row in each)
        pin, found = joined.read()
        assert found == now
        kept[pin] = now
        old = rng.choice(sorted(kept))
        gone = max(changed.values(), default=-1) >= 0 and kept[old] != now
        then, found = joined.read(old)
        # Rows of the state are in the table still, or the newest state is read.
        assert (then, found) == (old, kept[old]) or (gone and (then, found) == (pin, now))
