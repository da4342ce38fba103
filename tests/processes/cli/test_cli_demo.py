"""How `demo` ends when it cannot go on, and the hints that it and the lab give."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.commands.lab import _print_endpoints
from sluiceway.cli.own_command import own_command
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.process import identity_of
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.lab.state import LabState, save_state


def test_demo_that_fails_keeps_its_folder_and_ends_with_a_line_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def up(*_: object) -> None:
        raise UnhealthyEnvironmentError("no Kafka", hint="wait")

    monkeypatch.setattr("sluiceway.lab.lab.Lab.up", up)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command(["demo"]) == 5
    shown = capsys.readouterr()
    (folder,) = tmp_path.iterdir()
    assert json.loads(shown.out) == {
        "demo": "failed",
        "code": "SW403",
        "error": "no Kafka (wait)",
        "folder": str(folder),
    }
    lines = shown.err.splitlines()
    assert lines[1:3] == ["error[SW403]: no Kafka", "hint: wait"]
    assert f"its logs are in {folder / 'logs'}" in lines[3]
    assert f"lab down --dir {folder} --remove-data" in lines[4]


def test_demo_that_fails_by_a_bug_ends_with_a_line_of_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("sluiceway.lab.lab.Lab.up", bug)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command(["demo", "--dir", str(tmp_path / "demo")]) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["demo"], last["code"]) == ("failed", "SW000")


def test_demo_without_java_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_java() -> None:
        raise UnhealthyEnvironmentError("no Java", hint="install one")

    monkeypatch.setattr("sluiceway.lab.demo.find_java", no_java)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command(["demo"]) == 5
    assert json.loads(capsys.readouterr().out)["folder"] is None
    assert list(tmp_path.iterdir()) == []


def test_demo_interrupted_removes_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(lab: Lab, *_: object) -> None:
        save_state(lab.folder, LabState())
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "up", interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command(["demo"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_demo_in_the_folder_of_an_earlier_one_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sluiceway.lab.demo.Lab", None)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "driver-1.log").write_text("")
    assert run_command(["demo", "--dir", str(tmp_path)]) == 5
    shown = capsys.readouterr()
    assert "error[SW403]" in shown.err
    assert f"lab down --dir {tmp_path} --remove-data" in shown.err
    assert json.loads(shown.out)["demo"] == "failed"


def test_demo_in_the_folder_of_a_lab_is_refused_and_leaves_its_servers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = subprocess.Popen(["/bin/sleep", "600"])
    try:
        identity = identity_of(server.pid)
        assert identity is not None
        save_state(tmp_path, LabState(ports={"kafka": 1}).with_server("kafka", identity))
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        # What reaches the lab ends the test, not the server.
        monkeypatch.setattr("sluiceway.lab.demo.Lab", None)
        assert run_command(["demo", "--dir", str(tmp_path)]) == 5
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
    shown = capsys.readouterr()
    assert f"error[SW403] {tmp_path}: this folder holds a lab already" in shown.err
    assert shown.err.count("error[") == 1
    assert json.loads(shown.out)["demo"] == "failed"


def test_hints_name_a_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(Path(sys.executable).parent.parent)
    shown = own_command()
    assert shown == f"{Path(sys.executable).parent.name}/sluiceway"
    assert Path(shown).exists()
    _print_endpoints(
        LabEndpoints("127.0.0.1:9", "thrift://127.0.0.1:8", tmp_path), tmp_path / "a b"
    )
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert "export SLUICEWAY_KAFKA=127.0.0.1:9" in lines
    assert "export SLUICEWAY_METASTORE=thrift://127.0.0.1:8" in lines
    assert f"{shown} lab down --dir '{tmp_path / 'a b'}'" in lines
    (job,) = [line.split()[2] for line in lines if line.startswith(f"{shown} run ")]
    assert Path(job).is_file()


def test_hints_name_the_command_alone_when_the_path_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert own_command() == "sluiceway"
