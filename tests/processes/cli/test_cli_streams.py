"""The command as a process: what it does to pipes, full disks, signals and forbidden folders."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from sluiceway.cli import app as cli
from sluiceway.cli.app import VERBS, Verb, run_command

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"
ENVIRON = {
    **os.environ,
    "SLUICEWAY_KAFKA": "127.0.0.1:1",
    "SLUICEWAY_METASTORE": "thrift://127.0.0.1:1",
    "NO_COLOR": "1",
}
TIMEOUT_S = 120

# Ends while the verb's module is being imported, before anything of a run is there.
SIGNALLED_EARLY = """
import os, signal, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == "sluiceway.cli.commands.run":
            os.kill(os.getpid(), signal.{name})
        return None

sys.meta_path.insert(0, Signalling())
from sluiceway.cli.app import run_command
code = run_command(["run", {job!r}])
print(code, "pyspark" in sys.modules)
"""


def ended(*args: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "sluiceway", *args],
        text=True,
        env=ENVIRON,
        check=False,
        timeout=TIMEOUT_S,
        **options,
    )


@pytest.mark.parametrize("args", [["version"], ["validate", str(EXAMPLE)], ["--help"]])
def test_full_output_is_one_message_and_no_bug(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = ended(*args, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        "error[SW403]: the output cannot be written: no space left on device",
        "hint: make room and try again",
    ]


@pytest.mark.parametrize("args", [["version"], ["version", "--help"], ["--help"]])
def test_reader_that_is_gone_ends_the_command_quietly(args: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = ended(*args, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_broken_pipe_that_is_not_the_output_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def lost(error: BaseException) -> int:
        app = typer.Typer()

        @app.command()
        def fail() -> None:
            raise RuntimeError("lost") from error

        monkeypatch.setattr(cli, "VERBS", (Verb("fail", "Fails."),))
        monkeypatch.setitem(sys.modules, "sluiceway.cli.commands.fail", SimpleNamespace(app=app))
        return run_command(["fail"])

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert lost(BrokenPipeError(32, "Broken pipe")) == 1
    assert "error[SW000]: RuntimeError: lost" in capsys.readouterr().err


def test_closed_output_is_no_error() -> None:
    command = f'exec "{sys.executable}" -m sluiceway version >&-'
    done = subprocess.run(
        ["sh", "-c", command], env=ENVIRON, capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("a-file/lab", "file exists"),
        ("a-file", "not a directory"),
        ("n" * 300, "file name too long"),
    ],
)
def test_lab_in_a_folder_that_cannot_be_is_one_message(
    folder: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-file").write_text("mine")
    assert run_command(["lab", "up", "--dir", str(tmp_path / folder)]) == 5
    shown = capsys.readouterr().err
    assert reason in shown
    assert "SW403" in shown
    assert "hint: " in shown


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (PermissionError(13, "x", "/var/lab"), "error[SW403] /var/lab: permission denied"),
        (OSError(28, "x", "/var/lab"), "error[SW403] /var/lab: no space left on device"),
    ],
)
def test_refusal_of_the_operating_system_is_no_bug(
    raised: OSError,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise raised

    monkeypatch.setattr(cli, "VERBS", (Verb("fail", "Fails."),))
    monkeypatch.setitem(sys.modules, "sluiceway.cli.commands.fail", SimpleNamespace(app=app))
    assert run_command(["fail"]) == 5
    first, hint = capsys.readouterr().err.splitlines()
    assert first == shown
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_short_help_option_is_the_long_one(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([verb.name, "--help"]) == 0
    long = capsys.readouterr().out
    assert run_command([verb.name, "-h"]) == 0
    assert capsys.readouterr().out == long


def test_short_help_option_of_a_command_within_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["lab", "up", "-h"]) == 0
    assert "--dir" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--log-level", "--log-format"])
def test_run_with_an_unknown_log_choice_is_a_usage_error(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["run", str(EXAMPLE), option, "loud"]) == 2
    assert "loud" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_before_the_run_began_ends_it_gracefully(name: str) -> None:
    script = SIGNALLED_EARLY.format(name=name, job=str(EXAMPLE))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stdout) == (0, "0 False\n"), done.stderr
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["stopping"]
