"""The table printer of all commands."""

from pathlib import Path

import pytest

from sluiceway.cli.views import tables
from sluiceway.cli.views.tables import print_table, table_lines


def test_table_aligns_by_what_is_seen_and_shows_control_characters() -> None:
    rows = [("NAME", "ROWS", "WHERE"), ("北京", "1,000", "here"), ("x\x1b[31m\n", "2", "[red]")]
    assert table_lines(rows, numbers=(1,), indent=2) == [
        "  NAME                ROWS  WHERE",
        "  北京               1,000  here",
        "  x\\u001b[31m\\u000a      2  [red]",
    ]


def test_table_never_breaks_or_cuts_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("A", "B"), ("x" * 300, "y")])
    head, row = capsys.readouterr().out.splitlines()
    assert (head, row) == ("A" + " " * 301 + "B", "x" * 300 + "  y")


def test_table_without_rows_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([])
    assert capsys.readouterr().out == ""


def test_no_command_aligns_columns_itself() -> None:
    folder = Path(tables.__file__).parent
    aligning = {path.name for path in folder.glob("*.py") if ".ljust" in path.read_text()}
    assert aligning == set()
