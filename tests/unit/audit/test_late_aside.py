"""Rows that came late: those in their hour, and those aside."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.late_aside import rows_aside
from sluiceway.audit.partition_states import TimeRule, seen_prefixes
from sluiceway.cli.app import run_command
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.ledger.late_records import LateRows
from sluiceway.ledger.placing import placed
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, span
from tools.table_on_disk import TableOnDisk, table_on_disk

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
RULE = TimeRule(PrefixPeriods([("dt", "yyyyMMdd"), ("hr", "HH")], "UTC"))


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    made = table_on_disk(tmp_path)
    made.rows(SEVEN, EIGHT)
    made.rows(EIGHT, closed=(SEVEN,))
    return made


def come_late(table: TableOnDisk, partition: str, rows: int, *, aside: bool) -> None:
    """Commit an epoch of late rows of one partition."""
    fold, count = table.writer.fold, BigInt(rows)
    end = fold.sources["orders", 0].end
    body = data(fold.term, fold.last_epoch + 1, span(0, end, end + rows))
    file = table._file(fold.last_epoch + 1, partition, rows)
    if aside:
        final = table.log.layout.late_relative(partition, file.final.rpartition("/")[2])
        counts = replace(body.counts, written=BigInt(0), late=count)
        late = (replace(file, final=final),)
        body = replace(body, late_files=late, late_rows=LateRows(side=count), counts=counts)
        body = replace(body, files=())
    else:
        body = replace(body, files=(file,), late_rows=LateRows(reopen=count))
    body = replace(body, closed=tuple(fold.closed))
    table.writer.commit(lambda now: placed(body, now))
    table.writer.note_published()


def told(table: TableOnDisk) -> str:
    fold = table.log.fold()
    (seven,) = (each for each in seen_prefixes(fold, RULE, 0) if each.prefix == SEVEN)
    aside = rows_aside(table.log, fold).get(SEVEN, 0)
    return replace(seven, late_rows_aside=aside).told_late


def test_rows_of_one_kind_are_told_by_the_totals_alone(table: TableOnDisk) -> None:
    assert told(table) == "0"
    come_late(table, SEVEN, 9, aside=True)
    assert told(table) == "9 aside"
    no_log: Any = None
    assert rows_aside(no_log, table.log.fold()) == {SEVEN: 9}


def test_rows_in_an_hour_are_told_from_those_aside(table: TableOnDisk) -> None:
    come_late(table, SEVEN, 3, aside=False)
    assert told(table) == "3 in it"
    come_late(table, SEVEN, 9, aside=True)
    come_late(table, SEVEN, 2, aside=True)
    # Of an hour that was never closed they are none of its late rows.
    come_late(table, EIGHT, 5, aside=True)
    assert told(table) == "3 in it, 11 aside"
    assert rows_aside(table.log, table.log.fold()) == {SEVEN: 11}


def test_list_shows_both(table: TableOnDisk, capsys: pytest.CaptureFixture[str]) -> None:
    come_late(table, SEVEN, 3, aside=False)
    come_late(table, SEVEN, 9, aside=True)
    capsys.readouterr()
    assert run_command(["partitions", "list", str(table.job)]) == 0
    (line,) = (each for each in capsys.readouterr().out.splitlines() if SEVEN in each[:20])
    assert "3 in it, 9 aside" in line
