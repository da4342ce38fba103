"""Wrong job files: each ends with what `validate` says of it, below lines that begin with `#!`.

A file says the exit code, the place and the message with the fix. To add one, write it and the
line that you would like to read.
"""

import re
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.jobfile.document import MAX_BYTES

JOBS = sorted((Path(__file__).parent / "jobs").glob("*.yaml"))
EXPECTED = re.compile(r"^#! exit (\d) at (\d+:\d+): (.+)$", re.MULTILINE)
# What a person can do begins with one of these words.
FIX = re.compile(
    r"; (?:did you mean|known here|write|give|choose|add|name|remove|correct|set|check|close|list|"
    r"keep|rename|declare|indent|use)"
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLUICEWAY_NOT_SET", raising=False)
    monkeypatch.chdir(tmp_path)


def test_there_are_forty_wrong_job_files_or_more() -> None:
    assert len(JOBS) >= 40


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_wrong_job_file_is_told_with_place_and_fix(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = EXPECTED.findall(path.read_text("utf-8"))
    assert expected
    code = run_command(["validate", str(path)])
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *lines = shown.err.splitlines()
    assert lines == [f"  {path}:{place}: {text}" for _, place, text in expected]
    assert {str(code)} == {each for each, _, _ in expected}
    assert re.match(r"error\[SW40[12]\] ", first)
    assert "Traceback" not in shown.err
    assert [text for _, _, text in expected if FIX.search(text) is None] == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "expected a job, got an empty file; begin with `version: 1`"),
        (b"- a\n- b\n", "expected a mapping"),
        (b"version: \xff\n", "UTF-8"),
        (b"a: \x00\n", "expected"),
        (b"#" * (MAX_BYTES + 1), "bytes"),
        (b"!!python/object/apply:os.system [id]\n", "expected"),
    ],
    ids=["empty", "a-list", "not-utf8", "nul", "too-large", "tag"],
)
def test_file_that_is_no_job_file_is_told_without_a_stack_trace(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    assert run_command(["validate", str(path)]) == 3
    shown = capsys.readouterr()
    assert told in shown.err
    assert f"{path}:1:" in shown.err
    assert "Traceback" not in shown.err
