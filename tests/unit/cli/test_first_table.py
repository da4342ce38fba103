"""The first steps of the documents are what the product does."""

import re
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "first-table.md").read_text("utf-8")


def block(language: str, beginning: str) -> str:
    """The page's code block of this language that begins so."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = [each for each in blocks if each.startswith(beginning)]
    return str(found)


def test_job_file_of_the_first_steps_is_valid_and_is_summed_up_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")
    monkeypatch.chdir(tmp_path)
    job = block("yaml", "version: 1")
    Path("shop.yaml").write_text(job)
    assert run_command(["validate", "shop.yaml"]) == 0
    command = "$ sluiceway validate shop.yaml\n"
    assert block("console", command) == command + capsys.readouterr().out


def test_repair_of_the_first_steps_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")
    (repair,) = re.findall(r"`(\{name: qty, [^`]*\})`", PAGE)
    job = block("yaml", "version: 1")
    assert "{name: qty, type: int}" in job
    path = tmp_path / "shop.yaml"
    path.write_text(job.replace("{name: qty, type: int}", repair))
    assert run_command(["validate", str(path)]) == 0
