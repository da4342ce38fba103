"""SQL of an epoch: jobs that die, values that fail, and what is counted."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest

from sluiceway.errors import SqlFailedError, TaskFailedError
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.route import sql_epoch
from sluiceway.route.sql_epoch import MOST_PIECES, TRIES
from sluiceway.types.schema import DateType, Field, IntegerType, Schema, StringType
from sluiceway.worker.plan import TaskResult
from tools.landed_epoch import LandedEpoch, land_epoch
from tools.sql_in_memory import Made, PythonSql, Row

DECODED = Schema((Field("id", IntegerType(64)),))
MADE = Schema((Field("id", IntegerType(64)), Field("part", StringType())))
RULE = SqlRule("SELECT 1", "UTC", (), (), of_table=False, places=SqlPlaces())
Land = Callable[[int], LandedEpoch]


@pytest.fixture
def land(tmp_path: Path) -> Land:
    return lambda rows: land_epoch(tmp_path, DECODED, MADE, [{"id": n} for n in range(rows)])


def ids(landed: LandedEpoch, results: Sequence[TaskResult]) -> list[int]:
    return sorted(row["id"] for row in landed.rows(results))


def failing(*bad: int) -> Made:
    def made(row: Row) -> list[Row]:
        if row["id"] in bad:
            raise ValueError(f"[CAST_INVALID_INPUT] {row['id']}")
        return [{"id": row["id"], "part": "a"}]

    return made


def total(results: list[TaskResult]) -> RowCounts:
    counts = NO_ROWS
    for each in results:
        counts = counts.plus(each.counts)
    assert counts.balanced()
    return counts


def test_epoch_is_what_the_sql_makes_of_it_in_one_job(land: Land) -> None:
    landed = land(10)
    engine = PythonSql(lambda row: [{"id": row["id"], "part": "a"}] if row["id"] % 5 else [])
    results = landed.transformed(RULE, engine)
    assert ids(landed, results) == [1, 2, 3, 4, 6, 7, 8, 9]
    counts = total(results)
    assert (counts.read, counts.written, counts.filtered) == (10, 8, 2)
    assert engine.jobs == [(False, 0, None)]
    assert len({result.task for result in results}) == len(results)


@pytest.mark.parametrize("fails_too", [False, True], ids=["untouched", "guarded"])
@pytest.mark.parametrize("guards", [True, False], ids=["guard", "pieces"])
def test_record_with_a_date_that_no_row_may_have_is_dirty(
    tmp_path: Path, *, fails_too: bool, guards: bool
) -> None:
    """Each way of running the SQL judges dates alike; the record is dirty whole."""
    made = Schema((*MADE.fields, Field("day", DateType())))
    landed = land_epoch(tmp_path, DECODED, made, [{"id": n} for n in range(8)])
    last = date.max.toordinal() - date(1970, 1, 1).toordinal()

    def sql(row: Row) -> list[Row]:
        if fails_too and row["id"] == 6:
            raise ValueError("[CAST_INVALID_INPUT] 6")
        bad = last + 1 if row["id"] == 3 else last
        return [{"id": row["id"], "part": "a", "day": day} for day in (0, bad)]

    results = landed.transformed(RULE, PythonSql(sql, guards=guards))
    kept = [0, 1, 2, 4, 5, *([] if fails_too else [6]), 7]
    assert ids(landed, results) == sorted(kept * 2)
    counts = total(results)
    assert (counts.read, counts.written, counts.dirty) == (8, 2 * len(kept), 8 - len(kept))


def test_epoch_without_landed_rows_runs_no_job(land: Land) -> None:
    landed, engine = land(0), PythonSql(failing())
    assert landed.transformed(RULE, engine) == landed.results
    assert engine.jobs == []


@pytest.mark.parametrize("deaths", [1, 2])
def test_job_that_dies_runs_again_over_the_same_files(land: Land, deaths: int) -> None:
    landed, engine = land(6), PythonSql(failing(), deaths=deaths)
    results = landed.transformed(RULE, engine)
    assert ids(landed, results) == list(range(6))
    assert len(engine.jobs) == deaths + 1


def test_route_waits_when_the_job_died_three_times(land: Land) -> None:
    landed, engine = land(6), PythonSql(failing(), deaths=9)
    with pytest.raises(TaskFailedError, match="the executor is gone"):
        landed.transformed(RULE, engine)
    assert len(engine.jobs) == TRIES


@pytest.mark.parametrize("lost", [1, -1])
def test_job_that_read_other_rows_than_were_landed_runs_again(land: Land, lost: int) -> None:
    landed, engine = land(6), PythonSql(failing(), lost=lost)
    results = landed.transformed(RULE, engine)
    assert ids(landed, results) == list(range(6))
    assert len(engine.jobs) == 2
    assert "landed rows, and 6 were landed" in landed.log.getvalue()


def test_guarded_plan_runs_only_after_a_value_has_failed(land: Land) -> None:
    landed, engine = land(10), PythonSql(failing(3, 7))
    results = landed.transformed(RULE, engine)
    assert (ids(landed, results), [*landed.dirty(results)]) == ([0, 1, 2, 4, 5, 6, 8, 9], [3, 7])
    assert [guarded for guarded, _, _ in engine.jobs] == [False, True]
    assert total(results).dirty == 2


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.99])
def test_without_a_guard_the_bad_record_is_found_by_halving(
    land: Land, rows: int, place: float
) -> None:
    landed, bad = land(rows), int(rows * place)
    engine = PythonSql(failing(bad), guards=False)
    results = landed.transformed(RULE, engine)
    assert [*landed.dirty(results)] == [bad]
    assert ids(landed, results) == [n for n in range(rows) if n != bad]
    assert (total(results).read, total(results).dirty) == (rows, 1)
    assert len(engine.jobs) <= MOST_PIECES + 3


def test_halving_finds_several_records(land: Land) -> None:
    landed, engine = land(40), PythonSql(failing(0, 17, 39), guards=False)
    results = landed.transformed(RULE, engine)
    assert [*landed.dirty(results)] == [0, 17, 39]
    assert ids(landed, results) == [n for n in range(40) if n not in (0, 17, 39)]


def test_route_halts_when_halving_takes_too_many_jobs(
    land: Land, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_epoch, "MOST_PIECES", 3)
    landed, engine = land(40), PythonSql(failing(17), guards=False)
    with pytest.raises(SqlFailedError, match=r"3 jobs did not find all of the rows.*17"):
        landed.transformed(RULE, engine)
    assert len(engine.jobs) == 3 + 3


def test_sql_that_fails_over_no_record_makes_no_record_dirty(land: Land) -> None:
    landed, engine = land(4), PythonSql(failing(), guards=False, fails=True)
    with pytest.raises(SqlFailedError, match=r"whatever records it reads.*DIVIDE_BY_ZERO"):
        landed.transformed(RULE, engine)
    assert engine.jobs == [(False, 0, None), (True, 0, None), (False, 0, -1)]
