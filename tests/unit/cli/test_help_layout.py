"""Help at the width of the terminal, in the words of the documents."""

import itertools
import re

import pytest
import typer

from sluiceway.cli.app import VERBS, Verb, run_command
from sluiceway.cli.views.typed_commands import lay_out_help


def commands_of(verb: Verb) -> list[list[str]]:
    """A verb, or its inner commands."""
    command = typer.main.get_command(verb.app())
    inner = getattr(command, "commands", {})
    return [[verb.name, name] for name in inner] or [[verb.name]]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_fits_80_columns_and_breaks_lines_only_where_they_are_full(
    verb: Verb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in commands_of(verb):
        assert run_command([*command, "--help"]) == 0
        shown = capsys.readouterr().out
        lines = [line.rstrip() for line in shown.splitlines()]
        assert max(map(len, lines)) <= 80
        text = "\n".join(lines).partition("╭")[0].split("\n\n")
        for line, after in _neighbours(text):
            first_word = after.split()[0]
            assert len(line) + 1 + len(first_word) > 78, (command, line)


def _neighbours(paragraphs: list[str]) -> list[tuple[str, str]]:
    found = []
    for paragraph in paragraphs:
        lines = [line for line in paragraph.splitlines() if line]
        pairs = itertools.pairwise(lines)
        found += [pair for pair in pairs if not pair[1].strip().startswith("$ ")]
    return found


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_names_the_job_file_as_the_readme_does_and_flags_without_a_type(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in commands_of(verb):
        assert run_command([*command, "-h"]) == 0
        shown = capsys.readouterr().out
        assert not re.search(r"<bool>|\bjob_file\b|\bFILE\b", shown)
        assert "--help" in shown


def test_examples_in_a_help_keep_their_lines() -> None:
    app = typer.Typer()

    @app.command()
    def look() -> None:
        """Look at
        it.

        $ sluiceway look a
        $ sluiceway look b
        """

    command = typer.main.get_command(app)
    lay_out_help(command)
    assert command.help == "Look at it.\n\n$ sluiceway look a\n$ sluiceway look b"
