"""Completion scripts, run by the shells that are installed; bash always is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sluiceway.cli.app import VERBS, run_command
from sluiceway.cli.commands.completion import all_commands

VERB_NAMES = [verb.name for verb in VERBS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("jobs")
    (place / "orders.yaml").touch()
    return place


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run_command(["completion", shell]) == 0
    return capsys.readouterr().out


def by_bash(text: str, folder: Path, *words: str) -> list[str]:
    ask = f"""{text}
COMP_WORDS=(sluiceway "$@"); COMP_CWORD=$#; _sluiceway; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", ask, "bash", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_their_values_and_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script("bash", capsys)
    assert by_bash(text, folder, "") == VERB_NAMES
    assert by_bash(text, folder, "val") == ["validate"]
    assert by_bash(text, folder, "partitions", "")[:4] == ["list", "wait", "why", "forget"]
    assert "--state" in by_bash(text, folder, "partitions", "list", "--")
    assert "--state" not in by_bash(text, folder, "partitions", "why", "--")
    assert by_bash(text, folder, "status", "-o", "") == ["table", "json", "yaml"]
    assert by_bash(text, folder, "run", "orders.yaml", "--log-level", "w") == ["warning"]
    assert by_bash(text, folder, "validate", "ord") == ["orders.yaml"]
    assert by_bash(text, folder, "run", "--for", "") == []
    assert by_bash(text, folder, "completion", "z") == ["zsh"]


def test_every_command_and_option_of_the_program_is_known_to_the_scripts() -> None:
    known = {command.path: command for command in all_commands()}
    assert {path[0] for path in known if path} == set(VERB_NAMES)
    assert {("dirty", "replay"), ("lab", "up"), ("offsets", "reset")} < set(known)
    names = {name for option in known["status",].options for name in option.names}
    assert {"-o", "--output", "--help"} <= names
    assert "--install-completion" not in names


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder / "sluiceway.fish"
    place.write_text(script("fish", capsys))

    def ask(line: str) -> list[str]:
        command = f'source {place}; complete -C "{line}"'
        done = subprocess.run(
            ["fish", "--no-config", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return sorted(row.split("\t")[0] for row in done.stdout.splitlines())

    assert ask("sluiceway ") == sorted(VERB_NAMES)
    assert ask("sluiceway lab st") == ["status"]
    assert "--dir" in ask("sluiceway lab status --")
    assert "--dir" not in ask("sluiceway status --")
    assert ask("sluiceway status -o ") == ["json", "table", "yaml"]
    assert ask("sluiceway validate ord") == ["orders.yaml"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_its_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder / "_sluiceway"
    place.write_text(script("zsh", capsys))
    # What would be offered is written instead: the line editor needs a terminal.
    ask = f"""
compadd() {{ shift; print -l -- "$@" }}; _files() {{ print FILES }}; compdef() {{ : }}
source {place}
words=(sluiceway "$@"); CURRENT=$#words; _sluiceway
"""

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            ["zsh", "-f", "-c", ask, "zsh", *words], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert offered("") == VERB_NAMES
    assert offered("status", "-o", "") == ["table", "json", "yaml"]
    assert offered("lab", "")[:3] == ["up", "status", "down"]
    assert "FILES" in offered("validate", "")
