"""`sluiceway dirty`: what is wrong with the command line is said before anything is looked at."""

import pytest

from sluiceway.cli.app import run_command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "-o", "yaml"), "table or json"),
        (("show", "--reason", "ugly"), "no reason `ugly`"),
        (("show", "--state", "gone"), "open, under_way"),
        (("show", "--partition", "orders"), "TOPIC:NUMBER"),
        (("show", "--partition", ":1"), "TOPIC:NUMBER"),
        (("show", "--limit", "0"), "--limit"),
        (("replay", "--slots", "7-x"), "a slot"),
        (("show", "--slots", "9-2"), "A not behind B"),
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
