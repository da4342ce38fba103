"""`validate`, `plan`, `status` and `test` over a folder of job files."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command

JOB = """\
version: 1
name: {name}
connections:
  main: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
  hms: {{metastore: {{uri: "thrift://127.0.0.1:1"}}}}
source: {{connection: main, topics: [{name}]}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.{name}}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(JOB.format(name=name))
    (tmp_path / "a.test.yaml").write_text("- {records: ['{\"id\": 1}'], rows: [{id: 1}]}\n")
    (tmp_path / ".hidden.yaml").write_text("no job")
    (tmp_path / "notes.txt").write_text("no job")
    return tmp_path


def test_each_file_is_answered_in_turn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["validate", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("==")] == [
        f"== {folder}/a.yaml",
        f"== {folder}/b.yaml",
    ]
    assert f"OK {folder}/b.yaml" in lines


def test_file_that_is_broken_keeps_no_other_from_its_answer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yml").write_text("version: 2\n")
    assert run_command(["validate", str(folder)]) == 3
    told = capsys.readouterr()
    assert f"OK {folder}/b.yaml" in told.out
    assert f"{folder}/a.yml" in told.err


@pytest.mark.parametrize("output", [["-o", "json"], ["--output=json"], ["-ojson"]])
def test_programs_get_one_document(
    output: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "c.yaml").write_text("version: 2\n")
    assert run_command(["validate", *output, str(folder)]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    assert [(Path(each["file"]).name, each["exit_code"]) for each in found["jobs"]] == [
        ("a.yaml", 0),
        ("b.yaml", 0),
        ("c.yaml", 3),
    ]
    assert found["jobs"][0]["answer"]["job"] == "a"
    assert found["jobs"][2]["answer"]["error"]["code"] == "SW401"


@pytest.mark.parametrize(("verb", "code"), [("status", 1), ("plan", 1), ("test", 2)])
def test_other_commands_take_a_folder_too(
    verb: str,
    code: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(name: str, args: list[str]) -> int:
        assert name == verb
        print(f"ran {args}")
        return 0 if args[0].endswith("a.yaml") else code

    monkeypatch.setattr("sluiceway.cli.app._run", lambda of, args: run(of.name, args))
    assert run_command([verb, str(folder), "--route", "x"]) == code
    assert f"ran ['{folder}/a.yaml', '--route', 'x']" in capsys.readouterr().out


def test_change_counts_behind_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"a.yaml": 4, "b.yaml": 3}
    monkeypatch.setattr("sluiceway.cli.app._run", lambda of, args: codes[Path(args[0]).name])
    assert run_command(["plan", str(folder), "--detailed-exitcode"]) == 3
    codes["b.yaml"] = 0
    assert run_command(["plan", str(folder), "--detailed-exitcode"]) == 4


@pytest.mark.parametrize(
    ("args", "code"), [(["status", "{}", "--watch"], 2), (["validate", "{}/empty"], 3)]
)
def test_what_a_folder_cannot_be_asked_is_told(
    args: list[str], code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    assert run_command([arg.format(folder) for arg in args]) == code
    told = capsys.readouterr().err
    assert "one job" in told if code == 2 else "got a folder without" in told


def test_command_for_one_job_says_that_a_folder_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["preview", str(folder)]) == 3
    assert "something that is no file" in capsys.readouterr().err
