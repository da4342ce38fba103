"""What `gc`, `verify` and `compact` print: one is not called several, many are summed up."""

import pytest

from sluiceway.audit.verify import VerifyReport
from sluiceway.cli.commands import compact, gc, verify
from sluiceway.ledger.collect import Collected, GarbagePlace


@pytest.mark.parametrize(
    ("number", "files", "places"), [(1, "1 file,", "1 place,"), (2, "2 files,", "2 places,")]
)
def test_gc_counts_files_and_places(
    number: int, files: str, places: str, capsys: pytest.CaptureFixture[str]
) -> None:
    removed = tuple(
        GarbagePlace(f"/stage/{n}", removable=True, reason="no record", files=number, size_bytes=5)
        for n in range(number)
    )
    gc._print("orders", Collected(removed, (), (), 0), dry_run=False)
    lines = capsys.readouterr().out.splitlines()
    assert f"({files} 5 bytes)" in lines[0]
    assert f"removed {places}" in lines[-1]


@pytest.mark.parametrize(
    ("number", "foreign", "problems"),
    [(1, "1 file is not", "1 PROBLEM\n"), (2, "2 files are not", "2 PROBLEMS\n")],
)
def test_verify_counts_files_and_problems(
    number: int, foreign: str, problems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = VerifyReport(foreign=[f"/data/{n}" for n in range(number)])
    for n in range(number):
        report.add("chain", f"slot {n}", "is missing")
    verify._print(report, "job.yaml")
    shown = capsys.readouterr().out
    assert f"note: {foreign} of this job's making" in shown
    assert f"chain {problems}" in shown


def test_verify_tells_of_the_table_of_late_rows(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport(late_rows=1200, late_table="ods.orders_late")
    verify._print(report, "job.yaml")
    assert "late rows          1,200  shown by ods.orders_late ok\n" in capsys.readouterr().out
    report.add("late table", "ods.orders_late", "shows another place")
    verify._print(report, "job.yaml")
    assert "shown by ods.orders_late 1 PROBLEM\n" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "lines"), [(10, 12), (11, 3)])
def test_compact_sums_up_many_partitions_that_are_left_for_one_reason(
    number: int, lines: int
) -> None:
    left = ["", *["few and large enough"] * number, "in use"]
    rows = [(f"dt={n}", "4", "9 B", why or "about 1") for n, why in enumerate(left)]
    shown = compact._without_many(left, rows)
    assert len(shown) == lines
    assert (rows[0] in shown, rows[-1] in shown) == (True, True)
    summed = ("11 partitions", "", "", "left: few and large enough")
    assert (summed in shown) == (number == 11)


def test_verify_calls_nothing_of_a_lake_table_well_that_was_not_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verify._print(VerifyReport(lake=True), "job.yaml")
    shown = capsys.readouterr().out
    assert "property and snapshots ok" in shown
    assert "metastore" not in shown
    assert "log ends" not in shown
