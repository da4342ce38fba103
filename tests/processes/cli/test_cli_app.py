import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from sluiceway import __version__
from sluiceway.cli import app as cli
from sluiceway.cli.app import GROUPS, VERBS, Verb, run_command
from sluiceway.errors import FencedError, SluicewayError

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICEWAY_DEBUG", raising=False)
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")


@pytest.fixture
def failing_verb(monkeypatch: pytest.MonkeyPatch) -> type[BaseException]:
    """A verb `fail` whose command raises what its argument names."""
    raised: dict[str, BaseException] = {
        "fenced": FencedError("slot 5 is taken", where="ods.orders", hint="stop the other driver"),
        "bug": ZeroDivisionError("by zero"),
        "interrupt": KeyboardInterrupt(),
        "exit": typer.Exit(7),
    }
    app = typer.Typer()

    @app.command()
    def fail(kind: str) -> None:
        raise raised[kind]

    monkeypatch.setattr(cli, "VERBS", (Verb("fail", "Fails."),))
    monkeypatch.setitem(sys.modules, "sluiceway.cli.commands.fail", SimpleNamespace(app=app))
    return SluicewayError


def test_import_of_app_loads_nothing_heavy() -> None:
    heavy = "{'pyspark', 'pyarrow', 'pandas', 'confluent_kafka', 'pydantic', 'ruamel', 'typer'}"
    script = f"import sys, sluiceway.cli.app; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


def test_each_verb_is_in_one_group_of_the_help() -> None:
    listed = [name for _, names in GROUPS for name in names]
    assert len(listed) == len(set(listed))
    assert {verb.name for verb in VERBS} <= set(listed)


@pytest.mark.parametrize("args", [["--help"], ["-h"]])
def test_help_lists_every_verb(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(args) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb.name} " in shown and verb.help in shown for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_of_each_verb_is_shown_without_completion_options(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([verb.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"sluiceway {verb.name}" in shown
    assert "install-completion" not in shown
    assert "show-completion" not in shown


def test_no_arguments_show_help_as_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "todo"),
    [
        ("validat", "no command `validat`; did you mean `validate`?"),
        ("zzz", "no command `zzz`; known: run, init, validate"),
        ("--versoin", "no option `--versoin`"),
    ],
)
def test_unknown_verb_is_a_usage_error(
    name: str, todo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([name]) == 2
    assert todo in capsys.readouterr().err


def test_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["validate", "--nope"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.usefixtures("failing_verb")
def test_known_error_is_told_with_code_place_hint_and_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["fail", "fenced"]) == 7
    assert capsys.readouterr().err.splitlines() == [
        "error[SW451] ods.orders: slot 5 is taken",
        "hint: stop the other driver",
    ]


@pytest.mark.usefixtures("failing_verb")
def test_unexpected_error_is_one_line_and_a_traceback_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command(["fail", "bug"]) == 1
    first, hint = capsys.readouterr().err.splitlines()
    assert first == "error[SW000]: ZeroDivisionError: by zero"
    (file,) = tmp_path.iterdir()
    assert str(file) in hint
    assert "Traceback" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("failing_verb")
def test_unexpected_error_in_debug_shows_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEWAY_DEBUG", "1")
    assert run_command(["fail", "bug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("failing_verb")
@pytest.mark.parametrize(("kind", "code"), [("interrupt", 130), ("exit", 7)])
def test_interrupt_and_exit_give_their_codes(kind: str, code: int) -> None:
    assert run_command(["fail", kind]) == code


def test_process_exits_with_the_code_of_the_error(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("version: 1\n")
    ended = subprocess.run(
        [sys.executable, "-m", "sluiceway", "validate", str(job)],
        capture_output=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert ended.returncode == 3
    assert ended.stdout == b""
    assert f"{job}:1:1: expected the key `name`, got none".encode() in ended.stderr
    assert b"\x1b" not in ended.stderr


def test_validate_example_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["validate", str(EXAMPLE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"OK {EXAMPLE}"
    shown = dict(line.split(maxsplit=1) for line in lines[1:])
    assert shown["topics"] == "orders from earliest"
    assert shown["table"].startswith("ods.orders, created if missing")
    assert shown["columns"].startswith("11: order_id, user_id, ts")
    assert shown["partitions"] == "dt=yyyyMMdd/hr=HH of ts (ms, UTC)"


def test_validate_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["validate", str(EXAMPLE), "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["ok"] is True
    (summary,) = summary["routes"]
    assert summary["table"] == "ods.orders"
    assert summary["partitions"][1]["name"] == "hr"
    assert summary["partitions"][1]["event_time"] == "HH"
    assert summary["partitions"][1]["column"] is None


ROUTES = """
routes:
  - {topics: [orders, refunds], table: ods.orders}
  - {topics: "app_(.*)", table: "ods.app_{1}", source: {start: {group: old}}}
  - {topics: [x], table: {hive: {name: ods.x}, columns: [{name: ts, type: bigin}]}}
"""


def test_validate_many_routes_shows_each_and_places_a_wrong_type_in_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    shared = EXAMPLE.read_text().replace(", topics: [orders]", "").replace(", name: ods.orders", "")
    job.write_text(shared + ROUTES)
    assert run_command(["validate", str(job)]) == 3
    last = (shared + ROUTES).count("\n")
    assert f"{job}:{last}:75: expected a Hive type, got `bigin`" in capsys.readouterr().err
    job.write_text(shared + ROUTES.replace("bigin}", "bigint}"))
    assert run_command(["validate", str(job), "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    shown = [(r["route"], r["topics"], r["pattern"], r["start"]) for r in summary["routes"]]
    assert shown == [
        ("ods-orders", ["orders", "refunds"], None, "earliest"),
        (None, [], "app_(.*)", "group old"),
        ("ods-x", ["x"], None, "earliest"),
    ]
    assert run_command(["validate", str(job)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "routes      3, a commit every 2 s" in lines
    assert "topics      all like `app_(.*)` from group old" in lines


def test_validate_wrong_column_types_are_all_told_with_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    text = EXAMPLE.read_text().replace("user_id, type: bigint", "user_id, type: bigin")
    job.write_text(text.replace("type: array<string>", "type: array<string"))
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert "error[SW401]" in shown
    assert f"{job}:18:29: expected a Hive type, got `bigin`" in shown
    assert f"{job}:26:26: expected a Hive type, got `array<string`" in shown


def test_version_names_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["version", "-o", "json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["sluiceway"] == __version__
    assert versions["pyspark"].startswith("4.1.")


def _java(folder: Path) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\n"
        "echo '    java.specification.version = 17' >&2\necho '    java.vendor = Test' >&2\n"
    )
    command.chmod(0o755)
    return folder


def test_version_names_the_java_that_is_used_and_a_java_home_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = _java(tmp_path / "jdk")
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("JAVA_HOME", "/bogus")
    assert run_command(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["java"] == (
        f"17 (Test) in {home}; JAVA_HOME is not used: /bogus/bin/java is not there"
    )
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert run_command(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"java             17 (Test) in {home}"
