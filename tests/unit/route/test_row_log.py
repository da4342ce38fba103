"""A few lines on dirty and late rows in the log, however many there are."""

import io
import json
from typing import Any, cast

from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.observe.log import LogFormat, stderr_log
from sluiceway.route.row_log import RowLog
from sluiceway.sources.contract import RawRecords
from sluiceway.types.dirty import (
    MOST_COUNTED,
    DirtyReason,
    DirtyRow,
    bounded_counts,
    by_reason,
    counted_as,
)
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.task_figures import DirtyTally


def _tally(rows: int, reason: DirtyReason, path: str = "a") -> DirtyTally:
    tally = DirtyTally()
    found = [
        DirtyRow(offset, "convert", reason, path.replace("#", str(offset)), "why")
        for offset in range(rows)
    ]
    none = [None] * rows
    tally.add(
        found, RawRecords(["t"] * rows, [0] * rows, range(rows), none, none, none, [()] * rows)
    )
    return tally


def _answer(tally: DirtyTally) -> Any:
    kept = {"dirty_reasons": tally.counts(), "dirty_samples": tuple(tally.samples)}
    return type("Answer", (), kept)()


def test_reason_has_three_lines_a_minute_and_the_rest_is_counted() -> None:
    stream, now = io.StringIO(), [0.0]
    log = RowLog(stderr_log(log_format=LogFormat.JSON, stream=stream), "orders", lambda: now[0])
    answers = [_answer(_tally(100, DirtyReason.OVERFLOW)), _answer(_tally(1, DirtyReason.SCALE))]
    for _ in range(3):
        log.log_rows(_epoch(0), cast("Any", answers))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["reason"] for line in lines].count("overflow") == 3
    assert [line["reason"] for line in lines].count("scale") == 3
    assert (lines[0]["topic"], lines[0]["partition"], lines[0]["offset"]) == ("t", 0, 0)
    assert lines[0]["why"] == "why"
    now[0] = 61.0
    log.log_rows(_epoch(0), cast("Any", answers[:1]))
    later = json.loads(stream.getvalue().splitlines()[len(lines)])
    # Of 400 rows three were shown before, whose others were told of with the first.
    assert later["others"] == 299


def test_rows_are_counted_by_reason_and_field() -> None:
    tally = _tally(3, DirtyReason.OVERFLOW, "geo.tags[#].v")
    assert tally.counts() == {"overflow geo.tags[].v": 3}
    assert by_reason({"overflow a": 2, "overflow b": 1, "broken": 4}) == {
        "overflow": 3,
        "broken": 4,
    }
    assert counted_as("broken", "") == "broken"


def test_paths_that_come_from_payloads_do_not_multiply_counters() -> None:
    counts = _tally(1000, DirtyReason.OVERFLOW, "map.key#").counts()
    assert sum(counts.values()) == 1000
    assert len(counts) <= MOST_COUNTED + 1
    many = {f"overflow key{number}": 1 for number in range(500)} | {"overflow a": 9}
    bounded = bounded_counts(many)
    assert sum(bounded.values()) == 509
    assert bounded["overflow a"] == 9
    assert len(bounded) <= MOST_COUNTED + 1


def _epoch(read: int, **reasons: int) -> Any:
    names = {name.replace("__", " "): rows for name, rows in reasons.items()}
    counts = type("Counts", (), {"read": read})()
    record = {"dirty_reasons": names, "counts": counts, "late_rows": NO_LATE_ROWS}
    return type("Record", (), record)()


def test_dirty_rows_are_warned_of_once_a_minute_with_their_commonest_reasons() -> None:
    stream, now = io.StringIO(), [0.0]
    log = stderr_log(level="warning", log_format=LogFormat.JSON, stream=stream)
    rows = RowLog(log, "orders", lambda: now[0])
    rows.log_rows(_epoch(100), [])
    assert stream.getvalue() == ""
    rows.log_rows(_epoch(10, missing__idd=8, broken=2), [])
    now[0] = 59.0
    rows.log_rows(_epoch(5, missing__idd=5), [])
    now[0] = 61.0
    rows.log_rows(_epoch(1, **{f"null__c{number}": 1 for number in range(6)}), [])
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["level"]) == ("rows_dirty", "warning")
    assert first["reason"] == "missing idd 8, broken 2"
    assert (first["rows"], first["read"]) == (10, 110)
    assert (second["rows"], second["read"]) == (11, 6)
    assert second["reason"].startswith("missing idd 5, null c0 1, ")
    assert second["reason"].endswith(", 2 more")
    assert first["hint"] == "`sluiceway dirty show JOB --route orders` shows them"


def test_late_rows_are_warned_of_once_a_minute_by_what_became_of_them() -> None:
    stream, now = io.StringIO(), [0.0]
    rows = RowLog(stderr_log(log_format=LogFormat.JSON, stream=stream), "orders", lambda: now[0])
    for now[0], late in ((0.0, 0), (1.0, 3), (60.0, 4), (61.0, 5)):
        record = _epoch(10)
        record.late_rows = LateRows(side=BigInt(late), dirty=BigInt(late))
        rows.log_rows(record, [])
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["level"]) == ("rows_late", "warning")
    assert (first["rows"], first["side"], first["dirty"], "reopen" in first) == (6, 3, 3, False)
    assert (second["rows"], second["side"], second["dirty"]) == (18, 9, 9)
