"""Completion as the shells that are installed ask for it; bash always is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.cli.app import VERBS, run_command

VERB_NAMES = [verb.name for verb in VERBS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("jobs")
    (place / "orders.yaml").touch()
    program = place / "sluiceway"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sluiceway "$@"\n')
    program.chmod(0o755)
    return place


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run_command(["completion", shell]) == 0
    return capsys.readouterr().out


def output_of(folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def by_bash(text: str, folder: Path, *words: str) -> list[str]:
    ask = f"""{text}
COMP_WORDS=(sluiceway "$@"); COMP_CWORD=$#; _sluiceway_completion sluiceway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return output_of(folder, "bash", "--norc", "-c", ask, "bash", *words).split()


def test_bash_completes_commands_options_their_values_and_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script("bash", capsys)
    assert by_bash(text, folder, "") == VERB_NAMES
    assert by_bash(text, folder, "partitions", "")[:4] == ["list", "wait", "why", "forget"]
    assert "--state" in by_bash(text, folder, "partitions", "list", "--")
    assert by_bash(text, folder, "status", "-o", "") == ["table", "json", "yaml"]
    # Nothing of ours may follow: the shell completes names of files, thus of job files.
    assert by_bash(text, folder, "validate", "ord") == []
    assert "complete -o default " in text


def test_program_answers_a_shell_for_words_that_are_not_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(words: str) -> list[str]:
        monkeypatch.setenv("_SLUICEWAY_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        capsys.readouterr()
        assert run_command([]) == 0
        return capsys.readouterr().out.split()

    assert asked("sluiceway val") == ["validate"]
    assert asked("sluiceway run orders.yaml --log-level w") == ["warning"]
    assert asked("sluiceway completion z") == ["zsh"]
    assert "--state" not in asked("sluiceway partitions why --")
    assert {"--output", "--help"} <= set(asked("sluiceway status --"))
    for group in ("dirty", "lab", "offsets", "ledger"):
        assert asked(f"sluiceway {group} "), group
    for verb in VERB_NAMES:
        assert "--install-completion" not in asked(f"sluiceway {verb} --"), verb


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder / "sluiceway.fish"
    place.write_text(script("fish", capsys))

    def ask(line: str) -> list[str]:
        command = f'source {place}; complete -C "{line}"'
        rows = output_of(folder, "fish", "--no-config", "-c", command).splitlines()
        return sorted(row.split("\t")[0] for row in rows)

    assert ask("sluiceway ") == sorted(VERB_NAMES)
    assert ask("sluiceway lab st") == ["status"]
    assert ask("sluiceway status -o ") == ["json", "table", "yaml"]
    assert ask("sluiceway validate ord") == ["orders.yaml"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_its_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder / "_sluiceway"
    place.write_text(script("zsh", capsys))
    # What would be offered is written instead: the line editor needs a terminal.
    ask = f"""
_arguments() {{ print -r -- "$@" }}; _files() {{ print FILES }}; compdef() {{ : }}
source {place}
words=(sluiceway "$@"); CURRENT=$#words; _sluiceway_completion
"""
    assert '"validate"' in output_of(folder, "zsh", "-f", "-c", ask, "zsh", "")
    assert "FILES" in output_of(folder, "zsh", "-f", "-c", ask, "zsh", "validate", "")
