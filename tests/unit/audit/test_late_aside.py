"""Rows that came late: those in their hour, and those aside."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.late_choice import LateChoice, LateFiles, choose_late, rows_aside
from sluiceway.audit.partition_states import TimeRule, observed_prefixes
from sluiceway.cli.app import run_command
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.placing import placed, placed_lane
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
    table.writer.set_published()


def told(table: TableOnDisk) -> str:
    fold = table.log.fold()
    (seven,) = (each for each in observed_prefixes(fold, RULE, 0) if each.prefix == SEVEN)
    aside = rows_aside(table.log, fold).get(SEVEN, 0)
    return replace(seven, late_rows_aside=aside).describe_late


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


def bring_in(table: TableOnDisk, chosen: tuple[LaneRange, ...], lane: str = "a") -> None:
    """Open a lane of these files, and commit copies of them."""
    rows, fold = LateFiles.read(table.log), table.writer.fold
    table.writer.commit(LaneRecord(lane, LATE, "u@h", "", chosen))
    files = []
    for each in chosen:
        partition = rows.files[each.source].final.split("/late/")[1].rpartition("/")[0]
        files.append(table._file(fold.last_epoch + 1, partition, int(each.stop)))
    count = BigInt(sum(int(each.stop) for each in chosen))
    body = LaneDataRecord(
        lane=lane,
        epoch=fold.last_epoch + 1,
        ranges=tuple(LaneSpan(each.source, each.start, each.stop) for each in chosen),
        files=tuple(files),
        dirty_files=(),
        counts=replace(NO_LANE_ROWS, read=count, written=count),
        schema="s",
        dirty_reasons={},
        timings_ms={},
        late_in=(),
    )
    table.writer.commit(lambda now: placed_lane(body, now))
    table.writer.set_published()


def chosen(table: TableOnDisk, *wanted: str) -> LateChoice:
    return choose_late(LateFiles.read(table.log), wanted)


def test_rows_that_were_brought_in_lie_aside_no_more_and_are_not_chosen_again(
    table: TableOnDisk,
) -> None:
    come_late(table, SEVEN, 9, aside=True)
    come_late(table, SEVEN, 2, aside=True)
    come_late(table, EIGHT, 5, aside=True)
    assert chosen(table).partitions == {SEVEN: 11, EIGHT: 5}
    first = chosen(table, SEVEN)
    bring_in(table, first.ranges[:1])
    assert told(table) == "9 in it, 2 aside"
    # What came before its hour was closed is none of its late rows, brought in or not.
    bring_in(table, chosen(table, EIGHT).ranges, lane="b")
    assert (chosen(table).partitions, told(table)) == ({SEVEN: 2}, "9 in it, 2 aside")
    bring_in(table, chosen(table, "dt=20261120").ranges, lane="c")
    assert (chosen(table).rows, told(table)) == (0, "11 in it")
    assert chosen(table, "dt=2026112").ranges == ()


def test_rows_of_dropped_partitions_and_sealed_times_stay_aside(table: TableOnDisk) -> None:
    come_late(table, SEVEN, 9, aside=True)
    come_late(table, EIGHT, 5, aside=True)
    rows = LateFiles.read(table.log)
    rows.fold.partitions[SEVEN].expired = True
    rows.fold.sealed[EIGHT] = 3
    found = choose_late(rows)
    assert (found.ranges, found.dropped, found.sealed, found.left_out) == ((), 9, 5, False)


def test_more_files_than_a_request_holds_are_told(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.audit.late_choice.MOST_RANGES", 1)
    come_late(table, SEVEN, 9, aside=True)
    assert not chosen(table).left_out
    come_late(table, SEVEN, 2, aside=True)
    found = chosen(table)
    assert (len(found.ranges), found.rows, found.left_out) == (1, 9, True)


def test_plan_tells_rows_by_partition_and_changes_nothing(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    come_late(table, SEVEN, 9, aside=True)
    before = table.writer.fold.next_seq
    capsys.readouterr()
    assert run_command(["late", "replay", str(table.job), "--dry-run"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "9 late rows would go into 1 partition",
        f"  {SEVEN}: 9",
        "nothing was changed",
    ]
    assert run_command(["late", "replay", str(table.job), "--partition", EIGHT]) == 0
    assert capsys.readouterr().out == "nothing to do: no such late row lies aside\n"
    assert table.log.fold().next_seq == before
