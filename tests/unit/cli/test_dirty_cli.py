"""`sluiceway dirty`: what is wrong with the command line is said before anything is looked at."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from sluiceway.cli.app import run_command
from sluiceway.cli.commands.dirty import row_text
from sluiceway.cli.options import OutputFormat
from sluiceway.cli.views.dirty_lanes import carry_out_and_tell, print_plan


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "-o", "xml"), "'table', 'json', 'yaml'"),
        (("show", "--reason", "ugly"), "no reason `ugly`"),
        (("show", "--state", "gone"), "open, under_way"),
        (("show", "--partition", "orders"), "TOPIC:PARTITION"),
        (("show", "--partition", ":1"), "TOPIC:PARTITION"),
        (("show", "--limit", "0"), "--limit"),
        (("replay", "--slots", "7-x"), "a slot"),
        (("show", "--slots", "9-2"), "A not above B"),
        (("replay", "--older-than", "30 days"), "12h or 30d"),
        (("purge", "--older-than", "-1d"), "12h or 30d"),
        (("purge", "--why", "two\nlines"), "one line"),
        (("purge", "--why", "x" * 501), "one line"),
    ],
)
def test_wrong_argument_is_told_with_what_is_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *options = arguments
    assert run_command(["dirty", verb, "nowhere.yaml", *options]) == 2
    # Typer draws a box around it, whose lines are as long as the terminal says.
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in shown


def test_job_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["dirty", "list", "nowhere.yaml"]) == 3
    assert "nowhere.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("by_driver", "dirty", "hints"),
    [(True, 3, 1), (True, 0, 0), (False, 3, 0), (True, 5, 1), (False, 5, 0)],
)
def test_rows_that_a_running_driver_found_dirty_again_are_told_with_its_job_file(
    by_driver: bool,  # noqa: FBT001
    dirty: int,
    hints: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    became = {"read": 5, "written": 5 - dirty, "dirty": dirty}
    counts = SimpleNamespace(**became, purged=0, filtered=0, skipped=0, late=0, superseded=0)
    lane = SimpleNamespace(kind="replay", lane="a" * 32, counts=counts, rows=5, seq=3)

    def done(config: Any, log: Any, request: Any, watch: Any, stderr: Any) -> Any:
        watch(None, by_driver)
        return lane

    monkeypatch.setattr("sluiceway.operate.replay.carry_out", done)
    lanes = SimpleNamespace(open_lanes=lambda: ())
    rows: Any = SimpleNamespace(log=None, fold=SimpleNamespace(lanes=lanes))
    choice: Any = SimpleNamespace(rows=5, left_out=0)
    request: Any = SimpleNamespace(kind="replay")
    # Nothing is mended when all are dirty again: a script hears of it.
    in_vain = pytest.raises(typer.Exit, match="1") if dirty == 5 else nullcontext()
    with in_vain:
        carry_out_and_tell(cast("Any", None), rows, choice, request, OutputFormat.TABLE)
    shown = capsys.readouterr().out
    assert shown.startswith(f"done: lane aaaaaaaa, 5 rows: {5 - dirty} written, {dirty} dirty")
    assert shown.count("the job file that it was started with") == hints


def test_names_of_fields_write_nothing_on_a_terminal_but_their_letters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "a\x1b[2J\u202eb\nc"
    row = {
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "timestamp_ms": 0,
        "path": name,
        "reason": "unexpected_field",
        "stage": "convert",
        "state": "open",
        "message": name,
        "slot": 1,
        "row": 0,
        "file": "f",
        "schema_version": 1,
    }
    choice = SimpleNamespace(rows=1, reasons={f"unexpected_field {name}": 1}, left_out=0)
    given: Any = SimpleNamespace(kind="purge")
    print_plan(cast("Any", None), cast("Any", None), cast("Any", choice), given, OutputFormat.TABLE)
    for text in (row_text(row), capsys.readouterr().out):
        assert all(line.isprintable() for line in text.splitlines())
        assert "a\\u001b[2J\\u202eb\\u000ac" in text
    assert len(row_text({**row, "path": "x" * 10_000})) < 400
