"""Which table a row goes to by `route_by`, and what becomes of the others; each counted once."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluiceway.eventtime.partition_values import PartitionAssigner, PartitionAssignment
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split, SplitEnd
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.worker import bundle
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import EpochTimes, PartitionRule, RowShare, TaskPlan, TaskResult
from sluiceway.worker.row_rules import RowChoices, RowColumn
from sluiceway.worker.row_shares import table_of
from tools.small_bundle import FourRowsReader
from tools.small_task import BY_TS, NOW_US, MadeBatch, made_batch, route_plan

_ID, _TS, _KIND, _NAME = (
    Field("id", IntegerType(64)),
    Field("ts", IntegerType(64)),
    Field("kind", StringType()),
    Field("name", StringType()),
)
_CHOICES = RowChoices(
    (RowColumn(_ID), RowColumn(_TS), *(RowColumn(each, written=False) for each in (_KIND, _NAME)))
)
PATTERN = "ods.e_{value}"


@pytest.mark.parametrize(
    ("value", "table"),
    [
        ("created", "ods.e_created"),
        ("Order-Paid.v2", "ods.e_order_paid_v2"),
        ("7", "ods.e_7"),
        ("", None),
        ("a/b", None),
        ("naïve", None),
        ("a" * 101, None),
        ("unrouted", None),
        ("../x", None),
    ],
)
def test_table_of_a_value(value: str, table: str | None) -> None:
    assert table_of(PATTERN, value) == table


class Rows(FourRowsReader):
    """One read of given rows."""

    rows: MadeBatch

    def read(self, timeout_s: float) -> list[SourceBatch]:
        super().read(timeout_s)
        self.reads = 3
        return [self.rows]

    def ends(self) -> tuple[SplitEnd, ...]:
        count = len(self.rows.values)
        return (SplitEnd(count, count, 0, None),)


def plan(
    root: Path,
    route: str,
    *,
    table: str | None,
    known: str = "",
    room: int = 0,
    partitions: tuple[PartitionRule, ...] = (),
) -> TaskPlan:
    """The task of one of the routes of a `route_by`."""
    layout = LedgerLayout(str(root / route), route)
    Path(layout.results(1, 1)).mkdir(parents=True)
    named = frozenset(f"ods.e_{each}" for each in known)
    share = RowShare("kind", "$.kind", PATTERN, None if table is None else f"ods.e_{table}", named)
    made = route_plan(
        str(root / route),
        BY_TS,
        partitions,
        ledger=route,
        layout=layout,
        schema=Schema((_ID, _TS, _KIND, _NAME)),
        choices=_CHOICES,
        share=RowShare(share.column, share.path, share.pattern, share.table, named, room),
    )
    split = Split(SourcePartition("events", 0), 0, None)
    return TaskPlan(made, 1, 0, (split,), 600.0, EpochTimes(NOW_US))


def run(
    root: Path,
    kinds: list[object],
    *plans: TaskPlan,
    monkeypatch: pytest.MonkeyPatch,
    names: str = "",
) -> dict[str, TaskResult]:
    reader = Rows()
    rows = [
        {"id": n, "ts": NOW_US + n, "kind": kind, "name": names[n : n + 1].strip()}
        for n, kind in enumerate(kinds)
    ]
    reader.rows = made_batch(0, rows)
    monkeypatch.setattr(bundle, "open_reader", lambda *_, **__: reader)
    answers = {answer.ledger: answer for answer in run_bundle(plans)}
    for answer in answers.values():
        assert answer.failure is None
        counts = answer.counts
        assert int(counts.read) == len(kinds)
        assert counts.read == counts.written + counts.dirty + counts.filtered + counts.skipped
        # What is complete goes by all rows of the log.
        newest = answer.splits[0].max_event_time_us
        assert newest is not None
        assert newest >= NOW_US + 1
    return answers


def ids(root: Path, answer: TaskResult) -> list[int]:
    stage = Path(LedgerLayout(str(root / answer.ledger), answer.ledger).stage)
    tables = [pq.read_table(stage / file.staged) for file in answer.files]
    assert all(table.column_names == ["id", "ts"] for table in tables)
    return [row for table in tables for row in table["id"].to_pylist()]


def test_each_route_has_its_rows_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = run(
        tmp_path,
        ["a", "b", "A", "c", "a", None, "b", "no/name", 7],
        plan(tmp_path, "rest", table=None, known="abc"),
        plan(tmp_path, "of-b", table="b"),
        plan(tmp_path, "of-a", table="a"),
        monkeypatch=monkeypatch,
    )
    assert ids(tmp_path, answers["of-a"]) == [0, 2, 4]
    assert ids(tmp_path, answers["of-b"]) == [1, 6]
    assert answers["rest"].files == ()
    assert answers["rest"].dirty_reasons == {
        "null $.kind": 1,
        "bad_partition_value $.kind": 1,
        "wrong_type kind": 1,
    }
    assert [int(answers[each].counts.dirty) for each in ("of-a", "of-b")] == [0, 0]
    assert [answer.tables for answer in answers.values()] == [()] * 3


@pytest.mark.parametrize(("names", "assigned"), [("xyxyx", 1), ("xyx x", 3)])
def test_partitions_are_found_once_for_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, assigned: int
) -> None:
    calls, assign = [], PartitionAssigner.assign

    def counted(*args: Any) -> PartitionAssignment:
        calls.append(args)
        return assign(*args)

    monkeypatch.setattr(PartitionAssigner, "assign", counted)
    by_name = (PartitionRule("name", None, "name"),)
    plans = [plan(tmp_path, f"of-{each}", table=each, partitions=by_name) for each in "ab"]
    answers = run(tmp_path, ["a", "b", "a", "b", "a"], *plans, monkeypatch=monkeypatch, names=names)
    found = {
        name: {file.values: int(file.rows) for file in answer.files}
        for name, answer in answers.items()
    }
    # An empty text is no folder: each route says so of its own rows.
    of_b = {("y",): 2} if assigned == 1 else {("y",): 1}
    assert found == {"of-a": {("x",): 3}, "of-b": of_b}
    assert int(answers["of-b"].counts.dirty) == 2 - of_b["y",]
    assert len(calls) == assigned


def test_route_that_reads_alone_has_its_rows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = run(
        tmp_path, ["a", "b", 7, "a"], plan(tmp_path, "of-a", table="a"), monkeypatch=monkeypatch
    )
    assert ids(tmp_path, answers["of-a"]) == [0, 3]


def test_rest_finds_tables_in_the_order_of_their_rows_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[object] = ["c", "a", "b", "c", "d", "e", "f"]
    (answer,) = run(
        tmp_path,
        kinds,
        plan(tmp_path, "rest", table=None, known="a", room=2),
        monkeypatch=monkeypatch,
    ).values()
    # One more than there is room for says that they do not fit.
    assert answer.tables == ("ods.e_c", "ods.e_b", "ods.e_d")
    assert int(answer.counts.dirty) == 0


def test_value_without_room_is_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = plan(tmp_path, "rest", table=None, known="a")
    (answer,) = run(tmp_path, ["a", "b", "b"], rest, monkeypatch=monkeypatch).values()
    assert (answer.tables, answer.dirty_reasons) == ((), {"bad_partition_value $.kind": 2})
    assert "max_tables" in answer.dirty_samples[0].message
